"""`FolderSink`: a recording as a folder of Arrow IPC streams, one for each run that recorded into it.

A stream is written as the rows come, so what was written before a crash can be read: a torn tail is cut off by the
reader. The schema's metadata say what was run; what is known of episodes travels with the next batch, so that an
episode's last row never comes without its outcome. A crash of the program loses no batch, one of the computer may:
nothing is made durable before `close`; a spool is for that.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from edgert.closing import Closes
from edgert.errors import EdgertError, IntegrityError, UnsupportedError, importing
from edgert.rollout.layout import LAYOUT, faults
from edgert.rollout.sink import INDEX, Column, Rows
from edgert.tables import MAX_FILE_BYTES, check_depth
from edgert.writing import sync

RECORDING_KEY: Final = b"edgert.recording"
EVENTS_KEY: Final = b"edgert.episodes"
SCHEMA: Final = 1
SUFFIX: Final = ".arrows"
_DIGITS: Final = 6
"""Of the number that a file's name begins with, so that names are in the order of time."""
MAX_EVENTS: Final = 4_096
"""Most beginnings and ends that one batch tells of."""
MAX_EVENT_BYTES: Final = MAX_FILE_BYTES // 2
"""Most that one batch tells of them, well below what a reader takes."""


def import_arrow() -> Any:
    """The module pyarrow.

    Raises:
        UnsupportedError: it is not installed, or does not load here.
    """
    missing = "recordings need pyarrow, which is not installed"
    with importing("pyarrow", missing=missing, install='Run: pip install "edgert[sync]"'):
        import pyarrow
        import pyarrow.ipc
    return pyarrow


def check_folder(path: Path) -> None:
    """Refuse a place for a recording before anything runs: no pyarrow, not a folder, or a folder of other things."""
    import_arrow()
    try:
        try:
            above, entries = path, [entry.name for entry in path.iterdir()]
        except FileNotFoundError:
            above, entries = next(folder for folder in path.absolute().parents if folder.exists()), []
        if entries and not any(name.endswith(SUFFIX) for name in entries):
            raise UnsupportedError(
                f"folder {path} holds other things than a recording",
                found=", ".join(sorted(entries)[:4]),
                expected="a new or empty folder, or one that was recorded into before",
            )
        if not os.access(above, os.W_OK | os.X_OK):
            raise UnsupportedError(f"folder {above} cannot be written to", hint="Check its permissions")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UnsupportedError(
            f"cannot record into {path}", found=getattr(error, "strerror", None) or error, expected="a folder"
        ) from error


