"""Machines for tests: the recorded ones, tools that a test writes, and changed recordings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgert.device.machine import LiveMachine
from edgert.device.recording import RecordedMachine, replay

FIXTURES = Path(__file__).with_name("fixtures")
NAMES = tuple(sorted(path.name for path in FIXTURES.iterdir()))


def recorded(name: str) -> RecordedMachine:
    return replay(FIXTURES / name)


def changed(name: str, folder: Path, **changes: Any) -> Path:
    """A copy of a recorded machine whose index has other values."""
    copy = folder / name
    shutil.copytree(FIXTURES / name, copy)
    index = json.loads((copy / "machine.json").read_text()) | changes
    (copy / "machine.json").write_text(json.dumps(index))
    return copy


def live(root: Path, tools: Mapping[str, str | bytes], **options: Any) -> LiveMachine:
    """A machine below a folder whose only tools are these shell scripts."""
    path = root / "bin"
    path.mkdir(parents=True, exist_ok=True)
    for name, script in tools.items():
        file = path / name
        file.write_bytes(script if isinstance(script, bytes) else f"#!/bin/sh\n{script}\n".encode())
        file.chmod(0o755)
    return LiveMachine(root=root, path=str(path), environment={}, **options)


def put(root: Path, path: str, text: str = "") -> Path:
    file = root / path.strip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
