"""`Stream`: one file of a recording, mapped into memory and judged before anything in it is used.

Batches are validated one by one. What follows the first that is damaged or incomplete is left out, and `torn` says so.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.errors import ContractError, IntegrityError, one_line
from edgert.files import regular_size
from edgert.rollout.folder import EVENTS_KEY, RECORDING_KEY, SCHEMA, import_arrow
from edgert.rollout.layout import LAYOUT, faults
from edgert.rollout.sink import INDEX
from edgert.tables import is_number, read_json

MAX_ROWS: Final = 1 << 27
"""Most rows of one file: putting them in order takes 30 bytes a row, however little a sparse file takes on disk."""
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUATION + bytes(4)
"""What a stream begins each message with, and ends with."""
Array = npt.NDArray[Any]


class Stream:
    """The rows of a file and what is known of its episodes.

    Attributes:
        path: the file.
        torn: one line if its end is missing, else "".
        header: what the whole run shares.
        begun, ended: what is known of an episode from its beginning and its end, by its number as text.

    Raises:
        IntegrityError: it is no file of a recording, or damaged beyond a torn tail.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = ""
        self.header: dict[str, Any] = {}
        self.begun: dict[str, Any] = {}
        self.ended: dict[str, Any] = {}
        self._arrow = arrow = import_arrow()
        self._batches: list[Any] = []
        self._count = 0
        self._columns: dict[str, int] = {}
        self._schema: Any = None
        size = regular_size(path, "recording")
        if _is_beginning(path, size):
            self.torn = f"{path.name}: it ends before its first row"
            return
        with self._judged(), arrow.memory_map(os.fsencode(path)) as source:
            messages = arrow.ipc.MessageReader.open_stream(source.read_buffer())
            source.seek(0)
            reader = arrow.ipc.open_stream(source)
            self._schema = reader.schema
            self._read_header()
            messages.read_next_message()  # the schema
            self._read_batches(messages, reader)
        if not self.torn and not _ends(path, size):
            self.torn = f"{path.name}: it was not closed, after {self._count} rows"

    def __len__(self) -> int:
        """How many rows it has."""
        return self._count

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Whatever Arrow makes of a damaged file is an `IntegrityError`."""
        try:
            yield
        except _damage(self._arrow) as error:
            raise IntegrityError(
                f"recording {self.path} is damaged", found=str(error) or type(error).__name__, hint="Remove that file"
            ) from error

    def _read_header(self) -> None:
        where, schema = f"recording {self.path}", self._schema
        text = (schema.metadata or {}).get(RECORDING_KEY)
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
        self._columns = {name: place for place, name in enumerate(schema.names)}
        wrong = faults(self._arrow, schema, self.header)
        if wrong:
            raise IntegrityError(f"{where} is not laid out as a recording", found=", ".join(wrong), expected=LAYOUT)

    def _read_batches(self, messages: Any, reader: Any) -> None:
        while True:
            try:
                _check_plain(messages)
                batch, metadata = reader.read_next_batch_with_custom_metadata()
                batch.validate(full=True)
                if any(batch.column(self._columns[column.name]).null_count for column in INDEX):
                    raise ValueError("a row that says not where it belongs")
                if self._count + len(batch) > MAX_ROWS:
                    raise ValueError(f"more than {MAX_ROWS} rows")
            except StopIteration:
                return
            except _damage(self._arrow) as error:
                self.torn = one_line(f"{self.path.name}: cut off after {self._count} rows ({error})")
                return
            self._note(metadata)
            if len(batch):
                self._batches.append(batch)
                self._count += len(batch)

    def _note(self, metadata: Any) -> None:
        text = (metadata or {}).get(EVENTS_KEY)
        if text is not None:
            events = _json(text, f"recording {self.path}")
            for name, known in (("begin", self.begun), ("end", self.ended)):
                entries = events.get(name)
                if isinstance(entries, dict):
                    known |= {key: _told(value) for key, value in entries.items() if isinstance(value, dict)}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(self._columns)

    @cached_property
    def _starts(self) -> Array:
        return np.cumsum([0, *map(len, self._batches)])

    @cached_property
    def _order(self) -> tuple[Array, Array, Array]:
        """Rows sorted by episode and step; episode numbers; where each begins in the order."""
        if not self._batches:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        episode, step = (
            np.concatenate([_values(self._arrow, batch.column(self._columns[name])) for batch in self._batches])
            for name in ("episode", "step")
        )
        order = np.lexsort((step, episode))
        numbers, starts = np.unique(episode[order], return_index=True)
        return order, numbers, np.append(starts, len(order))

    @property
    def episodes(self) -> Array:
        """The numbers of its episodes."""
        return self._order[1]

    def rows(self, place: int) -> Array:
        """The rows of the episode at a place in `episodes`, by step."""
        order, _, starts = self._order
        rows: Array = order[starts[place] : starts[place + 1]]
        return rows

    def gather(self, name: str, rows: Array) -> tuple[Array, Array]:
        """Values (n, *shape) of a column in the given rows, and where they are not null (n,)."""
        place = self._columns[name]
        batch_of = np.searchsorted(self._starts, rows, side="right") - 1
        values: Array | None = None
        valid = np.zeros(len(rows), np.bool_)
        for at in np.unique(batch_of).tolist():
            column = self._batches[at].column(place)
            array = _values(self._arrow, column)
            if values is None:
                values = np.zeros((len(rows), *array.shape[1:]), array.dtype)
            here = batch_of == at
            local = rows[here] - self._starts[at]
            values[here] = array[local]
            valid[here] = column.is_valid().to_numpy(zero_copy_only=False)[local] if column.null_count else True
        assert values is not None, "an episode has rows"
        return values, valid


def _damage(arrow: Any) -> tuple[type[BaseException], ...]:
    """What Arrow raises for bytes that make no sense, or that end too early; names that are no text: ValueError."""
    return (arrow.lib.ArrowException, OSError, EOFError, StopIteration, ValueError, OverflowError, MemoryError)


def _is_beginning(path: Path, size: int) -> bool:
    """Whether a file may be the beginning of a stream, but has not the whole of its schema."""
    with path.open("rb") as file:
        head = file.read(8)
    return head[:4] == _CONTINUATION[: len(head)] and size < 8 + int.from_bytes(head[4:], "little")


def _ends(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, size - len(_END)))
        return file.read() == _END


def _check_plain(messages: Any) -> None:
    """Refuse a batch that is compressed, as no recording is: a few bytes of it could unpack to any size."""
    message = messages.read_next_message()
    if message.type != "record batch":
        raise ValueError(f"a {message.type} instead of rows")
    metadata = memoryview(message.metadata)
    root = _offset(metadata, 0)
    header = _field(metadata, root, 2)  # Message.header
    if _field(metadata, header + _offset(metadata, header), 3):  # RecordBatch.compression
        raise ValueError("compressed rows")


def _field(metadata: memoryview, table: int, number: int) -> int:
    """Where a flatbuffer's table holds the field of that number in Arrow's Message.fbs; 0 where it lacks it."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    (length,) = struct.unpack_from("<H", metadata, vtable)
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, vtable + place)[0] if place < length else 0
    return table + offset if offset else 0


