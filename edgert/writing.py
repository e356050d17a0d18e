"""Writing a file in one step: whoever looks finds the old one, the new one or none, and never half of one.

Errors of the disk are `OSError`s here; callers say what could not be written, and what to do.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path` to write to, under a name that nobody has; it is gone when the block ends."""
    part = path.with_name(f".edgert-{secrets.token_hex(8)}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def put(part: Path, path: Path, *, new: bool = False) -> None:
    """Give a finished file in the same folder its name, once its content is on disk.

    Args:
        part: the file.
        path: its name; a file that has it is replaced.
        new: refuse that instead, even if the file appears at the last moment, with `FileExistsError`.
    """
    sync(part)
    if not new:
        part.replace(path)
    else:
        try:
            os.link(part, path)  # unlike a rename, never onto another file
            part.unlink()
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            part.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Bring a file's content, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
