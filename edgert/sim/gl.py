"""Which OpenGL library draws offscreen, and a context of it. Nothing here needs a display.

MuJoCo picks a context class when it is imported, from the variable MUJOCO_GL, and PyOpenGL picks a platform once per
process. So the choice is made before either: a child process tries the library, which also keeps a crashing driver, the
threads of a software renderer and PyOpenGL's choice out of the caller. MuJoCo's context classes are then used directly,
whatever was in MUJOCO_GL when MuJoCo was imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Final, Literal, Protocol, get_args

from edgert.errors import UnknownNameError, UnsupportedError

Gl = Literal["egl", "osmesa", "glfw"]
MISSING: Final = "not installed"
"""What `probe` says of a library that is not there."""

_NAMES: Final[Mapping[Gl, str]] = {"egl": "EGL", "osmesa": "OSMesa", "glfw": "GLFW"}
_PACKAGES: Final[Mapping[Gl, str]] = {
    "egl": "libegl1 libegl-mesa0 libgl1-mesa-dri",
    "osmesa": "libosmesa6",
    "glfw": "libgl1, and start it where there is a display",
}
_AUTOMATIC: Final = ("", "1", "enable", "enabled", "on", "true")
_OFF: Final = ("0", "disable", "disabled", "false", "off")
_PROBE_S: Final = 60.0
_PROBE: Final = """
import ctypes, os, sys
kind, missing, *libraries = sys.argv[1:]
def there(library):
    try:
        return ctypes.CDLL(library)
    except OSError:
        return None
try:
    if libraries and not any(map(there, libraries)):
        raise SystemExit(missing)
    import importlib, mujoco
    context = importlib.import_module("mujoco." + kind).GLContext(16, 16)
    context.make_current()
    mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), mujoco.mjtFontScale.mjFONTSCALE_100)
    said = ""
except BaseException as error:
    said = str(error) or type(error).__name__
print(said, flush=True)
os._exit(0)  # PyOpenGL cannot clean up while Python ends
"""
_LIBRARIES: Final[Mapping[Gl, tuple[str, ...]]] = {
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),  # the names that PyOpenGL tries, as far as shipped
    "glfw": (),  # comes with MuJoCo
}


@lru_cache
def probe(kind: Gl) -> str:
    """Try to draw with a library in a child process: "" if that works, `MISSING`, or the reason why it does not."""
    command = [sys.executable, "-P", "-c", _PROBE, kind, MISSING, *_LIBRARIES[kind]]
    environment = {**os.environ, "MUJOCO_GL": "disable"}
    try:
        done = subprocess.run(  # noqa: S603  # our own text
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PROBE_S:g} s"
    except OSError as error:
        return f"it cannot be tried: {error.strerror}"
    if done.returncode:
        ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        return f"trying it ended with {ended}"
    return done.stdout.strip()


def choose_gl(environment: Mapping[str, str] = os.environ, probe: Callable[[Gl], str] = probe) -> Gl:
    """The library to draw with: what MUJOCO_GL says, else EGL if it works, else OSMesa.

    Args:
        environment: where MUJOCO_GL is looked up.
        probe: says of a library what `probe` of this module says.

    Raises:
        UnknownNameError: MUJOCO_GL is not a name that MuJoCo knows.
        UnsupportedError: no library is installed, none works, or MUJOCO_GL turns drawing off.
    """
    setting = environment.get("MUJOCO_GL", "").strip().lower()
    if setting in _OFF:
        raise UnsupportedError("drawing is turned off", found=f"MUJOCO_GL={setting}", hint="Unset MUJOCO_GL")
    wanted: tuple[Gl, ...]
    if setting in _AUTOMATIC:
        wanted = ("egl", "osmesa")
    else:
        setting = {"glx": "glfw"}.get(setting, setting)
        wanted = tuple(kind for kind in get_args(Gl) if kind == setting)
        if not wanted:
            raise UnknownNameError("MUJOCO_GL is wrong", found=setting, expected="one of " + ", ".join(get_args(Gl)))
    reasons = {}
    for kind in wanted:
        reasons[kind] = probe(kind)
        if not reasons[kind]:
            return kind
    hint = "Install " + ", or ".join(_PACKAGES[kind] for kind in wanted)
    if all(reason == MISSING for reason in reasons.values()):
        names = " or ".join(_NAMES[kind] for kind in wanted)
        raise UnsupportedError(f"no OpenGL library is installed that draws without a display ({names})", hint=hint)
    found = "; ".join(f"{_NAMES[kind]}: {reason}" for kind, reason in reasons.items())
    raise UnsupportedError("OpenGL makes no picture here", found=found, hint=hint)


class GlContext(Protocol):
    """What draws in this process; `make_current` comes before every use, as others may have drawn in between."""

    def make_current(self) -> None:
        """Draw into this context from now on."""
        ...

    def free(self) -> None:
        """Give it back; twice does no harm."""
        ...


def open_context(kind: Gl, width: int, height: int) -> GlContext:
    """A current OpenGL context for pictures of up to width × height pixels, for the caller to free.

    Raises:
        UnsupportedError: the library makes no context in this process.
    """
    context: GlContext | None = None
    try:
        context = import_module(f"mujoco.{kind}").GLContext(width, height)
        context.make_current()
    except Exception as error:  # PyOpenGL has an exception for everything
        if context is not None:
            context.free()
        raise UnsupportedError(
            f"{_NAMES[kind]} makes no context in this process",
            found=error,
            hint="Unset MUJOCO_GL to choose another",
        ) from error
    return context


@contextmanager
def gl_context(kind: Gl, width: int, height: int) -> Iterator[None]:
    """As `open_context`, freed at the end."""
    context = open_context(kind, width, height)
    try:
        yield
    finally:
        context.free()
