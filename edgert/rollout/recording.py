"""`read`: a recording back as episodes of NumPy arrays.

Nothing in a recording is trusted: streams are validated batch by batch, a torn tail is cut off and reported. Columns
are mapped from the files and gathered an episode at a time, so a recording may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from edgert.errors import ContractError, IntegrityError, UnknownNameError
from edgert.files import regular_size
from edgert.rollout.folder import EVENTS_KEY, RECORDING_KEY, SCHEMA, SUFFIX, import_arrow
from edgert.rollout.sink import INDEX
from edgert.tables import read_json

MAX_STREAMS: Final = 100_000
MAX_WIDTH: Final = 1 << 20
Array = npt.NDArray[Any]


def read(path: str | Path) -> Recording:
    """The recording in the folder `path`.

    Raises:
        IntegrityError: it is no recording, or a file in it is damaged beyond a torn tail.
        UnsupportedError: pyarrow is not installed.
    """
    folder = Path(path)
    import_arrow()
    try:
        files = sorted(entry for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"cannot read recording {folder}",
            found=getattr(error, "strerror", None) or error,
            expected="a folder that --record wrote",
        ) from error
    if not files or len(files) > MAX_STREAMS:
        raise IntegrityError(
            f"folder {folder} holds no recording",
            found=f"{len(files)} files *{SUFFIX}",
            expected=f"1 to {MAX_STREAMS}",
            hint="Record one: edgert run policy --record DIR",
        )
    return Recording(path=folder, streams=tuple(_Stream(file) for file in files))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Episode:
    """One episode. Arrays are made when they are asked for.

    Attributes:
        index: its place in the recording.
        header: what the whole run shares: digests, device, rate, contract …
        info: what is known of the episode: `seed`, `world`, `outcome`, `return`, `steps` …
    """

    index: int
    header: Mapping[str, Any]
    info: Mapping[str, Any]
    columns: tuple[str, ...]
    _stream: _Stream = field(repr=False)
    _rows: Array = field(repr=False)

    @property
    def id(self) -> str:
        """What names it everywhere: the epoch of its stream and its number there."""
        return f"{self.header['epoch']}/{self.info['episode']}"

    @property
    def steps(self) -> int:
        """Control steps, T."""
        return int(np.count_nonzero(self._stream.gather("action", self._rows)[1]))

    def __getitem__(self, name: str) -> Array:
        """A column's rows, those without a value left out: T of what was done, T + 1 of what was seen.

        Raises:
            UnknownNameError: the recording has no such column.
        """
        if name not in self.columns:
            raise UnknownNameError(f"no column '{name}' in the recording", expected="one of " + ", ".join(self.columns))
        values, valid = self._stream.gather(name, self._rows)
        return values if valid.all() else values[valid]

    def _prefixed(self, prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): self[name] for name in self.columns if name.startswith(prefix)}

    @property
    def observation(self) -> dict[str, Array]:
        """ONNX input name to (T + 1, dim)."""
        return self._prefixed("observation.")

    @property
    def outputs(self) -> dict[str, Array]:
        """Other network outputs, by ONNX name, (T, …)."""
        return self._prefixed("output.")

    @property
    def action(self) -> Array:
        """Raw network output, (T, nact)."""
        return self["action"]

    @property
    def target(self) -> Array:
        """What was sent to the joints, or to the environment, (T, njoint)."""
        return self["target"]

    @property
    def qpos(self) -> Array:
        """State, (T + 1, nq)."""
        return self["state.qpos"]

    @property
    def qvel(self) -> Array:
        """State, (T + 1, nv)."""
        return self["state.qvel"]

    @property
    def seconds(self) -> float:
        """Robot time, s."""
        return float(self.steps / self.header["control_hz"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording(Sequence[Episode]):
    """Episodes in the order in which they were recorded. `torn` says which files lost a tail."""

    path: Path
    streams: tuple[_Stream, ...] = field(repr=False)

    @property
    def torn(self) -> tuple[str, ...]:
        """One line for each file whose end is missing."""
        return tuple(stream.torn for stream in self.streams if stream.torn)

    def __len__(self) -> int:
        return sum(len(stream.episodes) for stream in self.streams)

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...

    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        total = len(self)
        if not -total <= index < total:
            raise IndexError(f"recording {self.path} has {total} episodes, no number {index}")
        left = index = index % total
        for stream in self.streams:
            if left < len(stream.episodes):
                return stream.episode(left, index)
            left -= len(stream.episodes)
        raise AssertionError("unreachable")

    def __iter__(self) -> Iterator[Episode]:
        return (self[i] for i in range(len(self)))


class _Stream:
    """One file of a recording, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = ""
        self.header: dict[str, Any] = {}
        self.begun: dict[str, Any] = {}
        self.ended: dict[str, Any] = {}
        self.batches: list[Any] = []
        size = regular_size(path, "recording")
        arrow = import_arrow()
        try:
            reader = arrow.ipc.open_stream(arrow.memory_map(str(path)) if size else arrow.BufferReader(b""))
        except (arrow.ArrowInvalid, OSError) as error:
            if size == 0 or "Expected to be able to read" in str(error) or "end of stream" in str(error).lower():
                self.torn = f"{path.name}: it ends before its first row"
                return
            raise IntegrityError(f"recording {path} is damaged", found=error, hint="Remove that file") from error
        self.schema = reader.schema
        self._read_header()
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
                batch.validate(full=True)
            except StopIteration:
                break
            except (arrow.ArrowInvalid, OSError, EOFError) as error:
                self.torn = f"{path.name}: cut off after {sum(len(b) for b in self.batches)} rows ({error})"
                break
            self._note(metadata)
            if len(batch):
                self.batches.append(batch)
        self._starts = np.cumsum([0, *(len(batch) for batch in self.batches)])

    def _read_header(self) -> None:
        where = f"recording {self.path}"
        text = (self.schema.metadata or {}).get(RECORDING_KEY)
        if text is None:
            raise IntegrityError(f"{where} was not written by edgert", hint="Remove that file")
        self.header = _json(text, where)
        version = self.header.get("schema")
        if version != SCHEMA:
            raise IntegrityError(
                f"{where} has another schema",
                found=version,
                expected=SCHEMA,
                hint="Read it with the edgert that wrote it",
            )
        arrow = import_arrow()
        types = {entry.name: entry.type for entry in self.schema}
        wrong = [c.name for c in INDEX if types.get(c.name) != arrow.from_numpy_dtype(c.dtype)]
        wrong += [name for name, kind in types.items() if not _usable(arrow, kind)]
        hz, epoch = self.header.get("control_hz"), self.header.get("epoch")
        if wrong or "action" not in types or not isinstance(epoch, str) or not isinstance(hz, (int, float)) or hz <= 0:
            raise IntegrityError(
                f"{where} is not laid out as a recording",
                found=", ".join(wrong) or "no action, epoch or control_hz",
                expected="columns episode, step, world, t_ns, action …",
            )

    def _note(self, metadata: Any) -> None:
        text = (metadata or {}).get(EVENTS_KEY)
        if text is not None:
            events = _json(text, f"recording {self.path}")
            for name, known in (("begin", self.begun), ("end", self.ended)):
                entries = events.get(name)
                if isinstance(entries, dict):
                    known |= {key: value for key, value in entries.items() if isinstance(value, dict)}

    @cached_property
    def _order(self) -> tuple[Array, Array, Array]:
        """Rows sorted by episode and step; episode numbers; where each begins in the order."""
        if not self.batches:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        episode, step = (
            np.concatenate([batch.column(name).to_numpy(zero_copy_only=False) for batch in self.batches])
            for name in ("episode", "step")
        )
        order = np.lexsort((step, episode))
        numbers, starts = np.unique(episode[order], return_index=True)
        return order, numbers, np.append(starts, len(order))

    @property
    def episodes(self) -> Array:
        """The numbers of its episodes."""
        return self._order[1]

    def episode(self, place: int, index: int) -> Episode:
        """The episode at a place in this stream, which is number `index` of the recording."""
        order, numbers, starts = self._order
        rows = order[starts[place] : starts[place + 1]]
        number = str(int(numbers[place]))
        info = {"episode": int(number), **self.begun.get(number, {})}
        info |= self.ended.get(number, {"outcome": "interrupted", "reason": "the recording ends here"})
        names = tuple(entry.name for entry in self.schema)
        return Episode(index=index, header=self.header, info=info, columns=names, _stream=self, _rows=rows)

    def gather(self, name: str, rows: Array) -> tuple[Array, Array]:
        """Values (n, *shape) of a column in the given rows, and where they are not null (n,)."""
        column = self.schema.get_field_index(name)
        batch_of = np.searchsorted(self._starts, rows, side="right") - 1
        parts = [(at, _values(self.batches[at].column(column))) for at in np.unique(batch_of).tolist()]
        sample = parts[0][1][0]
        values = np.zeros((len(rows), *sample.shape[1:]), sample.dtype)
        valid = np.zeros(len(rows), np.bool_)
        for at, (array, mask) in parts:
            here = batch_of == at
            local = rows[here] - self._starts[at]
            values[here], valid[here] = array[local], mask[local]
        return values, valid


