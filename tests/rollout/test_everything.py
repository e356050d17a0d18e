"""One contract drives one robot, many worlds, environments and replays, whatever it needs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gymnasium.spaces import Dict
from gymnasium.vector import AutoresetMode
from onnx import TensorProto, helper, numpy_helper
from rollout_examples import Recorded, recorded, rolled
from scenes import leg_xml, write
from support import finished, save
from task_examples import leg_document, write_task

from edgert.policy import OnnxPolicy, load_policy
from edgert.rollout import MemorySink, read
from edgert.rollout.replay import replay
from edgert.rollout.sink import INDEX
from edgert.runtime import RunOptions, open_session
from edgert.task.env import TaskVecEnv

KEYS = '<key name="home" qpos="0.3 -0.5"/>'
OBS = [{"name": "joint_pos", "history": 3}, {"name": "joint_vel", "history": 2}]
KINDS: dict[str, dict[str, Any]] = {
    "positions": {"joints": ["hip", "knee"]},
    "mixed": {
        "joints": ["hip", "hip", "knee", "hip"],
        "kind": ["position", "velocity", "velocity", "torque"],
        "scale": [0.5, 2.0, 3.0, 0.3],
        "target_clip": {"hip": [-0.4, 0.4], "knee": [-1.0, 1.0]},
    },
}


def policy(folder: Path, kind: str = "positions", *, batch: Any = "batch") -> str:
    """Two observations with histories, a count of ticks in int64, memory, an encoder every other tick, a residual."""
    folder.mkdir(exist_ok=True)
    action = KINDS[kind]
    nact, rng = len(action["joints"]), np.random.default_rng(1)

    def value(name: str, size: int, of: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, of, [batch, size])

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((0.3 * rng.normal(size=shape)).astype(np.float32), name)

    encoder = helper.make_graph(
        [helper.make_node("MatMul", ["seen", "w"], ["y"]), helper.make_node("Tanh", ["y"], ["latent"])],
        "encoder",
        [value("seen", 6)],
        [value("latent", 3)],
        [weights("w", 6, 3)],
    )
    save(finished(encoder, None), folder / "encoder.onnx")
    actor = helper.make_graph(
        [
            helper.make_node("Cast", ["count"], ["ticks"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["ticks", "small"], ["clock"]),
            helper.make_node("Sin", ["clock"], ["wave"]),
            helper.make_node("Concat", ["obs", "more", "wave", "h_in"], ["x"], axis=1),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node("Tanh", ["y"], ["actions"]),
            helper.make_node("MatMul", ["x", "r"], ["z"]),
            helper.make_node("Tanh", ["z"], ["h_out"]),
            helper.make_node("MatMul", ["more", "p"], ["plan"]),
        ],
        "actor",
        [value("obs", 10), value("more", 5), value("count", 1, TensorProto.INT64), value("h_in", 4)],
        [value("actions", nact), value("h_out", 4), value("plan", nact)],
        [
            numpy_helper.from_array(np.float32(0.2), "small"),
            weights("w", 20, nact),
            weights("r", 20, 4),
            weights("p", 5, nact),
        ],
    )
    velocities = [name for name in ("hip", "knee") if kind == "mixed" and name == "knee"]
    contract = {
        "schema": 1,
        "control_hz": 100.0,
        "joints": {
            "names": ["hip", "knee"],
            "default_pos": [0.3, -0.5],
            "kp": {name: 0.0 if name in velocities else 20.0 for name in ("hip", "knee")},
            "kd": 0.5,
        },
        "inputs": {
            "obs": {"terms": OBS, "newest": "first", "fill": "zero"},
            "more": {
                "terms": [
                    {"name": "network_output", "of": "encoder.latent", "dim": 3},
                    {"name": "joint_angle", "joints": ["knee", "hip"]},
                ]
            },
            "count": {"terms": ["step_count"]},
        },
        "action": {"output": "actions", "added": ["plan"], "clip": [-0.8, 0.8], **action},
        "recurrent": {"h_in": "h_out"},
        "network": [
            {
                "name": "encoder",
                "file": "encoder.onnx",
                "every": 2,
                "inputs": {"seen": {"terms": [{"name": "joint_vel", "history": 2}, "joint_angle"], "layout": "term"}},
            }
        ],
    }
    return str(save(finished(actor, contract), folder / "actor.onnx"))


def task(folder: Path, **changes: Any) -> str:
    """Episodes of 0.2 s that begin in different places."""
    own = leg_document(
        episode_s=0.2,
        reset={"joint_pos_rad": 0.3, "joint_vel_rad_s": 0.5},
        randomise={"gains": {"kp": [0.5, 2.0], "kd": [0.5, 2.0]}, "observation_noise": {"joint_vel": 0.05}},
    )
    return str(write_task(folder / "leg", own | changes, leg_xml(root="", keys=KEYS)))


def alone(model: str, sim: str, **options: Any) -> dict[str, np.ndarray]:
    """The rows of one robot under the runtime, final ones too."""
    with open_session(RunOptions(model=model, sim=sim, seconds=0.3, real_time=False, **options)) as session:
        memory = MemorySink((*INDEX, *session.columns()))
        session.run(sinks=[memory])
    return {column.name: memory.rows(column.name, final=column.final) for column in memory.columns}


@pytest.mark.parametrize("kind", KINDS)
def test_one_world_does_what_one_robot_does(kind: str, tmp_path: Path) -> None:
    model, sim = policy(tmp_path, kind), str(write(tmp_path, leg_xml(root="", keys=KEYS)))
    one = alone(model, sim)
    (many,) = rolled(model, sim, num_envs=1, seconds=0.3).episodes.values()
    names = [name for name in one if name.split(".")[0] in ("observation", "action", "state") or "target" in name]
    assert {"observation.encoder.seen", "observation.count", "observation.more", "action", "target"} < set(names)
    assert ("target_velocity" in names) == ("target_torque" in names) == (kind == "mixed")
    for name in names:
        if kind == "positions":
            np.testing.assert_array_equal(many[name], one[name], err_msg=name)
        else:  # sums of several targets are rounded in another order
            np.testing.assert_allclose(many[name], one[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert one["observation.count"][:, 0].tolist() == list(range(31))
    assert np.ptp(one["state.qpos"], axis=0).min() > 0.02


def episodes_of(run: Recorded) -> list[dict[str, np.ndarray]]:
    episodes = list(run.episodes.values())
    assert len(episodes) >= 9
    return episodes


@pytest.mark.parametrize("kind", KINDS)
def test_every_episode_of_every_world_begins_afresh(kind: str, tmp_path: Path) -> None:
    """An episode by itself, with a policy that has just been made, gives the actions that were recorded."""
    model = policy(tmp_path, kind)
    run = rolled(model, task(tmp_path), num_envs=3, seconds=0.7, every_output=True)
    loaded = load_policy(model)
    for episode in episodes_of(run):
        assert episode["observation.count"][:, 0].tolist() == list(range(len(episode["observation.count"])))
        first, second = episode["observation.obs"][:2]
        assert first[:2].all()  # the newest, before zeros
        assert not first[2:6].any()
        np.testing.assert_array_equal(second[2:4], first[:2])
        with OnnxPolicy(loaded) as fresh:
            for step, action in enumerate(episode["action"]):
                for name, array in fresh.obs.items():
                    array[0] = episode[f"observation.{name}"][step]
                fresh.act(fresh.obs, fresh.out)
                np.testing.assert_allclose(fresh.action[0], action, rtol=1e-5, atol=1e-6)
    assert len({tuple(episode["action"][0]) for episode in run.episodes.values()}) == len(run.episodes)


@pytest.mark.parametrize("batch", ["batch", 1])
def test_replays_bit_for_bit(batch: Any, tmp_path: Path) -> None:
    recorded(policy(tmp_path, "mixed", batch=batch), task(tmp_path), tmp_path / "r", num_envs=3, seconds=0.7)
    replays = replay(list(read(tmp_path / "r")))
    assert len(replays) >= 9
    assert all(each.same for each in replays)
    assert sum(each.steps for each in replays) == 3 * 70


def test_one_robot_replays_bit_for_bit(tmp_path: Path) -> None:
    model, sim = policy(tmp_path), str(write(tmp_path, leg_xml(root="", keys=KEYS)))
    options = RunOptions(model=model, sim=sim, seconds=0.3, real_time=False)
    with open_session(options) as session, session.folder(tmp_path / "r") as folder:
        session.run(sinks=[folder])
    (told,) = replay(list(read(tmp_path / "r")))
    assert told.same
    assert told.steps == 30


def test_a_network_that_changed_since_is_refused(tmp_path: Path) -> None:
    recorded(policy(tmp_path), task(tmp_path), tmp_path / "r", num_envs=1, seconds=0.1)
    model = onnx.load(tmp_path / "encoder.onnx")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((6, 3), np.float32), "w"))
    save(model, tmp_path / "encoder.onnx")
    with pytest.raises(Exception, match=r"policy .*actor\.onnx is not the one that was recorded: found sha256"):
        replay(list(read(tmp_path / "r")))


def test_an_environment_of_several_inputs_has_a_dict_of_them(tmp_path: Path) -> None:
    model, sim = policy(tmp_path, "mixed"), task(tmp_path)
    run = rolled(model, sim, num_envs=2, seconds=0.6, seed=3)
    env = TaskVecEnv(2, sim=sim, policy=model, autoreset_mode=AutoresetMode.SAME_STEP)
    space = env.single_observation_space
    assert isinstance(space, Dict)
    assert {name: box.shape for name, box in space.items()} == {
        "obs": (10,), "more": (5,), "count": (1,), "encoder.seen": (6,)
    }  # fmt: skip
    observation, _ = env.reset(seed=3)
    number, rows = [0, 1], [0, 0]
    with OnnxPolicy(load_policy(model), nworld=2) as acting:
        for _ in range(60):
            for name, array in acting.obs.items():
                array[:] = observation[name]
            acting.act(acting.obs, acting.out)
            for world in range(2):
                mine = run.episodes[number[world]]
                np.testing.assert_array_equal(mine["action"][rows[world]], acting.action[world])
                rows[world] += 1
            observation, _, terminated, truncated, info = env.step(acting.action)
            done = terminated | truncated
            for world in np.flatnonzero(done).tolist():
                last = info["final_obs"][world]
                np.testing.assert_array_equal(last["obs"], run.episodes[number[world]]["observation.obs"][-1])
                later = [n for n, begun in run.memory.begun.items() if begun["world"] == world and n > number[world]]
                number[world], rows[world] = min(later, default=number[world]), 0
            if done.any():
                acting.reset(done)
    assert sorted(number) == sorted(max(n for n, b in run.memory.begun.items() if b["world"] == w) for w in range(2))
    env.close()


def test_gains_of_each_world_count_for_every_kind(tmp_path: Path) -> None:
    """The force on each joint is kp (q - pos) + kd (qd - vel) + tau with the gains that its world drew."""
    with closing(TaskVecEnv(200, sim=task(tmp_path), policy=policy(tmp_path, "mixed"))) as env:
        env.reset(seed=0)
        worlds = env.worlds
        worlds.step(np.random.default_rng(0).uniform(-1.0, 1.0, (200, 4)))
        worlds.sim.forward()
        bias, asked = worlds.sim.expand("actuator_biasprm"), worlds.asked
        kp, kd = -bias[:, :, 1], -bias[:, :, 2]
        assert (np.ptp(kp[:, 0]), np.ptp(kd[:, 1])) > (10.0, 0.3)
        assert not kp[:, 1].any()
        qpos, qvel = worlds.sim.view("qpos"), worlds.sim.view("qvel")
        force = kp * (asked.q - qpos) + kd * (asked.qd - qvel) + asked.tau
        np.testing.assert_allclose(worlds.sim.view("qfrc_actuator"), force, rtol=1e-9, atol=1e-9)
        assert np.abs(asked.tau[:, 0]).max() == 0.24
        assert np.abs(asked.qd).max() > 0.9
