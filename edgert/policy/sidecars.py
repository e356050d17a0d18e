"""The files that other trainers leave beside a model: found by name or pattern, parsed by suffix, never trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from edgert.errors import ContractError
from edgert.files import read_regular
from edgert.tables import MAX_FILE_BYTES, read_json, read_toml, read_yaml

MAX_SIDECARS: Final = 32
"""Most files that are parsed for one model."""
MAX_LOOSE_BYTES: Final = 256 << 10
"""Most bytes that are parsed of files that only a pattern means: a trainer's folder holds large ones of other uses."""
MAX_ENTRIES: Final = 5_000
"""Most entries of a folder that are compared with a pattern."""
_FOLDERS: Final = ("params", "io_descriptors")
OWN: Final = "policy.toml"
"""The user's own contract beside a model, which no other format reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecars:
    """What lies beside a model, by the name of the file.

    Attributes:
        found: the parsed documents.
        broken: why a file could not be read.
        left_out: how many files matched and were not looked at.
    """

    found: Mapping[str, Mapping[str, Any]]
    broken: Mapping[str, ContractError]
    left_out: int


def read_sidecars(model: Path, patterns: Iterable[str]) -> Sidecars:
    """Parse the files of these names or patterns beside a model, or where trainers put them.

    Those places are the model's folder, a folder params or io_descriptors in it, one beside it, and the folder above,
    in this order; the first file of a name counts. A file that cannot be read is an answer too, for whoever needs it.
    """
    here, above = model.parent, model.parent.parent
    places = (here, *(place / name for place in (here, above) for name in _FOLDERS), above)
    wanted = sorted(set(patterns))
    names = [name for name in wanted if not is_pattern(name)]
    loose = [name for name in wanted if is_pattern(name)]
    paths: dict[str, Path] = {}
    for place in places:
        for name in [*names, *(_matching(place, loose, model.name) if loose else ())]:
            if name not in paths and Path(name).suffix.lower() in _PARSERS and os.path.lexists(place / name):
                paths[name] = place / name
    found, broken = {}, {}
    left, left_out = MAX_LOOSE_BYTES, max(0, len(paths) - MAX_SIDECARS)
    first = {*names, *(name for name in paths if Path(name).stem == model.stem)}
    for name, path in sorted(paths.items(), key=lambda each: each[0] not in first)[:MAX_SIDECARS]:
        size = 0 if name in names else _size(path)
        if size > left:
            left_out += 1
            continue
        left -= size
        try:
            found[name] = _PARSERS[path.suffix.lower()](path)
        except ContractError as error:
            broken[name] = error
    return Sidecars(found=found, broken=broken, left_out=left_out)


def is_pattern(name: str) -> bool:
    """Whether a name stands for others."""
    return any(sign in name for sign in "*?[")


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file's name is meant by one of the patterns; that of the user's own contract never is."""
    return name != OWN and any(fnmatchcase(name.lower(), each.lower()) for each in patterns if is_pattern(each))


def _matching(place: Path, patterns: Iterable[str], model: str) -> list[str]:
    """Regular files of a folder that match, sorted; a folder that cannot be listed holds none.

    A file of the name of another model there is that model's.
    """
    try:
        with os.scandir(place) as entries:
            listed = [entry for entry, _ in zip(entries, range(MAX_ENTRIES), strict=False)]
            others = {Path(entry.name).stem for entry in listed if entry.name.endswith(".onnx")} - {Path(model).stem}
            return sorted(
                entry.name
                for entry in listed
                if matches(entry.name, patterns) and Path(entry.name).stem not in others and entry.is_file()
            )
    except OSError:
        return []


def _size(path: Path) -> int:
    """Bytes of a file; 0 where that cannot be told, which its parser will."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_json(path: Path) -> dict[str, Any]:
    data = read_regular(path, "sidecar file", MAX_FILE_BYTES, ContractError, expected="a few kilobytes of JSON")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ContractError(f"sidecar file {path} is not UTF-8 text", found=error.reason, expected="JSON") from error
    return read_json(text, where=f"sidecar file {path}")


def _read_yaml(path: Path) -> dict[str, Any]:
    return read_yaml(path, kind="sidecar")


_PARSERS: Final[Mapping[str, Callable[[Path], dict[str, Any]]]] = {
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": _read_json,
    ".toml": lambda path: read_toml(path, kind="sidecar"),
}