def _values(column: Any) -> tuple[Array, Array]:
    """A column of a batch as (n, *shape), and where it is not null (n,)."""
    count = len(column)
    valid = np.ones(count, np.bool_) if column.null_count == 0 else column.is_valid().to_numpy(zero_copy_only=False)
    kind = column.type
    if not hasattr(kind, "shape"):
        return (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False), valid
    storage = column.storage
    flat = storage.values.slice(storage.offset * kind.storage_type.list_size, count * kind.storage_type.list_size)
    return flat.to_numpy(zero_copy_only=False).reshape(count, *kind.shape), valid


def _usable(arrow: Any, kind: Any) -> bool:
    if isinstance(kind, arrow.FixedShapeTensorType):
        return 0 < int(np.prod(kind.shape)) <= MAX_WIDTH and _is_number(arrow, kind.value_type)
    return _is_number(arrow, kind) or arrow.types.is_boolean(kind)


def _is_number(arrow: Any, kind: Any) -> bool:
    return bool(arrow.types.is_integer(kind) or arrow.types.is_floating(kind))


def _json(data: bytes, where: str) -> dict[str, Any]:
    try:
        return read_json(data.decode(), where=where)
    except (ContractError, UnicodeDecodeError) as error:
        raise IntegrityError(f"{where} has unreadable metadata", found=error) from error
