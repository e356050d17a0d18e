"""docs/devices.md: the chip that it adds is found, watched and named, by its own blocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from edgert.device.survey import load_platforms

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/devices.md").read_text()


def blocks(language: str) -> list[str]:
    parts = TEXT.split("```")
    return [part.removeprefix(language + "\n") for part in parts[1::2] if part.startswith(language + "\n")]


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """The example as an installed package, and a recorded machine with its chip."""
    (code,) = blocks("python")
    chips, entry = blocks("toml")
    (answer,) = blocks("text")
    (tmp_path / "edgert_acme.py").write_text(code)
    (tmp_path / "acme_chips.toml").write_text(chips)
    info = tmp_path / "edgert_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgert-acme\nVersion: 1.0\n")
    points = tomllib.loads(entry)["project"]["entry-points"]["edgert.devices"]
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[edgert.devices]\n{lines}")
    command, _, printed = answer.partition("\n")
    machine = tmp_path / "machine"
    (machine / "tools").mkdir(parents=True)
    (machine / "tools/acme.txt").write_text(printed)
    index = {
        "schema": 1,
        "machine": "a computer with an Acme A1",
        "source": "docs/devices.md",
        "nodes": ["/dev/acme0"],
        "tools": [{"command": command.removeprefix("$ ").split(), "output": "tools/acme.txt"}],
        "synthetic": True,
    }
    (machine / "machine.json").write_text(json.dumps(index))
    return tmp_path


def report(acme: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "edgert", "device", *arguments, "--replay", str(acme / "machine"), "--json"],
        env=os.environ | {"PYTHONPATH": str(acme)}, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_chip_of_the_document_is_found(acme: Path) -> None:
    (row,) = [row for row in report(acme, "list")["devices"] if row["name"] == "acme:0"]
    assert (row["chip"], row["model"], row["memory_bytes"]) == ("Acme A1", "acme-a1", 16 << 30)
    assert row["notes"] == [
        "not yet run on hardware",
        "no inference provider for it is installed. Run: pip install onnxruntime-acme",
    ]


def test_it_is_shown_with_its_figures(acme: Path) -> None:
    shown = report(acme, "show", "acme:0")
    assert [figure["text"] for figure in shown["figures"]] == [
        "40 TOPS INT8, dense (the vendor's claim: Acme, A1 data sheet)"
    ]
    assert shown["looked"] == ["/dev/acme[0-9]*: 1 found", "acme-smi --csv: 1 lines"]


def test_it_is_watched(acme: Path) -> None:
    (sample,) = [one for one in report(acme, "top", "--seconds", "0")["samples"] if one["device"] == "acme:0"]
    assert (sample["power_w"], sample["temperature_c"], sample["clock_mhz"]) == (12.5, 41.0, None)
    assert sample["missing"]["clock_mhz"] == "acme-smi has no column for it"


def test_every_platform_is_in_the_table() -> None:
    platforms, broken = load_platforms()
    assert not broken
    assert len(platforms) == 10
    table = TEXT.split("## What is found")[1].split("### If")[0]
    for platform in platforms.values():
        assert f"| `{platform.prefix}" in table
