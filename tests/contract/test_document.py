"""Contracts as documents: reading, writing, digests, and one document laid over another."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from contract_examples import contract, document, documents
from hypothesis import given, settings

from edgert.contract import CommandSpec, Contract, PhaseSpec, overlay, parse_contract
from edgert.contract.senses import HeightScan, Picture
from edgert.contract.spec import MotionSpec, NetworkSpec
from edgert.tables import read_json, read_toml

TOML = """
schema = 1
control_hz = 50

[joints]
names = ["hip", "knee"]
default_pos = [0.1, -0.2]
kp = { knee = 30.0, hip = 20.0 }
kd = 0.5

[inputs.obs]
terms = ["joint_pos", { name = "joint_vel", scale = 0.05 }]

[action]
output = "actions"
"""


def reread(spec: Contract) -> Contract:
    return parse_contract(read_json(json.dumps(spec.to_document()), where="metadata"), "metadata")


@settings(max_examples=60, deadline=None)
@given(documents())
def test_a_contract_comes_back_from_its_document_unchanged(some):
    spec = parse_contract(some, "test")
    again = reread(spec)
    assert again == spec
    assert again.sha256() == spec.sha256()


@settings(max_examples=30, deadline=None)
@given(documents())
def test_writing_is_settled_after_one_round(some):
    written = parse_contract(some, "test").to_document()
    assert parse_contract(written, "test").to_document() == written


def test_every_field_of_a_toml_file_is_read(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(TOML)
    spec = parse_contract(read_toml(path, kind="contract"), str(path))
    assert spec.period_s == 0.02
    assert spec.joints == ("hip", "knee")
    assert spec.default_pos == (0.1, -0.2)
    assert spec.kp == (20.0, 30.0)
    assert spec.kd == (0.5, 0.5)
    assert [(term.name, term.dim, term.scale) for term in spec.inputs["obs"].terms] == [
        ("joint_pos", 2, (1.0, 1.0)),
        ("joint_vel", 2, (0.05, 0.05)),
    ]
    assert (spec.action.outputs, spec.action.joints, spec.action.scale) == (("actions",), ("hip", "knee"), (1.0, 1.0))
    assert spec.action.clip is None
    assert spec.command is None
    assert spec.phase is None


def test_the_action_is_offset_by_the_default_pose_of_its_own_joints():
    assert contract(action={"output": "a", "joints": ["ankle", "hip"]}).action.offset == (0.3, 0.1)


def test_the_action_drives_every_joint_unless_it_names_some():
    assert contract(action={"output": "a"}).action.joints == ("hip", "knee", "ankle")


@pytest.mark.parametrize("form", [2.0, [2.0, 2.0, 2.0], {"ankle": 2.0, "hip": 2.0, "knee": 2.0}])
def test_a_number_a_list_and_a_table_by_joint_mean_the_same(form):
    joints = document()["joints"] | {"kp": form}
    assert contract(joints=joints).kp == (2.0, 2.0, 2.0)


def test_a_table_by_joint_is_read_by_name():
    joints = document()["joints"] | {"kp": {"ankle": 3.0, "hip": 1.0, "knee": 2.0}}
    assert contract(joints=joints).kp == (1.0, 2.0, 3.0)


def test_the_order_of_several_inputs_is_kept():
    spec = contract(inputs={"b": {"terms": ["joint_pos"]}, "a": {"terms": ["command", "phase"]}})
    assert [(name, entry.dim) for name, entry in spec.inputs.items()] == [("b", 3), ("a", 7)]


def test_a_command_knows_its_trained_ranges():
    command = {"vx_m_s": [-1, 1], "wz_rad_s": [-0.5, 0.5]}
    assert contract(command=command).command.ranges == ((-1.0, 1.0), None, (-0.5, 0.5))


def term_changed(spec: Contract, **changes: Any) -> Contract:
    (term, *rest) = spec.inputs["obs"].terms
    changed = dataclasses.replace(spec.inputs["obs"], terms=(dataclasses.replace(term, **changes), *rest))
    return dataclasses.replace(spec, inputs={"obs": changed})


PICTURE = Picture(camera="front", image="gray", height=2, width=2)
MOTION = MotionSpec(file="walk.npz")
NETWORKS = (NetworkSpec(name="policy"),)
PHASE = PhaseSpec(hz=1.5, offsets_rad=(0.0, 3.0), still_rad=3.0, still_below=0.05)
CHANGES: dict[str, Any] = {
    **{
        name: lambda spec, name=name, value=value: dataclasses.replace(spec, **{name: value})
        for name, value in {
            "robot": "arm",
            "control_hz": 50.5,
            "joints": ("hip", "knee", "toe"),
            "default_pos": (0.1, -0.2, 0.31),
            "kp": (20.0, 20.0, 20.5),
            "kd": (0.5, 0.5, 0.6),
            "command": None,
            "phase": None,
            "recurrent": {"h_in": "h_out"},
            "motion": MOTION,
            "networks": NETWORKS,
        }.items()
    },
    **{
        f"action.{name}": lambda spec, name=name, value=value: dataclasses.replace(
            spec, action=dataclasses.replace(spec.action, **{name: value})
        )
        for name, value in {
            "outputs": ("targets",),
            "added": ("residual",),
            "joints": ("hip", "ankle"),
            "kinds": ("torque", "position"),
            "target_clip": ((-1.0, 1.0),) * 2,
            "scale": (0.5, 0.3),
            "offset": (0.0, 0.0),
            "clip": None,
        }.items()
    },
    "command.ranges": lambda spec: dataclasses.replace(spec, command=CommandSpec(ranges=(None, (-0.5, 1.1), None))),
    "command.kind": lambda spec: dataclasses.replace(spec, command=dataclasses.replace(spec.command, kind="position")),
    **{
        f"phase.{name}": lambda spec, name=name, value=value: dataclasses.replace(
            spec, phase=dataclasses.replace(PHASE, **{name: value})
        )
        for name, value in {"hz": 1.6, "offsets_rad": (0.0,), "still_rad": None, "still_below": 0.06}.items()
    },
    **{
        f"term.{name}": lambda spec, name=name, value=value: term_changed(spec, **{name: value})
        for name, value in {
            "name": "base_ang_vel",
            "dim": 4,
            "scale": (1.0, 1.0, 2.0),
            "offset": (0.0, 0.1, 0.0),
            "clip": (-1.0, 1.0),
            "index": (2, 1, 0),
            "frame": "world",
            "point": "com",
            "sensors": ("gyro",),
            "threshold": 2.0,
            "clip_first": True,
            "history": 2,
            "order": "xyzw",
            "stage": "target",
            "value": (1.0,),
            "of": "latent",
            "previous": True,
            "sense": HeightScan(),
        }.items()
    },
    **{
        f"scan.{name}": lambda spec, name=name, value=value: term_changed(spec, sense=HeightScan(**{name: value}))
        for name, value in {
            **{"size": (1.6, 1.2), "resolution": 0.2, "ordering": "yx", "height_offset": 0.0},
            **{"above": 1.0, "miss": 2.0, "body": "shin"},
        }.items()
    },
    **{
        f"picture.{name}": lambda spec, name=name, value=value: term_changed(
            spec, sense=dataclasses.replace(PICTURE, **{name: value})
        )
        for name, value in {"camera": "back", "image": "depth", "height": 3, "width": 3}.items()
    },
    **{
        f"motion.{name}": lambda spec, name=name, value=value: dataclasses.replace(
            spec, motion=dataclasses.replace(MOTION, **{name: value})
        )
        for name, value in {
            "file": "walk.csv",
            "hz": 30.0,
            "time_step": "t",
            "outputs": {"joint_pos": "q"},
            "joints": ("hip",),
            "bodies": ("foot",),
            "anchor": "torso",
            "quat_order": "xyzw",
            "loop": True,
        }.items()
    },
    **{
        f"network.{name}": lambda spec, name=name, value=value: dataclasses.replace(
            spec, networks=(dataclasses.replace(NETWORKS[0], **{name: value}),)
        )
        for name, value in {"name": "other", "every": 2, "recurrent": {"h": "g"}}.items()
    },
    "layout": lambda spec: dataclasses.replace(
        spec, inputs={"obs": dataclasses.replace(spec.inputs["obs"], layout="frame")}
    ),
    "fill": lambda spec: dataclasses.replace(
        spec, inputs={"obs": dataclasses.replace(spec.inputs["obs"], fill="zero")}
    ),
    "order of terms": lambda spec: dataclasses.replace(
        spec, inputs={"obs": dataclasses.replace(spec.inputs["obs"], terms=spec.inputs["obs"].terms[::-1])}
    ),
    "name of an input": lambda spec: dataclasses.replace(spec, inputs={"observation": spec.inputs["obs"]}),
}


@pytest.mark.parametrize("field", CHANGES)
def test_the_digest_changes_with_every_field(field):
    spec = contract()
    assert CHANGES[field](spec).sha256() != spec.sha256()


def test_no_two_changes_have_one_digest():
    spec = contract()
    digests = {name: change(spec).sha256() for name, change in CHANGES.items()}
    assert len(set(digests.values())) == len(digests)


def test_the_changes_reach_every_field_of_every_part():
    spec = contract()
    parts = {
        "": (set(spec.__dataclass_fields__) | {"layout", "fill"}) - {"inputs", "action", "provenance"},
        "action.": set(spec.action.__dataclass_fields__),
        "command.": set(spec.command.__dataclass_fields__),
        "phase.": set(spec.phase.__dataclass_fields__),
        "motion.": set(MOTION.__dataclass_fields__),
        "network.": set(NETWORKS[0].__dataclass_fields__) - {"file", "inputs"},  # which name inputs of the contract
        "scan.": set(HeightScan.__dataclass_fields__),
        "picture.": set(PICTURE.__dataclass_fields__),
        "term.": set(spec.inputs["obs"].terms[0].__dataclass_fields__),
    }
    assert {prefix + name for prefix, names in parts.items() for name in names} <= set(CHANGES)


def test_the_digest_is_that_of_the_documented_canonical_json():
    import hashlib

    spec = contract("joint_pos")
    text = json.dumps(spec.to_document(), sort_keys=True, separators=(",", ":"))
    assert spec.sha256() == hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_does_not_depend_on_provenance():
    assert parse_contract(document(), "a", {"robot": "user"}).sha256() == parse_contract(document(), "b").sha256()


def test_the_digest_of_a_contract_made_of_integers_is_that_of_the_same_numbers():
    spec = contract("joint_vel")
    whole = dataclasses.replace(spec, control_hz=50, kp=(20, 20, 20))
    assert whole.sha256() == spec.sha256() == reread(whole).sha256()


def test_an_overlay_replaces_field_by_field_and_says_whence():
    provenance: dict[str, str] = {}
    under = {"schema": 1, "control_hz": 50, "command": {"vx_m_s": [0, 1], "vy_m_s": [0, 2]}}
    over = {"control_hz": 100, "command": {"vy_m_s": [-1, 1]}, "robot": "leg"}
    below = overlay({}, under, "metadata", provenance)
    result = overlay(below, over, "sidecar (policy.toml)", provenance)
    assert result == {
        "schema": 1,
        "control_hz": 100,
        "command": {"vx_m_s": [0, 1], "vy_m_s": [-1, 1]},
        "robot": "leg",
    }
    assert provenance == {
        "schema": "metadata",
        "control_hz": "sidecar (policy.toml)",
        "command.vx_m_s": "metadata",
        "command.vy_m_s": "sidecar (policy.toml)",
        "robot": "sidecar (policy.toml)",
    }


def test_an_overlay_leaves_both_documents_alone():
    under, over = {"command": {"vx_m_s": [0, 1]}}, {"command": {"vy_m_s": [0, 2]}}
    overlay(under, over, "user", {})
    assert (under, over) == ({"command": {"vx_m_s": [0, 1]}}, {"command": {"vy_m_s": [0, 2]}})


@pytest.mark.parametrize("key", ["default_pos", "kp", "kd"])
def test_a_table_by_joint_is_replaced_as_a_whole(key):
    provenance: dict[str, str] = {}
    under = {"joints": {key: {"hip": 1.0, "knee": 2.0}}}
    result = overlay(under, {"joints": {key: {"knee": 3.0}}}, "user", provenance)
    assert result == {"joints": {key: {"knee": 3.0}}}
    assert provenance == {f"joints.{key}": "user"}


@pytest.mark.parametrize("key", ["scale", "offset"])
def test_a_table_by_joint_of_the_action_is_replaced_as_a_whole(key):
    result = overlay({"action": {key: {"hip": 1.0}}}, {"action": {key: {"knee": 3.0}}}, "user", {})
    assert result == {"action": {key: {"knee": 3.0}}}


def test_the_terms_of_an_input_are_replaced_as_a_whole():
    under = {"inputs": {"obs": {"terms": ["joint_pos"]}, "map": {"terms": ["joint_vel"]}}}
    result = overlay(under, {"inputs": {"obs": {"terms": ["command"]}}}, "user", {})
    assert result == {"inputs": {"obs": {"terms": ["command"]}, "map": {"terms": ["joint_vel"]}}}


def test_a_contract_keeps_the_provenance_of_its_fields():
    provenance: dict[str, str] = {}
    merged = overlay(overlay({}, document(), "metadata", provenance), {"control_hz": 25}, "user (fix.toml)", provenance)
    spec = parse_contract(merged, "test", provenance)
    assert spec.control_hz == 25.0
    assert spec.provenance["control_hz"] == "user (fix.toml)"
    assert spec.provenance["joints.kd"] == "metadata"
