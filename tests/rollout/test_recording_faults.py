"""Places that cannot be recorded into, disks that fill, and processes that die: one line, and a readable prefix."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rollout_examples import HEADER, Array, same_bits, small_columns, small_recording, write_small

from edgert.errors import EdgertError, UnsupportedError
from edgert.rollout import Episode, FolderSink, read
from edgert.rollout.folder import check_folder

ROOT = Path(__file__).resolve().parents[2]


def refused(path: Path) -> str:
    """The same line before a run and when the sink is made."""
    with pytest.raises(UnsupportedError) as early:
        check_folder(path)
    with pytest.raises(UnsupportedError) as late:
        FolderSink(path, small_columns(), HEADER)
    assert str(early.value) == str(late.value)
    return str(early.value)


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    for name in ("c.txt", "a.txt", "b.txt"):
        (tmp_path / name).write_text("mine")
    assert refused(tmp_path) == (
        f"folder {tmp_path} holds other things than a recording: found a.txt, b.txt, c.txt, expected a new or empty "
        "folder, or one that was recorded into before"
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.txt", "b.txt", "c.txt"]


def test_a_recording_may_hold_other_things_beside(tmp_path: Path) -> None:
    small_recording(tmp_path / "r")
    (tmp_path / "r" / "notes.txt").write_text("mine")
    small_recording(tmp_path / "r")
    assert len(read(tmp_path / "r")) == 4


def test_folders_are_made(tmp_path: Path) -> None:
    small_recording(tmp_path / "a" / "b" / "c")
    assert len(read(tmp_path / "a/b/c")) == 2


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("file", "Not a directory"),
        ("file/below", "Not a directory"),
        ("a\0b", "embedded null byte"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_is_no_folder_is_refused(name: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert f": found {found}, expected a folder" in refused(tmp_path / name)


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    line = refused(tmp_path / "loop")
    assert line.startswith(f"cannot record into {tmp_path / 'loop'}: found ")


def test_names_of_files_stay_in_the_order_of_time(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    for name in ("99999999999-x.arrows", "7-x.arrows", "000041-x.arrows"):
        (folder / name).write_bytes(b"")
    assert small_recording(folder)[0].name.startswith("000042-")
    (folder / "999999-x.arrows").write_bytes(b"")
    with pytest.raises(UnsupportedError) as caught:
        small_recording(folder)
    assert str(caught.value) == f"folder {folder} is full: found 999999 runs. Take another one"


@pytest.mark.parametrize(
    ("what", "found"), [("removed", os.strerror(errno.ENOENT)), ("replaced", "another file has its name")]
)
def test_a_recording_that_is_gone_when_it_ends_is_told(what: str, found: str, tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "r", small_columns(), HEADER)
    write_small(sink)
    sink.path.unlink()
    if what == "replaced":
        sink.path.write_bytes(b"")
    with pytest.raises(EdgertError) as caught:
        sink.close()
    assert str(caught.value) == (
        f"recording {sink.path} cannot be written: found {found}. Check the folder and its disk"
    )
    assert sink.acknowledged == 0
    sink.close()


@pytest.mark.parametrize("there", [False, True])
def test_what_fails_before_its_first_row_leaves_nothing_behind(there: bool, tmp_path: Path) -> None:
    if there:
        (tmp_path / "r").mkdir()

    def fail(before: Callable[[FolderSink], object]) -> None:
        with FolderSink(tmp_path / "r", small_columns(), HEADER) as sink:
            before(sink)
            raise RuntimeError("the policy fails")

    with pytest.raises(RuntimeError):
        fail(lambda sink: sink.begin(0, {"seed": 1}))
    assert (tmp_path / "r").exists() is there
    with pytest.raises(RuntimeError):
        fail(write_small)
    assert len(read(tmp_path / "r")) == 2


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


CHECK = """
import os, sys
from pathlib import Path
from edgert.errors import EdgertError
from edgert.rollout.folder import check_folder, import_arrow
import_arrow()
if os.geteuid() == 0:  # nothing stops root
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for name in sys.argv[1:]:
    try:
        check_folder(Path(name))
    except EdgertError as error:
        print(error)
"""


def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    place.mkdir(mode=0o555)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    done = python(CHECK, str(place), str(place / "new"))
    assert done.stdout.splitlines() == [
        f"folder {place} cannot be written to. Check its permissions",
        f"folder {place} cannot be written to. Check its permissions",
    ], done.stderr


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from edgert.cli.main import main; main(sys.argv[1:])"
    line = 'edgert: recordings need pyarrow, which is not installed. Run: pip install "edgert[sync]"'
    for command in ("policy", "rollouts"):
        done = python(code, "run", command, "--record", str(tmp_path / "r"))
        assert (done.returncode, done.stdout, done.stderr.splitlines()) == (2, "", [line])
    assert not (tmp_path / "r").exists()
    read_code = "import sys; sys.modules['pyarrow'] = None; from edgert.rollout import read; read('/')"
    assert line.removeprefix("edgert: ") in python(read_code).stderr.splitlines()[-1]


def prefix(episodes: list[Episode], written: list[dict[str, Array]]) -> int:
    """Check that what is read is the beginning of what was written; returns how many rows that is."""
    rows = 0
    for episode in episodes:
        whole = written[episode.info["episode"]]
        count = len(episode["step"])
        assert count > 0
        for name in episode.columns:
            values = episode[name]
            same_bits(values, whole[name][: len(values)])
            assert min(count, len(whole[name])) == len(values)
        ended = count == len(whole["step"])
        assert episode.info["outcome"] == ("completed" if ended else "interrupted")
        assert episode.info["seed"] == episode.info["episode"]
        rows += count
    assert [episode.info["episode"] for episode in episodes] == list(range(len(episodes)))
    return rows


FILL = """
import resource, sys
from pathlib import Path
from edgert.errors import EdgertError
from edgert.rollout import FolderSink
from rollout_examples import HEADER, small_columns, write_small
sink = FolderSink(Path(sys.argv[1]), small_columns(), HEADER)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write_small(sink, episodes=50)
except EdgertError as error:
    print(error)
