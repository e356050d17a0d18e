"""Microduck: `manifest.json` beside the model, for one policy or a set, and the metadata key `microduck`.

The manifest says how the robot drives a policy, the metadata what it was trained against. What neither holds and every
policy of this robot has in common, the joints and the observation of 61 numbers, is in its published export contract
(pollen-robotics/microduck_rl, docs/export-contract.md). Gains are in register units of the servos, so that none are
known in N·m/rad.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from edgert.contract.foreign import given, inner, only_input, size
from edgert.contract.formats import Evidence, Reading
from edgert.errors import ContractError
from edgert.tables import Table, read_json, show, type_name

FILE: Final = "manifest.json"
_KEY: Final = "microduck"
_KEYS: Final = ("model_api", "obs_len", "action_len")
_MODEL_API: Final = 2
_PUBLISHED: Final = "microduck's export contract"
_LEG: Final = ("hip_yaw", "hip_roll", "hip_pitch", "knee", "ankle")
_HEAD: Final = ("neck_pitch", "head_pitch", "head_yaw", "head_roll")
_JOINTS: Final = (*(f"left_{part}" for part in _LEG), *_HEAD, *(f"right_{part}" for part in _LEG))
_OBSERVATION: Final = ("base_ang_vel", "projected_gravity", "joint_pos", "joint_vel", "last_action")
_SIZES: Final = {"obs_len": 61, "action_len": len(_JOINTS)}
_ENCODINGS: Final = ("constant", "phase")
_NO_GAINS: Final = "the servos' gain is in register units"


class Microduck:
    """The reader; see `edgert.contract.formats`."""

    files = (FILE,)
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        keys = [key for key in _KEYS if key in found.sidecars.get(FILE, {})]
        said = [f"metadata '{_KEY}'"] if _KEY in found.metadata else []
        return " and ".join([*said, f"{FILE} with {', '.join(keys)}"] if len(keys) >= 2 else said)

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        facts = Table(_metadata(found), f"metadata '{_KEY}'")
        manifest = Table(_entry(found), FILE)
        _check(found, manifest, facts)
        name = only_input(found, FILE)
        joints: dict[str, Any] = {"names": list(_JOINTS)}
        sources = {"joints.names": _PUBLISHED, f"inputs.{name}.terms": _PUBLISHED}
        reasons = {"joints.kp": _NO_GAINS, "joints.kd": _NO_GAINS}
        if given(facts, "joint_names"):
            joints["names"] = list(facts.names("joint_names"))
            sources["joints.names"] = facts.where
        if given(facts, "default_joint_pos"):
            joints["default_pos"] = list(facts.numbers("default_joint_pos", length=len(joints["names"])))
            sources["joints.default_pos"] = facts.where
        else:
            reasons["joints.default_pos"] = f"{FILE} does not hold it"
        terms, phase, notes = _terms(inner(manifest, "command"))
        document: dict[str, Any] = {
            "schema": 1,
            "robot": _KEY,
            "joints": joints,
            "inputs": {name: {"terms": terms}},
            "action": {"scale": 1.0},
        }
        if given(manifest, "action_scale"):
            document["action"]["scale"] = manifest.number("action_scale")
        elif given(facts, "action_scale"):
            document["action"]["scale"] = facts.number("action_scale")
            sources["action.scale"] = facts.where
        else:
            sources["action.scale"] = "assumed: 1 where nothing is said"
            notes.append(f"{FILE} does not say action_scale: 1 is assumed")
        rates = [
            table.number("control_hz", above=0.0)
            for table in (facts, inner(manifest, "robot"))
            if given(table, "control_hz")
        ]
        if len(set(rates)) > 1:
            raise ContractError(
                f"policy {found.model} has two rates", found=", ".join(f"{rate:g} Hz" for rate in rates)
            )
        if rates:
            document["control_hz"] = rates[0]
        if phase is not None:
            document["phase"] = {"hz": phase}
        else:
            document["command"] = {"kind": "twist"}
        if given(manifest, "duration_s"):
            notes.append(f"made for {manifest.number('duration_s', above=0.0):g} s at a time; stop it with --seconds")
        source = FILE if manifest.data else facts.where
        return Reading(document=document, source=source, sources=sources, notes=tuple(notes), reasons=reasons)


MICRODUCK: Final = Microduck()


def _metadata(found: Evidence) -> Mapping[str, Any]:
    if _KEY not in found.metadata:
        return {}
    return read_json(found.metadata[_KEY], where=f"metadata '{_KEY}' of policy {found.model}")


def _entry(found: Evidence) -> Mapping[str, Any]:
    """The manifest of this policy: the file's, with what a set says of this one laid over it."""
    document = found.sidecars.get(FILE, {})
    policies = document.get("policies")
    if policies is None:
        return document
    if not isinstance(policies, list) or not all(isinstance(entry, Mapping) for entry in policies):
        Table(document, FILE).fail("policies", found=type_name(policies), expected="a list of policies")
    name = PurePath(found.model).name
    own = [entry for entry in policies if entry.get("file") == name]
    if len(own) != 1:
        raise ContractError(
            f"{FILE} lists policy {name} {len(own)} times",
            found=", ".join(show(entry.get("file")) for entry in policies),
            expected="once",
        )
    return {**document, **own[0]}


def _check(found: Evidence, manifest: Table, facts: Table) -> None:
    """Refuse what is of another robot, too new, or of another size than the network."""
    api = manifest.integer("model_api", 1, lo=1)
    if api > _MODEL_API:
        manifest.fail("model_api", found=api, expected=f"at most {_MODEL_API}", hint="This policy is newer than edgert")
    robot = inner(manifest, "robot")
    model = robot.text("model", _KEY)
    if model != _KEY:
        robot.fail("model", found=show(model), expected=show(_KEY))
    sizes = {
        "obs_len": [size(shape) for name, shape in found.inputs.items() if name == only_input(found, FILE)],
        "action_len": [size(shape) for name, shape in found.outputs.items() if name in ("actions", "action")],
    }
    for key, usual in _SIZES.items():
        for table in (manifest, facts):
            if given(table, key) and table.integer(key, lo=1) != usual:
                table.fail(key, found=table.raw(key), expected=f"{usual}, as every policy of this robot")
        for actual in sizes[key]:
            if actual is not None and actual != usual:
                raise ContractError(
                    f"policy {found.model} is none of a microduck", found=f"{actual} for {key}", expected=usual
                )


def _terms(command: Table) -> tuple[list[dict[str, Any]], float | None, list[str]]:
    """The terms, the rate of the phase in their place of the twist if there is one, and what is to be said."""
    encoding = command.text("encoding", _ENCODINGS[0])
    if encoding not in _ENCODINGS:
        command.fail("encoding", found=show(encoding), expected="one of " + ", ".join(_ENCODINGS))
    terms: list[dict[str, Any]] = [{"name": name} for name in _OBSERVATION]
    notes = ["the poses of head and body that the operator asks for are held at 0"]
    hz = None
    if encoding == "phase":
        hz = 1.0 / command.number("period_s", lo=1e-3, hi=1e3)
        terms += [{"name": "cos_phase"}, {"name": "sin_phase"}, {"name": "constant", "value": [0.0]}]
        notes.append("the phase goes round and round; the robot's own daemon stops it at end_phase")
    else:
        terms.append({"name": "command"})
    return [*terms, {"name": "constant", "value": [0.0] * 10}], hz, notes
