"""The terms of tracking policies: frames and orders by MuJoCo's own algebra, for every library and for one robot."""

from __future__ import annotations

from typing import Any

import array_api_strict
import mujoco
import numpy as np
import pytest

from edgert.contract.document import parse_contract
from edgert.contract.motion import Motion, MotionState, check_motion, tracked_bodies
from edgert.contract.observe import Observer, check_state, make_term_inputs
from edgert.contract.plan import ObservationPlan
from edgert.contract.spec import Contract
from edgert.contract.state import RobotState
from edgert.contract.terms import TermInputs
from edgert.errors import ContractError

JOINTS = ("hip", "knee", "ankle")
TERMS: dict[str, Any] = {
    "time_step": "time_step",
    "motion_phase": "motion_phase",
    "motion_joint_pos": "motion_joint_pos",
    "motion_joint_vel": "motion_joint_vel",
    "motion_command": "motion_command",
    "motion_command of some joints": {"name": "motion_command", "joints": ["ankle", "hip"]},
    "motion_joint_pos of one joint": {"name": "motion_joint_pos", "joints": ["knee"], "scale": 2.0},
    "motion_anchor_pos_b": "motion_anchor_pos_b",
    "motion_anchor_ori_b": "motion_anchor_ori_b",
}


def contract(*terms: Any, motion: bool = True) -> Contract:
    document: dict[str, Any] = {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": list(JOINTS), "default_pos": 0.0, "kp": 20.0, "kd": 0.5},
        "inputs": {"obs": {"terms": list(terms)}},
        "action": {"output": "actions"},
    }
    if motion:
        document["motion"] = {"file": "walk.npz", "anchor": "torso"}
    return parse_contract(document, "test")


def unit(rng: np.random.Generator, nworld: int) -> np.ndarray:
    quat = rng.normal(size=(nworld, 4))
    return quat / np.linalg.norm(quat, axis=1, keepdims=True)


def arrays(nworld: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        "frame": rng.integers(0, 40, nworld),
        "joint_pos": rng.normal(size=(nworld, 3)),
        "joint_vel": rng.normal(size=(nworld, 3)),
        "anchor_pos": rng.normal(size=(nworld, 3)),
        "anchor_quat": unit(rng, nworld),
        "body_pos": rng.normal(size=(nworld, 3)),
        "body_quat": unit(rng, nworld),
    }


def inputs(spec: Contract, values: dict[str, Any], xp: Any = np) -> TermInputs:
    values = {name: xp.asarray(value) for name, value in values.items()}
    nworld = values["frame"].shape[0]
    state = RobotState(
        joint_names=JOINTS,
        joint_pos=xp.zeros((nworld, 3), dtype=xp.float64),
        body_pos={"torso": values.pop("body_pos")},
        body_quat={"torso": values.pop("body_quat")},
    )
    return make_term_inputs(
        spec,
        state,
        command=xp.zeros((nworld, 0), dtype=xp.float64),
        last_action=xp.zeros((nworld, 3), dtype=xp.float64),
        phase_rad=xp.zeros(nworld, dtype=xp.float64),
        xp=xp,
        motion=MotionState(frames=41, anchor="torso", **values),
    )


def observed(term: Any, nworld: int, xp: Any = np) -> np.ndarray:
    spec = contract(term)
    given = inputs(spec, arrays(nworld), xp)
    return np.asarray(Observer(spec, "obs", given.last_action)(given))


@pytest.mark.parametrize("nworld", [1, 5])
def test_positions_are_in_the_frame_of_the_robots_anchor(nworld: int) -> None:
    values = arrays(nworld)
    for world, row in enumerate(observed("motion_anchor_pos_b", nworld)):
        back, expected = np.zeros(4), np.zeros(3)
        mujoco.mju_negQuat(back, values["body_quat"][world])
        mujoco.mju_rotVecQuat(expected, values["anchor_pos"][world] - values["body_pos"][world], back)
        np.testing.assert_allclose(row, expected, atol=1e-12)


