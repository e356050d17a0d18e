"""Metadata that trainers with managers attach to an ONNX file: whole_body_tracking on Isaac Lab, and mjlab.

Both write the same lists, named after the managers of the environment. Where they differ, in histories, scales and the
point of the base's velocity, their own readers say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from edgert.contract.formats import Evidence, Reading
from edgert.contract.metadata import Metadata
from edgert.contract.plausible import doubtful_gains, size_mismatch
from edgert.contract.recurrent import state_pairs
from edgert.contract.terms import TermSizes
from edgert.errors import ContractError
from edgert.tables import toml_key

KEYS: Final = ("joint_names", "default_joint_pos", "observation_names", "action_scale")
TERMS: Final = {
    "base_lin_vel": "base_lin_vel",
    "base_ang_vel": "base_ang_vel",
    "projected_gravity": "projected_gravity",
    "joint_pos": "joint_pos",
    "joint_pos_rel": "joint_pos",
    "joint_vel": "joint_vel",
    "joint_vel_rel": "joint_vel",
    "actions": "last_action",
    "last_action": "last_action",
    "command": "command",
    "velocity_commands": "command",
    "motion_anchor_pos_b": "motion_anchor_pos_b",
    "motion_anchor_ori_b": "motion_anchor_ori_b",
    "motion_ref_pos_b": "motion_anchor_pos_b",
    "motion_ref_ori_b": "motion_anchor_ori_b",
}
_ANCHORED: Final = ("motion_anchor_pos_b", "motion_anchor_ori_b")
_TIME: Final = "time_step"
_OUTPUTS: Final = {
    **{"joint_pos": "joint_pos", "joint_vel": "joint_vel"},
    **{"body_pos": "body_pos_w", "body_quat": "body_quat_w"},
}
_AXES: Final = {"joint_pos": -1, "joint_vel": -1, "body_pos": -2, "body_quat": -2}


@dataclass(slots=True)
class Draft:
    """A `Reading` in the making."""

    document: dict[str, Any]
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    def reading(self, source: str) -> Reading:
        """What was understood."""
        return Reading(
            document=self.document, source=source, sources=self.sources, notes=tuple(self.notes), reasons=self.reasons
        )


def metadata_keys(found: Evidence) -> list[str]:
    """Those of the lists that are there; fewer than three speak for nothing, nor do those of a microduck.

    That robot's trainer is mjlab, but its servos are outside the physics, so that the gains there are none.
    """
    if "microduck" in found.metadata:
        return []
    keys = [key for key in KEYS if key in found.metadata]
    return keys if len(keys) >= 3 else []


def has_motion(found: Evidence) -> bool:
    """Whether the policy follows a reference motion."""
    commands = [name.strip() for name in found.metadata.get("command_names", "").split(",")]
    return _TIME in found.inputs or "anchor_body_name" in found.metadata or "motion" in commands


def read_managers(found: Evidence, terms: Sequence[Mapping[str, Any]]) -> Draft:
    """All but the terms themselves.

    Args:
        found: what there is.
        terms: of the observation, as their reader understands them; one without a name is unknown.

    Raises:
        ContractError: the lists contradict each other, or the network.
    """
    values = Metadata(found.metadata, found.model)
    names = values.names("joint_names")
    draft = Draft({"schema": 1})
    default = values.numbers("default_joint_pos", len(names), "joint")
    draft.document["joints"] = {"names": names, "default_pos": default}
    observed = _observation(found)
    nact = _action(found, values, draft, len(names))
    _gains(values, draft, len(names))
    motion = has_motion(found)
    if motion:
        _motion(found, values, draft, names, anchored=any(term["name"] in _ANCHORED for term in terms))
    elif any(term["name"] == "command" for term in terms):
        draft.document["command"] = {"kind": "twist"}
    sizes = TermSizes(njoint=len(names), nact=nact, ncommand=3, nphase=0, nmotion=1 if motion else 0)
    unknown = [name for name in values.names("observation_names") if name not in TERMS]
    if unknown:
        why = f"{', '.join(unknown)} unknown; known are {', '.join(TERMS)}"
    else:
        why = size_mismatch(found, observed, terms, sizes)
    if why:
        draft.reasons[f"inputs.{toml_key(observed)}.terms"] = why
    else:
        draft.document["inputs"] = {observed: {"terms": [dict(term) for term in terms]}}
    return draft


def term_names(found: Evidence, values: Metadata) -> list[str]:
    """Our name for each term of the observation, "" where there is none."""
    names = [TERMS.get(name, "") for name in values.names("observation_names")]
    return ["motion_command" if name == "command" else name for name in names] if has_motion(found) else names


def _observation(found: Evidence) -> str:
    """The one input that takes the observation."""
    memory = state_pairs(tuple(found.inputs), tuple(found.outputs))
    names = [name for name in found.inputs if name != _TIME and name not in memory]
    if len(names) != 1:
        raise ContractError(
            f"policy {found.model} does not take the one observation that its metadata describe",
            found=", ".join(found.inputs),
        )
    return names[0]


def _action(found: Evidence, values: Metadata, draft: Draft, njoint: int) -> int:
    """What the network's numbers do; how many there are."""
    output = next((name for name in ("actions", "action") if name in found.outputs), None)
    given = found.outputs[output][-1:] if output else ()
    nact = given[0] if given and isinstance(given[0], int) else njoint
    if output is not None:
        draft.document["action"] = {"output": output}
    scale = values.numbers("action_scale")
    if len(scale) not in (1, nact):
        values.fail("action_scale", found=f"{len(scale)} numbers", expected=f"1 or {nact}, one for each action")
    draft.document.setdefault("action", {})["scale"] = scale[0] if len(scale) == 1 else scale
    if nact > njoint:
        raise ContractError(f"policy {found.model} has {nact} actions", expected=f"{njoint}, one for each joint")
    if nact < njoint:
        draft.reasons["action.joints"] = (
            f"the network has {nact} actions for {njoint} joints, and does not say for which"
        )
    return nact


