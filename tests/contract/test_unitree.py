"""`deploy.yaml` of Unitree's trainers, read into a contract."""

from __future__ import annotations

import copy
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_examples import with_value

from edgert.contract import parse_contract
from edgert.contract.formats import Evidence, choose_format, rate_beside
from edgert.contract.motors import SDK_ORDERS
from edgert.contract.spec import Contract
from edgert.contract.unitree import UNITREE
from edgert.errors import ContractError, EdgertError
from edgert.tables import read_yaml

ROBOT = ("left_hip", "left_knee", "right_hip", "right_knee")
ORDER = [0, 2, 1, 3]  # the policy sees both hips first
DEPLOY: dict[str, Any] = {
    "joint_ids_map": ORDER,
    "step_dt": 0.02,
    "stiffness": [100.0, 40.0, 101.0, 41.0],  # by motor
    "damping": [2.0, 1.0, 2.1, 1.1],
    "default_joint_pos": [0.1, -0.1, 0.5, 0.6],  # by the policy's order
    "commands": {"base_velocity": {"ranges": {"lin_vel_x": [-0.5, 1.0], "lin_vel_y": None, "heading": None}}},
    "actions": {
        "JointPositionAction": {
            "clip": None, "joint_names": [".*"], "scale": [0.25, 0.26, 0.5, 0.51], "offset": [0.1, -0.1, 0.5, 0.6],
            "joint_ids": None,
        }
    },
    "observations": {
        "base_ang_vel": {"params": {}, "clip": None, "scale": [0.2, 0.2, 0.2], "history_length": 1},
        "velocity_commands": {"params": {"command_name": "base_velocity"}, "clip": None, "scale": 1.0},
        "joint_pos_rel": {"params": {}, "clip": [-2.0, 2.0], "scale": None, "history_length": 3},
        "joint_vel_rel": {"clip": [-5.0, 5.0], "scale": 0.05, "history_length": 3, "scale_first": True},
        "last_action": {"history_length": 2},
    },
}  # fmt: skip


