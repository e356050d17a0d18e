"""`config.yaml` and `base.yaml` of rl_sar, beside a policy that was exported to ONNX.

Everything but `joint_names` stands in the order of the policy; `joint_mapping[policy index]` is a joint's place in
`joint_names`, which are in the order of the robot. Each observation is scaled and then bounded by `clip_obs`; wheels
have their positions observed as 0 and are driven by velocity. `observations_history` counts back from the latest tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from edgert.contract.foreign import (
    LOOSE,
    MAX_DECIMATION,
    Run,
    action_document,
    given,
    indices,
    numbers,
    only_input,
    spread,
    whole,
)
from edgert.contract.formats import Evidence, Reading
from edgert.contract.input_document import terms_key
from edgert.contract.motors import find_motors
from edgert.contract.plausible import doubtful_gains, unknown_terms
from edgert.errors import ContractError
from edgert.tables import Table, show

_POLICY_KEYS: Final = ("observations", "rl_kp", "rl_kd", "action_scale")
_BASE_KEYS: Final = ("joint_names", "dt", "decimation", "num_of_dofs")
_TERMS: Final = {
    "lin_vel": ("base_lin_vel", "lin_vel_scale"),
    "ang_vel": ("base_ang_vel", "ang_vel_scale"),
    "gravity_vec": ("projected_gravity", ""),
    "commands": ("command", "commands_scale"),
    "dof_pos": ("joint_pos", "dof_pos_scale"),
    "dof_vel": ("joint_vel", "dof_vel_scale"),
    "actions": ("last_action", ""),
    "whole_body_tracking/motion_command": ("motion_command", ""),
    "whole_body_tracking/motion_anchor_ori_b": ("motion_anchor_ori_b", ""),
}
_OLD_MAPPINGS: Final = ("state_mapping", "command_mapping")
"""In place of `joint_mapping`; whose order `joint_names` had changed from version to version."""
_ANCHOR: Final = "torso_link"
"""The body that rl_sar's code compares with the reference motion."""


class RlSar:
    """The reader; see `edgert.contract.formats`."""

    files = LOOSE
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        return " and ".join(
            f"{file} for {key}" if key else f"{file} with {', '.join(_POLICY_KEYS)}"
            for file, key, _ in _sections(found, _POLICY_KEYS)
        )

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        policies = list(_sections(found, _POLICY_KEYS))
        if len(policies) != 1:
            raise ContractError(
                f"policy {found.model} has several configurations",
                found=", ".join(f"{key} in {file}" for file, key, _ in policies),
                expected="one",
                hint="Leave only that of this policy beside it",
            )
        file, key, own = policies[0]
        robot = key.split("/")[0]
        bases = [
            (name, section)
            for name, base, section in _sections(found, _BASE_KEYS[:1])
            if base == robot and section is not own
        ]
        source = " over ".join((file, *(name for name, _ in bases)))
        merged: dict[str, Any] = {}
        for _, section in bases:
            merged |= section
        table = Table({**merged, **own}, source, key)
        count = table.integer("num_of_dofs", len(table.numbers("rl_kp")), lo=1, hi=1_000)
        names, sources, notes = _joints(found, table, count)
        reasons: dict[str, str] = {}
        mapped = [old for old in _OLD_MAPPINGS if table.raw(old, None) not in (None, list(range(count)))]
        if mapped and not given(table, "joint_mapping"):
            names, notes = [], []
            reasons["joints.names"] = f"in the policy's order; {source} has {' and '.join(mapped)}, of an older rl_sar"
        wheels = indices(table, "wheel_indices", count) if table.raw("wheel_indices", None) != [] else None
        gains = {name: spread(table, f"rl_{name}", count) for name in ("kp", "kd")}
        why = doubtful_gains(gains["kp"], gains["kd"], "rl_kp and rl_kd") if len(wheels or ()) < count else ""
        if why:  # those that the policy was trained with are asked for
            gains = {}
            reasons |= dict.fromkeys(("joints.kp", "joints.kd"), why)
        pose = list(table.numbers("default_dof_pos", length=count))
        observed = table.names("observations")
        terms = [_term(table, name, count, wheels or ()) for name in observed if name in _TERMS]
        name = only_input(found, source)
        unknown = [theirs for theirs in observed if theirs not in _TERMS]
        if unknown:
            reasons[terms_key(name)] = unknown_terms(unknown, _TERMS)
        length, layout = _history(table)
        document: dict[str, Any] = {
            "schema": 1,
            "joints": {"names": names, "default_pos": pose, **gains} if names else {"default_pos": pose, **gains},
            "inputs": {} if unknown else {name: {"terms": [{**term, "history": length} for term in terms], **layout}},
            "action": _action(table, names, pose, wheels or ()),
        }
        if robot and "/" in key:
            document["robot"] = robot
        if given(table, "dt") and given(table, "decimation"):
            document["control_hz"] = 1.0 / (
                table.number("dt", above=0.0) * table.integer("decimation", lo=1, hi=MAX_DECIMATION)
            )
        used = {term["name"] for term in terms}
        if "command" in used:
            document["command"] = {"kind": "twist"}
        if "motion_command" in used:
            document["motion"] = _motion(table, names, count)
            sources |= dict.fromkeys(("motion.joints", "motion.anchor"), "assumed: as in rl_sar's code")
            if "file" not in document["motion"]:
                reasons["motion.file"] = f"{source} has no motion_file"
        if "base_lin_vel" in used:
            notes.append(f"{source} does not say at which point lin_vel is: the base's origin is assumed")
        if given(table, "torque_limits"):
            notes.append(f"torque_limits of {source} are not used: those of the scene hold")
        return Reading(document=document, source=source, sources=sources, notes=tuple(notes), reasons=reasons)