def _offset(metadata: memoryview, place: int) -> int:
    return int(struct.unpack_from("<I", metadata, place)[0])


def _values(arrow: Any, column: Any) -> Array:
    """A column of a batch as (n, *shape); what stands where it is null has no meaning."""
    kind, count = column.type, len(column)
    if not isinstance(kind, arrow.FixedShapeTensorType):
        return _plain(arrow, column, column.offset, count)
    width = kind.storage_type.list_size
    storage = column.storage
    return _plain(arrow, storage.values, storage.offset * width, count * width).reshape(count, *kind.shape)


def _plain(arrow: Any, values: Any, offset: int, count: int) -> Array:
    """Numbers of an array without regard to nulls: of a bitmap of nulls nothing is read."""
    data = values.buffers()[1]
    bare = arrow.Array.from_buffers(values.type, count, [None, data], offset=offset)
    return np.asarray(bare.to_numpy(zero_copy_only=False))


def _told(info: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of an episode, without what is of another type than recordings have."""
    known: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(("world", "seed", "steps"), lambda value: is_number(value) and isinstance(value, int)),
        **dict.fromkeys(("outcome", "reason"), lambda value: isinstance(value, str)),
        "return": lambda value: value is None or is_number(value),
    }
    return {key: value for key, value in info.items() if key not in known or known[key](value)}


def _json(data: bytes, where: str) -> dict[str, Any]:
    try:
        return read_json(data.decode(), where=where)
    except (ContractError, UnicodeDecodeError) as error:
        raise IntegrityError(f"{where} has unreadable metadata", found=error) from error