def evidence(document: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    given = {"deploy.yaml": DEPLOY if document is None else document}
    fields: dict[str, Any] = {"sidecars": given, "joints": ROBOT, "metadata": {}}
    fields |= {"inputs": {"obs": (1, 38)}, "outputs": {"actions": (1, 4)}}
    return Evidence(model="p.onnx", **fields | changes)


changed = partial(with_value, DEPLOY)


def parsed(document: dict[str, Any]) -> Contract:
    read = UNITREE.read(evidence(document)).document
    return parse_contract({**read, "action": {**read["action"], "output": "actions"}}, "x")


def test_gains_come_from_the_motors_and_all_else_from_the_policy() -> None:
    reading = UNITREE.read(evidence())
    contract = parse_contract({**reading.document, "action": {**reading.document["action"], "output": "actions"}}, "x")
    assert contract.joints == ("left_hip", "right_hip", "left_knee", "right_knee")
    assert contract.kp == (100.0, 101.0, 40.0, 41.0)
    assert contract.kd == (2.0, 2.1, 1.0, 1.1)
    assert contract.default_pos == contract.action.offset == (0.1, -0.1, 0.5, 0.6)
    assert contract.action.scale == (0.25, 0.26, 0.5, 0.51)
    assert contract.control_hz == 50.0
    assert contract.command is not None
    assert contract.command.ranges == ((-0.5, 1.0), None, None)
    spec = contract.inputs["obs"]
    assert spec.sizes() == "base_ang_vel 3 + command 3 + joint_pos 4 × 3 + joint_vel 4 × 3 + last_action 4 × 2"
    assert spec.layout == "term"
    position, velocity = spec.terms[2], spec.terms[3]
    assert (position.clip, position.clip_first) == ((-2.0, 2.0), True)
    assert (velocity.clip, velocity.clip_first, velocity.scale[0]) == ((-5.0, 5.0), False, 0.05)
    assert reading.sources == {"joints.names": "assumed: motors in the order of the scene's actuated joints"}
    assert len(reading.notes) == 1


def test_the_joints_may_be_named_later() -> None:
    reading = UNITREE.read(evidence(joints=()))
    assert reading.notes == ("deploy.yaml names no joints: name the robot's scene with --sim",)
    assert reading.document["joints"] == {
        "default_pos": [0.1, -0.1, 0.5, 0.6], "kp": [100.0, 101.0, 40.0, 41.0], "kd": [2.0, 2.1, 1.0, 1.1],
    }  # fmt: skip
    assert "joints" not in reading.document["action"]
    assert reading.reasons["joints.names"] == "or name the robot's scene with --sim"


QUADRUPED = [f"{corner}_{part}_joint" for corner in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]


def quadruped(**changes: Any) -> dict[str, Any]:
    """As unitree_rl_mjlab writes it for a Go2: the policy goes from the left, the SDK's motors from the right."""
    document: dict[str, Any] = {
        "joint_ids_map": [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8],
        "step_dt": 0.02,
        "stiffness": [float(20 + motor) for motor in range(12)],
        "damping": [1.0] * 12,
        "default_joint_pos": [float(i) for i in range(12)],
        "actions": {"JointPositionAction": {"clip": None, "scale": 0.5, "joint_ids": None}},
        "observations": {"joint_pos_rel": {"params": {}, "history_length": 1}},
    }
    return document | changes


def test_motors_of_a_known_robot_are_those_of_its_sdk() -> None:
    """The scene begins at the left, motor 0 is at the front right: in the scene's order left and right would swap."""
    found = evidence(quadruped(), joints=tuple(QUADRUPED))
    reading = UNITREE.read(found)
    joints = reading.document["joints"]
    assert joints["names"] == QUADRUPED
    assert joints["kp"][:4] == [23.0, 24.0, 25.0, 20.0]
    assert reading.document["action"]["offset"] == [float(i) for i in range(12)]
    assert reading.sources["joints.names"] == "the SDK's motors of Unitree quadrupeds"


@pytest.mark.parametrize("whole", [False, True], ids=["a robot of 23 joints", "one of 29"])
def test_missing_motors_may_be_left_out_of_the_gains(whole: bool) -> None:
    """A G1 of 23 joints has numbers up to 26, and 23 gains."""
    legs_and_waist = [*range(13)]
    arms = [15, 16, 17, 18, 19, 22, 23, 24, 25, 26]
    order = [*reversed(legs_and_waist), *arms]
    robot = SDK_ORDERS["Unitree G1"]
    joints = tuple(robot if whole else (robot[motor] for motor in legs_and_waist + arms))
    document = quadruped(
        joint_ids_map=order, stiffness=[1.0 + i for i in range(23)], damping=[1.0] * 23, default_joint_pos=[0.0] * 23
    )
    read = UNITREE.read(evidence(document, joints=joints)).document["joints"]
    assert read["names"][0] == "waist_yaw_joint"
    assert len(read["names"]) == 23  # the scene holds the others, of which the file knows nothing
    assert dict(zip(read["names"], read["kp"], strict=True))["left_shoulder_pitch_joint"] == 14.0
    assert dict(zip(read["names"], read["kp"], strict=True))["right_wrist_roll_joint"] == 23.0


def test_motors_that_the_policy_does_not_drive_are_held() -> None:
    document = changed("joint_ids_map", value=[2, 0])
    document |= {"default_joint_pos": [0.5, 0.1], "observations": {"joint_pos_rel": {}, "motion_command": {}}}
    document["actions"] = {"JointPositionAction": {"scale": 0.5}}
    reading = UNITREE.read(evidence(document))
    assert reading.document["joints"] == {
        "names": ["right_hip", "left_hip", "left_knee", "right_knee"],
        "default_pos": [0.5, 0.1, 0.0, 0.0],
        "kp": [101.0, 100.0, 40.0, 41.0],
        "kd": [2.1, 2.0, 1.0, 1.1],
    }
    assert reading.document["action"] == {
        "scale": [0.5, 0.5], "offset": [0.5, 0.1], "joints": ["right_hip", "left_hip"],
    }  # fmt: skip
    assert [term["joints"] for term in reading.document["inputs"]["obs"]["terms"]] == [["right_hip", "left_hip"]] * 2
    assert reading.sources["joints.default_pos"] == "deploy.yaml; assumed 0 rad for left_knee, right_knee"
    assert "held at 0 rad, which is assumed" in reading.notes[1]
    del document["observations"]["motion_command"]
    contract = parsed(document)
    assert contract.inputs["obs"].dim == 2
    assert contract.action.joints == ("right_hip", "left_hip")


def test_several_actions_stand_side_by_side() -> None:
    """Legs by position and wheels by velocity, each with its own indices into the policy's joints."""
    document = changed("stiffness", value=[100.0, 0.0, 101.0, 0.0])
    document["actions"] = {
        "JointPositionAction": {
            "joint_ids": [0, 1], "scale": [0.25, 0.3], "offset": [0.1, -0.1], "clip": [[-1.0, 1.0], [-2.0, 2.0]],
        },
        "JointVelocityAction": {"joint_ids": [3, 2], "scale": [5.0, 6.0], "clip": None},
    }  # fmt: skip
    assert UNITREE.read(evidence(document)).document["action"] == {
        "joints": ["left_hip", "right_hip", "right_knee", "left_knee"],
        "kind": ["position", "position", "velocity", "velocity"],
        "scale": [0.25, 0.3, 5.0, 6.0],
        "offset": [0.1, -0.1, 0.0, 0.0],
        "target_clip": [[-1.0, 1.0], [-2.0, 2.0], [-1e12, 1e12], [-1e12, 1e12]],
    }
    contract = parsed(document)
    assert contract.action.kinds == ("position", "position", "velocity", "velocity")
    assert contract.action.target_clip is not None
    assert contract.action.target_clip[1] == (-2.0, 2.0)


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        ([-3.0, 3.0], [[-3.0, 3.0]] * 4),
        ([[-1.0, 1.0], [-2.0, 2.0], [-float("inf"), float("inf")], [0.0, float("inf")]],
         [[-1.0, 1.0], [-2.0, 2.0], [-1e12, 1e12], [0.0, 1e12]]),
        ([-float("inf"), float("inf")], None),
    ],
)  # fmt: skip
def test_an_actions_clip_bounds_its_targets(clip: Any, expected: Any) -> None:
    read = UNITREE.read(evidence(changed("actions", "JointPositionAction", "clip", value=clip))).document["action"]
    assert read.get("target_clip") == expected
    assert "clip" not in read