def _gains(values: Metadata, draft: Draft, njoint: int) -> None:
    kp, kd = (values.numbers(key) if values.has(key) else [] for key in ("joint_stiffness", "joint_damping"))
    for name, gains, key in (("kp", kp, "joint_stiffness"), ("kd", kd, "joint_damping")):
        why = ""
        if not gains:
            why = f"metadata '{key}' is missing"
        elif len(gains) != njoint:
            why = f"gains listed by actuator beside names by joint: {key} has {len(gains)} numbers for {njoint} joints"
        else:
            why = doubtful_gains(kp, kd if len(kd) == njoint else kp, "joint_stiffness and joint_damping")
        if why:
            draft.reasons[f"joints.{name}"] = why
        else:
            draft.document["joints"][name] = gains


def _motion(found: Evidence, values: Metadata, draft: Draft, names: Sequence[str], *, anchored: bool) -> None:
    """The reference motion, inside the network if it has one."""
    bodies = values.names("body_names") if values.has("body_names") else []
    motion: dict[str, Any] = {}
    if _TIME in found.inputs:
        outputs = {ours: theirs for ours, theirs in _OUTPUTS.items() if theirs in found.outputs}
        motion |= {"time_step": _TIME, "outputs": outputs}
        for ours, theirs in outputs.items():
            shape = found.outputs[theirs]
            size = shape[_AXES[ours]] if len(shape) >= -_AXES[ours] else None
            many, what = (len(names), "joint_names") if ours.startswith("joint") else (len(bodies), "body_names")
            if isinstance(size, int) and many and size != many:
                raise ContractError(
                    f"policy {found.model}: its reference motion '{theirs}' is not the one that {what} names",
                    found=f"{size} in the network",
                    expected=f"{many}",
                )
    else:
        draft.reasons["motion.file"] = "the network was exported without its reference motion"
    if bodies:
        motion["bodies"] = bodies
    elif anchored:
        draft.reasons["motion.bodies"] = "metadata 'body_names' is missing"
    if values.has("anchor_body_name"):
        anchor = values.text("anchor_body_name")
        if bodies and anchor not in bodies:
            values.fail("anchor_body_name", found=anchor, expected="one of body_names: " + ", ".join(bodies))
        motion["anchor"] = anchor
    elif anchored:
        draft.reasons["motion.anchor"] = "metadata 'anchor_body_name' is missing"
    draft.document["motion"] = motion