class FolderSink(Closes):
    """A new stream in the folder `path`, which is made if it is not there.

    Args:
        path: the folder.
        columns: besides `INDEX`.
        header: JSON data about the whole run: digests, device, rate …

    Attributes:
        path: the file.
        epoch: what names the run.
        steps: rows taken, but for final ones.

    Raises:
        UnsupportedError: no pyarrow, the folder cannot be used, or nobody could read such a recording.
    """

    def __init__(self, path: Path, columns: Sequence[Column], header: Mapping[str, Any]) -> None:
        check_folder(path)
        self._arrow = import_arrow()
        self.columns = (*INDEX, *columns)
        self.epoch = secrets.token_hex(8)
        self.acknowledged = 0
        self.steps = 0
        self._written = 0
        self._events: dict[str, dict[str, Any]] = {"begin": {}, "end": {}}
        self._event_bytes = 0
        self._broken = False
        self._schema = _judged(self._arrow, self.columns, {**header, "schema": SCHEMA, "epoch": self.epoch})
        self._types = dict(zip(self._schema.names, self._schema.types, strict=True))
        self.path = path
        self._made = not os.path.lexists(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            counter = 1 + max((_counter(entry.name) for entry in path.iterdir()), default=0)
            if counter >= 10**_DIGITS:
                raise UnsupportedError(f"folder {path} is full", found=f"{counter - 1} runs", hint="Take another one")
            self.path = path / f"{counter:0{_DIGITS}d}-{self.epoch}{SUFFIX}"
            self._file = self.path.open("xb")
            self._writer = self._arrow.ipc.new_stream(self._file, self._schema)
            self._file.flush()
        except OSError as error:
            raise _refused(self.path, error) from error

    def begin(self, episode: int, info: Mapping[str, Any]) -> None:
        """See `Sink.begin`."""
        self._note("begin", episode, info)

    def end(self, episode: int, info: Mapping[str, Any]) -> None:
        """See `Sink.end`."""
        self._note("end", episode, info)

    def _note(self, kind: str, episode: int, info: Mapping[str, Any]) -> None:
        size = len(_json({str(episode): info}))
        if size > MAX_EVENT_BYTES:
            raise UnsupportedError(
                f"what the recording says of episode {episode} is too long", found=f"{size} bytes of JSON"
            )
        if self._pending() == MAX_EVENTS or self._event_bytes + size > MAX_EVENT_BYTES:
            self._put(_empty(self._arrow, self._schema))
        self._events[kind][str(episode)] = dict(info)
        self._event_bytes += size

    def _pending(self) -> int:
        return sum(map(len, self._events.values()))

    def write(self, rows: Rows, *, final: bool = False) -> None:
        """See `Sink.write`.

        Raises:
            EdgertError: the disk is full or gone; what was written before stays readable.
        """
        arrow = self._arrow
        count = len(rows["episode"])
        arrays = [
            arrow.nulls(count, self._types[column.name])
            if final and not column.final
            else _array(arrow, column, self._types[column.name], rows[column.name])
            for column in self.columns
        ]
        self._put(arrow.record_batch(arrays, schema=self._schema))
        self._written += count
        self.steps += 0 if final else count

    def _put(self, batch: Any) -> None:
        metadata = None
        if self._pending():
            metadata = {EVENTS_KEY: _json(self._events)}
            self._events, self._event_bytes = {"begin": {}, "end": {}}, 0
        try:
            self._writer.write_batch(batch, custom_metadata=metadata)
            self._file.flush()
        except OSError as error:
            self._broken = True
            raise _refused(self.path, error) from error

    def close(self) -> None:
        """See `Sink.close`."""
        if self._file.closed:
            return
        try:
            if self._broken:  # nothing may follow half a batch
                return
            if self._pending():
                self._put(_empty(self._arrow, self._schema))
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            if not os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path)):
                raise FileNotFoundError(errno.ENOENT, "another file has its name")
            sync(self.path.parent)
        except OSError as error:
            raise _refused(self.path, error) from error
        finally:
            with suppress(OSError):  # it would try once more to write what could not be written
                self._file.close()
        self.acknowledged = self._written

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is not None and not self._written:  # what failed before its first row leaves nothing behind
            with suppress(OSError):
                self.path.unlink()
                if self._made:
                    self.path.parent.rmdir()


def _json(value: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8; a path that is no text becomes some."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise UnsupportedError("what the recording says of its run is no JSON", found=error) from error


def _judged(arrow: Any, columns: Sequence[Column], header: Mapping[str, Any]) -> Any:
    """The schema of a stream, as its reader will judge it."""
    check_depth(header, "what the recording says of its run")
    about = _json(header)
    if len(about) > MAX_FILE_BYTES:
        raise UnsupportedError(
            "what the recording says of its run is too long",
            found=f"{len(about)} bytes of JSON",
            expected=f"at most {MAX_FILE_BYTES}",
        )
    try:
        fields = [arrow.field(column.name, _type(arrow, column)) for column in columns]
        schema = arrow.schema(fields, metadata={RECORDING_KEY: about})
    except (arrow.lib.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnsupportedError("a column cannot be recorded", found=error) from error
    wrong = faults(arrow, schema, header)
    if wrong:
        raise UnsupportedError(
            "what is to be recorded is not laid out as a recording", found=", ".join(wrong), expected=LAYOUT
        )
    return schema


def _type(arrow: Any, column: Column) -> Any:
    kind = arrow.from_numpy_dtype(column.dtype)
    return arrow.fixed_shape_tensor(kind, list(column.shape)) if column.shape else kind


def _array(arrow: Any, column: Column, kind: Any, values: np.ndarray[Any, Any]) -> Any:
    if not column.shape:
        return arrow.array(values)
    flat = arrow.array(values.reshape(-1))
    storage = arrow.FixedSizeListArray.from_arrays(flat, type=kind.storage_type)
    return arrow.ExtensionArray.from_storage(kind, storage)


def _empty(arrow: Any, schema: Any) -> Any:
    return arrow.record_batch([arrow.nulls(0, field.type) for field in schema], schema=schema)


def _counter(name: str) -> int:
    head = name.split("-", 1)[0]
    return int(head) if head.isascii() and head.isdigit() and len(head) == _DIGITS else 0


def _refused(path: Path, error: OSError) -> EdgertError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return IntegrityError(
        f"recording {path} cannot be written",
        found=error.strerror or error,
        hint="Free some space; what was written before can be read" if full else "Check the folder and its disk",
    )