def test_groups_are_inputs_of_their_own() -> None:
    document = copy.deepcopy(DEPLOY)
    document["observations"] = {
        "policy": {"scale_first": True, "base_ang_vel": {"clip": [-1.0, 1.0]}, "last_action": {}},
        "history": {"joint_pos_rel": {"clip": [-1.0, 1.0], "params": {"asset_cfg": {"joint_ids": [3, 0]}}}},
    }
    read = UNITREE.read(evidence(document, inputs={"policy": (1, 7), "history": (1, 2)})).document
    assert [term["name"] for term in read["inputs"]["policy"]["terms"]] == ["base_ang_vel", "last_action"]
    assert read["inputs"]["policy"]["terms"][0]["clip_first"] is False
    term = read["inputs"]["history"]["terms"][0]
    assert (term["joints"], term["clip_first"]) == (["right_knee", "left_hip"], True)


def test_tracking_policies_follow_a_motion_in_motor_order() -> None:
    document = copy.deepcopy(DEPLOY)
    document["commands"] = {}
    document["observations"] = {"motion_command": {"params": {}}, "motion_anchor_ori_b": {"params": {}}}
    reading = UNITREE.read(evidence(document))
    assert reading.document["motion"] == {"joints": list(ROBOT), "anchor": "torso_link"}
    assert reading.sources["motion.anchor"] == "assumed: as in Unitree's deploy code"
    assert reading.reasons == {"motion.file": "deploy.yaml names no motion"}
    with_file = {"motion": {**reading.document["motion"], "file": "dance.csv"}}
    action = {**reading.document["action"], "output": "actions"}
    contract = parse_contract({**reading.document, **with_file, "action": action}, "x")
    assert contract.inputs["obs"].dim == 14
    assert contract.motion is not None
    assert (contract.motion.anchor, contract.motion.joints) == ("torso_link", ROBOT)
    assert "command" not in reading.document


