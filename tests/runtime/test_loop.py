"""The control loop: deadlines, falls, what it costs, what it never does."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from support import linear_model, quadruped_document, save

from edgert.clock import FakeClock
from edgert.runtime import Options, Session, open_session
from edgert.runtime.loop import FallRule, run_loop


@pytest.fixture
def session(tmp_path: Path):
    path = save(linear_model(document=quadruped_document()), tmp_path / "stand.onnx")
    with open_session(Options(model=str(path), command=(0.0, 0.0, 0.0), seconds=1.0, real_time=False)) as opened:
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
    assert (trace.misses, trace.skipped_slots) == (0, 0)


def test_late_commands_are_misses(session: Session) -> None:
    # A tick looks three times at the clock: begin, done, and at the next slot. 11 ms each make every command late.
    trace = loop(session, clock=SlowClock(11_000_000), steps=10)
    assert trace.misses > 0
    assert trace.skipped_slots > 0


def test_latency_is_from_observation_to_command(session: Session) -> None:
    trace = loop(session, clock=SlowClock(1_000), steps=10)
    assert set(trace.latency_ns) == {1_000}


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
    assert trace.steps == 10  # 0.2 s at 50 Hz


def test_standing_policy_stands(session: Session) -> None:
    trace = loop(session, real_time=False)
    assert trace.outcome == "completed"
    velocity = np.array(trace.velocity).reshape(-1, 3)
    assert np.abs(velocity[-1]).max() < 0.1


def test_garbage_collection_is_off_in_the_loop_and_on_after(session: Session) -> None:
    seen: list[bool] = []
    loop(session, real_time=False, steps=3, tick=lambda step: seen.append(gc.isenabled()))
    assert seen == [False] * 3
    assert gc.isenabled()


def test_warm_up_leaves_no_trace(session: Session) -> None:
    controller = session.controller
    loop(session, real_time=False, steps=0)
    assert (controller.policy.obs["obs"][0, 36:48] == 0.0).all()
    assert controller.out.q[0].tolist() == pytest.approx(session.loaded.contract.default_pos)


def test_body_that_diverges_is_a_safety_stop(session: Session) -> None:
    def poison(step: int) -> None:
        if step == 3:
            session.robot.sim.view("qvel")[0, 8] = 1e12

    trace = loop(session, real_time=False, tick=poison, fall=None)
    assert trace.outcome == "safety_stop"
    assert trace.reason == "the simulation diverged and MuJoCo reset it"


def test_real_time_at_50_hz_takes_little_of_a_core() -> None:
    with open_session(Options(seconds=3.0)) as session:
        trace = session.run()
    share = trace.cpu_s / trace.wall_s
    print(f"loop at 50 Hz in real time: {100 * share:.1f} % of a core")
    assert share <= 0.15
