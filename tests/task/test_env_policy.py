"""Environments under the contract of somebody's policy: what acts in them does what `run rollouts` records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollout_examples import Array, contract_document, rolled
from scenes import leg_xml, write
from support import linear_model, save
from task_examples import leg_document

import edgert
from edgert.errors import EdgertError, UnsupportedError
from edgert.task.env import TaskEnv

ID = "edgert/Quadruped-v0"
STEPS = 40


def unlike(folder: Path, **changes: Any) -> str:
    """A policy for the quadruped at half its task's rate, with a history and gains of its own."""
    document = contract_document("quadruped") | {"control_hz": 25.0} | changes
    document["joints"]["kp"] = 50.0
    for term in document["inputs"]["obs"]["terms"]:
        term["history"] = 3
    weight = 0.1 * np.random.default_rng(0).normal(size=(150, 12))
    return str(save(linear_model(dim=150, weight=weight, document=document), folder / "unlike.onnx"))


def acted(env: Any, model: str, nworld: int) -> dict[str, list[Array]]:
    """What a policy sees, gives and earns in a vector environment, step by step."""
    rows: dict[str, list[Array]] = {"observation.obs": [], "action": [], "reward": [], "state.qpos": []}
    observation, _ = env.reset(seed=7)
    with edgert.OnnxPolicy(edgert.load_policy(model), nworld=nworld) as policy:
        for _ in range(STEPS):
            policy.obs["obs"][:] = observation
            policy.act(policy.obs, policy.out)
            rows["observation.obs"].append(observation)
            rows["action"].append(policy.action.copy())
            rows["state.qpos"].append(env.unwrapped.worlds.sim.view("qpos").copy())
            observation, reward, _, _, _ = env.step(policy.action)
            rows["reward"].append(reward)
    return rows


def test_a_policy_acts_as_in_rollouts(tmp_path: Path) -> None:
    model = unlike(tmp_path)
    env = gymnasium.make_vec(ID, num_envs=3, policy=model, autoreset_mode=AutoresetMode.SAME_STEP)
    assert env.single_observation_space.shape == (150,)
    rows = acted(env, model, 3)
    run = rolled(model, "quadruped", num_envs=3, seed=7, seconds=STEPS / 25.0)
    lengths = []
    for number in range(3):  # the first episode of each world
        mine = run.episodes[number]
        lengths.append(len(mine["action"]))
        for name, values in rows.items():
            wanted = np.array(values)[: lengths[-1], run.memory.begun[number]["world"]]
            np.testing.assert_array_equal(mine[name][: lengths[-1]], wanted)
    assert min(lengths) > 5
    env.close()


def leg_policy(folder: Path) -> str:
    document = leg_document()["contract"] | {"schema": 1, "command": {"kind": "twist"}}
    document["inputs"] = {"obs": {"terms": ["joint_pos", "joint_vel", "command"]}}
    return str(save(linear_model(dim=7, nact=2, weight=np.full((7, 2), 0.1), document=document), folder / "leg.onnx"))


def test_a_bare_scene_is_enough_for_a_policy(tmp_path: Path) -> None:
    """Without a task nobody draws commands: each world is asked for what `run rollouts` asks for."""
    model, sim = leg_policy(tmp_path), str(write(tmp_path, leg_xml()))
    env = gymnasium.make_vec(ID, num_envs=2, sim=sim, policy=model)
    rows = acted(env, model, 2)
    np.testing.assert_array_equal(rows["observation.obs"][0][:, 4:], [[0.5, 0.0, 0.0]] * 2)
    run = rolled(model, sim, num_envs=2, seed=7, seconds=STEPS / 100.0)
    for number in range(2):
        steps = len(run.episodes[number]["action"])
        np.testing.assert_array_equal(run.episodes[number]["action"], np.array(rows["action"])[:steps, number])
    env.close()


def test_one_environment_takes_a_loaded_policy_and_an_overlay(tmp_path: Path) -> None:
    overlay = tmp_path / "mine.toml"
    overlay.write_text("schema = 1\n[joints]\nkp = 20.0\n", encoding="utf-8")
    by_path = gymnasium.make(ID, policy="quadruped", contract=overlay)
    loaded = edgert.load_policy("quadruped", overlay)
    with TaskEnv(policy=loaded) as env:
        assert by_path.unwrapped.task.contract == env.task.contract == loaded.contract
        assert env.worlds.scene.model.actuator_gainprm[0, 0] == 20.0
    by_path.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"contract": "policy.toml"}, "a contract needs its policy: found contract policy.toml. Name it: policy=…"),
        ({"policy": "hexapod"}, "no policy 'hexapod': expected an .onnx file, or"),
        ({"policy": "cartpole"}, "the policy lacks joints of task 'quadruped'"),
    ],
)
def test_refusals(options: dict[str, Any], text: str) -> None:
    with pytest.raises(EdgertError) as caught:
        TaskEnv(**options)
    assert text in str(caught.value)


def test_a_loaded_policy_has_its_contract() -> None:
    with pytest.raises(UnsupportedError, match=r"a loaded policy has its contract: found contract x\. Leave it out"):
        TaskEnv(policy=edgert.load_policy("quadruped"), contract="x")
