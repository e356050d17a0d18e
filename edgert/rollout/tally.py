"""What happened to many worlds: episodes with their returns and outcomes, and how commands were followed.

A stretch is the time of one command in one world, without its first second: the mean velocity of a stretch against its
command is one sample of tracking. A command that is a position is followed as well as the last distance to it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.rollout.statistics import half_width, rate, summary
from edgert.sim.protocol import Floats, Mask
from edgert.task.worlds import Worlds

SETTLE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """One episode that ended."""

    world: int
    steps: int
    outcome: str
    """completed, success, fell or safety_stop."""
    episode_return: float | None
    """None for a task without rewards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One command in one world."""

    world: int
    command: tuple[float, ...]
    velocity: tuple[float, ...] | None
    """Mean (vx m/s, vy m/s, wz rad/s) in the base frame, of a twist."""
    goal_error_m: float | None
    """Last distance, of a position."""


class Tally:
    """Counts the worlds of a run; `step` after each control step, in the order step, resample, end."""

    def __init__(self, worlds: Worlds) -> None:
        n = worlds.nworld
        self.episodes: list[EpisodeResult] = []
        self.stretches: list[Stretch] = []
        self._worlds = worlds
        contract, success = worlds.contract, worlds.task.success
        self._settle = round(SETTLE_S * contract.control_hz)
        self._hold = 0 if success is None else success.hold_ticks(contract.control_hz)
        moves = worlds.scene.base is not None
        self._twist = moves and contract.command is not None and contract.command.kind == "twist"
        self._return, self._held = np.zeros(n), np.zeros(n, np.int64)
        self._command = worlds.command.copy()
        self._since = np.zeros(n, np.int64)
        self._sum, self._count = np.zeros((n, 3)), np.zeros(n, np.int64)
        self._distance: Floats | None = None
        self._open = np.zeros(n, np.bool_)

    @property
    def running(self) -> int:
        """Episodes that have made a step and not ended."""
        return int(np.count_nonzero(self._open))

    def begin(self, mask: Mask) -> None:
        """Episodes begin in the worlds of the mask."""
        self._open[mask] = False
        self._return[mask] = 0.0
        self._held[mask] = 0
        self._forget(mask)

    def step(self) -> None:
        """A control step was made, and the command has not changed since."""
        worlds = self._worlds
        self._open[:] = True
        self._return += worlds.reward
        if worlds.success is not None:
            self._held += 1
            self._held[~worlds.success] = 0
        self._since += 1
        if self._twist:
            settled = self._since > self._settle
            if settled.any():
                self._sum[settled] += worlds.body_velocity(settled)
                self._count += settled
        else:  # now, as the command may change before the stretch is closed
            self._distance = worlds.goal_distance()

    def commanded(self, active: Mask) -> None:
        """Commands may have changed; those that fell or stopped, outside `active`, followed none to its end."""
        changed = np.any(self._worlds.command != self._command, axis=1) & active
        if changed.any():
            self._close(changed)
            self._forget(changed)

    def end(self, done: Mask, stopped: Mask) -> dict[int, EpisodeResult]:
        """Episodes of the worlds of `done` end, those of `stopped` by a safety stop; by world, how."""
        worlds = self._worlds
        self._close(done & ~worlds.terminated & ~stopped)
        self._forget(done)
        self._open[done] = False
        diverged = worlds.sim.diverged() | stopped
        results = {}
        for world in np.flatnonzero(done).tolist():
            succeeded = self._hold > 0 and self._held[world] >= self._hold
            outcome = "success" if succeeded else "completed"
            if worlds.terminated[world] or stopped[world]:
                outcome = "safety_stop" if diverged[world] else "fell"
            results[world] = EpisodeResult(
                world=world,
                steps=int(worlds.steps[world]),
                outcome=outcome,
                episode_return=float(self._return[world]) if worlds.task.rewards else None,
            )
        self.episodes += results.values()
        return results

    def finish(self) -> None:
        """The run is over: what was followed until now counts, but for positions that there was no time to reach."""
        if self._twist:
            self._close(np.ones(self._worlds.nworld, np.bool_))

    def _close(self, mask: Mask) -> None:
        if not self._command.shape[1]:
            return
        distance = self._distance
        long_enough = self._count >= max(1, self._settle) if self._twist else self._since > 0
        for world in np.flatnonzero(mask & long_enough).tolist():
            velocity = self._sum[world] / self._count[world] if self._twist else None
            self.stretches.append(
                Stretch(
                    world=world,
                    command=tuple(self._command[world].tolist()),
                    velocity=None if velocity is None else tuple(velocity.tolist()),
                    goal_error_m=None if distance is None else float(distance[world]),
                )
            )

    def _forget(self, mask: Mask) -> None:
        self._command[mask] = self._worlds.command[mask]
        self._since[mask] = 0
        self._sum[mask] = 0.0
        self._count[mask] = 0


def outcomes(episodes: list[EpisodeResult], *, cut_off: int, judged: bool) -> dict[str, Any]:
    """Counts and rates of falls, safety stops and, for a task with a criterion, successes, with 95 % intervals.

    `cut_off` episodes had not ended when the run did. They count for the rate of falls, as they had not fallen:
    otherwise a run that is stopped early would know of falls alone.
    """
    total = len(episodes)
    counts = {name: sum(e.outcome == name for e in episodes) for name in ("fell", "safety_stop", "success")}
    result: dict[str, Any] = {
        "episodes": total,
        "falls": counts["fell"],
        "cut_off": cut_off,
        "fall_rate": rate(counts["fell"], total + cut_off),
        "safety_stops": counts["safety_stop"],
        "returns": summary([e.episode_return for e in episodes if e.episode_return is not None]),
        "episode_length": summary([e.steps for e in episodes]),
    }
    if judged:
        result |= {"successes": counts["success"], "success_rate": rate(counts["success"], total)}
    return result


def tracking(stretches: list[Stretch], keys: tuple[str, ...]) -> dict[str, Any] | None:
    """How well commands were followed: by component for a twist, by distance for a position; None of nothing."""
    moved = [s for s in stretches if s.velocity is not None]
    if moved:
        asked, got = (np.array([getattr(s, name) for s in moved]) for name in ("command", "velocity"))
        result: dict[str, Any] = {"stretches": len(moved)}
        result |= {key: _component(asked[:, i], got[:, i]) for i, key in enumerate(keys)}
        still = ~asked.any(axis=1)
        if still.any():
            drift = np.hypot(got[still, 0], got[still, 1])
            result["drift_m_s"] = {"mean": float(drift.mean()), "worst": float(drift.max())}
        return result
    errors = np.array([s.goal_error_m for s in stretches if s.goal_error_m is not None])
    if not len(errors):
        return None
    quantiles = {"median": float(np.median(errors)), "p95": float(np.quantile(errors, 0.95, method="higher"))}
    return {"stretches": len(errors), "goal_error_m": {**(summary(errors) or {}), **quantiles}}


def _component(asked: Floats, got: npt.NDArray[Any]) -> dict[str, float | None]:
    error, n = got - asked, len(got)
    return {
        "asked": float(asked.mean()),
        "mean": float(got.mean()),
        "error": float(error.mean()),
        "ci95": half_width(float(error.std(ddof=1)), n) if n > 1 else None,
        "rmse": float(np.sqrt(np.mean(error * error))),
        "worst": float(np.abs(error).max()),
    }
