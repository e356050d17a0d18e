"""BeyondMimic's metadata, read into a contract."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_examples import csv, evidence, printed

from edgert.contract import parse_contract
from edgert.contract.beyondmimic import BEYONDMIMIC
from edgert.contract.formats import choose_format
from edgert.contract.mjlab import MJLAB
from edgert.contract.senses import HeightScan
from edgert.errors import ContractError, EdgertError

JOINTS = ["left_hip", "right_hip", "waist", "left_knee", "right_knee"]
NAMES = [
    "command", "motion_anchor_pos_b", "motion_anchor_ori_b", "base_lin_vel", "base_ang_vel", "joint_pos", "joint_vel",
    "actions",
]  # fmt: skip
METADATA: dict[str, Any] = {
    "run_path": "a-run",
    "joint_names": JOINTS,
    "joint_stiffness": [40.179, 40.179, 28.501, 99.098, 99.098],
    "joint_damping": [2.558, 2.558, 1.814, 6.309, 6.309],
    "default_joint_pos": [-0.312, -0.312, 0.0, 0.669, 0.669],
    "command_names": ["motion"],
    "observation_names": NAMES,
    "observation_history_lengths": [1] * 8,
    "action_scale": [0.548, 0.548, 0.439, 0.351, 0.351],
    "anchor_body_name": "torso",
    "body_names": ["pelvis", "torso"],
}
SIZE = 10 + 3 + 6 + 3 + 3 + 5 + 5 + 5
OUTPUTS: dict[str, Any] = {
    "actions": (1, 5),
    "joint_pos": (1, 5),
    "joint_vel": (1, 5),
    "body_pos_w": (1, 2, 3),
    "body_quat_w": (1, 2, 4),
    "body_lin_vel_w": (1, 2, 3),
    "body_ang_vel_w": (1, 2, 3),
}


def found(changes: dict[str, Any] | None = None, *, size: int | str = SIZE, **shapes: Any) -> Any:
    """Evidence of the policy with some of its metadata changed; None takes a key away."""
    values = {key: value for key, value in (METADATA | (changes or {})).items() if value is not None}
    return evidence({"obs": (1, size), "time_step": (1, 1)}, OUTPUTS | shapes, printed(values))


def test_a_tracking_task_is_read() -> None:
    reading = BEYONDMIMIC.read(found())
    contract = parse_contract({"control_hz": 50.0, **reading.document}, "x")
    assert contract.joints == tuple(JOINTS)
    assert contract.kp == (40.179, 40.179, 28.501, 99.098, 99.098)
    assert contract.action.scale == (0.548, 0.548, 0.439, 0.351, 0.351)
    assert contract.action.offset == contract.default_pos == (-0.312, -0.312, 0.0, 0.669, 0.669)
    assert [term.name for term in contract.inputs["obs"].terms] == [
        "motion_command", "motion_anchor_pos_b", "motion_anchor_ori_b", "base_lin_vel", "base_ang_vel", "joint_pos",
        "joint_vel", "last_action",
    ]  # fmt: skip
    assert contract.inputs["obs"].terms[3].point == "com"
    assert contract.command is None
    motion = contract.motion
    assert motion is not None
    assert (motion.time_step, motion.anchor, motion.bodies) == ("time_step", "torso", ("pelvis", "torso"))
    assert motion.outputs == {
        "joint_pos": "joint_pos",
        "joint_vel": "joint_vel",
        "body_pos": "body_pos_w",
        "body_quat": "body_quat_w",
    }
    assert motion.quat_order == "wxyz"
    assert reading.notes == ("base_lin_vel is that of the base's centre of mass, as Isaac Lab measures it",)
    assert reading.reasons == {}


@pytest.mark.parametrize("lengths", [csv([5, 5, 5, 5, 5, 5, 5, 0]), json.dumps(dict.fromkeys(NAMES[:-1], 5))])
def test_histories_are_a_list_or_a_table(lengths: str) -> None:
    terms = BEYONDMIMIC.read(found({"observation_history_lengths": lengths}, size="n")).document["inputs"]["obs"][
        "terms"
    ]
    assert [term["history"] for term in terms] == [5] * 7 + [1]


def test_it_is_known_by_its_keys_and_its_motion() -> None:
    assert choose_format(found()) == (
        "beyondmimic",
        "metadata joint_names, default_joint_pos, observation_names, action_scale, observation_history_lengths, "
        "anchor_body_name, input time_step",
    )
    newer = {f"observation_terms_{key}": [1.0] * 8 for key in ("scale", "history_length")}
    name, _ = choose_format(found({**newer, "observation_history_lengths": None})) or ("", "")
    assert name == "mjlab"


def test_mjlab_tracks_too() -> None:
    newer = {"observation_terms_history_length": [0.0] * 8, "observation_history_lengths": None}
    document = MJLAB.read(found(newer)).document
    assert document["motion"] == BEYONDMIMIC.read(found()).document["motion"]
    assert document["inputs"]["obs"]["terms"][0]["name"] == "motion_command"


def test_a_missing_anchor_is_asked_for_by_name() -> None:
    reading = BEYONDMIMIC.read(found({"anchor_body_name": None, "body_names": None}))
    assert reading.reasons == {
        "motion.bodies": "metadata 'body_names' is missing",
        "motion.anchor": "metadata 'anchor_body_name' is missing",
    }
    blind = [name for name in NAMES if "anchor" not in name]
    values = {"anchor_body_name": None, "observation_names": blind, "observation_history_lengths": None}
    assert BEYONDMIMIC.read(found(values, size=SIZE - 9)).reasons == {}


def test_a_network_without_its_motion_asks_for_the_file() -> None:
    shown = evidence({"obs": (1, SIZE)}, {"actions": (1, 5)}, printed(METADATA))
    reading = BEYONDMIMIC.read(shown)
    assert reading.document["motion"] == {"bodies": ["pelvis", "torso"], "anchor": "torso"}
    assert reading.reasons == {"motion.file": "the network was exported without its reference motion"}


def test_with_and_without_state_estimation_is_told_apart() -> None:
    """160 against 154 numbers for a G1."""
    assert BEYONDMIMIC.read(found(size=SIZE - 6)).reasons == {
        "inputs.obs.terms": "its terms add up to 40, the input takes 34: motion_command 10 + motion_anchor_pos_b 3 + "
        "motion_anchor_ori_b 6 + base_lin_vel 3 + base_ang_vel 3 + joint_pos 5 + joint_vel 5 + last_action 5; trained "
        "without state estimation, it seems, which leaves out base_lin_vel and motion_anchor_pos_b"
    }
    blind = {"observation_names": ["command", "motion_anchor_ori_b", *NAMES[4:]], "observation_history_lengths": None}
    assert BEYONDMIMIC.read(found(blind)).reasons["inputs.obs.terms"] == (
        "its terms add up to 34, the input takes 40: motion_command 10 + motion_anchor_ori_b 6 + base_ang_vel 3 + "
        "joint_pos 5 + joint_vel 5 + last_action 5; with or without state estimation (base_lin_vel, "
        "motion_anchor_pos_b)?"
    )


@pytest.mark.parametrize(
    ("changes", "fields", "said"),
    [
        ({"anchor_body_name": "pelvis_link"}, {}, "found pelvis_link, expected one of body_names: pelvis, torso"),
        (
            {"body_names": ["pelvis", "torso", "foot"]},
            {},
            "motion 'body_pos_w' is not the one that body_names names: found 2 in the network, expected 3",
        ),
        (
            {},
            {"joint_pos": (1, 4)},
            "'joint_pos' is not the one that joint_names names: found 4 in the network, expected 5",
        ),
        ({"observation_history_lengths": [1] * 7}, {}, "found 7 items, expected 8"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError) as caught:
        BEYONDMIMIC.read(found(changes, **fields))
    assert said in str(caught.value)


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)


@given(st.sampled_from(sorted(METADATA)), SOME | st.lists(SOME, max_size=8), st.integers(0, 60))
def test_nothing_in_it_ends_in_a_traceback(key: str, value: Any, cut: int) -> None:
    given_text = printed({key: value})[key]
    for mutated in (given_text, printed(METADATA)[key][:cut], given_text + printed(METADATA)[key]):
        shown = evidence({"obs": (1, SIZE), "time_step": (1, 1)}, OUTPUTS, printed(METADATA) | {key: mutated})
        with suppress(EdgertError):
            if BEYONDMIMIC.evidence(shown):
                parse_contract({"control_hz": 50.0, **BEYONDMIMIC.read(shown).document}, "x")


def test_a_scan_of_the_ground_is_on_isaac_labs_usual_grid() -> None:
    changes = {"observation_names": [*NAMES, "height_scan"], "observation_history_lengths": [1] * 9}
    reading = BEYONDMIMIC.read(found(changes, size=SIZE + 187))
    assert "assumed: height_scan around the base of 1.6 × 1 m, 0.1 m apart, less 0.5 m" in reading.notes
    spec = parse_contract({"control_hz": 50.0, **reading.document}, "x").inputs["obs"]
    assert (spec.dim, spec.terms[-1].sense) == (SIZE + 187, HeightScan())
