"""Files that nobody vouches for: an `IntegrityError`, a torn tail, or a recording; never a crash or a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.ipc
import pytest
from rollout_examples import HEADER, same_bits, small_columns, small_recording, write_small

from edgert.errors import IntegrityError
from edgert.policy.onnx_model import MAX_WIDTH
from edgert.rollout import FolderSink, read, recording, stream
from edgert.rollout.folder import EVENTS_KEY, RECORDING_KEY

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {"schema": 1, "epoch": "abc", "control_hz": 50.0}
TENSOR = pyarrow.fixed_shape_tensor


def tensor(values: np.ndarray) -> pyarrow.Array:
    flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), int(np.prod(values.shape[1:])))
    kind = TENSOR(pyarrow.from_numpy_dtype(values.dtype), list(values.shape[1:]))
    return pyarrow.ExtensionArray.from_storage(kind, flat)


def some_arrays(rows: int = 4) -> dict[str, pyarrow.Array]:
    """The columns of a recording of one episode."""
    return {
        "episode": pyarrow.array(np.zeros(rows, np.int64)),
        "step": pyarrow.array(np.arange(rows, dtype=np.int32)),
        "world": pyarrow.array(np.zeros(rows, np.int32)),
        "t_ns": pyarrow.array(np.arange(rows)),
        "action": tensor(np.arange(2.0 * rows).reshape(rows, 2)),
    }


def foreign(
    folder: Path,
    *,
    about: Any = ABOUT,
    arrays: Mapping[str, Any] | None = None,
    events: Any = None,
    options: Any = None,
    name: str | bytes = "000001-x.arrows",
    **more: Any,
) -> Path:
    """A stream that somebody else wrote: `about` and `events` as bytes or JSON, `arrays` or `more` of them."""
    columns = (some_arrays() if arrays is None else dict(arrays)) | more
    columns = {name: array for name, array in columns.items() if array is not None}
    folder.mkdir(exist_ok=True)
    metadata = None if about is None else {RECORDING_KEY: about if isinstance(about, bytes) else json.dumps(about)}
    schema = pyarrow.schema([(name, array.type) for name, array in columns.items()], metadata=metadata)
    custom = None if events is None else {EVENTS_KEY: events if isinstance(events, bytes) else json.dumps(events)}
    path = os.path.join(os.fsencode(folder), os.fsencode(name))
    with open(path, "wb") as file, pyarrow.ipc.new_stream(file, schema, options=options) as writer:
        writer.write_batch(pyarrow.record_batch(list(columns.values()), schema=schema), custom_metadata=custom)
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(IntegrityError) as caught:
        read(folder)
    text = str(caught.value)
    assert text.isprintable()
    return text


def test_the_builder_builds_a_recording(tmp_path: Path) -> None:
    (episode,) = read(foreign(tmp_path))
    assert (episode.id, episode.steps, episode.info["outcome"]) == ("abc/0", 4, "interrupted")
    assert episode.action.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    "data",
    [b"hello", b"\0" * 100, b"\x89PNG\r\n\x1a\n" * 50, b"ARROW1\0\0" + b"\0" * 200, b"\xff\xff\xff\xff\0\0\0\0", b"{}"],
)
def test_what_is_no_stream_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.arrows").write_bytes(data)
    line = refused(tmp_path)
    assert line.startswith(f"recording {tmp_path / 'a.arrows'} is damaged: found ")
    assert line.endswith(". Remove that file")


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"\xff\xff\xff\xff\x10", b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff" * 8]
)
def test_what_may_be_the_beginning_of_a_stream_has_no_rows(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.arrows").write_bytes(data)
    found = read(tmp_path)
    assert len(found) == 0
    assert found.torn == ("a.arrows: it ends before its first row",)


def test_a_file_of_arrows_other_format_is_refused(tmp_path: Path) -> None:
    table = pyarrow.table(some_arrays())
    with pyarrow.ipc.new_file(str(tmp_path / "a.arrows"), table.schema) as writer:
        writer.write_table(table)
    assert "is damaged" in refused(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "nowhere", "device"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.arrows"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"loop": path, "nowhere": tmp_path / "b", "device": Path("/dev/zero")}[kind])
    expected = {
        "folder": "is a folder: expected a file in it",
        "pipe": "is no regular file: expected a file, not a pipe or device",
        "loop": "cannot read recording",
        "nowhere": "found No such file or directory",
        "device": "is no regular file",
    }
    assert expected[kind] in refused(tmp_path)


def test_names_of_files_that_are_no_text_are_read(tmp_path: Path) -> None:
    foreign(tmp_path / "r", name=b"\xff\xfe.arrows")
    assert len(read(tmp_path / "r")) == 1


def test_folders_without_a_recording_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(tmp_path) == (
        f"folder {tmp_path} holds no recording: found 0 files *.arrows, expected 1 to 100000. Record one: edgert run "
        "policy --record DIR"
    )
    (tmp_path / "file").write_text("x")
    assert refused(tmp_path / "file") == (
        f"cannot read recording {tmp_path / 'file'}: found Not a directory, expected a folder that --record wrote"
    )
    assert "cannot read recording" in refused(Path("a\0b"))
    monkeypatch.setattr(recording, "MAX_STREAMS", 2)
    for seed in range(3):
        small_recording(tmp_path / "r", seed=seed)
    assert f"folder {tmp_path / 'r'} holds no recording: found 3 files" in refused(tmp_path / "r")


ABOUTS: list[tuple[Any, str]] = [
    (None, "was not written by edgert. Remove that file"),
    (ABOUT | {"schema": 2}, "has another schema: found 2, expected 1. Read it with the edgert that wrote it"),
    ({"epoch": "abc", "control_hz": 50.0}, "has another schema: found None, expected 1"),
    (ABOUT | {"schema": "1"}, "has another schema"),
    ([1, 2], "has unreadable metadata: found recording"),
    (b"{", "has unreadable metadata"),
    (b"\xff\xfe", "has unreadable metadata: found 'utf-8' codec"),
    (b'{"schema": 1, "schema": 1}', "has unreadable metadata: found .* the key schema more than once"),
    (b'{"schema": NaN}', "has unreadable metadata"),
    (b"[" * 100_000, "has unreadable metadata"),
    (b'{"a":' * 40 + b"1" + b"}" * 40, "nested too deep: expected at most 16 levels"),
    (b'{"a": "' + b"x" * 2_000_000 + b'"}', "is too large: found 2000009 characters, expected at most 1048576"),
    (b'{"schema": 1' + b"0" * 5000 + b"}", "has unreadable metadata"),
    (b'{"schema": 1, "epoch": "a", "control_hz": 50, "x": [1e999]}', "has unreadable metadata"),
    (ABOUT | {"epoch": 7}, "is not laid out as a recording: found no epoch, expected epoch, control_hz"),
    (ABOUT | {"control_hz": 0}, "is not laid out as a recording: found no control_hz"),
    (ABOUT | {"control_hz": -50.0}, "found no control_hz"),
    (ABOUT | {"control_hz": True}, "found no control_hz"),
    (ABOUT | {"control_hz": "50"}, "found no control_hz"),
    (b'{"schema": 1, "epoch": "a", "control_hz": 1' + b"0" * 400 + b"}", "found no control_hz"),
]


@pytest.mark.parametrize(("about", "text"), ABOUTS)
def test_headers_that_make_no_sense_are_refused(about: Any, text: str, tmp_path: Path) -> None:
    line = refused(foreign(tmp_path, about=about))
    assert line.startswith(f"recording {tmp_path / '000001-x.arrows'} ")
    assert re.search(text, line), line


def nulls(values: list[Any], kind: Any) -> pyarrow.Array:
    return pyarrow.array(values, kind)


LAYOUTS: list[tuple[dict[str, Any], str]] = [
    ({"episode": None}, "found episode, expected"),
    ({"t_ns": None}, "found t_ns"),
    ({"action": None}, "found no action"),
    ({"episode": pyarrow.array(np.zeros(4))}, "found episode"),
    ({"episode": pyarrow.array(np.zeros(4, np.int32))}, "found episode"),
    ({"step": tensor(np.zeros((4, 1), np.int32))}, "found step"),
    ({"action": pyarrow.array(["a"] * 4)}, "found action"),
    ({"action": pyarrow.array([[1.0]] * 4)}, "found action"),
    ({"action": pyarrow.array([{"a": 1}] * 4)}, "found action"),
    ({"action": pyarrow.nulls(4)}, "found action"),
    ({"action": pyarrow.array(["a"] * 4).dictionary_encode()}, "found action"),
    ({"action": pyarrow.array(np.zeros(4, "datetime64[ns]"))}, "found action"),
    ({"action": pyarrow.array([b"ab"] * 4, pyarrow.binary(2))}, "found action"),
    ({"action": pyarrow.array([1] * 4, pyarrow.decimal128(5))}, "found action"),
    ({"more": pyarrow.array([[1, 2]] * 4, pyarrow.list_(pyarrow.int64(), 2))}, "found more"),
    ({"more": tensor(np.zeros((4, MAX_WIDTH + 1), np.int8))}, "found more"),
    ({"action": pyarrow.array(np.zeros(4))}, "found action"),
    ({"action": tensor(np.zeros((4, 2, 2)))}, "found action"),
    ({"target": pyarrow.array(np.zeros(4))}, "found target"),
    ({"reward": tensor(np.zeros((4, 3)))}, "found reward"),
    ({"latency_ns": tensor(np.zeros((4, 1), np.int64))}, "found latency_ns"),
    ({"command": tensor(np.zeros((4, 100_000)))}, "found command"),
    ({"command": pyarrow.array(np.zeros(4))}, "found command"),
    ({"observation.x": pyarrow.array(np.zeros(4))}, "found observation.x"),
    ({"state.qpos": pyarrow.array([True] * 4), "state.qvel": tensor(np.zeros((4, 2, 1)))}, "found state.qpos, state.q"),
]


@pytest.mark.parametrize(("changes", "text"), LAYOUTS)
def test_other_columns_are_refused(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    line = refused(foreign(tmp_path, **changes))
    assert f"recording {tmp_path / '000001-x.arrows'} is not laid out as a recording: {text}" in line


@pytest.mark.parametrize("shape", [[2**40], [2**32, 2**32], [2**31, 2**31, 2**31], [0], [2**16, 2**16]])
def test_declared_widths_are_bounded_before_anything_is_allocated(shape: list[int], tmp_path: Path) -> None:
    """By a schema alone: no rows are needed to declare a width."""
    fields = [(name, array.type) for name, array in some_arrays().items()]
    try:
        fields.append(("more", TENSOR(pyarrow.int8(), shape)))
    except (OverflowError, ValueError, pyarrow.ArrowException):
        # pyarrow itself writes no such type: its name for a shape is put into a stream by hand.
        fields.append(("more", TENSOR(pyarrow.int8(), [2, 3])))
    schema = pyarrow.schema(fields, metadata={RECORDING_KEY: json.dumps(ABOUT)})
    with pyarrow.ipc.new_stream(str(tmp_path / "a.arrows"), schema):
        pass
    if "more" in fields[-1] and fields[-1][1] == TENSOR(pyarrow.int8(), [2, 3]):
        data = (tmp_path / "a.arrows").read_bytes()
        assert data.count(b"[2,3]") == 1
        (tmp_path / "a.arrows").write_bytes(data.replace(b"[2,3]", b"[9,9]"))
    line = refused(tmp_path)
    assert "is not laid out as a recording: found more" in line or "is damaged" in line


def test_axes_in_another_order_are_refused(tmp_path: Path) -> None:
    kind = TENSOR(pyarrow.float64(), [2, 3], permutation=[1, 0])
    storage = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.zeros(24)), 6)
    line = refused(foreign(tmp_path, more=pyarrow.ExtensionArray.from_storage(kind, storage)))
    assert "found more" in line


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    arrays = some_arrays()
    schema = pyarrow.schema(
        [*((name, array.type) for name, array in arrays.items()), ("action", arrays["action"].type)],
        metadata={RECORDING_KEY: json.dumps(ABOUT)},
    )
    with pyarrow.ipc.new_stream(str(tmp_path / "a.arrows"), schema) as writer:
        writer.write_batch(pyarrow.record_batch([*arrays.values(), arrays["action"]], schema=schema))
    assert "found a name more than once" in refused(tmp_path)


@pytest.mark.parametrize("name", ["episode", "step", "world", "t_ns"])
def test_rows_that_say_not_where_they_belong_are_left_out(name: str, tmp_path: Path) -> None:
    kind = some_arrays()[name].type
    found = read(foreign(tmp_path, **{name: nulls([0, None, 1, 2], kind)}))
    assert len(found) == 0
    assert found.torn == ("000001-x.arrows: cut off after 0 rows (a row that says not where it belongs)",)


def test_nulls_anywhere_else_are_left_out(tmp_path: Path) -> None:
    """Also within a tensor, where no writer of recordings puts them: the numbers there have no meaning."""
    action = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array([1.0, None, 3.0, 4.0, None, None, 7.0, 8.0]), 2)
    kind = TENSOR(pyarrow.float64(), [2])
    (episode,) = read(
        foreign(
            tmp_path,
            action=pyarrow.ExtensionArray.from_storage(kind, action),
            flag=nulls([True, None, False, None], pyarrow.bool_()),
            half=nulls([np.float16(1.0), None, None, np.float16(2.0)], pyarrow.float16()),
            count=nulls([None] * 4, pyarrow.uint64()),
        )
    )
    assert episode.action.shape == (4, 2)
    assert episode.action[0, 0] == 1.0
    assert episode["flag"].tolist() == [True, False]
    assert episode["half"].tolist() == [1.0, 2.0]
    assert episode["count"].shape == (0,)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_rows_that_are_compressed_are_left_out(codec: str, tmp_path: Path) -> None:
    """A small file that would unpack to 320 MB."""
    rows = 10_000_000
    types = {name: array.type for name, array in some_arrays().items() if name != "action"}
    arrays = {name: pyarrow.array(np.zeros(rows, np.int64)).cast(kind) for name, kind in types.items()}
    arrays["action"] = tensor(np.zeros((rows, 1), np.int64))
    foreign(tmp_path / "r", arrays=arrays, options=pyarrow.ipc.IpcWriteOptions(compression=codec))
    assert (tmp_path / "r" / "000001-x.arrows").stat().st_size < 2_000_000
    found = read(tmp_path / "r")
    assert len(found) == 0
    assert found.torn == ("000001-x.arrows: cut off after 0 rows (compressed rows)",)


def test_anything_else_than_rows_is_left_out(tmp_path: Path) -> None:
    """A second schema in the midst of a stream, as of two files one after the other."""
    path, written = small_recording(tmp_path / "r")
    data = path.read_bytes()
    path.write_bytes(data[:-8] + data)
    found = read(tmp_path / "r")
    assert len(found) == 2
    assert "a schema instead of rows" in found.torn[0]
    same_bits(found[1]["output.map"], written[1]["output.map"])


def test_a_sparse_file_may_not_declare_any_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = small_recording(tmp_path / "r")
    limit = len(read(tmp_path / "r").streams[0]) - 1
    monkeypatch.setattr(stream, "MAX_ROWS", limit)
    found = read(tmp_path / "r")
    (kept,) = map(len, found.streams)
    assert kept <= limit
    assert found.torn == (f"{path.name}: cut off after {kept} rows (more than {limit} rows)",)


EVENTS: list[tuple[Any, Any]] = [
    ({"begin": {"0": {"seed": 5}}}, {"seed": 5}),
    ({"begin": {"0": {"seed": 5, "episode": 99, "outcome": "x"}}}, {"seed": 5}),
    ({"end": {"0": {"outcome": "fell", "episode": "7"}}}, {"outcome": "fell"}),
    ({"begin": [], "end": 3}, {}),
    ({"end": {"0": {"outcome": 5, "reason": [], "steps": "3", "return": "7", "world": True, "extra": {"a": 1}}}}, {}),
    ({"end": {"0": {"return": 10**400, "seed": 10**400, "outcome": None}}}, {}),
    ({"end": {"0": {"return": None, "seed": 3, "world": -1, "steps": 4, "reason": "x"}}}, {"return": None, "seed": 3}),
    ({"begin": {"0": 4, "x": {}}, "more": {}}, {}),
    ({}, {}),
]


@pytest.mark.parametrize(("events", "info"), EVENTS)
def test_what_is_said_of_episodes_is_not_trusted(events: Any, info: dict[str, Any], tmp_path: Path) -> None:
    (episode,) = read(foreign(tmp_path, events=events))
    assert episode.info["episode"] == 0
    assert episode.id == "abc/0"
    assert episode.info.items() >= info.items()
    assert episode.info["outcome"] == info.get("outcome", "interrupted")
    assert isinstance(episode.info.get("steps", 0), int)
    assert isinstance(episode.info.get("return") or 0.0, (int, float))


@pytest.mark.parametrize("events", [b"{", b"[1]", b"\xff", b"[" * 100_000, b'{"a":' * 40 + b"1" + b"}" * 40])
def test_events_that_make_no_sense_are_refused(events: bytes, tmp_path: Path) -> None:
    assert "metadata" in refused(foreign(tmp_path, events=events))


def test_numbers_of_episodes_and_steps_may_be_any(tmp_path: Path) -> None:
    huge = 2**63 - 1
    found = read(
        foreign(
            tmp_path,
            episode=pyarrow.array(np.array([huge, -huge, huge, 0])),
            step=pyarrow.array(np.array([5, -3, 5, 2**31 - 1], np.int32)),
        )
    )
    assert [episode.info["episode"] for episode in found] == [-huge, 0, huge]
    assert [episode.steps for episode in found] == [1, 1, 2]


FUZZ = """
import os, random, sys
from pathlib import Path
from edgert.errors import IntegrityError
from edgert.rollout import read
path, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
data = path.read_bytes()
rng = random.Random(seed)
file = os.open(path, os.O_WRONLY)
outcomes = {"refused": 0, "torn": 0, "read": 0}

