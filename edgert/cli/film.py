"""Filming recorded states after a run, with its progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgert.cli.live import LiveLine
from edgert.cli.main import say


def film(path: Path, model: Any, qpos: Any, *, hz: float, markers: Any = None) -> str:
    """Write the video, say how it went, and return its path."""
    from edgert.view import write_video

    with LiveLine() as line:
        info = write_video(
            path,
            model,
            qpos,
            hz=hz,
            markers=markers,
            progress=lambda done, total: line.update(lambda: f"filming: {done} of {total} pictures"),
        )
    say(
        f"filmed {info.seconds:.1f} s in {info.frames} pictures of {info.width} × {info.height} into {path} "
        f"({info.size_bytes / 1e3:.0f} kB, {info.gl}, {info.wall_s:.1f} s)"
    )
    return str(path)