RL_SAR: Final = RlSar()


def _sections(found: Evidence, keys: Sequence[str]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Tables with these keys: the file, the name that the table has in it, and the table."""
    for file, document in found.sidecars.items():
        for key, section in [("", document), *document.items()]:
            if isinstance(section, Mapping) and all(name in section for name in keys):
                yield file, str(key), section


def _joints(found: Evidence, table: Table, count: int) -> tuple[list[str], dict[str, str], list[str]]:
    """The joints in the policy's order, empty while nobody names them; where they come from, and what is to be said."""
    sources, notes = {}, []
    mapping = table.raw("joint_mapping", None)
    if mapping is None:
        mapping = list(range(count))
        sources["joints.names"] = "assumed: no joint_mapping, so the order of the robot"
        notes.append(f"{table.where} has no joint_mapping: the policy is taken to have the robot's order")
    if not whole(mapping) or len(mapping) != count or len(set(mapping)) < count or min(mapping) < 0:
        table.fail("joint_mapping", found=show(mapping), expected=f"{count} places of joints, each once")
    if given(table, "joint_names"):
        listed = table.names("joint_names")
        if max(mapping) >= len(listed):
            table.fail("joint_mapping", found=max(mapping), expected=f"0 to {len(listed) - 1}, places in joint_names")
        return [listed[place] for place in mapping], sources, notes
    motors = find_motors(found, mapping, count, table.where, "joint_mapping")
    if not motors.joints:
        return [], sources, [*notes, motors.note]
    sources["joints.names"] = motors.source
    return [motors.joints[place] for place in mapping], sources, [*notes, motors.note]


def _term(table: Table, theirs: str, count: int, wheels: Sequence[int]) -> dict[str, Any]:
    name, key = _TERMS[theirs]
    term: dict[str, Any] = {"name": name}
    scale: list[float] | float = numbers(table, key) if key else 1.0
    if theirs == "dof_pos" and wheels:
        values = scale if isinstance(scale, list) else [scale] * count
        scale = [0.0 if place in wheels else value for place, value in enumerate(values)]
    if scale != 1.0:
        term["scale"] = scale
    if name == "last_action":
        term["stage"] = "clipped"
    if given(table, "clip_obs"):
        limit = table.number("clip_obs", above=0.0)
        term["clip"] = [-limit, limit]
    return term


def _history(table: Table) -> tuple[int, dict[str, str]]:
    """Length of the history, and how it is laid out."""
    ticks = table.raw("observations_history", None) or [0]
    length = len(ticks) if isinstance(ticks, list) else 0
    if ticks == [0]:
        return 1, {}
    if table.raw("observations_history_priority", None) is None:
        table.fail(
            "observations_history_priority",
            found="nothing",
            expected="time or term",
            hint="Older versions of rl_sar do not write it, and differ in what comes first: add the layout, and the "
            "order of observations_history, in which 0 is the latest tick and the first one stands first",
        )
    priority = table.text("observations_history_priority", choices=("time", "term"))
    layout = {"layout": "frame" if priority == "time" else "term"}
    if ticks == list(range(length)):
        return length, {**layout, "newest": "first"}
    if ticks != list(range(length))[::-1]:
        table.fail(
            "observations_history",
            found=show(ticks),
            expected="every tick from the oldest to the latest or back, as [2, 1, 0] or [0, 1, 2]",
        )
    return length, layout


def _action(table: Table, names: Sequence[str], pose: Sequence[float], wheels: Sequence[int]) -> dict[str, Any]:
    count = len(pose)
    scale = spread(table, "action_scale", count)
    if given(table, "hip_scale_reduction"):
        factor = table.number("hip_scale_reduction")
        for place in indices(table, "hip_scale_reduction_indices", count) or ():
            scale[place] *= factor
    runs = [
        Run(
            joints=[names[place]] if names else [],
            kind="velocity" if place in wheels else "position",
            scale=[scale[place]],
            offset=[0.0 if place in wheels else pose[place]],
        )
        for place in range(count)
    ]
    document = action_document(runs)
    low, high = (table.raw(f"clip_actions_{end}", None) for end in ("lower", "upper"))
    if low or high:
        lows, highs = (spread(table, f"clip_actions_{end}", count) for end in ("lower", "upper"))
        for bottom, top in zip(lows, highs, strict=True):
            if bottom > top:
                table.fail("clip_actions_lower", found=bottom, expected=f"at most clip_actions_upper, {top:g}")
        document["clip"] = [[bottom, top] for bottom, top in zip(lows, highs, strict=True)]
    return document


def _motion(table: Table, names: Sequence[str], count: int) -> dict[str, Any]:
    motion: dict[str, Any] = {"anchor": _ANCHOR}
    if given(table, "motion_file"):
        motion["file"] = table.text("motion_file")
    mapping = table.raw("joint_mapping", None) or list(range(count))
    if names:
        motion["joints"] = [name for _, name in sorted(zip(mapping, names, strict=True))]
    return motion
