"""Which library draws: by what is installed and works, and by MUJOCO_GL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgert.errors import EdgertError, UnknownNameError
from edgert.sim.gl import MISSING, Gl, choose_gl, probe

PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri, or libosmesa6"


def choose(reasons: Mapping[str, str], setting: str | None = None) -> tuple[Gl, list[str]]:
    """The choice on a host of which the reasons are said, and what was tried on the way."""
    tried: list[str] = []

    def say(kind: Gl) -> str:
        tried.append(kind)
        return reasons.get(kind, "")

    return choose_gl({} if setting is None else {"MUJOCO_GL": setting}, say), tried


def refused(reasons: Mapping[str, str], setting: str | None = None) -> str:
    with pytest.raises(EdgertError) as error:
        choose(reasons, setting)
    return str(error.value)


@pytest.mark.parametrize("setting", [None, "", "on", "Enabled", "1", "true"])
def test_egl_is_first_and_osmesa_stays_untouched(setting: str | None) -> None:
    assert choose({}, setting) == ("egl", ["egl"])


@pytest.mark.parametrize("reason", [MISSING, "no device"])
def test_osmesa_where_egl_is_missing_or_broken(reason: str) -> None:
    assert choose({"egl": reason}) == ("osmesa", ["egl", "osmesa"])


@pytest.mark.parametrize(
    ("setting", "kind"), [("egl", "egl"), (" OSMesa ", "osmesa"), ("glfw", "glfw"), ("glx", "glfw")]
)
def test_mujoco_gl_is_obeyed(setting: str, kind: str) -> None:
    assert choose({}, setting) == (kind, [kind])


def test_no_library_is_one_line_with_the_packages() -> None:
    assert refused({"egl": MISSING, "osmesa": MISSING}) == (
        f"no OpenGL library is installed that draws without a display (EGL or OSMesa). Install {PACKAGES}"
    )


def test_broken_libraries_say_why() -> None:
    assert refused({"egl": "no device", "osmesa": MISSING}) == (
        f"OpenGL makes no picture here: found EGL: no device; OSMesa: {MISSING}. Install {PACKAGES}"
    )


def test_a_library_that_was_asked_for_is_not_replaced() -> None:
    assert refused({"osmesa": MISSING}, "osmesa") == (
        "no OpenGL library is installed that draws without a display (OSMesa). Install libosmesa6"
    )
    assert "found GLFW: no display. Install libgl1, and start it" in refused({"glfw": "no display"}, "glfw")


def test_drawing_turned_off_and_unknown_names() -> None:
    assert refused({}, "disabled") == "drawing is turned off: found MUJOCO_GL=disabled. Unset MUJOCO_GL"
    with pytest.raises(UnknownNameError, match="MUJOCO_GL is wrong: found vulkan, expected one of egl, osmesa, glfw"):
        choose({}, "vulkan")


def in_a_child(code: str, **variables: str) -> str:
    """What a fresh interpreter prints, in an environment where nothing has chosen an OpenGL platform."""
    clean = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr  # nor while it ends
    return done.stdout.strip()


DRAW = """
import json, os
import mujoco  # before the variable is set: MuJoCo has chosen another class
from edgert.sim.gl import choose_gl, probe
from edgert.view.render import open_renderer
HIDDEN, SETTING = {hidden!r}, {setting!r}
environment = {{"MUJOCO_GL": SETTING}}
reason = probe(SETTING or "osmesa")
result = {{"reason": reason}}
if not reason:
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='box' size='1 1 1' rgba='1 0 0 1'/></worldbody></mujoco>"
    )
    kind = choose_gl(environment, lambda kind: "hidden" if kind == HIDDEN else probe(kind))
    for _ in range(2):  # a second context in the same process
        with open_renderer(model, kind, width=64, height=48) as renderer:
            picture = renderer.draw(model.qpos0)
    red, green, blue = (int(value) for value in picture[24, 32])
    result |= {{"gl": kind, "red": red > 60 and red > 4 * max(green, blue, 1)}}
print(json.dumps(result))
"""


@pytest.mark.parametrize(("kind", "hidden"), [("egl", ""), ("osmesa", ""), ("osmesa", "egl")])
def test_each_library_draws(kind: str, hidden: str) -> None:
    """Asked for by name, and OSMesa also because EGL is hidden."""
    setting = "" if hidden else kind
    result = json.loads(in_a_child(DRAW.format(hidden=hidden, setting=setting)))
    if result["reason"]:
        pytest.skip(f"{kind} does not draw here: {result['reason']}")
    assert result == {"reason": "", "gl": kind, "red": True}


PROBE = "from edgert.sim.gl import probe; print(probe('egl'))"


def test_a_library_that_cannot_be_loaded_is_not_installed(tmp_path: Path) -> None:
    for name in ("libEGL.so", "libEGL.so.1"):
        (tmp_path / name).write_text("no library")
    assert in_a_child(PROBE, LD_LIBRARY_PATH=str(tmp_path)) == MISSING


def test_a_library_without_a_driver_says_so(gl: Gl, tmp_path: Path) -> None:
    if gl != "egl":
        pytest.skip("EGL does not draw here, with or without a driver")
    reason = in_a_child(PROBE, __EGL_VENDOR_LIBRARY_FILENAMES=str(tmp_path / "none.json"))
    assert reason not in ("", MISSING)
    assert len(reason.splitlines()) == 1


CHOSEN = """
from edgert.errors import UnsupportedError
from edgert.sim.gl import gl_context
try:
    with gl_context("egl", 16, 16):
        print("a context")
except UnsupportedError as error:
    print(error)
"""


def test_a_platform_that_something_else_chose_is_a_refusal() -> None:
    line = in_a_child(CHOSEN, PYOPENGL_PLATFORM="osmesa")
    assert line.startswith("EGL makes no context in this process: found Cannot use EGL rendering platform")
    assert line.endswith("Unset MUJOCO_GL to choose another")


def test_a_probe_that_dies_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # no Python starts with that; a driver that crashes ends it too
    assert probe.__wrapped__("egl") == "trying it ended with exit code 1"
