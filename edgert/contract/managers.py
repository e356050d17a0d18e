"""Metadata that trainers with managers attach to an ONNX file: whole_body_tracking on Isaac Lab, and mjlab.

Both write the same lists, named after the managers of the environment. Where they differ, in histories, scales and the
point of the base's velocity, their own readers say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from edgert.contract.foreign import TIME_STEP, Draft, only_input
from edgert.contract.formats import Evidence
from edgert.contract.input_document import MAX_HISTORY
from edgert.contract.metadata import Metadata
from edgert.contract.motion import ANCHORED
from edgert.contract.plausible import doubtful_gains, put_terms, unknown_terms
from edgert.contract.senses import HeightScan
from edgert.contract.terms import TermSizes
from edgert.errors import ContractError

_OBSERVED: Final = "observation_names"
KEYS: Final = ("joint_names", "default_joint_pos", _OBSERVED, "action_scale")
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
    "height_scan": "height_scan",
    "motion_anchor_pos_b": "motion_anchor_pos_b",
    "motion_anchor_ori_b": "motion_anchor_ori_b",
    "motion_ref_pos_b": "motion_anchor_pos_b",
    "motion_ref_ori_b": "motion_anchor_ori_b",
}
HISTORY: Final = ("observation_terms_history_length", "observation_history_lengths", "observation_history_length")
"""How older and newer versions call the samples of each term."""
_READ: Final = tuple(
    f"observation_terms_{key}" for key in ("scale", "scales", "clip", "clips", "sensor_site", "flatten_history_dim")
)
_VELOCITIES: Final = ("vel", "twist", "locomotion", "walk")
"""What the names of commands have in them that are a velocity to follow."""
_OUTPUTS: Final = {
    **{"joint_pos": "joint_pos", "joint_vel": "joint_vel"},
    **{"body_pos": "body_pos_w", "body_quat": "body_quat_w"},
}
_AXES: Final = {"joint_pos": -1, "joint_vel": -1, "body_pos": -2, "body_quat": -2}


def metadata_keys(found: Evidence) -> list[str]:
    """Those of the lists that are there; fewer than three speak for nothing, nor do those of a microduck.

    That robot's trainer is mjlab, but its servos are outside the physics, so that the gains there are none.
    """
    if "microduck" in found.metadata:
        return []
    keys = [key for key in KEYS if key in found.metadata]
    return keys if len(keys) >= 3 else []


def lists_of(found: Evidence) -> Metadata:
    """The metadata, where objects by the names of joints or of terms are lists too."""
    values = Metadata(found.metadata, found.model)
    values.orders = tuple(values.names(key) for key in ("joint_names", _OBSERVED) if values.has(key))
    return values


def has_motion(found: Evidence) -> bool:
    """Whether the policy follows a reference motion."""
    values = Metadata(found.metadata, found.model)
    return TIME_STEP in found.inputs or values.has("anchor_body_name") or "motion" in _commands(values)


def histories(values: Metadata) -> list[int]:
    """Samples of each term; a list in the order of the terms, or a table by their names."""
    names = values.names(_OBSERVED) if values.has(_OBSERVED) else []
    key = next((key for key in HISTORY if values.has(key)), None)
    if key is None or not names:
        return [1] * len(names)
    if isinstance(values.value(key), dict):
        table = values.table(key)
        unknown = [name for name in table.data if name not in names]
        if unknown:
            values.fail(key, found=", ".join(unknown), expected="some of " + ", ".join(names))
        return [max(1, table.integer(name, 1, lo=0, hi=MAX_HISTORY)) for name in names]
    one = len(values.items(key)) == 1
    lengths = values.integers(key, 1 if one else len(names), MAX_HISTORY)
    return [max(1, length) for length in (lengths * len(names) if one else lengths)]


def _commands(values: Metadata) -> list[str]:
    """The names of the commands."""
    return [name for name in values.texts("command_names") if name] if values.has("command_names") else []


def read_managers(found: Evidence, terms: Sequence[Mapping[str, Any]]) -> Draft:
    """All but the terms themselves.

    Args:
        found: what there is.
        terms: of the observation, as their reader understands them; one without a name is unknown.

    Raises:
        ContractError: the lists contradict each other, or the network.
    """
    values = lists_of(found)
    draft = Draft({"schema": 1, "joints": {}})
    for key, fact in zip(KEYS, ("joints.names", "joints.default_pos", "", "action.scale"), strict=True):
        if fact and not values.has(key):
            draft.reasons[fact] = f"metadata '{key}' is missing"
    names = values.names("joint_names") if values.has("joint_names") else []
    pose = values.numbers("default_joint_pos", len(names) or None, "joint") if values.has("default_joint_pos") else []
    draft.document["joints"] |= {key: value for key, value in (("names", names), ("default_pos", pose)) if value}
    observed = only_input(found, "its metadata")
    njoint = len(names or pose)
    nact = _action(found, values, draft, njoint)
    _gains(values, draft, njoint)
    motion = has_motion(found)
    if motion:
        _motion(found, values, draft, names, anchored=any(term["name"] in ANCHORED for term in terms))
    elif any(term["name"] == "command" for term in terms):
        _command(values, draft)
    sizes = TermSizes(njoint=njoint, nact=nact, ncommand=3, nphase=0, nmotion=1 if motion else 0)
    _say_unread(values, draft)
    unknown = [name for name in values.names(_OBSERVED) if name not in TERMS] if values.has(_OBSERVED) else []
    why = unknown_terms(unknown, TERMS) if terms else f"metadata '{_OBSERVED}' is missing"
    put_terms(draft, found, observed, terms, sizes, why)
    return draft


def term_names(found: Evidence, values: Metadata) -> list[str]:
    """Our name for each term of the observation, "" where there is none."""
    listed = values.names(_OBSERVED) if values.has(_OBSERVED) else []
    names = [TERMS.get(name, "") for name in listed]
    return ["motion_command" if name == "command" else name for name in names] if has_motion(found) else names


def say_scan(draft: Draft, source: str, scan: HeightScan) -> None:
    """Note that a height scan, whose grid no metadata tell, is taken to be the trainer's usual one."""
    for name in draft.document.get("inputs", ()):
        field, said = f"inputs.{name}.terms", f"assumed: {scan.words()}"
        draft.notes.append(said)
        draft.sources[field] = f"{draft.sources.get(field, source)}, {said}"


