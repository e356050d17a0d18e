"""Isaac Lab's IO descriptors, read into a contract."""

from __future__ import annotations

import copy
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_examples import with_value

from edgert.contract import parse_contract
from edgert.contract.formats import Evidence, choose_format
from edgert.contract.isaac_lab import ISAAC_LAB
from edgert.errors import ContractError, EdgertError

FILE = "IO_descriptors.yaml"
JOINTS = ["LF_HAA", "RF_HAA", "LF_KFE", "RF_KFE"]
POSE = [0.1, -0.1, 0.4, -0.8]


def term(name: str, size: int, **changes: Any) -> dict[str, Any]:
    overloads = {"clip": None, "flatten_history_dim": True, "history_length": 0, "scale": None}
    overloads |= changes.pop("overloads", {})
    extras = {"modifiers": None, "description": "what it is"} | changes.pop("extras", {})
    path = f"isaaclab.envs.mdp.observations.{name}"
    return {"name": name, "full_path": path, "shape": [size], "overloads": overloads, "extras": extras, **changes}


def action(name: str = "joint_position_action", **changes: Any) -> dict[str, Any]:
    entry = {"action_type": "JointAction", "clip": None, "joint_names": JOINTS, "name": name, "offset": POSE}
    return entry | {"scale": 0.5, "shape": [4], "dtype": "torch.float32"} | changes


DESCRIPTORS: dict[str, Any] = {
    "actions": [action()],
    "articulations": {
        "robot": {
            "joint_names": JOINTS,
            "default_joint_pos": POSE,
            "default_joint_stiffness": [80.0, 81.0, 82.0, 83.0],
            "default_joint_damping": [2.0, 2.1, 2.2, 2.3],
        }
    },
    "observations": {
        "policy": [
            term("base_lin_vel", 3, overloads={"scale": 2.0}),
            term("base_ang_vel", 3, overloads={"clip": [-10, 10], "scale": [0.25, 0.25, 0.5]}),
            term("projected_gravity", 3),
            term("generated_commands", 3),
            term("joint_pos_rel", 4, joint_names=JOINTS, joint_pos_offsets=POSE),
            term("joint_vel_rel", 2, joint_names=JOINTS[2:], joint_vel_offsets=[0, 0], overloads={"history_length": 3}),
            term("last_action", 4),
        ]
    },
    "scene": {"decimation": 4, "dt": 0.02, "physics_dt": 0.005},
}  # fmt: skip


def evidence(document: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "sidecars": {FILE: DESCRIPTORS if document is None else document},
        "inputs": {"obs": (1, 26)},
        "outputs": {"actions": (1, 4)},
    }
    return Evidence(model="p.onnx", metadata={}, **fields | changes)


changed = partial(with_value, DESCRIPTORS)


def terms(document: dict[str, Any], name: str = "obs") -> list[dict[str, Any]]:
    return ISAAC_LAB.read(evidence(document)).document["inputs"][name]["terms"]


def test_everything_is_by_name_and_clipped_before_it_is_scaled() -> None:
    reading = ISAAC_LAB.read(evidence())
    document = reading.document
    assert document["control_hz"] == 50.0
    assert document["joints"] == {
        "names": JOINTS, "default_pos": POSE, "kp": [80.0, 81.0, 82.0, 83.0], "kd": [2.0, 2.1, 2.2, 2.3],
    }  # fmt: skip
    assert document["action"] == {"scale": [0.5] * 4, "offset": POSE, "joints": JOINTS}
    assert document["command"] == {"kind": "twist"}
    assert document["inputs"]["obs"]["terms"] == [
        {"name": "base_lin_vel", "point": "com", "history": 1, "scale": 2.0, "dim": 3},
        {"name": "base_ang_vel", "history": 1, "scale": [0.25, 0.25, 0.5], "clip": [-10.0, 10.0], "clip_first": True,
         "dim": 3},
        {"name": "projected_gravity", "history": 1, "dim": 3},
        {"name": "command", "history": 1, "dim": 3},
        {"name": "joint_pos", "history": 1, "dim": 4},
        {"name": "joint_vel", "history": 3, "dim": 2, "joints": ["LF_KFE", "RF_KFE"]},
        {"name": "last_action", "history": 1, "dim": 4},
    ]  # fmt: skip
    assert reading.sources["inputs.obs.terms"] == f"{FILE}; base_lin_vel at the centre of mass, as Isaac Lab takes it"


def test_it_is_known_by_its_tables_whatever_its_name() -> None:
    found = evidence(sidecars={"isaac_velocity_flat_IO_descriptors.yaml": DESCRIPTORS})
    assert choose_format(found) == (
        "isaac_lab", "isaac_velocity_flat_IO_descriptors.yaml with actions, articulations, observations",
    )  # fmt: skip
    assert choose_format(evidence({"actions": [], "observations": {}}, outputs={"out": (1, 4)})) is None


