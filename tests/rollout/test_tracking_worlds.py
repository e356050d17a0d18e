"""Tracking policies in many worlds: each does what `run policy` does, from the first frame of its motion on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracking
from onnx import TensorProto
from rollout_examples import recorded, rolled
from support import save
from task_examples import write_task

from edgert.errors import ContractError
from edgert.policy import OnnxPolicy, load_policy
from edgert.rollout import MemorySink, RolloutOptions, open_rollouts, read
from edgert.rollout.replay import replay
from edgert.rollout.sink import INDEX
from edgert.runtime import RunOptions, open_session
from edgert.task.env import TaskEnv, TaskVecEnv

TABLES = tracking.reference()
FRAMES, SECONDS = 40, 1.2
"""The motion takes 0.8 s of them."""


def policy(folder: Path, kind: str) -> str:
    """A tracking policy whose motion is in the network, its frame a float or an integer, or in a file beside it."""
    if kind == "file":
        names = {"joint_pos": "joint_pos", "joint_vel": "joint_vel"}
        arrays = {**{name: TABLES[name] for name in names}, "fps": 50.0}
        arrays |= {"body_pos_w": TABLES["torso_pos"][:, None], "body_quat_w": TABLES["torso_quat"][:, None]}
        (folder / "motion.npz").write_bytes(tracking.npz(**arrays))
        motion = {"file": "motion.npz", "hz": 50.0, "bodies": ["torso"], "anchor": "torso"}
        return str(save(tracking.linear(tracking.document(motion)), folder / "file.onnx"))
    contract = tracking.document(tracking.NETWORK_MOTION)
    of, batch = (TensorProto.FLOAT, 1) if kind == "network" else (TensorProto.INT64, "batch")
    shape = (1, 1) if kind == "network" else ("batch", 1)
    model = tracking.tracking_model(tracking.network_tables(TABLES), contract, kind=of, shape=shape, batch=batch)
    return str(save(model, folder / f"{kind}.onnx"))


def alone(model: str, sim: str, **options: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    options = {"model": model, "sim": sim, "seconds": SECONDS, "real_time": False} | options
    with open_session(RunOptions(**options)) as session:
        memory = MemorySink((*INDEX, *session.columns()))
        report = session.report(session.run(sinks=[memory]))
    return {column.name: memory.rows(column.name, final=column.final) for column in memory.columns}, report


@pytest.mark.parametrize("kind", ["network", "integers", "file"])
@pytest.mark.parametrize("loop", [None, True])
def test_every_world_tracks_as_one_robot_does(kind: str, loop: bool | None, tmp_path: Path) -> None:
    model, sim = policy(tmp_path, kind), str(tracking.scene_file(tmp_path))
    one, report = alone(model, sim, motion_loop=loop)
    run = rolled(model, sim, num_envs=2, seconds=SECONDS, motion_loop=loop)
    assert [info["outcome"] for info in run.memory.ended.values()] == ["completed"] * 2 == [report["outcome"]] * 2
    assert run.report["motion"] == report["motion"]
    assert run.report["motion"]["loop"] is bool(loop)
    for note in ("starts in the first frame of", "takes 0.78 s and"):
        assert [line for line in run.session.notes if note in line] == [
            line for line in report["notes"] if note in line
        ]
    for rows in run.episodes.values():
        np.testing.assert_allclose(rows["observation.obs"], one["observation.obs"], atol=1e-6)
        np.testing.assert_allclose(rows["state.qpos"], one["state.qpos"], atol=1e-6)
        if kind != "file":
            frames = np.arange(61) % FRAMES if loop else np.minimum(np.arange(61), FRAMES - 1)
            np.testing.assert_array_equal(rows["observation.time_step"][:, 0], frames)
            np.testing.assert_array_equal(one["observation.time_step"][:, 0], frames)
    assert np.ptp(one["state.qpos"][:, -3:], axis=0).min() > 0.05


def task(folder: Path) -> str:
    """Episodes of 0.3 s around the first frame."""
    document = {
        "schema": 1,
        "scene": "tracker.xml",
        "decimation": 4,
        "episode_s": 0.3,
        "base": "pelvis",
        "contract": tracking.document({}, "joint_pos"),
        "rewards": {"torque": {"weight": -1e-3}},
        "reset": {"joint_pos_rad": 0.1, "yaw_rad": 1.0},
    }
    for key in ("schema", "motion"):
        document["contract"].pop(key)
    return str(write_task(folder / "tracker", document, tracking.SCENE))


def test_each_episode_begins_around_the_first_frame(tmp_path: Path) -> None:
    """Turned with its robot, the reference stands where that does: only what was spread is left between them."""
    run = rolled(policy(tmp_path, "file"), task(tmp_path), num_envs=5, seconds=0.9)
    assert len(run.episodes) == 15
    first = np.array([rows["observation.obs"][0] for rows in run.episodes.values()])
    command = np.concatenate((TABLES["joint_pos"][0], TABLES["joint_vel"][0]))
    np.testing.assert_allclose(first[:, :6], np.tile(command, (15, 1)), atol=1e-6)
    qpos = np.array([rows["state.qpos"][0] for rows in run.episodes.values()])
    joints = qpos[:, -3:] - TABLES["joint_pos"][0]
    assert 0.08 < np.abs(joints).max() <= 0.1 + 1e-9
    yaw = 2.0 * np.arctan2(qpos[:, 13], qpos[:, 10])
    assert np.ptp(yaw) > 1.0
    assert np.abs(first[:, 6:8]).max() < 1e-6  # x and y of the anchor coincide
    lying = [rows["observation.obs"][-1, :3] for rows in run.episodes.values()]
    np.testing.assert_allclose(lying, np.tile(TABLES["joint_pos"][15], (15, 1)), atol=1e-6)


@pytest.mark.parametrize("kind", ["network", "integers", "file"])
def test_tracking_replays_bit_for_bit(kind: str, tmp_path: Path) -> None:
    recorded(policy(tmp_path, kind), task(tmp_path), tmp_path / "r", num_envs=3, seconds=0.7, every_output=False)
    replays = replay(list(read(tmp_path / "r")))
    assert len(replays) == 9
    assert all(each.same for each in replays)


def test_environments_track(tmp_path: Path) -> None:
    model, sim = policy(tmp_path, "integers"), task(tmp_path)
    run = rolled(model, sim, num_envs=2, seconds=0.3, seed=4)
    env = TaskVecEnv(2, sim=sim, policy=model)
    observation, _ = env.reset(seed=4)
    with OnnxPolicy(load_policy(model), nworld=2) as acting:
        for step in range(15):
            assert observation["time_step"].tolist() == [[step], [step]]
            for name, array in acting.obs.items():
                array[:] = observation[name]
            acting.act(acting.obs, acting.out)
            for world in range(2):
                np.testing.assert_array_equal(acting.action[world], run.episodes[world]["action"][step])
            observation = env.step(acting.action)[0]
    env.close()
    with closing(TaskEnv(sim=sim, policy=model)) as single:
        assert set(single.reset(seed=0)[0]) == {"obs", "time_step"}


def test_a_policy_without_a_motion_loops_none() -> None:
    with pytest.raises(
        ContractError, match=r"this policy follows no reference motion, which option 'motion_loop' is for\. Leave"
    ):
        open_rollouts(RolloutOptions(model="quadruped", motion_loop=True))
