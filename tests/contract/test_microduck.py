"""Microduck's manifest and metadata, read into a contract."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.contract import parse_contract
from edgert.contract.formats import Evidence, choose_format
from edgert.contract.microduck import MICRODUCK
from edgert.errors import ContractError, EdgertError

MANIFEST: dict[str, Any] = {
    "schema_version": 2,
    "model_api": 1,
    "obs_len": 61,
    "action_len": 14,
    "robot": {"model": "microduck", "hw_rev": 1, "servos": "xl330", "control_hz": 50},
    "name": "polite-bow",
    "kind": "episodic",
    "duration_s": 4.0,
    "action_scale": 0.5,
    "command": {"encoding": "constant", "idle": [0, 0, 0]},
}
FACTS: dict[str, Any] = {
    "schema_version": 1,
    "control_hz": 50,
    "joint_names": [f"joint_{i}" for i in range(14)],
    "default_joint_pos": [0.1 * i for i in range(14)],
    "action_scale": 1.0,
    "kp_fw": 200,
}


def evidence(manifest: dict[str, Any] | None = None, facts: Any = None, **changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "model": "/a/policy.onnx",
        "sidecars": {"manifest.json": MANIFEST if manifest is None else manifest},
        "inputs": {"obs": (1, 61)},
        "outputs": {"actions": (1, 14)},
        "metadata": {} if facts is None else {"microduck": facts if isinstance(facts, str) else json.dumps(facts)},
    }
    return Evidence(**fields | changes)


def test_the_manifest_states_some_and_the_rest_is_asked_for() -> None:
    reading = MICRODUCK.read(evidence())
    document = reading.document
    assert document["control_hz"] == 50.0
    assert document["joints"]["names"][:6] == [
        "left_hip_yaw", "left_hip_roll", "left_hip_pitch", "left_knee", "left_ankle", "neck_pitch",
    ]  # fmt: skip
    assert document["action"] == {"scale": 0.5}
    assert document["command"] == {"kind": "twist"}
    assert reading.reasons == {
        "joints.kp": "the servos' gain is in register units",
        "joints.kd": "the servos' gain is in register units",
        "joints.default_pos": "manifest.json does not hold it",
    }
    assert reading.sources["inputs.obs.terms"] == "microduck's export contract"
    assert reading.notes == (
        "the poses of head and body that the operator asks for are held at 0",
        "made for 4 s at a time; stop it with --seconds",
    )
    whole = {**document, "joints": {**document["joints"], "default_pos": 0.0, "kp": 2.0, "kd": 0.1}}
    contract = parse_contract({**whole, "action": {"scale": 0.5, "output": "actions"}}, "x")
    assert contract.inputs["obs"].sizes() == (
        "base_ang_vel 3 + projected_gravity 3 + joint_pos 14 + joint_vel 14 + last_action 14 + command 3 + constant 10"
    )


def test_metadata_hold_what_it_was_trained_against() -> None:
    manifest = {key: value for key, value in MANIFEST.items() if key != "action_scale"}
    reading = MICRODUCK.read(evidence(manifest, FACTS))
    assert reading.document["joints"] == {
        "names": FACTS["joint_names"], "default_pos": FACTS["default_joint_pos"],
    }  # fmt: skip
    assert reading.document["action"] == {"scale": 1.0}
    assert reading.sources["joints.default_pos"] == reading.sources["action.scale"] == "metadata 'microduck'"
    assert "joints.default_pos" not in reading.reasons
    alone = MICRODUCK.read(evidence(facts=FACTS, sidecars={}))
    assert alone.source == "metadata 'microduck'"


def test_a_phase_stands_in_the_place_of_the_twist() -> None:
    read = MICRODUCK.read(evidence(MANIFEST | {"command": {"encoding": "phase", "period_s": 2.0}})).document
    assert [term["name"] for term in read["inputs"]["obs"]["terms"][5:]] == [
        "cos_phase", "sin_phase", "constant", "constant",
    ]  # fmt: skip
    assert read["phase"] == {"hz": 0.5}
    assert "command" not in read


def test_a_set_is_read_by_the_name_of_the_file() -> None:
    files = [{"file": "walk.onnx", "action_scale": 0.7}, {"file": "policy.onnx", "action_scale": 0.9}]
    assert MICRODUCK.read(evidence(MANIFEST | {"policies": files})).document["action"] == {"scale": 0.9}


def test_it_is_known_by_its_keys() -> None:
    assert choose_format(evidence()) == ("microduck", "manifest.json with model_api, obs_len, action_len")
    assert choose_format(evidence({}, FACTS)) == ("microduck", "metadata 'microduck'")
    of_mjlab = dict.fromkeys(("joint_names", "default_joint_pos", "observation_names", "action_scale"), "1")
    both = {"metadata": of_mjlab | {"microduck": json.dumps(FACTS)}}
    assert choose_format(evidence({}, **both)) == ("microduck", "metadata 'microduck'")


@pytest.mark.parametrize(
    ("manifest", "changes", "text"),
    [
        ({"model_api": 3}, {}, "manifest.json: key 'model_api' is wrong: found 3, expected at most 2. This policy"),
        ({"robot": {"model": "ostrich"}}, {}, "key 'robot.model' is wrong: found 'ostrich', expected 'microduck'"),
        ({"obs_len": 51}, {}, "key 'obs_len' is wrong: found 51, expected 61, as every policy of this robot"),
        ({}, {"inputs": {"obs": (1, 51)}}, "policy /a/policy.onnx is none of a microduck: found 51 for obs_len"),
        ({"command": {"encoding": "posture_flag"}}, {}, "key 'command.encoding' is wrong: found 'posture_flag'"),
        ({"policies": [{"file": "other.onnx"}]}, {}, "lists policy policy.onnx 0 times: found 'other.onnx'"),
        (
            {"robot": {"control_hz": 25}},
            {"metadata": {"microduck": json.dumps(FACTS)}},
            "has two rates: found 50 Hz, 25 Hz",
        ),
        ({}, {"metadata": {"microduck": "{"}}, "metadata 'microduck' of policy /a/policy.onnx is not valid JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused(manifest: dict[str, Any], changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught:
        MICRODUCK.read(evidence(MANIFEST | manifest, **changes))
    assert text in str(caught.value)


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})


@given(st.sampled_from([*MANIFEST, "policies"]), SOME | st.lists(SOME, max_size=4), st.sampled_from(list(FACTS)), SOME)
def test_nothing_in_it_ends_in_a_traceback(key: str, value: Any, fact: str, told: Any) -> None:
    with suppress(EdgertError):
        MICRODUCK.read(evidence(MANIFEST | {key: value}, FACTS | {fact: told}))


@given(st.text(max_size=20))
def test_no_metadata_end_in_a_traceback(text: str) -> None:
    with suppress(EdgertError):
        MICRODUCK.read(evidence(facts=text))
