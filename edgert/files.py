"""Opening files that nobody vouches for: regular files only, so that no pipe or device is ever waited for."""

from __future__ import annotations

import os
import stat
from itertools import islice
from pathlib import Path
from typing import Final

from edgert.errors import EdgertError, IntegrityError

_SIZELESS = 1 << 20
"""Most bytes that are read of a file that says it has none."""
_LOOKED_AT: Final = 1_000
"""Most entries of a folder that are looked at for a hint."""


def regular_size(path: Path, what: str, refusal: type[EdgertError] = IntegrityError) -> int:
    """The size in bytes of a readable regular file.

    Args:
        path: the file.
        what: how messages call it, such as "policy".
        refusal: the error to raise.

    Raises:
        EdgertError: as `refusal`: missing, unreadable, a folder, a pipe or a device.
    """
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            with path.open("rb"):
                return status.st_size
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL in the path; RuntimeError: a loop of links
        raise refusal(
            f"cannot read {what} {path}",
            found=getattr(error, "strerror", None) or error,
            hint="Check the path and its permissions",
        ) from error
    if stat.S_ISDIR(status.st_mode):
        raise refusal(f"{what} {path} is a folder", expected="a file in it")
    raise refusal(f"{what} {path} is no regular file", expected="a file, not a pipe or device")


def read_regular(
    path: Path, what: str, limit: int, refusal: type[EdgertError] = IntegrityError, *, expected: str = ""
) -> bytes:
    """The bytes of a readable regular file of at most `limit` bytes; raises as `regular_size` does, or when larger.

    Files of /proc say that they are empty, so the read is bounded as well as the size.
    """
    size = regular_size(path, what, refusal)
    data = b""
    if size <= limit:
        try:
            with path.open("rb") as file:
                data = file.read(min(limit, size or _SIZELESS) + 1)
        except OSError as error:
            raise refusal(f"cannot read {what} {path}", found=error.strerror or error, hint="Check the disk") from error
    if max(size, len(data)) > limit:
        raise refusal(f"{what} {path} is too large", found=f"over {limit} bytes", expected=expected)
    return data


def beside(path: Path, name: str, what: str, refusal: type[EdgertError] = IntegrityError) -> Path:
    """The file that another file refers to by name, which has to lie in the same folder or below it.

    Raises:
        EdgertError: as `refusal`: the name leads elsewhere, by itself or by a link.
    """
    try:
        folder = path.parent.resolve()
        target = (folder / name).resolve()
        target.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise refusal(
            f"{path} refers to a {what} by a path that cannot be used", found=name, expected="a file beside it"
        ) from error
    if not name or not target.is_relative_to(folder) or target == folder:
        raise refusal(
            f"{path} refers to a {what} outside its folder",
            found=name or "an empty name",
            expected="a file beside it",
            hint="Copy both, as files and not as links, into one folder",
        )
    return path.parent / name


def files_in(folder: Path, suffix: str) -> str:
    """The first few files of a folder whose names end so, as paths for a message; "" where there are none."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, _LOOKED_AT) if entry.name.endswith(suffix))
    except OSError:
        return ""
    return " or ".join(str(folder / name) for name in names[:3])


def is_path(name: str | Path) -> bool:
    """Whether a name that a user gave is a path: it is a `Path`, or has a separator, a suffix or a leading dot.

    A bare word names bundled data, whatever lies in the working folder.
    """
    if isinstance(name, Path):
        return True
    return "/" in name or os.sep in name or name.startswith(".") or bool(Path(name).suffix)