def test_memory_is_no_observation() -> None:
    found = evidence(
        inputs={"obs": (1, 38), "h_in": (1, 1, 8), "c_in": (1, 1, 8)},
        outputs={"actions": (1, 4), "h_out": (1, 1, 8), "c_out": (1, 1, 8)},
    )
    assert list(UNITREE.read(found).document["inputs"]) == ["obs"]


@pytest.mark.parametrize("path", [("use_gym_history",), ("observations", "use_gym_history")])
def test_gym_history_goes_tick_by_tick(path: tuple[str, ...]) -> None:
    document = changed(*path, value=True)
    assert UNITREE.read(evidence(document)).document["inputs"]["obs"]["layout"] == "frame"
    assert UNITREE.read(evidence()).document["inputs"]["obs"]["layout"] == "term"


def test_every_group_has_its_own_history() -> None:
    term = {"base_ang_vel": {"history_length": 5}, "projected_gravity": {"history_length": 5}}
    document = changed("observations", value={"obs": {**term, "use_gym_history": True}, "old": term})
    read = UNITREE.read(evidence(document, inputs={"obs": (1, 30), "old": (1, 30)})).document["inputs"]
    assert (read["obs"]["layout"], read["old"]["layout"]) == ("frame", "term")


def test_scale_first_counts_wherever_it_is_written() -> None:
    term = {"clip": [-1, 1], "scale": 0.5}
    for value, first in (({"a": True}, False), ({"b": True}, False), ({"c": True}, False), ({}, True)):
        document = changed("observations", value={"base_ang_vel": dict(term)})
        for name, table in (
            ("a", document),
            ("b", document["observations"]),
            ("c", document["observations"]["base_ang_vel"]),
        ):
            if name in value:
                table["scale_first"] = True
        (read,) = UNITREE.read(evidence(document, inputs={"obs": (1, 3)})).document["inputs"]["obs"]["terms"]
        assert read["clip_first"] is first


def test_what_the_user_can_give_is_asked_for() -> None:
    loose = UNITREE.read(evidence(changed("stiffness", value=[0.0] * 4)))
    assert loose.reasons == dict.fromkeys(
        ("joints.kp", "joints.kd"), "stiffness is 0 for every joint: its actuators are modelled elsewhere"
    )
    assert loose.document["joints"].keys() == {"names", "default_pos"}
    unknown = UNITREE.read(evidence(changed("observations", "camera", value={})))
    assert unknown.reasons["inputs.obs.terms"].startswith("deploy.yaml: camera unknown; known are base_lin_vel, base_")
    assert unknown.document["inputs"] == {}
    dotted = UNITREE.read(evidence(changed("observations", "camera", value={}), inputs={"obs.policy": (1, 3)}))
    assert 'inputs."obs.policy".terms' in dotted.reasons  # as the key of policy.toml has to be written
    timeless = copy.deepcopy(DEPLOY)
    del timeless["step_dt"]
    assert "control_hz" not in UNITREE.read(evidence(timeless)).document


@pytest.mark.parametrize("name", ["policy.yaml", "deploy.yml", "deploy.json"])
def test_it_is_known_by_its_content(name: str) -> None:
    found = evidence(sidecars={"other.yaml": {"stiffness": [1.0]}, name: DEPLOY})
    assert (choose_format(found) or ("",))[0] == "unitree"
    assert UNITREE.read(found).source == name


