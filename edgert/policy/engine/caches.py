"""Where engines are kept that take long to build: one folder for each model, provider, version, chip and shape."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from edgert.assets import state_folder
from edgert.device.device import Device
from edgert.errors import DeviceError
from edgert.policy.engine.protocol import Placement
from edgert.policy.engine.providers import Provider

MAX_FOLDERS: Final = 64
"""Most engines that are kept; the ones that were made longest ago go first."""


def caches_folder(placement: Placement) -> Path:
    """The folder of all of them."""
    return state_folder()[0] / "engines" if placement.caches is None else placement.caches


def engine_folder(sha256: str, provider: Provider, device: Device, placement: Placement) -> Path:
    """A folder of its own for an engine, made if it is not there; what is in it was built for exactly this.

    Raises:
        DeviceError: it cannot be made.
    """
    from edgert.policy.engine.opening import provider_version

    facts = (
        sha256, provider.runtime, provider_version(provider), device.name, device.chip, device.driver,
        placement.precision, str(placement.rows),
    )  # fmt: skip
    root = caches_folder(placement)
    folder = root / hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(root, folder)
    except OSError as error:
        raise DeviceError(
            f"the engine that {provider.runtime} builds cannot be kept in {folder}",
            found=error.strerror or error,
            hint="Set EDGERT_HOME to a folder that may be written",
        ) from error
    return folder


def _prune(root: Path, kept: Path) -> None:
    folders = sorted((each for each in root.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
    for each in folders[: max(0, len(folders) - MAX_FOLDERS)]:
        if each != kept:
            with suppress(OSError):  # another process may use it
                shutil.rmtree(each)
