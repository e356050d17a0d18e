"""mjlab's metadata, read into a contract."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_examples import acts, csv, evidence, linear, printed

from edgert.contract import RobotState, parse_contract
from edgert.contract.formats import choose_format
from edgert.contract.mjlab import MJLAB
from edgert.contract.senses import HeightScan
from edgert.errors import ContractError, EdgertError
from edgert.policy import load_policy
from edgert.policy.judge import MissingFactsError

JOINTS = ["left_hip", "left_knee", "right_hip", "right_knee"]
NAMES = ["base_lin_vel", "base_ang_vel", "projected_gravity", "joint_pos", "joint_vel", "actions", "command"]
VELOCITY: dict[str, Any] = {
    "run_path": "a-run",
    "joint_names": JOINTS,
    "joint_stiffness": [40.0, 41.0, 42.0, 43.0],
    "joint_damping": [1.0, 1.1, 1.2, 1.3],
    "default_joint_pos": [-0.3, 0.6, -0.31, 0.61],
    "command_names": ["twist"],
    "observation_names": NAMES,
    "observation_terms_scale": [1.0, [0.25, 0.5, 0.75], 1.0, 1.0, 0.05, 1.0, 1.0],
    "observation_terms_clip": [[float("-inf"), float("inf")]] * 4 + [[-5.0, 5.0]] + [[float("-inf"), float("inf")]] * 2,
    "observation_terms_flatten_history_dim": [True] * 7,
    "observation_terms_history_length": [0, 3, 1, 0, 0, 2, 0],
    "action_scale": [0.5, 0.51, 0.52, 0.53],
}
SIZE = 3 + 3 * 3 + 3 + 4 + 4 + 4 * 2 + 3


def found(changes: dict[str, Any] | None = None, *, size: int | str = SIZE, nact: int = 4, **fields: Any) -> Any:
    """Evidence of the policy with some of its metadata changed; None takes a key away."""
    values = {key: value for key, value in (VELOCITY | (changes or {})).items() if value is not None}
    return evidence({"obs": (1, size)}, {"actions": (1, nact)}, printed(values), **fields)


def test_a_velocity_task_is_read() -> None:
    reading = MJLAB.read(found())
    contract = parse_contract({**reading.document, "control_hz": 50.0}, "x")
    assert contract.joints == tuple(JOINTS)
    assert (contract.kp, contract.kd) == ((40.0, 41.0, 42.0, 43.0), (1.0, 1.1, 1.2, 1.3))
    assert contract.default_pos == contract.action.offset == (-0.3, 0.6, -0.31, 0.61)
    assert contract.action.scale == (0.5, 0.51, 0.52, 0.53)
    assert contract.command is not None
    assert contract.command.kind == "twist"
    spec = contract.inputs["obs"]
    assert spec.sizes() == (
        "base_lin_vel 3 + base_ang_vel 3 × 3 + projected_gravity 3 + joint_pos 4 + joint_vel 4 + last_action 4 × 2 "
        "+ command 3"
    )
    assert spec.layout == "term"
    assert spec.terms[1].scale == (0.25, 0.5, 0.75)
    assert (spec.terms[4].scale[0], spec.terms[4].clip, spec.terms[4].clip_first) == (0.05, (-5.0, 5.0), True)
    assert spec.terms[0].clip is None
    assert reading.source == "metadata of mjlab"
    assert reading.reasons == {}


def test_where_the_velocity_is_measured_is_read_or_said() -> None:
    reading = MJLAB.read(found())
    assert "point" not in reading.document["inputs"]["obs"]["terms"][0]
    assert reading.sources == {"inputs.obs.terms": "metadata of mjlab, assumed: base_lin_vel at the base's origin"}
    assert reading.notes[0].startswith("base_lin_vel is taken at the base's origin: mjlab measures it at the site")
    scene = MJLAB.read(dataclasses.replace(found(), velocity_site="imu"))
    assert scene.document["inputs"]["obs"]["terms"][0]["point"] == "site:imu"
    assert scene.notes[0].startswith("base_lin_vel is taken at site imu, where the scene has its IMU: mjlab measures")
    sites = ["imu_in_pelvis", "imu_in_pelvis", "", "", "", "", ""]
    newer = MJLAB.read(found({"observation_terms_sensor_site": sites}))
    assert newer.document["inputs"]["obs"]["terms"][0]["point"] == "site:imu_in_pelvis"
    assert newer.sources == {}
    assert newer.notes == ("base_ang_vel was measured at site imu_in_pelvis and is taken in the frame of the base",)


def test_one_number_scales_every_action() -> None:
    assert MJLAB.read(found({"action_scale": 0.25})).document["action"] == {"output": "actions", "scale": 0.25}


def test_older_and_newer_names_of_the_histories_are_read() -> None:
    lengths = [0, 3, 1, 0, 0, 2, 0]
    older = {key: None for key in VELOCITY if key.startswith("observation_terms_")}
    for key in ("observation_history_lengths", "observation_history_length"):
        terms = MJLAB.read(found({**older, key: lengths})).document["inputs"]["obs"]["terms"]
        assert [term["history"] for term in terms] == [1, 3, 1, 1, 1, 2, 1]


def test_values_are_read_however_they_are_printed() -> None:
    plain = MJLAB.read(found()).document
    for print_list in (json.dumps, repr, lambda value: csv(value) + ","):
        values = {key: print_list(value) if isinstance(value, list) else value for key, value in VELOCITY.items()}
        values["observation_terms_clip"] = values["observation_terms_clip"].replace("-inf", "-Infinity")
        assert MJLAB.read(found(values)).document == plain


def test_objects_by_name_are_lists_in_the_order_of_the_names() -> None:
    values: dict[str, Any] = {}
    for key, value in VELOCITY.items():
        names = NAMES if key.startswith("observation_terms_") and "clip" not in key else JOINTS
        plain = not isinstance(value, list) or len(value) != len(names) or key in ("joint_names", "observation_names")
        values[key] = value if plain else json.dumps(dict(reversed(list(zip(names, value, strict=True)))))
    assert sum(isinstance(value, str) and value.startswith("{") for value in values.values()) == 7
    assert MJLAB.read(found(values)).document == MJLAB.read(found()).document
    with pytest.raises(ContractError, match=r"metadata 'joint_damping' .* is wrong: found \{'left_hip': 1\.0\}"):
        MJLAB.read(found({"joint_damping": json.dumps({"left_hip": 1.0})}))


def test_one_history_is_that_of_every_term() -> None:
    older = {key: None for key in VELOCITY if key.startswith("observation_terms_")}
    terms = MJLAB.read(found({**older, "observation_history_length": 5}, size=24 * 5)).document["inputs"]["obs"][
        "terms"
    ]
    assert [term["history"] for term in terms] == [5] * 7


def test_what_is_missing_is_asked_for() -> None:
    for key, field, size in (
        ("joint_names", "joints.names", SIZE),
        ("default_joint_pos", "joints.default_pos", SIZE),
        ("action_scale", "action.scale", SIZE),
        ("observation_names", "inputs.obs.terms", SIZE),
    ):
        terms = {each: None for each in VELOCITY if each.startswith("observation_terms_")}
        reading = MJLAB.read(found({key: None, **(terms if key == "observation_names" else {})}, size=size))
        assert reading.reasons == {field: f"metadata '{key}' is missing"}


def test_a_command_that_is_no_velocity_is_asked_for() -> None:
    reading = MJLAB.read(found({"command_names": ["lift_height"]}))
    assert "command" not in reading.document
    why = "the trainer's command is 'lift_height', which may be no velocity"
    assert reading.reasons == {"command.kind": why}
    assert MJLAB.read(found({"command_names": ["base_velocity", "gait"]})).document["command"] == {"kind": "twist"}
    unnamed = MJLAB.read(found({"command_names": None}))
    assert unnamed.sources["command.kind"] == "assumed: no command_names"
    assert "its metadata do not name the command: a velocity is assumed" in unnamed.notes


def test_what_may_change_numbers_and_is_not_read_is_said() -> None:
    more = {"action_clip": [1.0], "observation_terms_noise": [0.1], "action_offset": [], "seed": 3}
    said = "metadata action_clip, observation_terms_noise are not read"
    assert said in MJLAB.read(found(more)).notes
    assert "metadata action_clip is not read" in MJLAB.read(found({"action_clip": [1.0]})).notes
    assert not any("not read" in note for note in MJLAB.read(found({"seed": 3})).notes)


def test_it_is_known_by_its_keys() -> None:
    assert choose_format(found()) == (
        "mjlab",
        "metadata joint_names, default_joint_pos, observation_names, action_scale, observation_terms_clip, "
        "observation_terms_flatten_history_dim, observation_terms_history_length, observation_terms_scale",
    )
    older = {key: None for key in VELOCITY if key.startswith("observation_terms_")}
    name, words = choose_format(found(older)) or ("", "")
    assert (name, words) == ("mjlab", "metadata joint_names, default_joint_pos, observation_names, action_scale")
    assert choose_format(found(dict.fromkeys(VELOCITY))) == ("rsl_rl", "inputs obs and output actions")


def test_a_tracking_policy_without_its_newer_lists_is_mjlabs_if_the_user_says_so() -> None:
    older = {key: None for key in VELOCITY if key.startswith("observation_terms_")} | {"anchor_body_name": "torso"}
    assert (choose_format(found(older)) or ("",))[0] == "beyondmimic"
    assert (choose_format(found(older), "mjlab") or ("",))[0] == "mjlab"
    assert (choose_format(found({"anchor_body_name": "torso"}), "beyondmimic") or ("",))[0] == "beyondmimic"


def test_gains_by_actuator_are_not_laid_beside_joints() -> None:
    gains = {"joint_stiffness": [40.0, 41.0, 42.0], "joint_damping": [1.0, 1.1, 1.2], "action_scale": 0.5}
    reading = MJLAB.read(found(gains, nact=3, size=SIZE - 2))
    assert "kp" not in reading.document["joints"]
    assert reading.reasons == {
        "joints.kp": "gains listed by actuator beside names by joint: joint_stiffness has 3 numbers for 4 joints",
        "joints.kd": "gains listed by actuator beside names by joint: joint_damping has 3 numbers for 4 joints",
        "action.joints": "the network has 3 actions for 4 joints, and does not say for which",
    }


def test_what_only_the_user_knows_comes_from_policy_toml(tmp_path: Path) -> None:
    gains = {"joint_stiffness": [40.0, 41.0, 42.0], "joint_damping": [1.0, 1.1, 1.2], "action_scale": 0.5}
    values = {key: value for key, value in (VELOCITY | gains).items() if "history" not in key}
    path = linear(np.zeros((23, 3)), printed(values), tmp_path / "policy.onnx")
    with pytest.raises(MissingFactsError) as caught:
        load_policy(path)
    by_actuator = "gains listed by actuator beside names by joint: joint_stiffness has 3 numbers for 4 joints"
    assert f"joints.kp (N·m/rad; {by_actuator})" in str(caught.value)
    assert [each.field for each in caught.value.missing] == ["joints.kp", "joints.kd", "action.joints"]
    (tmp_path / "policy.toml").write_text(
        "joints.kp = { left_hip = 40, left_knee = 41, right_hip = 42, right_knee = 0 }\njoints.kd = 1.0\n"
        'action.joints = ["left_hip", "left_knee", "right_hip"]\n'
    )
    loaded = load_policy(path)
    assert loaded.contract.kp == (40.0, 41.0, 42.0, 0.0)
    assert loaded.contract.provenance["joints.kp"] == "sidecar (policy.toml)"
    assert loaded.contract.provenance["joints.default_pos"] == "metadata of mjlab"
    assert loaded.contract.provenance["control_hz"] == "assumed 50 Hz"


def test_gains_of_nothing_are_lacking() -> None:
    reading = MJLAB.read(found({"joint_stiffness": [0.0] * 4}))
    assert reading.reasons["joints.kp"] == (
        "joint_stiffness is 0 for every joint: its actuators are modelled elsewhere"
    )
    assert (
        MJLAB.read(found({"joint_damping": [1.0, 1.0, 1.0, -0.5]}))
        .reasons["joints.kd"]
        .endswith("hold -0.5: a gain is at least 0")
    )
    assert MJLAB.read(found({"joint_damping": None})).reasons == {"joints.kd": "metadata 'joint_damping' is missing"}


def test_terms_that_cannot_be_are_asked_for_with_the_reason() -> None:
    """So that a file of the user's can still say what they are."""
    field = "inputs.obs.terms"
    listed = (
        "base_lin_vel 3 + base_ang_vel 9 + projected_gravity 3 + joint_pos 4 + joint_vel 4 + last_action 8 + command 3"
    )
    plain = {key: None for key in VELOCITY if key.startswith("observation_terms_")}
    unknown = MJLAB.read(found({"observation_names": [*NAMES[:-1], "my_scan"]}))
    assert unknown.reasons[field].startswith("my_scan unknown; known are base_lin_vel, base_ang_vel, ")
    assert "inputs" not in unknown.document
    assert MJLAB.read(found(size=SIZE + 2)).reasons == {
        field: f"its terms add up to {SIZE}, the input takes {SIZE + 2}: {listed}"
    }
    assert (
        MJLAB.read(found(size=SIZE - 3))
        .reasons[field]
        .endswith("; trained without state estimation, it seems, which leaves out base_lin_vel and motion_anchor_pos_b")
    )
    assert (
        MJLAB.read(found({**plain, "observation_names": NAMES[1:]}, size=24))
        .reasons[field]
        .endswith("; with or without state estimation (base_lin_vel)?")
    )