def test_of_several_files_that_of_the_models_name_is_meant() -> None:
    found = evidence(sidecars={"deploy.yaml": {**DEPLOY, "step_dt": 0.1}, "a.yaml": DEPLOY, "p.yaml": DEPLOY})
    assert UNITREE.read(found).source == "p.yaml"
    assert UNITREE.read(evidence(sidecars={"a.yaml": DEPLOY, "deploy.yaml": DEPLOY})).source == "deploy.yaml"
    with pytest.raises(ContractError, match=r"has several files of Unitree's trainers: found a\.yaml, b\.yaml"):
        UNITREE.read(evidence(sidecars={"a.yaml": DEPLOY, "b.yaml": DEPLOY}))


def test_metadata_of_the_model_count_before_a_file_beside_it() -> None:
    metadata = {"joint_names": "a,b", "default_joint_pos": "0,0", "action_scale": "1", "observation_names": "joint_pos"}
    notes: list[str] = []
    found = evidence(metadata=metadata)
    assert (choose_format(found, notes=notes) or ("",))[0] == "mjlab"
    assert notes == [
        "unitree would fit too: deploy.yaml with joint_ids_map, stiffness, observations, actions; what the model "
        "itself says counts first, unless option 'format' says unitree"
    ]
    assert (choose_format(found, "unitree") or ("",))[0] == "unitree"
    pose = {"joints": {"default_pos": [0.1, -0.101, 0.5, 0.6]}}
    assert rate_beside("mjlab", found, pose) == (1.0 / DEPLOY["step_dt"], "deploy.yaml")
    assert rate_beside("mjlab", found, {"joints": {"default_pos": [0.1, -0.1, 0.5, 0.7]}}) is None  # of another policy
    assert rate_beside("mjlab", found, {}) is None
    assert rate_beside("unitree", found, pose) is None
    assert rate_beside("mjlab", evidence(metadata=metadata, sidecars={}), pose) is None


def test_a_gait_clock_is_read_with_its_period() -> None:
    document = changed("observations", "gait_phase", value={"params": {"period": 0.8}, "history_length": 1})
    read = UNITREE.read(evidence(document)).document
    assert read["phase"] == {"hz": 1.25}
    assert read["inputs"]["obs"]["terms"][-1]["name"] == "phase"


def test_it_is_known_by_its_keys() -> None:
    assert choose_format(evidence()) == (
        "unitree", "deploy.yaml with joint_ids_map, stiffness, observations, actions"
    )  # fmt: skip
    assert choose_format(evidence({"stiffness": [1.0]}, outputs={"out": (1, 4)})) is None
    with pytest.raises(ContractError) as caught:
        choose_format(evidence({}, metadata={str(key): "" for key in range(9)}), "unitree")
    assert str(caught.value) == (
        "policy p.onnx shows nothing of the format 'unitree': found metadata 0, 1, 2, 3, 4, 5, 6, 7 …; outputs actions"
        "; files beside it deploy.yaml, expected what docs/formats.md has under unitree. "
        "Copy the file that belongs to it beside the model, or leave option 'format' out"
    )