sink.close()
sink.close()
"""


@pytest.mark.parametrize("limit", [4_000, 20_001])
def test_a_full_disk_is_one_line_and_leaves_a_prefix(limit: int, tmp_path: Path) -> None:
    done = python(FILL, str(tmp_path / "r"), str(limit))
    (file,) = (tmp_path / "r").iterdir()
    reason = os.strerror(errno.EFBIG)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"recording {file} cannot be written: found {reason}. Free some space; what was written before can be read\n"
    )
    assert file.stat().st_size <= limit
    recording = read(tmp_path / "r")
    assert len(recording.torn) == 1
    _, written = small_recording(tmp_path / "whole", episodes=50)
    rows = prefix(list(recording), written)
    print(f"{rows} of 200 rows fit into {limit} bytes")
    assert 0 <= rows < 200
    assert limit < 8_000 or rows > 0


ROLLOUTS = """
import resource, sys
from edgert.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
main(["run", "rollouts", "quadruped", "--num-envs", "8", "--seconds", "40", "--record", sys.argv[1]])
"""


def test_a_disk_that_fills_ends_a_run_in_one_line(tmp_path: Path) -> None:
    done = python(ROLLOUTS, str(tmp_path / "r"), "6000000")
    assert done.returncode == 2
    assert done.stdout == ""
    (file,) = (tmp_path / "r").iterdir()
    assert done.stderr.splitlines()[-1].startswith(
        f"edgert: recording {file} cannot be written: found File too large. "
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    recording = read(tmp_path / "r")  # 8,192 rows of eight worlds, and of the next block what did not fit
    assert [episode.steps for episode in recording] == [1000] * 8 + [24] * 8
    assert [episode.info["outcome"] for episode in recording] == ["completed"] * 8 + ["interrupted"] * 8
    for episode in recording:
        assert np.isfinite(episode.qpos).all()


def test_a_process_that_is_killed_leaves_a_prefix(tmp_path: Path) -> None:
    arguments = [
        "run",
        "rollouts",
        "quadruped",
        "--num-envs",
        "64",
        "--seconds",
        "600",
        "--record",
        str(tmp_path / "r"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgert", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    size, patience = 0, time.monotonic() + 30.0
    while size < 10_000_000 and time.monotonic() < patience and process.poll() is None:
        time.sleep(0.02)
        files = list((tmp_path / "r").iterdir()) if (tmp_path / "r").is_dir() else []
        size = files[0].stat().st_size if files else 0
    process.send_signal(signal.SIGKILL)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL, err
    recording = read(tmp_path / "r")
    (torn,) = recording.torn
    print(torn)
    assert len(recording) >= 64
    for episode in recording[:64]:
        assert episode.info["outcome"] == "interrupted" or episode.info["steps"] == episode.steps
        assert (np.diff(episode["step"]) == 1).all()
        assert episode["step"][0] == 0
        assert np.isfinite(episode.action).all()
        assert episode.steps >= 128
    again = tmp_path / "r"
    small_recording(again)  # what is torn does not stop the next run
    assert len(read(again)) == len(recording) + 2


def test_torn_at_any_byte_a_prefix_is_left(tmp_path: Path) -> None:
    columns = [column for column in small_columns() if column.name in ("observation.obs", "action", "terminated")]
    sink = FolderSink(tmp_path / "whole", columns, HEADER)
    written = write_small(sink, steps=2)
    sink.close()
    assert read(tmp_path / "whole").torn == ()
    seen: list[int] = []
    for end in reversed(range(sink.path.stat().st_size)):
        os.truncate(sink.path, end)
        recording = read(tmp_path / "whole")
        rows = sum(len(episode["step"]) for episode in recording)
        if [rows] != seen[-1:] or end % 50 == 0:
            assert prefix(list(recording), written) == rows
        seen.append(rows)
        (line,) = recording.torn
        assert line.startswith(f"{sink.path.name}: ")
        assert line.isprintable()
    assert seen == sorted(seen, reverse=True)
    assert sorted(set(seen)) == [0, 2, 3, 5, 6]  # two rows and the final one, twice


def test_an_interrupted_writer_may_still_be_read(tmp_path: Path) -> None:
    """While a run goes on, whatever blocks it has written are there."""
    sink = FolderSink(tmp_path / "r", small_columns(), HEADER)
    assert len(read(tmp_path / "r")) == 0
    written = write_small(sink)
    recording = read(tmp_path / "r")
    assert recording.torn == (f"{sink.path.name}: it was not closed, after 8 rows",)
    assert prefix(list(recording), written) == 8
    sink.close()
    assert read(tmp_path / "r").torn == ()


def test_a_folder_that_vanishes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EdgertError, match=r"cannot read recording .*/nowhere: found No such file or directory"):
        read(tmp_path / "nowhere")
