"""The control loop: observe, infer, command, move on, in step with an absolute grid of deadlines.

One thread, no disk, no network, no logging; the garbage collector stays off while it runs. A tick's latency is the
time from the beginning of its observation to the command; its deadline is one period after its slot began. A target
that is not finite is never sent.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import acos, cos
from typing import Any, Literal

import numpy as np

from edgert.clock import Clock, MonotonicClock, Rate
from edgert.contract.state import RobotState
from edgert.errors import ContractError
from edgert.robot.sim import SimRobot
from edgert.runtime.controller import Controller

Outcome = Literal["completed", "fell", "safety_stop", "interrupted"]
WARM_UP_RUNS = 20
FALL_DEBOUNCE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class FallRule:
    """When a floating base counts as fallen: leaning or sunk for `FALL_DEBOUNCE_S`."""

    tilt_rad: float = 1.0
    height_m: float = 0.0


@dataclass(slots=True, kw_only=True)
class Trace:
    """What the loop measured, one entry a tick. Base values are there for a floating base only."""

    latency_ns: array[int] = field(default_factory=lambda: array("q"))
    velocity: array[float] = field(default_factory=lambda: array("d"))  # vx, vy m/s, wz rad/s, base frame, each tick
    position: array[float] = field(default_factory=lambda: array("d"))  # x, y m, world, each tick
    peak_joint_vel_rad_s: float = 0.0
    peak_torque_n_m: float = 0.0
    misses: int = 0
    skipped_slots: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    outcome: Outcome = "completed"
    reason: str = ""

    @property
    def steps(self) -> int:
        """Ticks that were commanded and simulated."""
        return len(self.latency_ns)


def run_loop(
    robot: SimRobot,
    controller: Controller,
    *,
    steps: int,
    nstep: int,
    real_time: bool,
    fall: FallRule | None,
    clock: Clock | None = None,
    stop: Callable[[], bool] = lambda: False,
    tick: Callable[[int], None] = lambda step: None,
) -> Trace:
    """Run `steps` control ticks of `nstep` physics steps each, then damp the body.

    Args:
        robot: the body, at its initial state.
        controller: bound to the state that `robot.allocate()` gave.
        steps: ticks to run.
        nstep: physics steps in one control period.
        real_time: keep to absolute deadlines; otherwise run as fast as possible.
        fall: when to give up, for a floating base.
        clock: time; the host's monotonic clock by default.
        stop: asked once a tick; True ends the run as interrupted.
        tick: called after each tick with its number, outside the measured latency.

    Raises:
        ContractError: the policy's very first action, computed before anything moves, is not finite.
    """
    clock = clock or MonotonicClock()
    state = robot.allocate()
    warm_up(robot, controller, state)
    trace = Trace()
    watch = _Watch(state, fall, controller.policy.contract.period_s, trace)
    with _no_garbage_collection():
        started, cpu = time.perf_counter(), time.process_time()
        rate = Rate(controller.policy.contract.period_s, clock)
        for step in range(steps):
            if stop():
                trace.outcome, trace.reason = "interrupted", "stopped by the operator"
                break
            begin = clock.now_ns()
            slot = rate.slot_ns if real_time else begin
            robot.observe(state)
            if not controller.act():
                trace.outcome = "safety_stop"
                trace.reason = f"the policy's action at step {step} is {controller.worst_action()}; it was not sent"
                break
            robot.command(controller.out)
            done = clock.now_ns()
            trace.latency_ns.append(done - begin)
            if done - slot > rate.period_ns:
                trace.misses += 1
            robot.advance(nstep)
            if watch.fallen():
                trace.outcome, trace.reason = "fell", watch.why()
                break
            tick(step)
            if real_time:
                rate.wait()
        robot.damp()
        trace.wall_s, trace.cpu_s = time.perf_counter() - started, time.process_time() - cpu
        trace.skipped_slots = rate.skipped
    if robot.diverged():
        trace.outcome, trace.reason = "safety_stop", "the simulation diverged and MuJoCo reset it"
    return trace


def warm_up(robot: SimRobot, controller: Controller, state: RobotState) -> None:
    """Run the policy on the initial state until caches are warm; refuse one whose first action is not finite.

    Raises:
        ContractError: the first observation or action is not finite. Nothing was commanded.
    """
    robot.observe(state)
    for _ in range(WARM_UP_RUNS):
        if not controller.act():
            seen = "finite" if controller.observation_is_finite() else "not finite"
            raise ContractError(
                f"policy {controller.policy.file.path} gives no usable action",
                found=controller.worst_action(),
                expected="finite numbers",
                hint=f"Its first observation is {seen}; check the export, and the normaliser in it",
            )
        controller.reset()


class _Watch:
    """Follows the base from tick to tick: velocity, path, fall."""

    def __init__(self, state: RobotState, fall: FallRule | None, period_s: float, trace: Trace) -> None:
        self._trace = trace
        self._joint_vel, self._torque = state.joint_vel[0], state.joint_torque[0]  # type: ignore[index]
        self._floating = state.base_quat is not None
        self._fall = fall
        self._down = 0
        self._patience = max(1, round(FALL_DEBOUNCE_S / period_s))
        self._upright, self._height = 1.0, 0.0
        if self._floating:
            self._quat, self._pos = state.base_quat[0], state.base_pos[0]  # type: ignore[index]
            self._lin, self._ang = state.base_lin_vel[0], state.base_ang_vel[0]  # type: ignore[index]
            self._limit = cos(fall.tilt_rad) if fall is not None else -2.0

    def fallen(self) -> bool:
        """Note this tick; True once the base has been down for the debounce time."""
        trace = self._trace
        trace.peak_joint_vel_rad_s = max(trace.peak_joint_vel_rad_s, _peak(self._joint_vel))
        trace.peak_torque_n_m = max(trace.peak_torque_n_m, _peak(self._torque))
        if not self._floating:
            return False
        w, x, y, z = self._quat.tolist()
        a, b, c = self._lin.tolist()
        tx, ty, tz = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
        trace.velocity.extend((a - w * tx + y * tz - z * ty, b - w * ty + z * tx - x * tz, self._ang.item(2)))
        px, py, self._height = self._pos.tolist()
        trace.position.extend((px, py))
        if self._fall is None:
            return False
        self._upright = 1.0 - 2.0 * (x * x + y * y)
        standing = self._upright >= self._limit and self._height >= self._fall.height_m
        self._down = 0 if standing else self._down + 1
        return self._down >= self._patience

    def why(self) -> str:
        """What the fall looked like."""
        tilt = acos(max(-1.0, min(1.0, self._upright)))
        return f"base tilted {tilt:.2f} rad at a height of {self._height:.2f} m"


def _peak(values: Any) -> float:
    return float(np.abs(values).max())


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
