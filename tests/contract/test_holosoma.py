"""holosoma's metadata, with and without the configuration of the experiment, read into a contract."""

from __future__ import annotations

import copy
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_examples import acts, as_json, evidence, linear

from edgert.contract import RobotState, parse_contract
from edgert.contract.formats import choose_format
from edgert.contract.holosoma import HOLOSOMA
from edgert.errors import ContractError, EdgertError
from edgert.policy import load_policy

JOINTS = ["left_hip_joint", "left_knee_joint", "right_hip_joint", "right_knee_joint"]
POSE = [-0.3, 0.6, -0.31, 0.61]
OLD: dict[str, Any] = {
    "dof_names": JOINTS,
    "kp": [40.0, 50.0, 40.0, 50.0],
    "kd": [2.0, 3.0, 2.0, 3.0],
    "command_ranges": {"lin_vel_x": [-1.0, 1.5], "lin_vel_y": [-0.5, 0.5], "ang_vel_yaw": [-1, 1], "heading": [-3, 3]},
}
FUNC = "holosoma.managers.observation.terms.locomotion:"


def term(name: str, **more: Any) -> dict[str, Any]:
    return {"func": FUNC + name, "params": {}, "scale": 1.0, "noise": 0.1, "clip": None, **more}


CONFIG: dict[str, Any] = {
    "robot": {
        "dof_names": JOINTS,
        "dof_effort_limit_list": [80.0, 120.0, 80.0, 120.0],
        "init_state": {"default_joint_angles": dict(zip(JOINTS, POSE, strict=True))},
        "control": {
            "control_type": "P",
            "stiffness": {"hip": 40.0, "knee": 50.0},
            "damping": {"hip": 2.0, "knee": 3.0},
            "action_scale": 0.25,
            "action_clip_value": 50.0,
            "clip_actions": True,
            "action_scales_by_effort_limit_over_p_gain": True,
        },
    },
    "observation": {
        "groups": {
            "actor_obs": {
                "concatenate": True,
                "history_length": 1,
                "terms": {
                    "base_ang_vel": term("base_ang_vel", scale=0.25, clip=[-3.0, 3.0]),
                    "projected_gravity": term("projected_gravity"),
                    "command_lin_vel": term("command_lin_vel", scale=[2.0, 2.5]),
                    "command_ang_vel": term("command_ang_vel"),
                    "dof_pos": term("dof_pos"),
                    "dof_vel": term("dof_vel", scale=0.05),
                    "actions": term("actions"),
                    "sin_phase": term("sin_phase"),
                    "cos_phase": term("cos_phase"),
                },
            },
            "critic_obs": {"terms": {"secret": term("secret")}},
        }
    },
    "action": {"terms": {"joint_control": {"func": "holosoma.x:JointPositionActionTerm", "params": {}, "scale": 1.0}}},
    "simulator": {"config": {"name": "isaacgym", "sim": {"fps": 200, "control_decimation": 4, "substeps": 1}}},
    "command": {"setup_terms": {"locomotion_gait": {"params": {"gait_period": 0.8}}, "locomotion_command": {}}},
}
NEW = OLD | {"experiment_config": CONFIG, "wandb_run_path": "a/b/c", "iteration": 100, "robot_urdf": "<robot/>"}
SIZE = 4 + 3 + 1 + 2 + 2 + 4 + 4 + 3 + 2


def found(metadata: dict[str, Any] | None = None, *, size: int = SIZE, nact: int = 4) -> Any:
    return evidence({"actor_obs": (1, size)}, {"action": (1, nact)}, as_json(NEW if metadata is None else metadata))


def changed(*path: str, value: Any) -> dict[str, Any]:
    """The newer metadata with one value of the configuration changed."""
    metadata = copy.deepcopy(NEW)
    *above, last = ("experiment_config", *path)
    table = metadata
    for key in above:
        table = table[key]
    table[last] = value
    return metadata