def _action(found: Evidence, values: Metadata, draft: Draft, njoint: int) -> int:
    """What the network's numbers do; how many there are."""
    output = next((name for name in ("actions", "action") if name in found.outputs), None)
    given = found.outputs[output][-1:] if output else ()
    nact = given[0] if given and isinstance(given[0], int) else njoint
    if output is not None:
        draft.document["action"] = {"output": output}
    if values.has("action_scale"):
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


def _say_unread(values: Metadata, draft: Draft) -> None:
    """Say what of the action or the observation is in the metadata and is not read, as it may change their numbers."""
    read = (*KEYS, *HISTORY, *_READ)
    unread = [key for key in values.values if key.startswith(("action_", "observation_")) and key not in read]
    unread = [key for key in unread if values.has(key)]
    if unread:
        draft.notes.append(f"metadata {', '.join(sorted(unread))} {'are' if len(unread) > 1 else 'is'} not read")


def _command(values: Metadata, draft: Draft) -> None:
    """A velocity to follow, if what the trainer calls its command says so."""
    names = _commands(values)
    if names and not any(word in name.lower() for name in names for word in _VELOCITIES):
        draft.reasons["command.kind"] = f"the trainer's command is '{', '.join(names)}', which may be no velocity"
        return
    draft.document["command"] = {"kind": "twist"}
    if not names:
        draft.sources["command.kind"] = "assumed: no command_names"
        draft.notes.append("its metadata do not name the command: a velocity is assumed")


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
    """The reference motion, inside the network if it has one; `names` are the joints'."""
    bodies = values.names("body_names") if values.has("body_names") else []
    motion: dict[str, Any] = {}
    if TIME_STEP in found.inputs:
        outputs = {ours: theirs for ours, theirs in _OUTPUTS.items() if theirs in found.outputs}
        motion |= {"time_step": TIME_STEP, "outputs": outputs}
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