def judge():
    try:
        recording = read(path.parent)
        for episode in recording:
            for name in episode.columns:
                episode[name]
            episode.id, episode.steps, episode.seconds, dict(episode.info), dict(episode.header)
    except IntegrityError as error:
        assert str(error).isprintable()
        outcomes["refused"] += 1
    else:
        assert all(line.isprintable() for line in recording.torn)
        outcomes["torn" if recording.torn else "read"] += 1

def with_bytes(changes):
    for place, value in changes.items():
        os.pwrite(file, bytes([value]), place)
    judge()
    for place in changes:
        os.pwrite(file, data[place:place + 1], place)

for place in range(len(data)):
    with_bytes({place: data[place] ^ 1 << rng.randrange(8)})
for _ in range(count):
    some = [rng.randrange(len(data)) for _ in range(rng.choice([1, 1, 2, 5, 20]))]
    with_bytes({place: rng.choice([0, 1, 127, 128, 255, rng.randrange(256)]) for place in some})
assert path.read_bytes() == data
for tail in (bytes(300), rng.randbytes(300), b"\\xff" * 300):
    for end in range(0, len(data), 61):
        os.ftruncate(file, end)
        os.pwrite(file, tail, end)
        judge()
        os.pwrite(file, data, 0)
        os.ftruncate(file, len(data))