def test_the_configuration_gives_everything() -> None:
    reading = HOLOSOMA.read(found())
    contract = parse_contract(reading.document, "x")
    assert contract.control_hz == 50.0
    assert contract.joints == tuple(JOINTS)
    assert contract.default_pos == contract.action.offset == tuple(POSE)
    assert (contract.kp, contract.kd) == ((40.0, 50.0, 40.0, 50.0), (2.0, 3.0, 2.0, 3.0))
    assert contract.action.scale == (0.25 * 80 / 40, 0.25 * 120 / 50, 0.25 * 80 / 40, 0.25 * 120 / 50)
    assert reading.document["action"]["clip"] == [-50.0, 50.0]
    spec = contract.inputs["actor_obs"]
    assert spec.sizes() == (
        "last_action 4 + base_ang_vel 3 + command 1 + command 2 + cos_phase 2 + joint_pos 4 + joint_vel 4 "
        "+ projected_gravity 3 + sin_phase 2"
    )
    assert (spec.terms[1].scale[0], spec.terms[1].clip, spec.terms[1].clip_first) == (0.25, (-3.0, 3.0), False)
    assert (spec.terms[3].index, spec.terms[3].scale) == ((0, 1), (2.0, 2.5))
    assert contract.command is not None
    assert contract.command.ranges == ((-1.0, 1.5), (-0.5, 0.5), (-1.0, 1.0))
    assert contract.phase is not None
    assert (contract.phase.hz, contract.phase.offsets_rad, contract.phase.still_rad) == (1.25, (0.0, math.pi), math.pi)
    assert reading.sources["joints.default_pos"] == "metadata of holosoma, experiment_config"
    assert reading.sources["phase.still_rad"] == "assumed: as in holosoma's own runtime"
    assert reading.reasons == {}


def test_one_scale_serves_every_joint() -> None:
    path = ("robot", "control", "action_scales_by_effort_limit_over_p_gain")
    assert HOLOSOMA.read(found(changed(*path, value=False))).document["action"]["scale"] == 0.25


def test_histories_begin_with_zeros() -> None:
    metadata = changed("observation", "groups", "actor_obs", "history_length", value=3)
    spec = parse_contract(HOLOSOMA.read(found(metadata, size=3 * SIZE)).document, "x").inputs["actor_obs"]
    assert (spec.dim, spec.fill, spec.layout) == (3 * SIZE, "zero", "term")


def test_an_older_file_says_what_it_lacks() -> None:
    reading = HOLOSOMA.read(found(OLD))
    assert set(reading.reasons) == {"joints.default_pos", "action.scale", "inputs.actor_obs.terms"}
    assert reading.document["phase"] == {"hz": 1.0, "offsets_rad": [0.0, math.pi], "still_rad": math.pi}
    assert reading.sources["phase.hz"] == reading.sources["action.clip"] == "assumed: as in holosoma's own runtime"
    assert reading.notes == (
        "the gait clock runs at 1 Hz with two phases, and stands at π while the command is zero",
    )  # fmt: skip


def test_a_short_file_of_the_users_completes_an_older_one(tmp_path: Path) -> None:
    path = linear(np.zeros((SIZE, 4)), as_json(OLD), tmp_path / "policy.onnx", "actor_obs", "action")
    with pytest.raises(ContractError) as caught:
        load_policy(path)
    assert (
        "inputs.actor_obs.terms (what its 25 numbers are, in their order; in alphabetical order of holosoma's names; "
        "not in files of older versions)"
    ) in str(caught.value)
    (tmp_path / "policy.toml").write_text(
        f"joints.default_pos = {POSE}\naction.scale = 0.25\n"
        'inputs.actor_obs.terms = ["last_action", "base_ang_vel", { name = "command", index = [2, 0, 1] }, '
        '"cos_phase", "joint_pos", "joint_vel", "projected_gravity", "sin_phase"]\n'
    )
    contract = load_policy(path).contract
    assert contract.default_pos == tuple(POSE)
    assert contract.provenance["action.scale"] == "sidecar (policy.toml)"
    assert contract.provenance["phase.hz"] == "assumed: as in holosoma's own runtime"


