"""What a run showed, as one flat object: the JSON of `edgert run policy` and its table for people."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from edgert.rollout import statistics
from edgert.runtime.loop import Trace

PATH_SAMPLE_S: Final = 0.5
"""The path is measured between positions this far apart in time, so that swaying on the spot is no distance."""


def latency_us(trace: Trace) -> dict[str, float | None]:
    """Quantiles and maximum of the time from observation to command, µs; None without a tick."""
    return statistics.latency_us(trace.latency_ns[: trace.commands])


def motion(trace: Trace, period_s: float) -> dict[str, Any]:
    """How a floating base moved: `fell`, `distance_m` and `mean_velocity` (over the second half, base frame)."""
    velocity = trace.velocity[: trace.observations]
    position = trace.position[: trace.observations]
    half = velocity[len(velocity) // 2 :]
    every = max(1, round(PATH_SAMPLE_S / period_s))
    path = np.concatenate((position[:-1:every], position[-1:]))
    return {
        "fell": trace.outcome == "fell",
        "distance_m": float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum()),
        "mean_velocity": [float(value) for value in half.mean(axis=0)] if len(half) else None,
    }


def metrics(trace: Trace, command: tuple[float, ...], mean_velocity: list[float] | None) -> dict[str, float | None]:
    """Figures of merit; tracking errors are those of the mean velocity, None without a tick."""
    result: dict[str, float | None] = {
        "peak_joint_vel_rad_s": trace.peak_joint_vel_rad_s,
        "peak_torque_n_m": trace.peak_torque_n_m,
    }
    if command:
        names = ("vx_error_m_s", "vy_error_m_s", "wz_error_rad_s")
        for i, name in enumerate(names):
            result[name] = None if mean_velocity is None else mean_velocity[i] - command[i]
    return result
