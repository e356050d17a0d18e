"""Recorded states of a model as a video in real time, drawn offscreen after the run and never beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from edgert.clock import Clock, MonotonicClock
from edgert.errors import EdgertError
from edgert.sim.gl import Gl, choose_gl
from edgert.sim.protocol import Floats
from edgert.view.encode import FORMATS, check_encoder, check_place, open_encoder
from edgert.view.render import Picture, open_renderer

MAX_FPS = 30.0
MARKER_RADIUS_M = 0.02
MAX_HZ = 100_000.0
MIN_PIXELS, MAX_PIXELS = 16, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoInfo:
    """What was written, and how fast."""

    path: Path
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    frames: int
    fps: Fraction
    """Frames a second of the video, which plays in real time."""
    seconds: float
    """How long the video plays."""
    size_bytes: int
    gl: Gl
    """The library that drew."""
    wall_s: float
    """How long drawing and encoding took."""


def check_video(path: Path, *, choose: Callable[[], Gl] = choose_gl) -> None:
    """Refuse, before a run starts, a video that could not be written after it. Leaves nothing behind.

    Args:
        path: the video, .mp4 or .gif.
        choose: says with which library to draw.

    Raises:
        UnsupportedError: another ending, or the encoder or an OpenGL library is missing or does not work.
        UnknownNameError: the variable MUJOCO_GL names no library.
        EdgertError: the folder is missing or not writable, or something else than a file has that name.
    """
    check_encoder(path.suffix.lower())
    check_place(path)
    choose()


def write_video(
    path: Path,
    model: mujoco.MjModel,
    qpos: Iterable[npt.ArrayLike],
    *,
    hz: float,
    width: int = 640,
    height: int = 480,
    camera: str = "",
    max_fps: float = MAX_FPS,
    markers: Iterable[npt.ArrayLike] | None = None,
    marker_radius_m: float = MARKER_RADIUS_M,
    progress: Callable[[int, int], None] = lambda done, total: None,
    clock: Clock | None = None,
) -> VideoInfo:
    """Draw recorded states and write them as a video that plays in real time.

    The file appears when it is complete, and then replaces one of that name; until then, and if anything fails or
    interrupts, nothing changes. The model is not changed either: a copy of it is drawn.

    Args:
        path: the video: H.264 in .mp4, or an animated .gif of at most 15 frames a second.
        model: the body and its surroundings.
        qpos: rows (nq,) of states as MuJoCo lays them out, or an array (T, nq).
        hz: rows a second. Every n-th row is drawn, so that there are at most `max_fps` a second.
        width: pixels, even.
        height: pixels, even.
        camera: a camera of the model; "": its camera "track", else one that follows the robot (`find_camera`).
        max_fps: most frames a second.
        markers: rows (3,), m in the world, one for each row of `qpos`: where a translucent red sphere is drawn.
        marker_radius_m: radius of that sphere.
        progress: called after each frame with how many are done, and how many there are.
        clock: measures how long it took; the host's monotonic clock by default.

    Raises:
        EdgertError: there are no rows, a row has the wrong width or a number that is no position, an option is out of
            range, or the file cannot be written; and as `check_video` and `find_camera`.
    """
    clock = clock or MonotonicClock()
    ending = path.suffix.lower()
    check_encoder(ending)
    kind = FORMATS[ending]
    _check_options(hz=hz, max_fps=max_fps, width=width, height=height, marker_radius_m=marker_radius_m)
    states = _rows(qpos, model.nq, "state")
    spheres = None if markers is None else _rows(markers, 3, "marker")
    if spheres is not None and len(spheres) != len(states):
        raise EdgertError("markers do not belong to the states", found=len(spheres), expected=f"{len(states)} rows")
    stride = max(1, math.ceil(hz / min(max_fps, kind.max_fps) - 1e-9))
    drawn = range(0, len(states), stride)
    fps = Fraction(float(hz)).limit_denominator(1000) / stride
    gl = choose_gl()

    started_ns = clock.now_ns()
    with open_renderer(model, gl, width=width, height=height, camera=camera) as renderer:

        def draw(row: int) -> Picture:
            return renderer.draw(states[row], None if spheres is None else spheres[row], marker_radius_m)

        palette = [draw(row) for row in _some(drawn, kind.palette_pictures)]
        with open_encoder(path, fps=fps, size=(width, height), palette=palette) as encoder:
            for done, row in enumerate(drawn, 1):
                encoder.add(draw(row))
                progress(done, len(drawn))
    return VideoInfo(
        path=path,
        width=width,
        height=height,
        frames=len(drawn),
        fps=fps,
        seconds=float(len(drawn) / fps),
        size_bytes=path.stat().st_size,
        gl=gl,
        wall_s=(clock.now_ns() - started_ns) * 1e-9,
    )


def _check_options(*, hz: float, max_fps: float, width: int, height: int, marker_radius_m: float) -> None:
    for name, value, least, most, unit in (
        ("hz", hz, 0.01, MAX_HZ, " rows a second"),
        ("max_fps", max_fps, 0.01, MAX_HZ, " frames a second"),
        ("marker_radius_m", marker_radius_m, 0.0, 1e3, " m"),
    ):
        if not least <= value <= most:  # refuses nan too
            raise EdgertError(f"'{name}' of a video is wrong", found=value, expected=f"{least:g} to {most:g}{unit}")
    for name, pixels in (("width", width), ("height", height)):
        if pixels % 2 or not MIN_PIXELS <= pixels <= MAX_PIXELS:  # colours are encoded for 2 × 2 pixels
            raise EdgertError(
                f"'{name}' of a video is wrong",
                found=pixels,
                expected=f"an even number of pixels, {MIN_PIXELS} to {MAX_PIXELS}",
            )


def _some(rows: range, count: int) -> range:
    """At most `count` of the rows, evenly spread."""
    return rows[:: math.ceil(len(rows) / count)] if count else rows[:0]


def _rows(rows: Iterable[npt.ArrayLike], width: int, what: str) -> Floats:
    """The rows as an array (T, width) of finite numbers that MuJoCo takes for positions."""
    found = list(rows)
    for index, row in enumerate(found):
        if np.shape(row) != (width,):
            raise EdgertError(f"{what} {index} has the wrong shape", found=np.shape(row), expected=(width,))
    if not found:
        raise EdgertError(f"there is no {what} to draw", expected=f"rows of {width} numbers")
    array = np.asarray(found, np.float64)
    bad = ~(np.abs(array) <= mujoco.mjMAXVAL)
    if bad.any():
        index, column = (int(number) for number in np.argwhere(bad)[0])
        raise EdgertError(
            f"{what} {index} cannot be drawn",
            found=f"{array[index, column]:g} in column {column}",
            expected=f"numbers up to {mujoco.mjMAXVAL:g}",
        )
    return array