print(outcomes)
"""


def test_changed_bytes_are_refused_or_read(tmp_path: Path) -> None:
    """Every byte, in the header, its JSON, the schema, the batches and their bodies; in a process that may crash.

    What changes within numbers goes unnoticed: recordings have no checksums yet.
    """
    columns = [c for c in small_columns() if c.name in ("observation.obs", "action", "output.half", "terminated")]
    with FolderSink(tmp_path / "r", columns, HEADER) as sink:
        write_small(sink, steps=2)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(sink.path), "2000", "1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    outcomes = json.loads(done.stdout.replace("'", '"'))
    assert all(count > 100 for count in outcomes.values())
    assert sum(outcomes.values()) > 5000


def test_a_recording_is_not_pickled(tmp_path: Path) -> None:
    """Nothing in it can run code: extension types of strangers are read as their numbers, or refused."""

    class Evil(pyarrow.ExtensionType):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(pyarrow.int64(), "edgert.evil")

        def __arrow_ext_serialize__(self) -> bytes:
            return b"cos\nsystem\n(S'touch /tmp/evil'\ntR."

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Any:
            return cls()

    evil = pyarrow.ExtensionArray.from_storage(Evil(), pyarrow.array([1, 2, 3, 4]))
    (episode,) = read(foreign(tmp_path, more=evil))
    assert episode["more"].tolist() == [1, 2, 3, 4]
