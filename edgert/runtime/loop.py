"""The control loop: observe, infer, command, move on, in step with an absolute grid of deadlines.

One thread, no disk, no network, no logging; the garbage collector stays off while it runs, and whatever ends it, the
body is damped. A tick's latency is the time from the beginning of its observation to the command; its deadline is one
period after its slot began. A target that is not finite is never sent.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import acos, cos
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from edgert.clock import Clock, MonotonicClock, Rate
from edgert.contract.plan import rotate_to_body
from edgert.contract.state import RobotState
from edgert.contract.usable import refuse_start
from edgert.errors import EdgertError, UnsupportedError
from edgert.robot.protocol import SimulatedRobot
from edgert.runtime.controller import Controller

Outcome = Literal["completed", "fell", "safety_stop", "interrupted"]
WARM_UP_RUNS: Final = 20
FALL_DEBOUNCE_S: Final = 0.2
MAX_TICKS: Final = 10_000_000
"""Longest run: its measurements take 48 bytes a tick, allocated before it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallRule:
    """When a floating base counts as fallen: leaning or sunk for `FALL_DEBOUNCE_S`."""

    tilt_rad: float = 1.0
    height_m: float = 0.0


@dataclass(slots=True, kw_only=True)
class Trace:
    """What the loop measured. Rows beyond the last one written are NaN or 0."""

    latency_ns: npt.NDArray[np.int64]  # (ticks,)
    velocity: npt.NDArray[np.float64]  # (ticks + 1, 3) vx, vy m/s, wz rad/s of the base, base frame
    position: npt.NDArray[np.float64]  # (ticks + 1, 2) x, y m of the base, world
    commands: int = 0
    """Ticks that were commanded."""
    steps: int = 0
    """Ticks that were commanded and whose period was simulated."""
    observations: int = 0
    """Rows of velocity and position: one a tick, and the state after the last one."""
    late_commands: int = 0
    skipped_slots: int = 0
    peak_joint_vel_rad_s: float = 0.0
    peak_torque_n_m: float = 0.0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    outcome: Outcome = "completed"
    reason: str = ""
    warnings: dict[str, int] = field(default_factory=dict)
    success: bool | None = None
    """Whether the task's criterion held to the end, for as long as it asks; None for a task without one."""
    tracking: dict[str, float | None] = field(default_factory=dict)
    """How far the body was from its reference motion; empty without one."""
    unrecorded: EdgertError | None = None
    """Why the run could not be recorded to its end."""

    def commanded(self, latency_ns: int, *, late: bool) -> None:
        """A tick was commanded."""
        self.latency_ns[self.commands] = latency_ns
        self.commands += 1
        self.late_commands += late

    @property
    def deadline_misses(self) -> int:
        """Slots without a command in time: those whose command was late, and those that were skipped."""
        return self.late_commands + self.skipped_slots


def run_loop(
    robot: SimulatedRobot,
    controller: Controller,
    *,
    steps: int,
    nstep: int,
    real_time: bool,
    fall: FallRule | None,
    clock: Clock | None = None,
    stop: Callable[[], bool] = lambda: False,
    tick: Callable[[int, Trace], None] = lambda step, trace: None,
) -> Trace:
    """Run `steps` control ticks of `nstep` physics steps each, then damp the body.

    The policy's arrays hold the last observation afterwards, which no action followed.

    Args:
        robot: the body, at its initial state.
        controller: bound to the state that `robot.allocate()` gave.
        steps: ticks to run.
        nstep: physics steps in one control period.
        real_time: keep to absolute deadlines; otherwise run as fast as possible.
        fall: when to give up, for a floating base.
        clock: time; the host's monotonic clock by default.
        stop: asked once a tick; True ends the run as interrupted.
        tick: called with the number of each tick that will move the physics and what was measured until then, after
            its latency was measured.

    Raises:
        ContractError: the policy's very first action, computed before anything moves, is not finite.
        UnsupportedError: more ticks than `MAX_TICKS`.
    """
    check_ticks(steps)
    clock = clock or MonotonicClock()
    state = robot.allocate()
    warm_up(robot, controller, state)
    trace = Trace(
        latency_ns=np.zeros(steps, np.int64),
        velocity=np.full((steps + 1, 3), np.nan),
        position=np.full((steps + 1, 2), np.nan),
    )
    period_s = controller.policy.contract.period_s
    watch = _Watch(state, fall, period_s, trace)
    # Overflow is judged by the controller, number by number, and not by a warning of NumPy.
    with _no_garbage_collection(), np.errstate(over="ignore", invalid="ignore"):
        started, cpu = time.perf_counter(), time.process_time()
        rate = Rate(period_s, clock)
        current = True  # whether the policy's arrays show the body as it is
        try:
            for step in range(steps):
                if stop():
                    trace.outcome, trace.reason = "interrupted", "stopped by the operator"
                    break
                begin = clock.now_ns()
                slot = rate.slot_ns if real_time else begin
                robot.observe(state)
                current = True
                if not controller.act():
                    trace.outcome = "safety_stop"
                    trace.reason = f"the policy at step {step} gave or saw {controller.problem()}; nothing was sent"
                    break
                robot.command(controller.out)
                done = clock.now_ns()
                trace.commanded(done - begin, late=done - slot > rate.period_ns)
                if watch.fallen():
                    trace.outcome, trace.reason = "fell", watch.why()
                    break
                tick(step, trace)
                robot.advance(nstep)
                current = False
                trace.steps += 1
                if robot.diverged():
                    trace.outcome, trace.reason = "safety_stop", f"the simulation diverged at step {step}"
                    break
                if real_time:
                    rate.wait()
                    trace.skipped_slots = rate.skipped
            else:
                robot.observe(state)
                if watch.fallen():
                    trace.outcome, trace.reason = "fell", watch.why()
            if not current:
                robot.observe(state)
                controller.observe()
        finally:
            robot.damp()
        trace.wall_s, trace.cpu_s = time.perf_counter() - started, time.process_time() - cpu
    return trace