def test_the_alphabet_orders_the_numbers(tmp_path: Path) -> None:
    """Each action is one number of the observation; listed order would give other ones."""
    weight = np.zeros((SIZE, 4))
    for action, number in enumerate((4 + 1, 7, 12 + 2, 16 + 3)):
        weight[number, action] = 1.0
    path = linear(weight, as_json(NEW), tmp_path / "policy.onnx", "actor_obs", "action")
    state = RobotState(
        joint_names=tuple(JOINTS),
        joint_pos=np.array([[0.1, 0.2, 0.3, 0.4]]),
        joint_vel=np.array([[1.0, 2.0, 3.0, 4.0]]),
        base_quat=np.array([[1.0, 0.0, 0.0, 0.0]]),
        base_lin_vel=np.zeros((1, 3)),
        base_ang_vel=np.array([[0.4, 0.6, 0.8]]),
    )
    action = acts(path, state, command=[0.5, 0.0, -0.7])
    assert action == pytest.approx([0.6 * 0.25, -0.7, 0.3 - -0.31, 4.0 * 0.05])


def test_it_is_known_by_its_keys() -> None:
    assert choose_format(found(OLD)) == ("holosoma", "metadata dof_names, kp, kd, command_ranges")
    assert choose_format(found({"dof_names": JOINTS, "kp": [1.0] * 4})) is None


def test_json_in_json_is_read_too() -> None:
    metadata = OLD | {"experiment_config": json.dumps(CONFIG)}
    assert HOLOSOMA.read(found(metadata)).document == HOLOSOMA.read(found()).document


def test_gains_of_the_configuration_count_first() -> None:
    reading = HOLOSOMA.read(found(changed("robot", "control", "stiffness", value={"hip": 400.0, "knee": 50.0})))
    assert reading.document["joints"]["kp"] == [400.0, 50.0, 400.0, 50.0]
    assert reading.sources["joints.kp"] == "metadata of holosoma, experiment_config"
    said = [note for note in reading.notes if note.startswith("kp")]
    assert said == ["kp 400 for left_hip_joint is that of experiment_config, which counts before 40 in 'kp'"]
    for gains in ({"kp": [0.0] * 4}, {"kp": None, "kd": None}):
        metadata = {key: value for key, value in (NEW | gains).items() if value is not None}
        assert (choose_format(found(metadata)) or ("",))[0] == "holosoma"
        assert HOLOSOMA.read(found(metadata)).document == HOLOSOMA.read(found()).document


def test_gains_that_nobody_states_are_lacking() -> None:
    assert HOLOSOMA.read(found(OLD | {"kp": [0.0] * 4})).reasons["joints.kp"] == (
        "kp is 0 for every joint: its actuators are modelled elsewhere"
    )
    vague = changed("robot", "control", "stiffness", value={"left": 1.0, "hip": 2.0, "knee": 3.0})
    del vague["kp"], vague["kd"]
    assert HOLOSOMA.read(found(vague)).reasons["joints.kp"] == "neither in 'kp' and 'kd' nor in the configuration"


def test_numbers_by_parts_of_names_are_read() -> None:
    listed = HOLOSOMA.read(found(OLD)).document["joints"]
    by_name = dict(zip(listed["names"], listed["kp"], strict=True))
    assert HOLOSOMA.read(found(OLD | {"kp": by_name})).document["joints"] == listed
    with pytest.raises(ContractError, match=r"metadata 'kp' .* is wrong: found hip, expected a number for each of"):
        HOLOSOMA.read(found(OLD | {"kp": {"hip": 1.0}}))
    scales = changed("robot", "control", "action_scale", value={"hip": 0.1, "knee": 0.2})
    scales["experiment_config"]["robot"]["control"]["action_scales_by_effort_limit_over_p_gain"] = False
    assert HOLOSOMA.read(found(scales)).document["action"]["scale"] == [0.1, 0.2, 0.1, 0.2]
    posed = changed("robot", "init_state", "default_joint_angles", value={"hip": 0.1})
    reading = HOLOSOMA.read(found(posed))
    assert reading.reasons["joints.default_pos"] == "experiment_config does not give it for every joint"