@pytest.mark.parametrize(
    ("document", "changes", "text"),
    [
        (
            changed("actions", "JointPositionAction", "joint_ids", value=[0]),
            {"joints": ()},
            "key 'actions.JointPositionAction.joint_ids' is wrong: found [0], expected a robot whose joints they are. "
            "Name it with --sim",
        ),
        (
            None,
            {"joints": ROBOT[:3]},
            "has another number of joints than the robot: found 4 in joint_ids_map, expected 3",
        ),
        (changed("joint_ids_map", value=[0, 1, 1, 2]), {}, "key 'joint_ids_map' is wrong: found [0, 1, 1, 2]"),
        (changed("joint_ids_map", value=[0, 1, 2, 9]), {}, "key 'joint_ids_map' is wrong: found 9, expected 0 to 3"),
        (
            changed("damping", value=[1.0]),
            {},
            "key 'damping' is wrong: found 1 numbers, expected 4, one for each motor",
        ),
        (
            changed("actions", "JointPositionAction", "clip", value=[[-1, 1]] * 3),
            {},
            "key 'actions.JointPositionAction.clip' is wrong: found a list [[-1, 1], [-1, 1], [-1, 1]], "
            "expected [low, high], or 4 of them",
        ),
        (
            changed("actions", "JointPositionAction", "clip", value=[1, -1]),
            {},
            "key 'actions.JointPositionAction.clip' is wrong: found [1, -1], expected [low, high] with low <= high",
        ),
        (
            changed("actions", value={"DifferentialIKAction": {}}),
            {},
            "the policy's actions are not those of joints alone: found DifferentialIKAction, expected some of "
            "JointPositionAction, JointVelocityAction, JointEffortAction",
        ),
        (
            changed("actions", "JointPositionAction", "joint_names", value=["FL_hip_joint", "FR_hip_joint"]),
            {},
            "key 'actions.JointPositionAction.joint_names' is wrong: found FL_hip_joint, FR_hip_joint, expected left_",
        ),
        (
            changed("observations", value={"joint_pos": {"params": {"asset_cfg": {"joint_ids": [0, 0]}}}}),
            {},
            "key 'observations.joint_pos.params.asset_cfg.joint_ids' is wrong",
        ),
        (
            None,
            {"inputs": {"obs": (1, 3), "h": (1, 3)}},
            "the policy does not take the one input that deploy.yaml describes: found obs, h",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused(document: dict[str, Any] | None, changes: Any, text: str) -> None:
    with pytest.raises(ContractError) as caught:
        UNITREE.read(evidence(document, **changes))
    assert text in str(caught.value)


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
PATHS = [
    *((key,) for key in DEPLOY),
    ("commands", "base_velocity"), ("actions", "JointPositionAction"), ("actions", "JointPositionAction", "joint_ids"),
    ("actions", "JointPositionAction", "scale"), ("observations", "joint_pos_rel"),
    ("observations", "joint_pos_rel", "clip"), ("observations", "last_action", "history_length"),
    ("observations", "joint_pos_rel", "params"), ("actions", "JointPositionAction", "clip"),
]  # fmt: skip


@given(st.sampled_from(PATHS), SOME | st.lists(SOME, max_size=4))
def test_nothing_in_it_ends_in_a_traceback(path: tuple[str, ...], value: Any) -> None:
    with suppress(EdgertError):
        reading = UNITREE.read(evidence(changed(*path, value=value)))
        parse_contract({**reading.document, "action": {**reading.document["action"], "output": "actions"}}, "x")


def write(folder: Path, text: str) -> Path:
    (folder / "deploy.yaml").write_text(text)
    return folder / "deploy.yaml"


def test_a_slice_is_every_joint_and_never_executed(tmp_path: Path) -> None:
    text = "joint_ids: !!python/object/apply:builtins.slice\n- null\n- null\n- null\n"
    assert read_yaml(write(tmp_path, text), kind="sidecar") == {"joint_ids": "all"}


@pytest.mark.parametrize(
    ("ends", "text", "joints"),
    [
        ("[null, 2, null]", "slice(None, 2, None)", ["left_hip", "right_hip"]),
        ("[1, null]", "slice(1, None, None)", ["right_hip", "left_knee", "right_knee"]),
        ("[null, null, -1]", "slice(None, None, -1)", ["right_knee", "left_knee", "right_hip", "left_hip"]),
        ("[0, 4, 1]", "slice(0, 4, 1)", None),
        ("[0, null, 1]", "all", None),
        ("{args: [null, 2]}", "slice(None, 2, None)", ["left_hip", "right_hip"]),
        ("{args: [null, null, null]}", "all", None),
    ],
)
def test_a_slice_of_a_part_is_that_part(tmp_path: Path, ends: str, text: str, joints: list[str] | None) -> None:
    written = write(tmp_path, f"joint_ids: !!python/object/apply:builtins.slice {ends}\n")
    ids = read_yaml(written, kind="sidecar")
    assert ids == {"joint_ids": text}
    document = changed("observations", value={"joint_pos": {"params": {"asset_cfg": ids}}})
    (term,) = UNITREE.read(evidence(document)).document["inputs"]["obs"]["terms"]
    assert term.get("joints") == joints


def test_an_exponent_needs_no_point(tmp_path: Path) -> None:
    text = "a: 2e-2\nb: -1E3\nc: 1e\nd: e5\n"
    assert read_yaml(write(tmp_path, text), kind="sidecar") == {"a": 0.02, "b": -1000.0, "c": "1e", "d": "e5"}


@pytest.mark.parametrize("written", ["[null, a]", "{a: 1}", "[]", "[[1]]", "x", "[1, 2, 3, 4]", "[true]"])
def test_a_slice_of_nothing_known_is_refused_where_it_counts(tmp_path: Path, written: str) -> None:
    text = f"joint_ids: !!python/object/apply:builtins.slice {written}\n"
    ids = read_yaml(write(tmp_path, text), kind="sidecar")
    document = changed("observations", value={"joint_pos": {"params": {"asset_cfg": ids}}})
    with pytest.raises(ContractError, match=r"joint_ids' is wrong: found text 'a slice that cannot be read'"):
        UNITREE.read(evidence(document))


@pytest.mark.parametrize("name", ["apply:__builtin__.slice", "apply:slice", "new:builtins.slice"])
def test_a_slice_has_several_names(tmp_path: Path, name: str) -> None:
    text = f"joint_ids: !!python/object/{name} [null, null, null]\n"
    assert read_yaml(write(tmp_path, text), kind="sidecar") == {"joint_ids": "all"}


def test_one_group_is_the_one_input_whatever_they_are_called() -> None:
    groups = {"policy": DEPLOY["observations"]}
    read = UNITREE.read(evidence(changed("observations", value=groups))).document
    assert read["inputs"] == UNITREE.read(evidence()).document["inputs"]
    groups = {"obs": DEPLOY["observations"], "critic": {"base_lin_vel": {"history_length": 1}}}
    reading = UNITREE.read(evidence(changed("observations", value=groups)))
    assert reading.document["inputs"] == read["inputs"]
    assert not any("base_lin_vel" in note for note in reading.notes)


def test_a_tuple_is_a_list(tmp_path: Path) -> None:
    text = "clip: !!python/tuple [!!python/tuple [-1, 1], 2]\n"
    assert read_yaml(write(tmp_path, text), kind="sidecar") == {"clip": [[-1, 1], 2]}


LAUGHS = "a0: &a0 [0]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))


def test_a_list_may_stand_in_two_places(tmp_path: Path) -> None:
    text = "a: &x [1, {b: 2}]\nc: *x\nd: [*x, *x]\n"
    value = [1, {"b": 2}]
    assert read_yaml(write(tmp_path, text), kind="sidecar") == {"a": value, "c": value, "d": [value, value]}


def test_gains_of_nothing_are_asked_for() -> None:
    reading = UNITREE.read(evidence(changed("stiffness", value=[0.0] * 4)))
    why = "stiffness is 0 for every joint: its actuators are modelled elsewhere"
    assert reading.reasons == {"joints.kp": why, "joints.kd": why}
    assert reading.document["joints"].keys() == {"names", "default_pos"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: !!python/object/apply:os.system ['true']\n", "could not determine a constructor for the tag"),
        ("a: &x [*x]\n", "an alias of what holds it in line 1"),
        ("a: &x [1]\nb: {<<: *x}\n", "could not determine a constructor for the tag"),
        (LAUGHS, "more than can be meant in line"),
        ("a: *x\n", "found undefined alias 'x' in line 1"),
        ("a: 1\na: 2\n", "the key a more than once in line 1"),
        ("a: [1, 2\n", "expected ',' or ']'"),
        ("[" * 5000, "cannot be read as safe YAML"),
        ("- 1\n", "is no table of names: found a list"),
        ("1: 2\n", "is no table of names: found a table"),
        ("? [a]\n: 1\n", "cannot be read as safe YAML"),
    ],
)
def test_unsafe_yaml_is_refused(text: str, found: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        read_yaml(write(tmp_path, text), kind="sidecar")
    assert found in str(caught.value)
