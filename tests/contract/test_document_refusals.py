"""Malformed contracts, each refused with the file, the key, what was found and what was expected."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from contract_examples import document

from edgert.contract import parse_contract
from edgert.contract.document import check_keys
from edgert.errors import ContractError, EdgertError, UnknownNameError
from edgert.tables import Table, show

INF, NAN = float("inf"), float("nan")
Path = Sequence[str | int]


def changed(path: Path, value: Any) -> dict[str, Any]:
    """The example document with the node at `path` replaced or added."""
    result = document()
    node: Any = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = copy.deepcopy(value)
    return result


def without(path: Path) -> dict[str, Any]:
    result = changed(path, None)
    node: Any = result
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return result


def refusal(some: Any, kind: type[EdgertError] = ContractError) -> str:
    with pytest.raises(kind) as caught:
        parse_contract(some, "policy.toml")
    assert type(caught.value) is kind
    return str(caught.value)


def wrong(key: str, found: str, expected: str) -> str:
    return f"policy.toml: key '{key}' is wrong: found {found}, expected {expected}"


TERM = ("inputs", "obs", "terms", 0)


def test_the_example_itself_is_accepted():
    parse_contract(document(), "policy.toml")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            ("nme",),
            "'nme': expected one of action, command, control_hz, inputs, joints, motion, network, phase, "
            "recurrent, robot, schema",
        ),
        (("joints", "ki"), "'joints.ki': expected one of default_pos, kd, kp, names"),
        (("inputs", "obs", "term"), "'inputs.obs.term': expected one of fill, layout, newest, terms"),
        (
            (*TERM, "scal"),
            "'inputs.obs.terms[0].scal': expected one of clip, clip_first, dim, frame, history, index, name, "
            "offset, point, scale",
        ),
        (
            ("action", "ofset"),
            "'action.ofset': expected one of added, clip, joints, kind, offset, output, scale, target_clip",
        ),
        (("command", "vz"), "'command.vz': expected one of kind, vx_m_s, vy_m_s, wz_rad_s"),
        (("phase", "rate"), "'phase.rate': expected one of hz, offsets_rad, still_below, still_rad"),
    ],
)
def test_an_unknown_key_is_refused_with_the_valid_ones(path, text):
    assert refusal(changed(path, 1)) == f"policy.toml: unknown key {text}"


@pytest.mark.parametrize("path", [("nme",), ("joints", "ki"), ("inputs", "obs", "term")])
def test_keys_are_the_same_of_a_document_that_need_not_be_complete(path):
    changed_document = changed(path, 1)
    with pytest.raises(ContractError) as caught:
        check_keys(Table(changed_document, "policy.toml"))
    assert str(caught.value) == refusal(changed_document)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("control_hz",), "control_hz"),
        (("joints",), "joints"),
        (("joints", "names"), "joints.names"),
        (("joints", "default_pos"), "joints.default_pos"),
        (("joints", "kp"), "joints.kp"),
        (("joints", "kd"), "joints.kd"),
        (("inputs",), "inputs"),
        (("inputs", "obs", "terms"), "inputs.obs.terms"),
        ((*TERM, "name"), "inputs.obs.terms[0].name"),
        (("action",), "action"),
        (("action", "output"), "action.output"),
        (("phase", "hz"), "phase.hz"),
    ],
)
def test_a_missing_key_is_refused_by_name(path, key):
    assert refusal(without(path)) == f"policy.toml: key '{key}' is missing. Add {key} to it"


def test_a_missing_schema_is_told_with_its_number():
    assert refusal(without(("schema",))) == "policy.toml: key 'schema' is missing. Begin it with: schema = 1"


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("schema",), True, wrong("schema", "a boolean True", "an integer")),
        (("schema",), 1.0, wrong("schema", "a number 1.0", "an integer")),
        (("schema",), 0, wrong("schema", "0", "at least 1")),
        (("robot",), 5, wrong("robot", "an integer 5", "text")),
        (("robot",), None, wrong("robot", "nothing None", "text")),
        (("control_hz",), "50", wrong("control_hz", "text '50'", "a finite number")),
        (("control_hz",), True, wrong("control_hz", "a boolean True", "a finite number")),
        (("control_hz",), NAN, wrong("control_hz", "a number nan", "a finite number")),
        (("control_hz",), INF, wrong("control_hz", "a number inf", "a finite number")),
        (("control_hz",), 0, wrong("control_hz", "0", "more than 0 and at most 10000")),
        (("control_hz",), 10000.5, wrong("control_hz", "10000.5", "more than 0 and at most 10000")),
        (("joints",), [1], wrong("joints", "a list [1]", "a table")),
        (("joints", "names"), "hip", wrong("joints.names", "text 'hip'", "a list of names")),
        (("joints", "names"), ["hip", 1], wrong("joints.names", "a list ['hip', 1]", "a list of names")),
        (("joints", "names"), ["hip", ""], wrong("joints.names", "a list ['hip', '']", "a list of names")),
        (("joints", "names"), [], wrong("joints.names", "0 joints", "1 to 1000")),
        (
            ("joints", "names"),
            ["hip", "knee", "hip"],
            wrong("joints.names", "hip more than once", "each name once"),
        ),
        (
            ("joints", "kp"),
            "stiff",
            wrong("joints.kp", "text 'stiff'", "a number, a list in joint order or a table by joint"),
        ),
        (("joints", "kp"), -1.0, wrong("joints.kp", "-1.0", "at least 0")),
        (("joints", "kp"), [1, 2, -3], wrong("joints.kp", "-3 for ankle", "at least 0")),
        (("joints", "kp"), [1, 2], wrong("joints.kp", "2 numbers", "3, one for each joint")),
        (("joints", "kp"), [1, 2, NAN], wrong("joints.kp", "a list [1, 2, nan]", "a list of finite numbers")),
        (("joints", "kp"), [1, 2, True], wrong("joints.kp", "a list [1, 2, True]", "a list of finite numbers")),
        (
            ("joints", "kp"),
            INF,
            wrong("joints.kp", "a number inf", "a number, a list in joint order or a table by joint"),
        ),
        (("joints", "kd", "toe"), 1.0, wrong("joints.kd", "unknown joint toe", "joints of hip, knee, ankle")),
        (("joints", "kd"), {"hip": 1.0}, wrong("joints.kd", "no value for knee, ankle", "a value for every joint")),
        (("joints", "kd", "hip"), "x", wrong("joints.kd.hip", "text 'x'", "a finite number")),
        (("joints", "kd", "hip"), -0.5, wrong("joints.kd", "-0.5 for hip", "at least 0")),
        (("inputs",), {}, wrong("inputs", "no input", "one table [inputs.<ONNX input name>]")),
        (("inputs",), ["obs"], wrong("inputs", "a list ['obs']", "a table")),
        (("inputs", "obs"), "joint_pos", wrong("inputs.obs", "text 'joint_pos'", "a table")),
        (("inputs", "obs", "terms"), [], wrong("inputs.obs.terms", "a list []", "a list of 1 to 1000 terms")),
        (("inputs", "obs", "terms"), "phase", wrong("inputs.obs.terms", "text 'phase'", "a list of 1 to 1000 terms")),
        (TERM, 7, wrong("inputs.obs.terms", "an integer 7", "the name of a term, or a table with it")),
        (TERM, {"name": 7}, wrong("inputs.obs.terms[0].name", "an integer 7", "text")),
        (
            TERM,
            {"name": "joint_pos", "dim": 4},
            wrong("inputs.obs.terms[0].dim", "4", "3 for 'joint_pos'"),
        ),
        (
            TERM,
            {"name": "joint_pos", "scale": [1.0, 2.0]},
            wrong("inputs.obs.terms[0].scale", "a list [1.0, 2.0]", "a number or a list of 3 numbers"),
        ),
        (
            TERM,
            {"name": "joint_pos", "scale": True},
            wrong("inputs.obs.terms[0].scale", "a boolean True", "a number or a list of 3 numbers"),
        ),
        (
            TERM,
            {"name": "joint_pos", "offset": [1.0, 2.0, NAN]},
            wrong("inputs.obs.terms[0].offset", "a list [1.0, 2.0, nan]", "a list of finite numbers"),
        ),
        (
            TERM,
            {"name": "joint_pos", "clip": [1.0]},
            wrong("inputs.obs.terms[0].clip", "1 numbers", "2"),
        ),
        (
            TERM,
            {"name": "joint_pos", "clip": [1.0, -1.0]},
            wrong("inputs.obs.terms[0].clip", "[1, -1]", "[low, high] with low <= high"),
        ),
        (
            TERM,
            {"name": "joint_pos", "clip": [-INF, 1.0]},
            wrong("inputs.obs.terms[0].clip", "a list [-inf, 1.0]", "a list of finite numbers"),
        ),
        *[
            (
                TERM,
                {"name": "joint_pos", "index": index},
                wrong("inputs.obs.terms[0].index", repr(index), "a list of integers from 0 to 2"),
            )
            for index in ([], [3], [-1], [0.0], [True], 1, "0")
        ],
        (
            TERM,
            {"name": "base_lin_vel", "frame": "map"},
            wrong("inputs.obs.terms[0].frame", "'map'", "one of body, world"),
        ),
        (
            TERM,
            {"name": "joint_pos", "frame": "world"},
            wrong("inputs.obs.terms[0].frame", "'world'", "one of body"),
        ),
        *[
            (
                TERM,
                {"name": "base_lin_vel", "point": point},
                wrong("inputs.obs.terms[0].point", repr(point), "origin, com or site:<name>"),
            )
            for point in ("imu", "site:", "")
        ],
        (
            TERM,
            {"name": "base_ang_vel", "point": "com"},
            wrong("inputs.obs.terms[0].point", "'com'", "no point: 'base_ang_vel' has none"),
        ),
        (
            TERM,
            {"name": "foot_contact"},
            wrong("inputs.obs.terms[0].sensors", "no sensor", "the names of the sensors that this term reads"),
        ),
        (
            TERM,
            {"name": "foot_contact", "sensors": ["a", "a"]},
            wrong("inputs.obs.terms[0].sensors", "a more than once", "each name once"),
        ),
        (
            TERM,
            {"name": "foot_contact", "sensors": ["a"], "threshold": "1"},
            wrong("inputs.obs.terms[0].threshold", "text '1'", "a finite number"),
        ),
        (
            ("action", "kind"),
            "force",
            wrong("action.kind", "'force'", "one of position, relative_position, velocity, torque"),
        ),
        (("action", "output"), 3, wrong("action.output", "an integer 3", "text")),
        (("action", "joints"), [], wrong("action.joints", "no joint", "some of joints.names: hip, knee, ankle")),
        (
            ("action", "joints"),
            ["hip", "toe"],
            wrong("action.joints", "toe", "some of joints.names: hip, knee, ankle"),
        ),
        (
            ("action", "joints"),
            ["toe"],
            wrong("action.joints", "toe", "some of joints.names: hip, knee, ankle")
            + ". None of them is there: is one of the two of another robot?",
        ),
        (("action", "scale"), [1.0], wrong("action.scale", "1 numbers", "2, one for each joint")),
        (
            ("action", "offset"),
            "zero",
            wrong("action.offset", "text 'zero'", "a number, a list in joint order or a table by joint"),
        ),
        (("action", "offset"), {"hip": 1.0}, wrong("action.offset", "no value for ankle", "a value for every joint")),
        (
            ("action", "offset"),
            {"hip": 0, "ankle": 0, "knee": 0},
            wrong("action.offset", "unknown joint knee", "joints of ankle, hip"),
        ),
        (("action", "clip"), [0, INF], wrong("action.clip", "a list [0, inf]", "a list of finite numbers")),
        (("command",), None, wrong("command", "nothing None", "a table")),
        (("command", "kind"), "pose", wrong("command.kind", "'pose'", "one of twist, position")),
        (("command", "vx_m_s"), [1, -1], wrong("command.vx_m_s", "[1, -1]", "[low, high] with low <= high")),
        (("command", "vx_m_s"), 1.0, wrong("command.vx_m_s", "a number 1.0", "a list of finite numbers")),
        (("phase", "hz"), 0.0, wrong("phase.hz", "0.0", "more than 0 and at most 10000")),
        (("phase", "offsets_rad"), [], wrong("phase.offsets_rad", "0 phases", "1 to 1000")),
        (
            ("joints", "default_pos"),
            [0.0, -2e10, 0.0],
            wrong("joints.default_pos", "-2e+10 for knee", "at most 1e+10 in magnitude"),
        ),
        (("phase", "still_rad"), NAN, wrong("phase.still_rad", "a number nan", "a finite number")),
        (("phase", "still_below"), -0.1, wrong("phase.still_below", "-0.1", "at least 0")),
    ],
)
def test_a_wrong_value_is_refused_with_key_found_and_expected(path, value, text):
    assert refusal(changed(path, value)) == text


@pytest.mark.parametrize("joints", [("names", "knee"), ("default_pos", 0.0)])
def test_a_list_in_a_list_is_refused(joints):
    key, value = joints
    some = changed(("joints", key), [[value]])
    assert f"key 'joints.{key}' is wrong: found a list [[{value!r}]]" in refusal(some)


def test_gains_of_zero_for_every_driven_joint_are_refused():
    some = changed(("joints", "kp"), {"hip": 0.0, "ankle": 0.0, "knee": 5.0})  # the action drives hip and ankle
    assert refusal(some) == (
        wrong("joints.kp", "0 for every joint", "the position gains in N·m/rad") + ". A position action needs kp"
    )


def test_a_newer_schema_is_refused_before_anything_else_is_judged():
    assert refusal({"schema": 2, "joints": "in some new form"}) == (
        wrong("schema", "2", "at most 1") + ". This file was written by a newer edgert: upgrade it"
    )


def test_a_schema_of_the_far_future_is_newer_too():
    assert "This file was written by a newer edgert: upgrade it" in refusal({"schema": 10**12})


def test_an_unknown_term_is_refused_with_the_place_and_the_valid_ones():
    assert refusal(changed(TERM, "joint_poss"), UnknownNameError) == (
        "policy.toml: key 'inputs.obs.terms[0].name' is no observation term: found 'joint_poss', expected one of "
        "base_ang_vel, base_euler, base_height, base_lin_vel, base_pos, base_quat, camera, command, constant, "
        "cos_phase, ee_pos, foot_contact, goal_pos, height_scan, imu_ang_vel, imu_lin_acc, imu_quat, "
        "joint_angle, joint_cos, joint_pos, joint_sin, joint_torque, joint_vel, last_action, "
        "motion_anchor_ori_b, motion_anchor_pos_b, motion_command, motion_joint_pos, motion_joint_vel, "
        "motion_phase, network_output, phase, projected_gravity, sin_phase, step_count, time_step"
    )


def test_a_goal_needs_a_command_that_is_a_position():
    some = document("joint_pos")
    some["inputs"]["obs"]["terms"] = ["goal_pos"]
    assert refusal(some) == (
        "policy.toml: term 'goal_pos' needs a [command] table of kind \"position\". Add [command], or remove the term"
    )


@pytest.mark.parametrize(
    ("term", "section"),
    [("command", "command"), ("phase", "phase"), ("sin_phase", "phase"), ("cos_phase", "phase")],
)
def test_a_term_of_the_command_or_the_phase_needs_its_table(term, section):
    some = document(term)
    del some["phase"]
    if section == "command":
        del some["command"]
    assert refusal(some) == (
        f"policy.toml: term '{term}' needs a [{section}] table. Add [{section}], or remove the term"
    )


def test_a_gait_clock_that_is_held_at_rest_needs_a_command():
    some = document("joint_pos")
    del some["command"]
    assert refusal(some) == wrong("phase.still_rad", "no [command]", "a [command] whose smallness holds the clock")


def test_a_threshold_of_rest_needs_the_phase_of_rest():
    assert refusal(without(("phase", "still_rad"))) == wrong(
        "phase.still_below", "no still_rad", "still_rad, the phase at which the clock is held"
    )


HUGE = 10**400
BEYOND_PRINT = 1 << 20_000
"""More digits than Python prints."""


@pytest.mark.parametrize("value", [HUGE, -HUGE, BEYOND_PRINT, [HUGE], {"hip": HUGE}, [[BEYOND_PRINT]]], ids=show)
@pytest.mark.parametrize(
    "path",
    [
        ("schema",),
        ("control_hz",),
        ("joints", "kp"),
        ("inputs", "obs", "terms", 0, "dim"),
        ("inputs", "obs", "terms", 0, "index"),
        ("inputs", "obs", "terms", 0, "scale"),
        ("inputs", "obs", "terms", 0, "clip"),
        ("action", "clip"),
        ("phase", "hz"),
    ],
)
def test_an_integer_beyond_every_type_is_refused(path, value):
    refusal(changed(path, value))


def test_a_message_about_a_hostile_name_is_one_printable_line():
    text = refusal(changed(("joints", "names"), ["a\x1b[2J\n\u202eb\ud800", "a\x1b[2J\n\u202eb\ud800"]))
    assert text == wrong("joints.names", r"a\x1b[2J \u202eb\ud800 more than once", "each name once")


def test_a_long_value_is_cut_in_the_message():
    text = refusal(changed(("joints", "names"), [1] * 100_000))
    assert len(text) < 200
