"""A task under a policy's contract, and a task made of a bare scene."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollout_examples import TASKS, changed_sim
from scenes import leg_xml
from support import QUADRUPED

from edgert.contract.document import parse_contract
from edgert.contract.spec import Contract
from edgert.errors import ContractError, RobotError
from edgert.task.sampling import Randomisation, ResetRanges
from edgert.task.task import FallTermination, fall_below, load_task, scene_task
from edgert.task.worlds import Worlds, build_scene


def contract(sim: str, **changes: Any) -> Contract:
    document = json.loads(json.dumps(TASKS[sim].contract.to_document()))
    for key, value in changes.items():
        document[key] = document[key] | value if isinstance(value, dict) else value
    return parse_contract(document, "policy.toml", {})


def test_the_policys_contract_counts() -> None:
    policy = contract("quadruped", joints={"kp": 20.0, "kd": 0.4})
    task = load_task("quadruped", policy)
    assert task.contract is policy
    with Worlds(task, 1, randomise=False) as worlds:
        gains = worlds.scene.model.actuator_gainprm[:, 0]
        np.testing.assert_array_equal(gains, 20.0)
    assert load_task("quadruped").contract.kp == QUADRUPED.contract.kp


def test_at_another_rate_the_task_keeps_its_physics() -> None:
    task = load_task("quadruped", contract("quadruped", control_hz=25.0))
    assert (task.decimation, task.episode_steps, task.episode_s) == (8, 500, 20.0)
    build_scene(task)  # refuses a rate that does not fit
    with Worlds(task, 1, randomise=False) as worlds:
        worlds.reset()
        worlds.step(np.zeros((1, 12)))
        assert worlds.sim.state()[0, 0] == pytest.approx(0.04)


def test_a_rate_that_does_not_fit_the_timestep_is_refused() -> None:
    with pytest.raises(ContractError, match="no whole number of timesteps"):
        build_scene(load_task("quadruped", contract("quadruped", control_hz=60.0)))


def test_rewards_are_of_the_joints_that_they_name() -> None:
    """The pose is that of the hips, in whatever order the policy has them."""
    order = np.random.default_rng(3).permutation(12).tolist()
    joints = [QUADRUPED.contract.joints[i] for i in order]
    document: dict[str, Any] = QUADRUPED.contract.to_document()["joints"]
    swapped = {key: [document[key][i] for i in order] for key in ("names", "default_pos", "kp", "kd")}
    own, theirs = QUADRUPED, load_task("quadruped", contract("quadruped", joints=swapped, action={"joints": joints}))
    for task in (own, theirs):
        (pose,) = [term for term in task.rewards if term.name == "pose"]
        named = {task.contract.joints[i] for i in pose.parameters["joints"]}
        assert named == {"FL_hip_joint", "FR_hip_joint", "RL_hip_joint", "RR_hip_joint"}


def test_ranges_by_joint_follow_the_names() -> None:
    """A policy that has the hinge before the slider."""
    names = ["hinge", "slider"]
    swapped = contract("cartpole", joints={"names": names, "kp": [0.0, 400.0], "kd": [0.0, 40.0]})
    own, theirs = TASKS["cartpole"], load_task("cartpole", swapped)
    spreads = []
    for task in (own, theirs):
        with Worlds(task, 300, nthread=1) as worlds:
            worlds.seed([np.random.default_rng(i) for i in range(300)])
            worlds.reset()
            spreads.append(np.abs(worlds.sim.view("qpos")).max(axis=0))
    np.testing.assert_allclose(spreads[0], [0.3, np.pi], rtol=0.02)
    np.testing.assert_allclose(spreads[1], [0.3, np.pi], rtol=0.02)


def test_noise_is_that_of_the_terms_that_the_policy_has() -> None:
    policy = contract("cartpole", inputs={"obs": {"terms": ["joint_vel", {"name": "joint_pos", "scale": 2.0}]}})
    with Worlds(load_task("cartpole", policy), 400, nthread=1) as worlds:
        worlds.reset()
        clean = np.concatenate((worlds.body.state.joint_vel, 2.0 * worlds.body.state.joint_pos), axis=1)
        noise = np.abs(worlds.observe()["obs"] - clean).max(axis=0)
    np.testing.assert_allclose(noise, [0.02, 0.02, 0.004, 0.004], rtol=0.05)


def test_a_policy_that_leaves_joints_loose_is_refused() -> None:
    policy = contract("cartpole")
    with pytest.raises(ContractError) as caught:
        load_task("quadruped", policy)
    assert str(caught.value) == (
        "the policy lacks joints of task 'quadruped': found no FL_hip_joint, FL_thigh_joint, FL_calf_joint, "
        "FR_hip_joint, FR_thigh_joint, FR_calf_joint and 6 more, expected every joint of its contract in [joints] "
        "names. Name the policy's own robot with --sim"
    )


def test_a_reward_that_the_policy_cannot_have_is_refused() -> None:
    document = json.loads(json.dumps(QUADRUPED.contract.to_document()))
    del document["phase"]
    document["inputs"]["obs"]["terms"] = document["inputs"]["obs"]["terms"][:-1]
    task = load_task("quadruped", parse_contract(document, "policy.toml", {}))
    with pytest.raises(
        ContractError, match=r"reward 'foot_clock' .* found no gait clock in the contract\. .* with --sim"
    ):
        Worlds(task, 1)


def test_a_task_knows_the_digest_of_its_file(tmp_path: Path) -> None:
    folder = Path(changed_sim("cartpole", tmp_path, {"episode_s": 3.0}))
    digest = hashlib.sha256((folder / "task.toml").read_bytes()).hexdigest()
    for name in (str(folder), folder, folder / "task.toml", str(folder / "task.toml")):
        assert load_task(name).sha256 == digest
    assert load_task("cartpole").sha256 != digest


LEG: dict[str, Any] = {
    "schema": 1,
    "control_hz": 100.0,
    "joints": {"names": ["hip", "knee"], "default_pos": [0.0, 0.0], "kp": 20.0, "kd": 0.5},
    "inputs": {"obs": {"terms": ["joint_pos", "joint_vel"]}},
    "action": {"output": "actions"},
}


def scene(folder: Path, **parts: str) -> Path:
    path = folder / "leg.xml"
    path.write_text(leg_xml(**parts))
    return path


def test_a_bare_scene_becomes_a_task(tmp_path: Path) -> None:
    policy = parse_contract(LEG, "policy.toml", {})
    path = scene(tmp_path)
    task = scene_task(path, policy, 3.0)
    assert (task.name, task.id, task.scene, task.base) == (str(path), "", path, "torso")
    assert (task.decimation, task.episode_s, task.episode_steps) == (5, 3.0, 300)
    assert (task.command, task.rewards, task.success, task.trials, task.sha256) == (None, (), None, None, "")
    assert task.reset == ResetRanges()
    assert task.randomise == Randomisation()
    assert task.fall == FallTermination(tilt_rad=1.0, height_m=0.3)  # half of 0.6 m
    with Worlds(task, 2, randomise=False) as worlds:
        worlds.reset()
        assert not worlds.terminated.any()


def test_a_bare_scene_falls_below_half_of_where_its_keyframe_starts(tmp_path: Path) -> None:
    key = '<key name="home" qpos="0 0 0.8 1 0 0 0 0 0"/>'
    task = scene_task(scene(tmp_path, keys=key), parse_contract(LEG, "policy.toml", {}), 1.0)
    assert task.fall == FallTermination(tilt_rad=1.0, height_m=0.4)


def test_a_fixed_base_never_falls(tmp_path: Path) -> None:
    task = scene_task(scene(tmp_path, root=""), parse_contract(LEG, "policy.toml", {}), 1.0)
    assert task.fall is None
    assert task.base == ""


def test_a_scene_without_the_policys_joints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=r"lacks joints of the policy: found no FL_hip_joint"):
        scene_task(scene(tmp_path), QUADRUPED.contract, 1.0)


@pytest.mark.parametrize(("start_m", "height_m"), [(0.3, 0.15), (0.0, 0.0), (-1.0, 0.0)])
def test_where_no_task_says_so_a_base_falls_below_half_its_height(start_m: float, height_m: float) -> None:
    assert fall_below(start_m) == FallTermination(tilt_rad=1.0, height_m=height_m)
