"""What a run showed, as one flat object: the JSON of `edgert run policy` and its table for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgert.runtime.loop import Trace

LATENCY_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def latency_us(trace: Trace) -> dict[str, float | None]:
    """Quantiles and maximum of the time from observation to command, µs; None without a tick."""
    samples = np.frombuffer(trace.latency_ns, np.int64) / 1e3 if trace.steps else None
    if samples is None:
        return dict.fromkeys((*LATENCY_QUANTILES, "max"))
    # The next measured sample, never an interpolated one: a p999 of 500 ticks is the worst of them.
    quantiles = np.quantile(samples, list(LATENCY_QUANTILES.values()), method="higher")
    result: dict[str, float | None] = {
        name: round(float(value), 1) for name, value in zip(LATENCY_QUANTILES, quantiles, strict=True)
    }
    return result | {"max": round(float(samples.max()), 1)}


def locomotion(trace: Trace, command: tuple[float, ...]) -> dict[str, Any]:
    """How a floating base moved under a twist command."""
    velocity = np.frombuffer(trace.velocity, np.float64).reshape(-1, 3)
    position = np.frombuffer(trace.position, np.float64).reshape(-1, 2)
    half = velocity[len(velocity) // 2 :]
    path = np.linalg.norm(np.diff(position, axis=0), axis=1).sum() if len(position) > 1 else 0.0
    return {
        "fell": trace.outcome == "fell",
        "distance_m": float(path),
        "command": list(command),
        "mean_velocity": [float(value) for value in half.mean(axis=0)] if len(half) else None,
    }


def metrics(trace: Trace, command: tuple[float, ...], walks: bool) -> dict[str, float | None]:
    """Figures of merit; tracking errors are over the second half of the run."""
    result: dict[str, float | None] = {
        "peak_joint_vel_rad_s": trace.peak_joint_vel_rad_s,
        "peak_torque_n_m": trace.peak_torque_n_m,
    }
    if walks:
        mean = locomotion(trace, command)["mean_velocity"]
        errors = [None] * 3 if mean is None else [a - b for a, b in zip(mean, command, strict=True)]
        result |= dict(zip(("vx_error_m_s", "vy_error_m_s", "wz_error_rad_s"), errors, strict=True))
    return result
