"""Fixtures that several folders use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgert.errors import EdgertError
from edgert.sim.gl import Gl, choose_gl

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real policies and robots of others, which are not part of the project."""
    path = Path(os.environ.get("EDGERT_SHARED", ROOT.parent / "shared"))
    if not (path / "policies").is_dir():
        pytest.skip(
            f"real policies are not at {path}; set EDGERT_SHARED to the folder that holds policies/ and robots/"
        )
    return path.resolve()


@pytest.fixture(scope="session")
def gl() -> Gl:
    """The library that draws here; where there is none, the test is skipped and the reason names the packages."""
    try:
        return choose_gl()
    except EdgertError as error:
        pytest.skip(f"nothing draws here: {error}")
