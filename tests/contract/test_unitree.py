"""`deploy.yaml` of Unitree's trainers, read into a contract."""

from __future__ import annotations

import copy
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.contract import parse_contract
from edgert.contract.formats import Evidence, choose_format
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
    fields: dict[str, Any] = {"sidecars": given, "joints": ROBOT}
    return Evidence(
        model="p.onnx", inputs={"obs": (1, 38)}, outputs={"actions": (1, 4)}, metadata={}, **fields | changes
    )


def changed(*path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DEPLOY)
    *above, last = path
    table = document
    for key in above:
        table = table[key]
    table[last] = value
    return document


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
    assert reading.sources == {"joints.names": "assumed: motors in the order of the scene's joints"}
    assert len(reading.notes) == 1


def test_gym_history_goes_tick_by_tick() -> None:
    document = copy.deepcopy(DEPLOY)
    for term in document["observations"].values():
        term["history_length"] = 5
    document["observations"]["use_gym_history"] = True
    assert UNITREE.read(evidence(document)).document["inputs"]["obs"]["layout"] == "frame"


def test_a_gait_clock_is_read_with_its_period() -> None:
    document = changed("observations", "gait_phase", value={"params": {"period": 0.8}, "history_length": 1})
    read = UNITREE.read(evidence(document)).document
    assert read["phase"] == {"hz": 1.25}
    assert read["inputs"]["obs"]["terms"][-1]["name"] == "phase"


def test_it_is_known_by_its_keys() -> None:
    assert choose_format(evidence()) == (
        "unitree", "deploy.yaml with joint_ids_map, stiffness, observations, actions"
    )  # fmt: skip
    assert choose_format(evidence({"stiffness": [1.0]})) is None
    with pytest.raises(ContractError, match=r"policy p\.onnx shows nothing of the format 'unitree'"):
        choose_format(evidence({}), "unitree")


@pytest.mark.parametrize(
    ("document", "changes", "text"),
    [
        (None, {"joints": ()}, "deploy.yaml of policy p.onnx names no joints: expected the robot that it runs on"),
        (
            None,
            {"joints": ROBOT[:3]},
            "has another number of joints than the robot: found 4 in joint_ids_map, expected 3",
        ),
        (changed("joint_ids_map", value=[0, 1, 1, 2]), {}, "key 'joint_ids_map' is wrong: found [0, 1, 1, 2]"),
        (changed("joint_ids_map", value=[0, 1, 2, 9]), {}, "key 'joint_ids_map' is wrong: found 9, expected 0 to 3"),
        (changed("stiffness", value=[0.0] * 4), {}, "key 'stiffness' is wrong: found 0 for every motor"),
        (
            changed("damping", value=[1.0]),
            {},
            "key 'damping' is wrong: found 1 numbers, expected 4, one for each motor",
        ),
        (
            changed("observations", "camera", value={}),
            {},
            "observation 'camera' is unknown: expected one of base_lin_vel",
        ),
        (
            changed("actions", "JointPositionAction", "clip", value=[[-1, 1]] * 4),
            {},
            "key 'actions.JointPositionAction.clip' is wrong",
        ),
        (
            changed("actions", value={"JointVelocityAction": {}}),
            {},
            "the policy's actions are not joint positions alone: found JointVelocityAction",
        ),
        (
            None,
            {"inputs": {"obs": (1, 3), "h": (1, 3)}},
            "policy p.onnx does not take the one input that deploy.yaml describes",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused(document: dict[str, Any] | None, changes: Any, text: str) -> None:
    fields = {"inputs": {"obs": (1, 38)}, **changes}
    sidecars = {"deploy.yaml": DEPLOY if document is None else document}
    found = Evidence(
        model="p.onnx", outputs={"actions": (1, 4)}, metadata={}, sidecars=sidecars, **{"joints": ROBOT, **fields}
    )
    with pytest.raises(ContractError) as caught:
        UNITREE.read(found)
    assert text in str(caught.value)


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
PATHS = [
    *((key,) for key in DEPLOY),
    ("commands", "base_velocity"), ("actions", "JointPositionAction"), ("actions", "JointPositionAction", "joint_ids"),
    ("actions", "JointPositionAction", "scale"), ("observations", "joint_pos_rel"),
    ("observations", "joint_pos_rel", "clip"), ("observations", "last_action", "history_length"),
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
    ("text", "found"),
    [
        ("a: !!python/object/apply:os.system ['true']\n", "could not determine a constructor for the tag"),
        ("a: &x [1]\nb: *x\n", "an alias in line 2"),
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
