"""Finding bundled sims and models, and the state folder.

A checkout beside the package comes first, so that an editable install never reads a stale copy; an installed wheel
carries the same folders in `edgert/_data`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from edgert.errors import EdgertError, UnknownNameError

Kind = Literal["sims", "models"]
_MARKER = {"sims": "task.toml", "models": "README.md"}


def root(kind: Kind) -> Path:
    """The folder that holds the bundled `kind`."""
    package = Path(__file__).resolve().parent
    checkout = package.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / kind).is_dir():
        return checkout / kind
    return package / "_data" / kind


def names(kind: Kind) -> tuple[str, ...]:
    """Names of the bundled `kind`, sorted."""
    folder = root(kind)
    if not folder.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in folder.iterdir() if (entry / _MARKER[kind]).is_file()))


def find(kind: Kind, name: str) -> Path:
    """The folder of one bundled sim or model.

    Raises:
        UnknownNameError: there is none of that name; the error lists those that exist.
    """
    known = names(kind)
    if name not in known:
        raise UnknownNameError(
            f"unknown {kind[:-1]} '{name}'",
            expected="one of " + (", ".join(known) or "none, as this installation carries no data"),
            hint=f"A file of your own is named by its path, such as ./{name}",
        )
    return root(kind) / name


def state_folder(environ: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """The folder of what edgert keeps between runs, and the variable that named it, "" for none.

    `EDGERT_HOME`, else `$XDG_STATE_HOME/edgert`, else `~/.local/state/edgert`. It may not exist yet.

    Raises:
        EdgertError: none of them is set, and there is no HOME.
    """
    if environ.get("EDGERT_HOME"):
        return Path(environ["EDGERT_HOME"]).absolute(), "EDGERT_HOME"
    base = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):  # the specification has relative ones ignored
        return Path(base) / "edgert", "XDG_STATE_HOME"
    home = environ.get("HOME", "")
    if not os.path.isabs(home):  # as in a system service
        raise EdgertError("there is no home folder for edgert's state", hint="Set EDGERT_HOME to a folder")
    return Path(home) / ".local/state/edgert", ""
