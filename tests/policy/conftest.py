"""What several tests of policies stand on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ixrt_stand_in import Chip, modules


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Chip:
    """A chip with Iluvatar's engine, played by the stand-in, and a state folder of its own."""
    chip = Chip()
    for name, module in modules(chip).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("EDGERT_HOME", str(tmp_path / "home"))
    return chip
