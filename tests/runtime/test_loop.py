"""The control loop: deadlines, falls, what it costs, what it never does."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from support import linear_model, quadruped_document, save

from edgert.clock import FakeClock
from edgert.errors import UnsupportedError
from edgert.runtime import RunOptions, Session, open_session
from edgert.runtime.loop import FallRule, Trace, run_loop


@pytest.fixture
def session(tmp_path: Path):
    path = save(linear_model(document=quadruped_document()), tmp_path / "stand.onnx")
    with open_session(RunOptions(model=str(path), command=(0.0, 0.0, 0.0), seconds=1.0, real_time=False)) as opened:
        yield opened


def loop(session: Session, **changes: object):
    settings = {"steps": 50, "nstep": session.nstep, "real_time": True, "fall": session.fall} | changes
    return run_loop(session.robot, session.controller, **settings)  # type: ignore[arg-type]


class SlowClock(FakeClock):
    """Every look at the clock takes time."""

    def __init__(self, look_ns: int) -> None:
        super().__init__()
        self.look_ns = look_ns

    def now_ns(self) -> int:
        self.time_ns += self.look_ns
        return self.time_ns


def test_ticks_lie_on_the_grid(session: Session) -> None:
    clock = FakeClock()
    trace = loop(session, clock=clock)
    assert trace.steps == 50
    assert clock.time_ns == 50 * 20_000_000
    assert (trace.deadline_misses, trace.skipped_slots) == (0, 0)


def test_a_late_command_is_a_miss(session: Session) -> None:
    clock, ticks = FakeClock(), iter(range(10))

    def stall() -> bool:
        if next(ticks) == 3:
            clock.time_ns += 25_000_000  # the command comes a quarter of a period too late, the next one in time
        return False

    trace = loop(session, clock=clock, steps=10, stop=stall)
    assert (trace.late_commands, trace.skipped_slots, trace.deadline_misses) == (1, 0, 1)


def test_slots_without_a_tick_are_misses(session: Session) -> None:
    clock = FakeClock()

    def stall(step: int, trace: Trace) -> None:
        if step == 3:
            clock.time_ns += 90_000_000  # four and a half periods: the tick's own slot and three more go by

    trace = loop(session, clock=clock, steps=10, tick=stall)
    assert trace.steps == 10
    assert (trace.late_commands, trace.skipped_slots, trace.deadline_misses) == (0, 3, 3)


def test_latency_is_from_observation_to_command(session: Session) -> None:
    trace = loop(session, clock=SlowClock(1_000), steps=10)
    assert set(trace.latency_ns.tolist()) == {1_000}


def test_stop_is_asked_once_a_tick(session: Session) -> None:
    asked = iter([False, False, True])
    trace = loop(session, real_time=False, stop=lambda: next(asked))
    assert trace.outcome == "interrupted"
    assert trace.steps == 2


def test_ends_damped(session: Session) -> None:
    loop(session, real_time=False, steps=5)
    gain = session.robot.sim.expand("actuator_gainprm")[0, :, 0]
    damping = session.robot.sim.expand("actuator_biasprm")[0, :, 2]
    assert (gain == 0.0).all()
    assert (damping == -0.8).all()


def test_a_fall_has_to_last(session: Session) -> None:
    never_standing = FallRule(tilt_rad=1.0, height_m=10.0)
    trace = loop(session, real_time=False, fall=never_standing)
    assert trace.outcome == "fell"
    assert trace.commands == 10  # 0.2 s at 50 Hz
    assert trace.steps == 9  # the tick that sees the fall does not move the physics on


def test_standing_policy_stands(session: Session) -> None:
    trace = loop(session, real_time=False)
    assert trace.outcome == "completed"
    assert trace.observations == 51
    assert np.abs(trace.velocity[50]).max() < 0.1


def test_garbage_collection_is_off_in_the_loop_and_on_after(session: Session) -> None:
    seen: list[bool] = []
    loop(session, real_time=False, steps=3, tick=lambda step, trace: seen.append(gc.isenabled()))
    assert seen == [False] * 3
    assert gc.isenabled()


def test_warm_up_leaves_no_trace(session: Session) -> None:
    controller = session.controller
    loop(session, real_time=False, steps=0)
    assert (controller.policy.obs["obs"][0, 36:48] == 0.0).all()
    assert controller.out.q[0].tolist() == pytest.approx(session.loaded.contract.default_pos)


def test_body_that_diverges_is_stopped_at_once(session: Session) -> None:
    def poison(step: int, trace: Trace) -> None:
        if step == 3:
            session.robot.sim.view("qvel")[0, 8] = 1e12

    trace = loop(session, real_time=False, tick=poison, fall=None)
    assert trace.outcome == "safety_stop"
    assert trace.reason == "the simulation diverged at step 3"
    assert trace.steps == 4


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_body_is_damped_whatever_ends_the_loop(session: Session, error: type[BaseException]) -> None:
    def fail(step: int, trace: Trace) -> None:
        if step == 3:
            raise error

    with pytest.raises(error):
        loop(session, real_time=False, tick=fail)
    assert (session.robot.sim.expand("actuator_gainprm")[0, :, 0] == 0.0).all()


def test_running_again_starts_again(session: Session) -> None:
    first, second = session.run(), session.run()
    np.testing.assert_array_equal(first.velocity, second.velocity)
    assert np.isfinite(first.velocity).all()


def test_tick_sees_every_command_that_moves_the_body(session: Session) -> None:
    seen: list[int] = []
    trace = loop(session, real_time=False, fall=FallRule(height_m=10.0), tick=lambda step, trace: seen.append(step))
    assert seen == list(range(trace.steps))


def test_too_long_a_run_is_refused(session: Session) -> None:
    with pytest.raises(UnsupportedError, match=r"the run is too long: found 10000001 control ticks, expected at most"):
        loop(session, steps=10_000_001)


def test_real_time_at_50_hz_takes_little_of_a_core() -> None:
    with open_session(RunOptions(seconds=3.0)) as session:
        trace = session.run()
    share = trace.cpu_s / trace.wall_s
    print(f"loop at 50 Hz in real time: {100 * share:.1f} % of a core")
    assert share <= 0.15