@pytest.mark.parametrize(
    ("axes", "description", "order"),
    [
        (["W", "X", "Y", "Z"], "Asset root orientation", "wxyz"),
        (["X", "Y", "Z", "W"], "Asset root orientation (x, y, z, w) in the environment frame.", "xyzw"),
        (None, "Asset root orientation (w, x, y, z) in the environment frame.", "wxyz"),
        (None, "Asset root orientation (x, y, z, w).", "xyzw"),
    ],
)
def test_the_order_of_a_quaternion_is_that_of_its_axes(axes: Any, description: str, order: str) -> None:
    entry = term("root_quat_w", 4, extras={"axes": axes, "description": description})
    assert terms(changed("observations", "policy", value=[entry])) == [
        {"name": "base_quat", "history": 1, "dim": 4, "order": order}
    ]


@pytest.mark.parametrize(
    ("axes", "description"),
    [(None, "Asset root orientation"), (["W", "X", "Y", "Z"], "in (x, y, z, w) order"), (["A"], "")],
)
def test_an_order_that_is_not_clear_is_asked_for(axes: Any, description: str) -> None:
    entry = term("root_quat_w", 4, extras={"axes": axes, "description": description})
    reading = ISAAC_LAB.read(evidence(changed("observations", "policy", value=[entry])))
    assert reading.document["inputs"] == {}
    assert reading.reasons == {
        "inputs.obs.terms": f"{FILE} does not tell if base_quat is wxyz or xyzw, as Isaac Lab 3 has it"
    }


@pytest.mark.parametrize(("axes", "order"), [(["x", "y", "z", "w"], "xyzw"), ("WXYZ", "wxyz")])
def test_axes_may_be_written_otherwise(axes: Any, order: str) -> None:
    entry = term("imu_orientation", 4, extras={"axes": axes})
    assert terms(changed("observations", "policy", value=[entry]))[0]["order"] == order


@pytest.mark.parametrize("name", ["policy.yaml", "env_io.yaml", "IO_descriptors.yml", "io.json"])
def test_it_is_known_by_its_content(name: str) -> None:
    found = evidence(sidecars={"agent.yaml": {"actions": []}, name: DESCRIPTORS})
    assert (choose_format(found) or ("",))[0] == "isaac_lab"
    assert ISAAC_LAB.read(found).source == name


def test_terms_may_be_called_by_their_own_names() -> None:
    called = {"joint_pos_rel": "joint_pos", "generated_commands": "velocity_commands", "last_action": "actions"}
    for path in (True, False):
        document = copy.deepcopy(DESCRIPTORS)
        for entry in document["observations"]["policy"]:
            entry["full_path"] = entry["full_path"] if path else None
            entry["name"] = called.get(entry["name"], entry["name"])
        assert ISAAC_LAB.read(evidence(document)).document == ISAAC_LAB.read(evidence()).document


def test_an_angle_without_offsets_is_the_angle_itself() -> None:
    entry = {**term("joint_pos", 4, joint_names=JOINTS), "full_path": None}
    assert terms(changed("observations", "policy", value=[entry]))[0]["name"] == "joint_angle"


def test_a_class_says_what_an_action_is() -> None:
    path = "isaaclab.envs.mdp.actions.joint_actions.JointVelocityAction"
    document = changed("actions", value=[action("wheels", full_path=path)])
    assert ISAAC_LAB.read(evidence(document)).document["action"]["kind"] == "velocity"


def test_sizes_may_hold_the_history() -> None:
    document = copy.deepcopy(DESCRIPTORS)
    for entry in document["observations"]["policy"]:
        entry["overloads"]["history_length"] = 5
    size = sum(5 * entry["shape"][0] for entry in document["observations"]["policy"])
    plain = ISAAC_LAB.read(evidence(document, inputs={"obs": (1, size)})).document
    for entry in document["observations"]["policy"]:
        entry["shape"] = [5 * entry["shape"][0]]
    assert ISAAC_LAB.read(evidence(document, inputs={"obs": (1, size)})).document == plain


def test_what_stands_once_for_each_environment_is_read_once() -> None:
    document = changed("actions", 0, "clip", value=[[[-1.0, 1.0]] * 4] * 2)
    document["articulations"]["robot"]["default_joint_pos"] = [POSE, POSE]
    read = ISAAC_LAB.read(evidence(document)).document
    assert read["action"]["target_clip"] == [[-1.0, 1.0]] * 4
    assert read["joints"]["default_pos"] == POSE
    document["articulations"]["robot"]["default_joint_pos"] = [POSE, JOINTS]
    with pytest.raises(ContractError, match=r"default_joint_pos' is wrong: .* the same for every environment"):
        ISAAC_LAB.read(evidence(document))