def check_ticks(steps: int) -> None:
    """Refuse runs of more than `MAX_TICKS`."""
    if steps > MAX_TICKS:
        raise UnsupportedError("the run is too long", found=f"{steps} control ticks", expected=f"at most {MAX_TICKS}")


def warm_up(robot: SimulatedRobot, controller: Controller, state: RobotState) -> None:
    """Run the policy on the initial state until caches are warm; refuse one whose first action is not finite.

    Raises:
        ContractError: the first observation or action is not finite. Nothing was commanded.
    """
    robot.observe(state)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(WARM_UP_RUNS):
            if not controller.act():
                refuse_start(controller.policy.name, controller.problem())
            controller.reset()


class _Watch:
    """Follows the observed state from tick to tick: velocity, path, peaks, fall."""

    def __init__(self, state: RobotState, fall: FallRule | None, period_s: float, trace: Trace) -> None:
        self._trace = trace
        self._joint_vel, self._torque = state.joint_vel[0], state.joint_torque[0]  # type: ignore[index]
        self._floating = state.base_quat is not None
        self._fall = fall
        self._down = 0
        self._patience = max(1, round(FALL_DEBOUNCE_S / period_s))
        self._upright, self._height = 1.0, 0.0
        self._magnitude = np.zeros(len(state.joint_names))
        if self._floating:
            self._quat, self._pos = state.base_quat[0], state.base_pos[0]  # type: ignore[index]
            self._lin, self._ang = state.base_lin_vel[0], state.base_ang_vel[0]  # type: ignore[index]
            self._limit = cos(fall.tilt_rad) if fall is not None else -2.0

    def fallen(self) -> bool:
        """Note the observed state; True once the base has been down for the debounce time."""
        trace = self._trace
        trace.peak_joint_vel_rad_s = max(trace.peak_joint_vel_rad_s, self._peak(self._joint_vel))
        trace.peak_torque_n_m = max(trace.peak_torque_n_m, self._peak(self._torque))
        if not self._floating:
            return False
        quat = self._quat.tolist()
        vx, vy, _ = rotate_to_body(quat, self._lin.tolist())
        px, py, self._height = self._pos.tolist()
        row = trace.observations
        trace.velocity[row] = vx, vy, self._ang.item(2)
        trace.position[row] = px, py
        trace.observations += 1
        if self._fall is None:
            return False
        self._upright = 1.0 - 2.0 * (quat[1] ** 2 + quat[2] ** 2)
        standing = self._upright >= self._limit and self._height >= self._fall.height_m
        self._down = 0 if standing else self._down + 1
        return self._down >= self._patience

    def why(self) -> str:
        """What the fall looked like, and the limits."""
        assert self._fall is not None
        tilt = acos(max(-1.0, min(1.0, self._upright)))
        return (
            f"base tilted {tilt:.2f} rad (limit {self._fall.tilt_rad:.2f}) at a height of {self._height:.2f} m "
            f"(limit {self._fall.height_m:.2f}) for {FALL_DEBOUNCE_S:g} s"
        )

    def _peak(self, values: Any) -> float:
        return float(np.abs(values, out=self._magnitude).max())


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
