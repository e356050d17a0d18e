"""Commands of other packages: listed without being loaded for good, refused only when they are called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A distribution with a command that cannot be imported and one that is none."""
    info = tmp_path / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edgert.commands]\nbroken = faulty_absent:cli\nodd = json:dumps\n")
    return tmp_path


def edgert(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgert", *arguments],
        env=os.environ | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_lists_them(plugins: Path) -> None:
    done = edgert(plugins, "--help")
    assert done.returncode == 0
    assert "broken" in done.stdout
    assert "odd" in done.stdout


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("broken", "edgert: command 'broken' of faulty cannot be loaded: found ModuleNotFoundError: No module named"),
        ("odd", "edgert: the plug-in for 'odd' is no click command"),
    ],
)
def test_calling_one_is_refused(plugins: Path, name: str, line: str) -> None:
    done = edgert(plugins, name, "--whatever", "1")
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert len(done.stderr.splitlines()) == 1


def test_others_still_work(plugins: Path) -> None:
    assert edgert(plugins, "run", "policy", "--seconds", "0.1", "--no-real-time").returncode == 0