def test_the_user_can_say_what_a_trainers_own_term_is(tmp_path: Path) -> None:
    plain = {key: value for key, value in VELOCITY.items() if not key.startswith("observation_terms_")}
    metadata = plain | {"observation_names": ["my_gravity", "actions"], "command_names": ""}
    path = linear(np.zeros((7, 4)), printed(metadata), tmp_path / "policy.onnx")
    with pytest.raises(MissingFactsError, match=r"inputs\.obs\.terms .*my_gravity unknown; known are"):
        load_policy(path)
    (tmp_path / "policy.toml").write_text('inputs.obs.terms = ["projected_gravity", "last_action"]\n')
    assert load_policy(path).contract.inputs["obs"].sizes() == "projected_gravity 3 + last_action 4"


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"default_joint_pos": [0.1]}, {}, "'default_joint_pos' of policy p.onnx is wrong: found 1 numbers, expected 4"),
    ({"action_scale": [0.5, 0.5]}, {}, "'action_scale' of policy p.onnx is wrong: found 2 numbers, expected 1 or 4"),
    ({"observation_terms_scale": [1.0]}, {}, "found 1 items, expected 7, one for each observation"),
    ({"observation_terms_history_length": [0.5] * 7}, {}, "expected whole numbers from 0 to 1000"),
    (
        {"observation_terms_flatten_history_dim": [False] * 7},
        {},
        "histories as an axis of their own are not supported",
    ),
    ({"joint_names": ["a", "a", "b", "c"]}, {}, "found a more than once"),
    ({"joint_names": JOINTS[:3], "default_joint_pos": [0.0] * 3}, {}, "policy p.onnx has 4 actions"),
]