def test_terms_that_are_not_understood_are_asked_for() -> None:
    document = copy.deepcopy(DESCRIPTORS)
    document["observations"]["policy"] += [term("my_term", 3), term("image", 187)]
    reading = ISAAC_LAB.read(evidence(document))
    assert reading.reasons["inputs.obs.terms"].startswith(
        f"{FILE}: my_term unknown; image needs a camera; known are base_pos_z, base_lin_vel"
    )
    assert reading.document["inputs"] == {}
    assert reading.document["command"] == {"kind": "twist"}


def test_gains_of_an_explicit_actuator_model_are_asked_for() -> None:
    document = changed("articulations", "robot", "default_joint_stiffness", value=[0.0] * 4)
    document["articulations"]["robot"]["default_joint_damping"] = [0.0] * 4
    reading = ISAAC_LAB.read(evidence(document))
    assert "kp" not in reading.document["joints"]
    assert reading.reasons["joints.kd"] == "as joints.kp"
    assert reading.reasons["joints.kp"] == (
        "gains of 0 for LF_HAA, RF_HAA, LF_KFE …: an explicit actuator model, whose gains are in the trainer's "
        "configuration alone"
    )  # fmt: skip


def test_wheels_need_damping_and_no_stiffness() -> None:
    document = changed("articulations", "robot", "default_joint_stiffness", value=[80.0, 81.0, 0.0, 0.0])
    clip = [[-1.0, 1.0], [-2.0, 2.0]]
    document["actions"] = [
        action(joint_names=JOINTS[:2], offset=POSE[:2], shape=[2], clip=clip),
        action("joint_velocity_action", joint_names=["RF_KFE", "LF_KFE"], offset=0.0, scale=[5.0, 6.0], shape=[2]),
    ]
    reading = ISAAC_LAB.read(evidence(document))
    assert reading.reasons == {}
    assert reading.document["action"] == {
        "joints": ["LF_HAA", "RF_HAA", "RF_KFE", "LF_KFE"],
        "kind": ["position", "position", "velocity", "velocity"],
        "scale": [0.5, 0.5, 5.0, 6.0],
        "offset": [0.1, -0.1, 0.0, 0.0],
        "target_clip": [*clip, [-1e12, 1e12], [-1e12, 1e12]],
    }


def test_a_scale_may_be_written_for_every_environment() -> None:
    document = changed("actions", 0, "scale", value=[[0.1, 0.2, 0.3, 0.4]] * 4)
    assert ISAAC_LAB.read(evidence(document)).document["action"]["scale"] == [0.1, 0.2, 0.3, 0.4]


def test_each_group_is_an_input_of_its_name() -> None:
    document = copy.deepcopy(DESCRIPTORS)
    document["observations"]["proprio"] = [term("last_action", 4)]
    read = ISAAC_LAB.read(evidence(document, inputs={"obs": (1, 26), "proprio": (1, 4)})).document["inputs"]
    assert [entry["name"] for entry in read["proprio"]["terms"]] == ["last_action"]
    assert len(read["obs"]["terms"]) == 7


def test_the_rate_may_stand_in_parts() -> None:
    assert ISAAC_LAB.read(evidence(changed("scene", "dt", value=None))).document["control_hz"] == 50.0
    assert "control_hz" not in ISAAC_LAB.read(evidence(changed("scene", value=None))).document


GRID = "height_scan around the base of 1.6 × 1 m, 0.1 m apart, less 0.5 m"


def test_a_scan_of_the_usual_size_is_on_the_usual_grid() -> None:
    scan = term("height_scan", 187, overloads={"clip": [-1.0, 1.0]})
    reading = ISAAC_LAB.read(evidence(changed("observations", "policy", value=[scan])))
    assert reading.document["inputs"]["obs"]["terms"] == [
        {"name": "height_scan", "history": 1, "clip": [-1.0, 1.0], "clip_first": True, "dim": 187}
    ]
    assert reading.notes == (f"input 'obs': assumed: {GRID}",)
    assert reading.sources == {"inputs.obs.terms": f"{FILE}; assumed: {GRID}"}


def test_a_scan_of_another_size_is_asked_for() -> None:
    reading = ISAAC_LAB.read(evidence(changed("observations", "policy", value=[term("height_scan", 121)])))
    assert reading.document["inputs"] == {}
    assert reading.reasons == {
        "inputs.obs.terms": f"{FILE} has a height_scan of 121 points, and does not tell their grid"
    }