def test_terms_that_cannot_be_are_asked_for_with_the_reason() -> None:
    unknown = changed("observation", "groups", "actor_obs", "terms", "height", value=term("height_map_obs"))
    assert (
        HOLOSOMA.read(found(unknown))
        .reasons["inputs.actor_obs.terms"]
        .startswith("height_map_obs unknown; known are actions, base_ang_vel, ")
    )
    assert HOLOSOMA.read(found(size=SIZE + 9)).reasons["inputs.actor_obs.terms"] == (
        "its terms add up to 25, the input takes 34: last_action 4 + base_ang_vel 3 + command 1 + command 2 + "
        "cos_phase 2 + joint_pos 4 + joint_vel 4 + projected_gravity 3 + sin_phase 2"
    )


@pytest.mark.parametrize(
    ("metadata", "fields", "said"),
    [
        (NEW | {"kp": [1.0]}, {}, "metadata 'kp' of policy p.onnx is wrong: found 1 numbers, expected 4"),
        (NEW, {"nact": 3}, "policy p.onnx has 3 actions: expected 4, one for each joint of dof_names"),
        (changed("robot", "control", "control_type", value="T"), {}, "found T, expected P, position targets"),
        (
            changed("action", "terms", value={"arms": {"func": "x:FixedJointPositionActionTerm"}}),
            {},
            "found FixedJointPositionActionTerm, expected JointPositionActionTerm",
        ),
        (
            changed("robot", "dof_names", value=JOINTS[::-1]),
            {},
            "metadata 'dof_names' of policy p.onnx is wrong: found other joints than experiment_config",
        ),
        (OLD | {"experiment_config": [1]}, {}, "metadata 'experiment_config' of policy p.onnx is wrong"),
        (changed("simulator", "config", "sim", value={"fps": 0, "control_decimation": 4}), {}, "more than 0"),
    ],
)
def test_what_cannot_be_understood_is_refused(metadata: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError) as caught:
        HOLOSOMA.read(found(metadata, **fields))
    assert said in str(caught.value)


SOME = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)
PATHS = [
    *(("robot", "control", key) for key in CONFIG["robot"]["control"]), ("robot",), ("robot", "control"),
    ("robot", "dof_effort_limit_list"), ("robot", "init_state"), ("observation",), ("observation", "groups"),
    ("observation", "groups", "actor_obs"), ("observation", "groups", "actor_obs", "terms"),
    ("observation", "groups", "actor_obs", "history_length"),
    *(("observation", "groups", "actor_obs", "terms", "dof_vel", key) for key in ("func", "scale", "clip")),
    ("action",), ("action", "terms"), ("simulator", "config", "sim"), ("command", "setup_terms", "locomotion_gait"),
]  # fmt: skip


@given(
    st.sampled_from(PATHS), SOME | st.lists(SOME, max_size=3) | st.dictionaries(st.text(max_size=3), SOME, max_size=2)
)
def test_nothing_in_the_configuration_ends_in_a_traceback(path: tuple[str, ...], value: Any) -> None:
    with suppress(EdgertError):
        reading = HOLOSOMA.read(found(changed(*path, value=value)))
        parse_contract({"control_hz": 50.0, **reading.document}, "x")


@given(st.sampled_from(sorted(NEW)), st.text(max_size=12), st.integers(0, 2000))
def test_nothing_in_the_metadata_ends_in_a_traceback(key: str, text: str, cut: int) -> None:
    metadata = as_json(NEW)
    for mutated in (text, metadata[key][:cut], metadata[key] + text):
        shown = evidence({"actor_obs": (1, SIZE)}, {"action": (1, 4)}, metadata | {key: mutated})
        with suppress(EdgertError):
            parse_contract({"control_hz": 50.0, **HOLOSOMA.read(shown).document}, "x")