@pytest.mark.parametrize(("changes", "fields", "said"), REFUSED, ids=[said[-50:] for _, _, said in REFUSED])
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError) as caught:
        MJLAB.read(found(changes, **fields))
    assert said in str(caught.value)


def test_the_order_of_the_terms_is_that_of_the_numbers(tmp_path: Path) -> None:
    """Each action is one number of the observation, so that a wrong order or a wrong scale gives a wrong action."""
    values = {key: value for key, value in VELOCITY.items() if "history" not in key}
    weight = np.zeros((24, 4))
    weight[9 + JOINTS.index("right_hip"), 0] = 1.0  # joint_pos
    weight[13 + JOINTS.index("left_hip"), 1] = 1.0  # joint_vel, clipped to 5, × 0.05
    weight[4, 2] = 1.0  # base_ang_vel y × 0.5
    weight[23, 3] = 1.0  # command wz
    path = linear(weight, printed(values), tmp_path / "policy.onnx")
    state = RobotState(
        joint_names=tuple(JOINTS),
        joint_pos=np.array([[0.1, 0.2, 0.3, 0.4]]),
        joint_vel=np.array([[80.0, 1.0, 2.0, 3.0]]),
        base_quat=np.array([[1.0, 0.0, 0.0, 0.0]]),
        base_lin_vel=np.array([[0.1, 0.2, 0.3]]),
        base_ang_vel=np.array([[0.4, 0.6, 0.8]]),
    )
    action = acts(path, state, command=[0.5, 0.0, -0.7])
    assert action == pytest.approx([0.3 - -0.31, 5.0 * 0.05, 0.6 * 0.5, -0.7])


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)


