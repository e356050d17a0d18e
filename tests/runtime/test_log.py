"""A recorded run on one body: its rows are what was observed, computed and sent, tick by tick."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from rollout_examples import TASKS, Array, same_bits, talkative, wild
from support import failing_later_model, linear_model, quadruped_document, save

from edgert.errors import UnsupportedError
from edgert.rollout import Episode, MemorySink, read
from edgert.rollout.sink import INDEX
from edgert.runtime import RunOptions, Session, open_session
from edgert.runtime.loop import Trace


@dataclass
class Spy:
    """What passed between the body and the policy, seen from outside of the loop."""

    last: dict[str, Array] = field(default_factory=dict)
    """What was observed last."""
    acted_on: list[dict[str, Array]] = field(default_factory=list)
    """What had been observed when a command was sent."""
    seen: list[dict[str, Array]] = field(default_factory=list)
    given: list[dict[str, Array]] = field(default_factory=list)
    sent: list[Array] = field(default_factory=list)

    def watch(self, session: Session) -> None:
        robot, policy = session.robot, session.policy
        observe, act, command, begin = robot.observe, policy.act, robot.command, robot.begin

        def watched_observe(out: Any) -> None:
            observe(out)
            state = {"state.qpos": robot.sim.view("qpos")[0].copy(), "state.qvel": robot.sim.view("qvel")[0].copy()}
            self.last = state | {"stamp_ns": out.stamp_ns.copy()}

        def watched_act(obs: Any, out: Any) -> None:
            act(obs, out)
            self.seen.append({name: array[0].copy() for name, array in obs.items()})
            self.given.append({name: array[0].copy() for name, array in out.items()})

        def watched_command(command_: Any) -> None:
            command(command_)
            self.sent.append(command_.q[0].copy())
            self.acted_on.append(self.last)

        def watched_begin(command_: Any) -> None:
            begin(command_)
            self.sent.clear()  # no tick of the loop commanded that
            self.acted_on.clear()

        robot.observe, policy.act = watched_observe, watched_act  # type: ignore[method-assign]
        robot.command, robot.begin = watched_command, watched_begin  # type: ignore[method-assign]


def run(
    folder: Path, stop: Callable[[], bool] = lambda: False, break_at: int | None = None, **options: Any
) -> tuple[Session, Trace, Spy, Episode]:
    """A recorded run, with physics broken at a tick if that is asked for."""
    spy = Spy()

    def tick(step: int, trace: Trace) -> None:
        if step == break_at:
            session.robot.sim.view("qvel")[0, 8] = 1e12

    with open_session(RunOptions(**{"every_output": True, "real_time": False} | options)) as session:
        spy.watch(session)
        with session.folder(folder) as sink:
            trace = session.run(stop=stop, tick=tick, sinks=[sink])
    recording = read(folder)
    assert recording.torn == ()
    (episode,) = recording
    return session, trace, spy, episode


def compare(session: Session, trace: Trace, spy: Spy, episode: Episode) -> None:
    """Rows against what the spy saw in the last ticks; what was seen before them was the warm-up."""
    steps = trace.steps
    assert episode.steps == episode.info["steps"] == steps
    assert (episode.info["outcome"], episode.info["reason"]) == (trace.outcome, trace.reason)
    assert episode["step"].tolist() == list(range(steps + 1))
    same_bits(episode.target, np.array(spy.sent[:steps]))
    extra = len(spy.sent) - steps  # a tick that saw a fall commands, and moves nothing
    acts = len(spy.given) - (trace.outcome == "safety_stop" and "diverged" not in trace.reason) - extra
    contract = session.loaded.contract
    for name, row in ((contract.action.outputs[0], "action"), *((n, f"output.{n}") for n in spy.given[0])):
        if row != f"output.{contract.action.outputs[0]}":
            same_bits(episode[row], np.array([given[name] for given in spy.given[acts - steps : acts]]))
    for name in contract.inputs:
        seen = np.array([row[name] for row in spy.seen[acts - steps : acts]])
        same_bits(episode[f"observation.{name}"][:steps], seen)
    states = [*spy.acted_on[:steps], spy.last]
    for name in ("state.qpos", "state.qvel"):
        same_bits(episode[name], np.array([state[name] for state in states]))
    same_bits(episode["latency_ns"], trace.latency_ns[:steps])


@pytest.mark.parametrize("real_time", [False, True])
@pytest.mark.parametrize("sim", ["quadruped", "cartpole", "arm_reach"])
def test_rows_are_what_the_loop_did(sim: str, real_time: bool, tmp_path: Path) -> None:
    result = run(tmp_path / "r", model=wild(sim, tmp_path), sim=sim, seconds=0.16, real_time=real_time)
    session, trace, spy, episode = result
    assert trace.outcome == "completed"
    compare(*result)
    stamps = np.array([state["stamp_ns"][0] for state in (*spy.acted_on, spy.last)])
    expected = stamps - stamps[0] if real_time else 20_000_000 * np.arange(9)
    assert episode["t_ns"].tolist() == expected.tolist()
    assert episode.header["clock"] == ("monotonic" if real_time else "simulated")
    assert episode.info["command"] == list(session.command)
    if session.command:
        np.testing.assert_array_equal(episode["command"], np.tile(session.command, (9, 1)))
    else:
        assert "command" not in episode.columns
    assert "reward" not in episode.columns


def test_the_final_observation_is_that_of_the_last_state(tmp_path: Path) -> None:
    """As the contract makes it of the recorded state, here for the joints of the cart and the pole."""
    _, _, _, episode = run(tmp_path / "r", model=wild("cartpole", tmp_path), sim="cartpole", seconds=0.2)
    qpos, qvel, seen = episode.qpos, episode.qvel, episode.observation["obs"]
    expected = np.stack(
        (qpos[:, 0], 0.5 * qvel[:, 0], 0.2 * qvel[:, 1], np.cos(qpos[:, 1]), np.sin(qpos[:, 1])), axis=1
    )
    np.testing.assert_allclose(seen[:, :5], expected, atol=1e-6)
    np.testing.assert_array_equal(seen[1:, 5:], episode.action)
    assert seen[0, 5] == 0.0


def test_other_outputs_are_recorded(tmp_path: Path) -> None:
    result = run(tmp_path / "r", model=talkative("quadruped", tmp_path), seconds=0.1)
    compare(*result)
    assert sorted(result[3].outputs) == ["half", "largest", "log_prob", "value"]


def test_a_fall_is_recorded(tmp_path: Path) -> None:
    kick = save(linear_model(bias=8.0, document=quadruped_document()), tmp_path / "kick.onnx")
    result = run(tmp_path / "r", model=str(kick), seconds=5.0)
    compare(*result)
    _, trace, _, episode = result
    assert trace.outcome == "fell"
    assert trace.commands == trace.steps + 1
    assert episode.info["reason"].startswith("base tilted")


def test_a_number_that_was_not_sent_is_not_recorded(tmp_path: Path) -> None:
    later = save(failing_later_model(quadruped_document()), tmp_path / "later.onnx")
    result = run(tmp_path / "r", model=str(later), seconds=5.0)
    compare(*result)
    episode = result[3]
    assert (episode.info["outcome"], episode.steps) == ("safety_stop", 11)
    assert np.isfinite(episode.action).all()
    assert episode.observation["obs"][-1, 36] > 0.1  # what the policy saw when it gave NaN


def test_physics_that_diverges_is_recorded_until_then(tmp_path: Path) -> None:
    result = run(tmp_path / "r", seconds=1.0, break_at=3)
    _, trace, spy, episode = result
    assert (trace.outcome, trace.steps) == ("safety_stop", 4)
    assert (episode.info["outcome"], episode.info["reason"]) == ("safety_stop", "the simulation diverged at step 3")
    assert episode.steps == 4
    same_bits(episode.target, np.array(spy.sent))


@pytest.mark.parametrize("real_time", [False, True])
def test_an_interrupted_run_is_recorded_until_then(real_time: bool, tmp_path: Path) -> None:
    asked = iter([False] * 5 + [True])
    result = run(tmp_path / "r", seconds=5.0, real_time=real_time, stop=lambda: next(asked))
    compare(*result)
    assert (result[3].info["outcome"], result[3].steps) == ("interrupted", 5)


def test_a_run_without_a_tick_has_one_observation(tmp_path: Path) -> None:
    _, trace, _, episode = run(tmp_path / "r", stop=lambda: True)
    assert (trace.steps, episode.steps, episode.qpos.shape) == (0, 0, (1, 19))
    assert (episode.action.shape, episode["t_ns"].tolist()) == ((0, 12), [0])
    assert episode.info["outcome"] == "interrupted"


def test_the_header_says_what_ran(tmp_path: Path) -> None:
    session, _, _, episode = run(tmp_path / "r", model="quadruped", seconds=0.1, seed=3)
    header, contract = episode.header, session.loaded.contract
    assert header["policy_sha256"] == session.loaded.file.sha256
    assert header["contract"] == contract.to_document()
    assert header["contract_sha256"] == contract.sha256()
    task = TASKS["quadruped"].scene.parent / "task.toml"
    assert header["task_sha256"] == hashlib.sha256(task.read_bytes()).hexdigest()
    compiled = tmp_path / "compiled.mjb"
    mujoco.mj_saveModel(mujoco.MjModel.from_xml_path(str(session.robot.scene.path)), str(compiled), None)
    assert header["scene_sha256"] == hashlib.sha256(compiled.read_bytes()).hexdigest()
    assert (header["sim"], header["seed"], header["real_time"], header["actuators"]) == (
        "quadruped",
        3,
        False,
        "contract",
    )
    assert (episode.info["seed"], episode.info["world"]) == (3, 0)


def test_recording_changes_nothing(tmp_path: Path) -> None:
    _, recorded, _, _ = run(tmp_path / "r", seconds=0.5, seed=2)
    with open_session(RunOptions(seconds=0.5, seed=2, real_time=False)) as session:
        plain = session.run()
    np.testing.assert_array_equal(plain.velocity, recorded.velocity)
    np.testing.assert_array_equal(plain.position, recorded.position)


def test_several_sinks_get_their_columns(tmp_path: Path) -> None:
    with open_session(RunOptions(seconds=0.1, real_time=False)) as session:
        wanted = [column for column in session.columns() if column.name in ("state.qpos", "command")]
        memory, whole = MemorySink((*INDEX, *wanted)), MemorySink((*INDEX, *session.columns()))
        session.run(sinks=[memory, whole])
    assert memory.rows("state.qpos", final=True).shape == (6, 19)
    same_bits(memory.rows("state.qpos", final=True), whole.rows("state.qpos", final=True))
    assert "action" not in memory.blocks[0]
    assert memory.ended == whole.ended
    assert memory.ended[0]["outcome"] == "completed"


def test_a_real_time_run_that_would_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    """Before anything moves: in real time nothing goes to the disk on the way."""
    with (
        open_session(RunOptions(seconds=86_400.0)) as session,
        session.folder(tmp_path / "r") as sink,
        pytest.raises(UnsupportedError, match=r"does not fit into memory .* Record fewer seconds at a time"),
    ):
        session.run(sinks=[sink])
    assert len(read(tmp_path / "r")) == 0