def test_numbers_that_are_left_out_and_are_just_those_of_a_scan_are_assumed_to_be_one() -> None:
    """Isaac Lab writes no descriptor for it; its rough-terrain tasks have it at the end, within 1 m."""
    reading = ISAAC_LAB.read(evidence(inputs={"obs": (1, 26 + 187)}))
    document = reading.document | {"action": {**reading.document["action"], "output": "actions"}}
    spec = parse_contract(document, FILE).inputs["obs"]
    assert (spec.dim, spec.terms[-1].name, spec.terms[-1].clip) == (213, "height_scan", (-1.0, 1.0))
    note = f"assumed: the 187 numbers that {FILE} leaves out are a {GRID}, within ±1 m, at the end"
    assert reading.notes == (f"input 'obs': {note}",)
    assert reading.sources["inputs.obs.terms"].endswith(f"as Isaac Lab takes it; {note}")
    assert ISAAC_LAB.read(evidence(inputs={"obs": (1, 26 + 186)})).notes == ()


def test_images_are_no_groups_of_terms() -> None:
    reading = ISAAC_LAB.read(evidence(inputs={"obs": (1, 26), "camera": (1, 1, 48, 64)}))
    assert list(reading.document["inputs"]) == ["obs"]


OBSERVED = ("observations", "policy", 0)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (
            changed(*OBSERVED, value=term("generated_commands", 4)),
            "IO_descriptors.yaml: its command has 4 numbers: expected 3, a commanded twist",
        ),
        (
            changed(*OBSERVED, "extras", "modifiers", value=["a filter"]),
            "key 'observations.policy[0].extras.modifiers' is wrong: found ['a filter'], expected null",
        ),
        (
            changed(*OBSERVED, "overloads", value={"history_length": 3, "flatten_history_dim": False}),
            "key 'observations.policy[0].overloads.flatten_history_dim' is wrong",
        ),
        (
            changed("observations", "policy", 4, "joint_pos_offsets", value=[0.0] * 4),
            "key 'observations.policy[4].joint_pos_offsets' is wrong: found [0.0, 0.0, 0.0, 0.0], expected",
        ),
        (
            changed("observations", "policy", 4, "joint_names", value=["knee"]),
            "key 'observations.policy[4].joint_names' is wrong: found knee, expected some of LF_HAA",
        ),
        (
            changed("actions", 0, "name", value="joint_position_to_limits_action"),
            "action 'joint_position_to_limits_action' is not supported: expected one of joint_position_action",
        ),
        (changed("actions", 0, "shape", value=[3]), "key 'actions[0].shape' is wrong: found [3], expected [4]"),
        (changed("scene", "dt", value=0.01), "key 'scene.dt' is wrong: found 0.01 s, expected physics_dt × decimation"),
        (changed("articulations", value={"a": {}, "b": {}}), "key 'articulations.robot' is wrong: found a, b"),
        (changed("observations", value={"critic": [], "state": []}), "describes no observations for input 'obs'"),
        (
            changed("actions", 0, "scale", value=[[0.1] * 4, [0.2] * 4]),
            "key 'actions[0].scale' is wrong: found [[0.1, 0.1, 0.1, 0.1], [0.2, 0.2, 0.2, 0.2]], expected the same",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused(document: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught:
        ISAAC_LAB.read(evidence(document))
    assert text in str(caught.value)


def test_several_files_are_refused() -> None:
    with pytest.raises(ContractError, match=r"several files of IO descriptors: found a\.yaml, b\.yaml"):
        ISAAC_LAB.read(evidence(sidecars={"a.yaml": DESCRIPTORS, "b.yaml": DESCRIPTORS}))


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
PATHS: list[tuple[Any, ...]] = [
    *((key,) for key in DESCRIPTORS),
    *(("actions", 0, key) for key in DESCRIPTORS["actions"][0]),
    *(("articulations", "robot", key) for key in DESCRIPTORS["articulations"]["robot"]),
    *(("observations", "policy", 4, key) for key in DESCRIPTORS["observations"]["policy"][4]),
    *(("observations", "policy", 1, "overloads", key) for key in ("clip", "scale", "history_length")),
    ("observations", "policy"), ("observations", "policy", 0, "extras"), ("scene", "dt"), ("scene", "decimation"),
]  # fmt: skip


@given(st.sampled_from(PATHS), SOME | st.lists(SOME, max_size=4))
def test_nothing_in_it_ends_in_a_traceback(path: tuple[Any, ...], value: Any) -> None:
    with suppress(EdgertError):
        reading = ISAAC_LAB.read(evidence(changed(*path, value=value)))
        parse_contract({**reading.document, "action": {**reading.document["action"], "output": "actions"}}, "x")