@given(st.sampled_from(sorted(VELOCITY)), SOME | st.lists(SOME, max_size=8), st.integers(0, 60))
def test_nothing_in_it_ends_in_a_traceback(key: str, value: Any, cut: int) -> None:
    text = printed({key: value})[key]
    for mutated in (text, printed(VELOCITY)[key][:cut], text + printed(VELOCITY)[key]):
        shown = evidence({"obs": (1, SIZE)}, {"actions": (1, 4)}, printed(VELOCITY) | {key: mutated})
        with suppress(EdgertError):
            if MJLAB.evidence(shown):
                parse_contract({**MJLAB.read(shown).document, "control_hz": 50.0}, "x")


def test_a_scan_of_the_ground_is_on_the_grid_of_its_velocity_tasks() -> None:
    scan = {"observation_names": [*NAMES[:-1], "height_scan"], "command_names": None}
    reading = MJLAB.read(found(scan, size=SIZE - 3 + 187))
    said = "assumed: height_scan around the base of 1.6 × 1 m, 0.1 m apart, less 0 m"
    assert said in reading.notes
    assert reading.sources["inputs.obs.terms"].endswith(said)
    term = parse_contract({**reading.document, "control_hz": 50.0}, "x").inputs["obs"].terms[-1]
    assert term.sense == HeightScan(height_offset=0.0, above=0.0, miss=5.0)
    other = MJLAB.read(found(scan, size=SIZE - 3 + 121))
    assert other.reasons["inputs.obs.terms"].startswith(f"its terms add up to {SIZE + 184}, the input takes")
    assert said not in other.notes
