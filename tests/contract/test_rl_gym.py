"""The YAML of unitree_rl_gym's deploy scripts, read into a contract."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.contract import parse_contract
from edgert.contract.formats import Evidence, choose_format
from edgert.contract.rl_gym import RL_GYM
from edgert.errors import ContractError, EdgertError

ROBOT = ("left_hip", "left_knee", "waist")
CONFIG: dict[str, Any] = {
    "policy_path": "{LEGGED_GYM_ROOT_DIR}/motion.pt",
    "simulation_dt": 0.002,
    "control_decimation": 10,
    "kps": [100, 150, 40],
    "kds": [2, 4, 1],
    "default_angles": [-0.1, 0.3, 0.0],
    "ang_vel_scale": 0.25,
    "dof_pos_scale": 1.0,
    "dof_vel_scale": 0.05,
    "action_scale": 0.25,
    "cmd_scale": [2.0, 2.0, 0.25],
    "num_actions": 3,
    "num_obs": 20,
}


def evidence(config: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "sidecars": {"g1.yaml": CONFIG if config is None else config},
        "inputs": {"obs": (1, 20), "h_in": (1, 1, 4)},
        "outputs": {"actions": (1, 3), "h_out": (1, 1, 4)},
        "joints": ROBOT,
    }
    return Evidence(model="p.onnx", metadata={}, **fields | changes)


def test_what_the_scripts_hold_is_assumed_and_said() -> None:
    reading = RL_GYM.read(evidence())
    assert reading.document == {
        "schema": 1,
        "control_hz": 50.0,
        "joints": {
            "names": list(ROBOT), "default_pos": [-0.1, 0.3, 0.0], "kp": [100.0, 150.0, 40.0], "kd": [2.0, 4.0, 1.0],
        },
        "action": {"scale": [0.25] * 3, "offset": [-0.1, 0.3, 0.0], "joints": list(ROBOT)},
        "command": {"kind": "twist"},
        "phase": {"hz": 1.25},
        "inputs": {
            "obs": {
                "terms": [
                    {"name": "base_ang_vel", "scale": 0.25},
                    {"name": "projected_gravity"},
                    {"name": "command", "scale": [2.0, 2.0, 0.25]},
                    {"name": "joint_pos", "scale": 1.0},
                    {"name": "joint_vel", "scale": 0.05},
                    {"name": "last_action"},
                    {"name": "phase"},
                ]
            }
        },
    }  # fmt: skip
    assert reading.sources == {
        "joints.names": "assumed: the order of the scene's actuated joints",
        "inputs.obs.terms": "assumed: as in unitree_rl_gym's deploy scripts",
        "phase.hz": "assumed: as in unitree_rl_gym's deploy scripts",
    }
    assert len(reading.notes) == 2
    document = {**reading.document, "action": {**reading.document["action"], "output": "actions"}}
    assert parse_contract(document, "x").inputs["obs"].dim == 20


def test_without_room_for_a_clock_there_is_none() -> None:
    reading = RL_GYM.read(evidence(CONFIG | {"num_obs": 18}, inputs={"obs": (1, 18)}))
    assert "phase" not in reading.document
    assert reading.document["inputs"]["obs"]["terms"][-1] == {"name": "last_action"}


def test_other_sizes_leave_the_observations_to_the_user() -> None:
    reading = RL_GYM.read(evidence(CONFIG | {"num_obs": 30}, inputs={"obs": (1, 30)}))
    assert "inputs" not in reading.document
    assert reading.reasons == {
        "inputs.obs.terms": "unitree_rl_gym's scripts have 18 or, with a gait clock, 20"
    }  # fmt: skip


def test_a_real_robots_file_holds_the_other_motors() -> None:
    config = CONFIG | {
        "kps": [100, 150], "kds": [2, 4], "default_angles": [-0.1, 0.3], "num_actions": 2, "num_obs": 17,
        "leg_joint2motor_idx": [2, 0], "arm_waist_joint2motor_idx": [1], "arm_waist_kps": [300],
        "arm_waist_kds": [3], "arm_waist_target": [0.2], "control_dt": 0.01, "max_cmd": [0.8, 0.5, 1.57],
    }  # fmt: skip
    read = RL_GYM.read(evidence(config, inputs={"obs": (1, 17)})).document
    assert read["joints"] == {
        "names": ["waist", "left_hip", "left_knee"], "default_pos": [-0.1, 0.3, 0.2], "kp": [100.0, 150.0, 300.0],
        "kd": [2.0, 4.0, 3.0],
    }  # fmt: skip
    assert read["action"]["joints"] == ["waist", "left_hip"]
    assert read["inputs"]["obs"]["terms"][3] == {"name": "joint_pos", "scale": 1.0, "joints": ["waist", "left_hip"]}
    assert read["control_hz"] == 100.0
    assert read["command"] == {
        "kind": "twist", "vx_m_s": [-0.8, 0.8], "vy_m_s": [-0.5, 0.5], "wz_rad_s": [-1.57, 1.57],
    }  # fmt: skip


def test_the_joints_may_be_named_later() -> None:
    read = RL_GYM.read(evidence(joints=())).document
    assert "names" not in read["joints"]
    assert "joints" not in read["action"]


def test_it_is_known_by_its_keys() -> None:
    assert choose_format(evidence()) == ("rl_gym", "g1.yaml with kps, kds, default_angles, action_scale")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"kds": [1, 2]}, "key 'kds' is wrong: found 2 numbers, expected 3"),
        ({"num_actions": 4}, "key 'num_actions' is wrong: found 4, expected 3, as default_angles"),
        ({"num_obs": 47}, "key 'num_obs' is wrong: found 47, expected 20, as the network takes"),
        ({"leg_joint2motor_idx": [0, 0, 1]}, "key 'leg_joint2motor_idx' is wrong: found [0, 0, 1]"),
    ],
)
def test_what_cannot_be_understood_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught:
        RL_GYM.read(evidence(CONFIG | values))
    assert text in str(caught.value)


def test_gains_of_nothing_are_asked_for() -> None:
    reading = RL_GYM.read(evidence(CONFIG | {"kps": [0, 0, 0]}))
    why = "kps is 0 for every joint: its actuators are modelled elsewhere"
    assert reading.reasons == {"joints.kp": why, "joints.kd": why}
    assert reading.document["joints"].keys() == {"names", "default_pos"}


def test_another_robot_is_refused() -> None:
    with pytest.raises(
        ContractError, match=r"found 3 joints, expected 2: a, b\. Name the scene of its robot with --sim"
    ):
        RL_GYM.read(evidence(joints=("a", "b")))


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
KEYS = [*CONFIG, "leg_joint2motor_idx", "arm_waist_joint2motor_idx", "max_cmd", "control_dt"]


@given(st.sampled_from(KEYS), SOME | st.lists(SOME, max_size=4))
def test_nothing_in_it_ends_in_a_traceback(name: str, value: Any) -> None:
    with suppress(EdgertError):
        document = RL_GYM.read(evidence(CONFIG | {name: value})).document
        parse_contract({**document, "action": {**document["action"], "output": "actions"}}, "x")
