"""`config.yaml` and `base.yaml` of rl_sar, read into a contract."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.contract import parse_contract
from edgert.contract.formats import Evidence, choose_format
from edgert.contract.rl_sar import RL_SAR
from edgert.errors import ContractError, EdgertError

ROBOT = ("right_hip", "left_hip", "right_wheel", "left_wheel")
BASE: dict[str, Any] = {
    "toy": {
        "dt": 0.005,
        "decimation": 4,
        "joint_names": list(ROBOT),
        "joint_mapping": [0, 1, 2, 3],
        "default_dof_pos": [9.0] * 4,
        "torque_limits": [23.5] * 4,
    }
}
CONFIG: dict[str, Any] = {
    "toy/robot_lab": {
        "model_name": "policy.pt",
        "num_of_dofs": 4,
        "num_observations": 16,
        "observations": ["lin_vel", "ang_vel", "gravity_vec", "commands", "dof_pos", "dof_vel", "actions"],
        "observations_history": [2, 1, 0],
        "observations_history_priority": "time",
        "clip_obs": 100.0,
        "clip_actions_lower": [-100.0, -100.0, -50.0, -50.0],
        "clip_actions_upper": [100.0, 100.0, 50.0, 50.0],
        "rl_kp": [20.0, 21.0, 0.0, 0.0],
        "rl_kd": [0.5, 0.6, 0.7, 0.8],
        "action_scale": [0.125, 0.25, 5.0, 6.0],
        "wheel_indices": [2, 3],
        "lin_vel_scale": 2.0,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 0.9,
        "dof_vel_scale": 0.05,
        "commands_scale": [2.0, 2.0, 0.25],
        "default_dof_pos": [0.1, -0.1, 0.0, 0.0],
        "joint_mapping": [1, 0, 3, 2],
    }
}


def evidence(config: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "sidecars": {"config.yaml": CONFIG if config is None else config, "base.yaml": BASE},
        "inputs": {"obs": (1, 63)},
        "outputs": {"actions": (1, 4)},
    }
    return Evidence(model="p.onnx", metadata={}, **fields | changes)


def changed(**values: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    for name, value in values.items():
        config["toy/robot_lab"][name] = value
    return config


def test_the_policys_order_is_the_robots_through_its_mapping() -> None:
    reading = RL_SAR.read(evidence())
    document = reading.document
    assert document["robot"] == "toy"
    assert document["control_hz"] == 50.0
    assert document["joints"] == {
        "names": ["left_hip", "right_hip", "left_wheel", "right_wheel"],
        "default_pos": [0.1, -0.1, 0.0, 0.0],
        "kp": [20.0, 21.0, 0.0, 0.0],
        "kd": [0.5, 0.6, 0.7, 0.8],
    }
    assert document["action"] == {
        "joints": ["left_hip", "right_hip", "left_wheel", "right_wheel"],
        "kind": ["position", "position", "velocity", "velocity"],
        "scale": [0.125, 0.25, 5.0, 6.0],
        "offset": [0.1, -0.1, 0.0, 0.0],
        "clip": [[-100.0, 100.0], [-100.0, 100.0], [-50.0, 50.0], [-50.0, 50.0]],
    }
    bounded = {"clip": [-100.0, 100.0], "history": 3}
    assert document["inputs"]["obs"] == {
        "layout": "frame",
        "terms": [
            {"name": "base_lin_vel", "scale": 2.0, **bounded},
            {"name": "base_ang_vel", "scale": 0.25, **bounded},
            {"name": "projected_gravity", **bounded},
            {"name": "command", "scale": [2.0, 2.0, 0.25], **bounded},
            {"name": "joint_pos", "scale": [0.9, 0.9, 0.0, 0.0], **bounded},
            {"name": "joint_vel", "scale": 0.05, **bounded},
            {"name": "last_action", "stage": "clipped", **bounded},
        ],
    }
    assert reading.source == "config.yaml over base.yaml"
    assert "torque_limits of config.yaml over base.yaml are not used: those of the scene hold" in reading.notes


def test_terms_may_come_before_ticks() -> None:
    read = RL_SAR.read(evidence(changed(observations_history_priority="term"))).document["inputs"]["obs"]
    assert read["layout"] == "term"
    read = RL_SAR.read(evidence(changed(observations_history=[]))).document["inputs"]["obs"]
    assert {term["history"] for term in read["terms"]} == {1}


def test_joints_without_names_are_the_robots() -> None:
    found = evidence(sidecars={"config.yaml": CONFIG}, joints=ROBOT)
    reading = RL_SAR.read(found)
    assert reading.document["joints"]["names"] == ["left_hip", "right_hip", "left_wheel", "right_wheel"]
    assert reading.sources["joints.names"].startswith("assumed")
    assert "control_hz" not in reading.document
    nameless = RL_SAR.read(evidence(sidecars={"config.yaml": CONFIG})).document
    assert "names" not in nameless["joints"]
    assert "joints" not in nameless["action"]


def test_tracking_follows_a_file_in_the_robots_order() -> None:
    config = changed(
        observations=["whole_body_tracking/motion_command", "dof_pos"], motion_file="dance.csv", wheel_indices=[]
    )
    reading = RL_SAR.read(evidence(config))
    assert reading.document["motion"] == {"anchor": "torso_link", "file": "dance.csv", "joints": list(ROBOT)}
    assert "command" not in reading.document


def test_older_files_scale_hips_and_name_themselves() -> None:
    flat = changed(action_scale=0.5, hip_scale_reduction=0.5, hip_scale_reduction_indices=[0])["toy/robot_lab"]
    reading = RL_SAR.read(evidence(sidecars={"a.yaml": flat}, joints=ROBOT))
    assert reading.document["action"]["scale"] == [0.25, 0.5, 0.5, 0.5]


def test_it_is_known_by_its_keys() -> None:
    assert choose_format(evidence()) == ("rl_sar", "config.yaml for toy/robot_lab")
    with pytest.raises(ContractError, match=r"policy p\.onnx shows nothing of the format 'rl_sar'"):
        choose_format(evidence({"toy": {}}), "rl_sar")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"observations_history": [4, 2, 0]}, "found [4, 2, 0], expected every tick from the oldest to the latest or"),
        (
            {"observations_history_priority": None},
            "observations_history_priority' is wrong: found nothing, expected time or term. Older versions of rl_sar",
        ),
        ({"rl_kp": [20.0] * 3}, "key 'toy/robot_lab.rl_kp' is wrong: found 3 numbers, expected 4"),
        ({"joint_mapping": [0, 1, 2, 2]}, "joint_mapping' is wrong: found [0, 1, 2, 2], expected 4 places of joints"),
        ({"joint_mapping": [0, 1, 2, 7]}, "found 7, expected 0 to 3, places in joint_names"),
        ({"clip_actions_lower": 200.0}, "clip_actions_lower' is wrong: found 200.0, expected at most"),
    ],
)
def test_what_cannot_be_understood_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught:
        RL_SAR.read(evidence(changed(**values)))
    assert text in str(caught.value)


@pytest.mark.parametrize(("priority", "layout"), [("time", "frame"), ("term", "term")])
def test_a_history_that_counts_up_has_the_newest_first(priority: str, layout: str) -> None:
    config = changed(observations_history=[0, 1, 2], observations_history_priority=priority)
    read = RL_SAR.read(evidence(config)).document["inputs"]["obs"]
    assert (read["layout"], read["newest"], read["terms"][0]["history"]) == (layout, "first", 3)


def test_observations_that_are_not_known_are_asked_for() -> None:
    reading = RL_SAR.read(evidence(changed(observations=["ang_vel", "camera"])))
    assert reading.document["inputs"] == {}
    assert reading.reasons["inputs.obs.terms"].startswith("camera unknown; known are lin_vel, ang_vel")


def test_mappings_of_older_versions_do_not_say_whose_order_the_names_have() -> None:
    older = changed(joint_mapping=None, state_mapping=[1, 0, 3, 2], command_mapping=[0, 1, 2, 3])
    base = {"toy": {key: value for key, value in BASE["toy"].items() if key != "joint_mapping"}}
    reading = RL_SAR.read(evidence(sidecars={"config.yaml": older, "base.yaml": base}))
    assert reading.reasons["joints.names"].endswith("base.yaml has state_mapping, of an older rl_sar")
    assert "names" not in reading.document["joints"]


def test_the_gains_tell_how_many_joints_there_are() -> None:
    assert RL_SAR.read(evidence(changed(num_of_dofs=4))).document == RL_SAR.read(evidence(without())).document


def without() -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    del config["toy/robot_lab"]["num_of_dofs"]
    return config


def test_gains_of_nothing_are_asked_for() -> None:
    reading = RL_SAR.read(evidence(changed(rl_kp=[0.0] * 4)))
    why = "rl_kp is 0 for every joint: its actuators are modelled elsewhere"
    assert reading.reasons == {"joints.kp": why, "joints.kd": why}
    assert reading.document["joints"].keys() == {"names", "default_pos"}


def test_several_configurations_are_refused() -> None:
    config = CONFIG | {"toy/other": CONFIG["toy/robot_lab"]}
    with pytest.raises(ContractError, match=r"several configurations: found toy/robot_lab in config\.yaml, toy/other"):
        RL_SAR.read(evidence(config))


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})


@given(st.sampled_from([*CONFIG["toy/robot_lab"], "dt", "decimation"]), SOME | st.lists(SOME, max_size=4))
def test_nothing_in_it_ends_in_a_traceback(name: str, value: Any) -> None:
    with suppress(EdgertError):
        found = evidence(changed(**{name: value}))
        if RL_SAR.evidence(found):
            document = RL_SAR.read(found).document
            parse_contract({**document, "action": {**document["action"], "output": "actions"}}, "x")


def test_all_reasons_are_told_at_once() -> None:
    older = changed(joint_mapping=None, state_mapping=[1, 0, 3, 2], rl_kp=[0.0] * 4, rl_kd=[0.0] * 4)
    base = {"toy": {key: value for key, value in BASE["toy"].items() if key != "joint_mapping"}}
    reading = RL_SAR.read(evidence(sidecars={"config.yaml": older, "base.yaml": base}))
    assert set(reading.reasons) >= {"joints.names", "joints.kp", "joints.kd"}
