"""What the tests of pictures share."""

from __future__ import annotations

import pytest

from edgert.errors import EdgertError
from edgert.view.gl import Gl, choose_gl


@pytest.fixture(scope="session")
def gl() -> Gl:
    """The library that draws here; where there is none, the test is skipped and the reason names the packages."""
    try:
        return choose_gl()
    except EdgertError as error:
        pytest.skip(f"nothing draws here: {error}")