@pytest.mark.parametrize("nworld", [1, 5])
def test_orientations_are_the_first_two_columns_row_by_row(nworld: int) -> None:
    values = arrays(nworld)
    for world, row in enumerate(observed("motion_anchor_ori_b", nworld)):
        robot, reference = np.zeros(9), np.zeros(9)
        mujoco.mju_quat2Mat(robot, values["body_quat"][world])
        mujoco.mju_quat2Mat(reference, values["anchor_quat"][world])
        relative = robot.reshape(3, 3).T @ reference.reshape(3, 3)
        np.testing.assert_allclose(row, relative[:, :2].reshape(-1), atol=1e-12)


def test_joints_are_those_of_the_reference_by_name() -> None:
    values = arrays(4)
    position, velocity = values["joint_pos"], values["joint_vel"]
    np.testing.assert_array_equal(observed("motion_joint_pos", 4), position)
    np.testing.assert_array_equal(observed("motion_joint_vel", 4), velocity)
    np.testing.assert_array_equal(observed("motion_command", 4), np.concatenate([position, velocity], axis=1))
    some = observed(TERMS["motion_command of some joints"], 4)
    np.testing.assert_array_equal(some, np.concatenate([position[:, [2, 0]], velocity[:, [2, 0]]], axis=1))
    np.testing.assert_array_equal(observed(TERMS["motion_joint_pos of one joint"], 4), 2.0 * position[:, [1]])


def test_frames_and_phases() -> None:
    frame = arrays(4)["frame"]
    np.testing.assert_array_equal(observed("time_step", 4)[:, 0], frame)
    np.testing.assert_array_equal(observed("motion_phase", 4)[:, 0], frame / 40)


@pytest.mark.parametrize("term", TERMS)
def test_any_array_library_will_do(term: str) -> None:
    np.testing.assert_array_equal(observed(TERMS[term], 3, array_api_strict), observed(TERMS[term], 3))


@pytest.mark.parametrize("term", TERMS)
def test_the_plan_of_one_robot_writes_the_same(term: str) -> None:
    spec, values = contract(TERMS[term]), arrays(1)
    given = inputs(spec, values)
    out = np.full((1, spec.inputs["obs"].dim), np.nan)
    plan = ObservationPlan(spec, "obs", given, out)
    for frame in (3, 17):
        assert given.motion is not None
        given.motion.frame[:] = frame
        for name in ("joint_pos", "joint_vel", "anchor_pos", "anchor_quat"):
            getattr(given.motion, name)[:] *= 0.99
        plan()
        np.testing.assert_array_equal(out, Observer(spec, "obs", given.last_action)(given))


@pytest.mark.parametrize("term", ["motion_command", "time_step"])
def test_without_a_motion_they_are_refused(term: str) -> None:
    with pytest.raises(ContractError, match=r"\[motion\]|motion"):
        contract(term, motion=False)


def test_tables_that_are_missing() -> None:
    spec = contract("motion_command", "motion_anchor_ori_b")
    with pytest.raises(ContractError) as caught:
        check_motion(spec, Motion(hz=50.0, frames=2, joint_pos=np.zeros((2, 3)), source="motion walk.npz"))
    assert str(caught.value) == (
        "term 'motion_command' of input 'obs' needs joint_vel of the reference motion, which motion walk.npz does not "
        "give: found joint_pos. Name it in [motion.outputs], or the bodies of a file in [motion] bodies of policy.toml"
    )
    with pytest.raises(ContractError) as caught:
        check_motion(spec, None)
    assert str(caught.value) == (
        "term 'motion_command' of input 'obs' needs a reference motion: found none. Add [motion] to policy.toml: a "
        "file, or the network's time_step input and outputs"
    )
    check_motion(contract("base_ang_vel"), None)


def test_which_bodies_a_contract_reads() -> None:
    assert tracked_bodies(contract("motion_anchor_ori_b")) == ("torso",)
    assert tracked_bodies(contract("motion_command")) == ()


def test_a_robot_that_does_not_tell_where_its_anchor_is() -> None:
    with pytest.raises(ContractError) as caught:
        check_state(contract("motion_anchor_ori_b"), RobotState(joint_names=JOINTS), "robot leg")
    assert str(caught.value) == (
        "term 'motion_anchor_ori_b' of input 'obs' needs the pose of its anchor, which robot leg does not tell: found "
        "no pose of torso"
    )
