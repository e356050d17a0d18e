"""Reading contracts: one documented schema for `policy.toml` and for the ONNX metadata key `edgert.contract`.

`overlay` lays one document over another field by field and remembers where each field came from; `parse_contract`
turns the result into a `Contract` or refuses it, naming the source, the key, what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from edgert.contract.action_document import read_action
from edgert.contract.input_document import read_input
from edgert.contract.motion_document import read_motion
from edgert.contract.network_document import check_links, read_networks, read_recurrent
from edgert.contract.per_number import per_joint
from edgert.contract.spec import (
    COMMAND_KEYS,
    POSITIONS,
    TIME_STEP,
    ActionSpec,
    CommandKind,
    CommandSpec,
    Contract,
    InputSpec,
    PhaseSpec,
)
from edgert.contract.terms import TermSizes
from edgert.contract.writing import SCHEMA
from edgert.errors import ContractError
from edgert.tables import Table, show

METADATA_KEY: Final = "edgert.contract"
PROVENANCE_KEY: Final = "edgert.contract.provenance"
"""Where an embedded contract keeps the source that each field had: a JSON object of dotted fields."""
MAX_CONTROL_HZ: Final = 10_000.0
MAX_JOINTS: Final = 1_000
MAX_POSITION: Final = 1e10
"""Of a joint's default, rad or m: beyond it MuJoCo takes a state for diverged, and starts somewhere else."""
_KEYS: Final = (
    *("schema", "robot", "control_hz", "joints", "inputs", "action", "command"),
    *("phase", "motion", "network", "recurrent"),
)
_JOINT_KEYS: Final = ("names", "default_pos", "kp", "kd")
_INPUT_KEYS: Final = ("terms", "layout", "fill", "newest")
_BY_JOINT: Final = (
    *("joints.default_pos", "joints.kp", "joints.kd"),
    *("action.kind", "action.scale", "action.offset", "action.clip", "action.target_clip"),
)
"""Fields whose value may be a table of joint names: replaced as a whole, never mixed with another source's."""


def overlay(
    under: Mapping[str, Any], over: Mapping[str, Any], source: str, provenance: dict[str, str], path: str = ""
) -> dict[str, Any]:
    """`over` laid on `under`: tables field by field, all else replaced; `provenance` gains `source` per field."""
    result = dict(under)
    for name, value in over.items():
        key = f"{path}.{name}" if path else str(name)
        below = result.get(name)
        if isinstance(value, Mapping) and key not in _BY_JOINT:
            result[name] = overlay(below if isinstance(below, Mapping) else {}, value, source, provenance, key)
        else:
            result[name] = value
            provenance[key] = source
    return result


def parse_contract(document: Mapping[str, Any], where: str, provenance: Mapping[str, str] | None = None) -> Contract:
    """A `Contract` from a document of the schema.

    Args:
        document: parsed TOML or JSON, perhaps overlaid.
        where: how errors name it.
        provenance: dotted field to source, kept on the result.

    Raises:
        ContractError: a key is unknown, missing or of the wrong type; sizes or names do not fit together.
        UnknownNameError: an observation term does not exist.
    """
    table = Table(document, where)
    check_schema(table)
    robot = table.text("robot", "")
    control_hz = table.number("control_hz", above=0.0, hi=MAX_CONTROL_HZ)
    joints_table = table.table("joints")
    joints = joints_table.names("names")
    if not 1 <= len(joints) <= MAX_JOINTS:
        joints_table.fail("names", found=f"{len(joints)} joints", expected=f"1 to {MAX_JOINTS}")
    default_pos = per_joint(joints_table, "default_pos", joints)
    for name, position in zip(joints, default_pos, strict=True):
        if abs(position) > MAX_POSITION:
            joints_table.fail(
                "default_pos", found=f"{position:g} for {name}", expected=f"at most {MAX_POSITION:g} in magnitude"
            )
    kp = per_joint(joints_table, "kp", joints, lo=0.0)
    kd = per_joint(joints_table, "kd", joints, lo=0.0)
    joints_table.close()
    command = _command(table) if table.has("command") else None
    phase = _phase(table, command) if table.has("phase") else None
    motion = read_motion(table.table("motion"), joints) if table.has("motion") else None
    action = read_action(table.table("action"), joints, default_pos)
    _check_gains(joints_table, action, dict(zip(joints, kp, strict=True)))
    sizes = TermSizes(
        njoint=len(joints),
        nact=len(action.joints),
        ncommand=3 if command is not None else 0,
        ngoal=3 if command is not None and command.kind == "position" else 0,
        nphase=len(phase.offsets_rad) if phase is not None else 0,
        nmotion=0 if motion is None else 1,
    )
    others_feed = table.has("network") or motion is not None
    own = table.table("inputs") if table.has("inputs") or not others_feed else Table({}, where)
    inputs = own.each(lambda name, entry: read_input(entry, sizes, joints))
    networks, others = read_networks(table, sizes, joints)
    if not inputs and not others:
        table.fail("inputs", found="no input", expected="one table [inputs.<ONNX input name>]")
    if motion is not None and motion.time_step and motion.time_step not in inputs:
        inputs[motion.time_step] = InputSpec(terms=(TIME_STEP,))
    recurrent = read_recurrent(table, inputs) if table.has("recurrent") else {}
    table.close()
    contract = Contract(
        robot=robot,
        control_hz=control_hz,
        joints=joints,
        default_pos=default_pos,
        kp=kp,
        kd=kd,
        inputs=inputs | others,
        action=action,
        command=command,
        phase=phase,
        motion=motion,
        recurrent=recurrent,
        networks=networks,
    )
    check_links(contract, table, inputs)
    defaults = dict.fromkeys(fields_of(contract.to_document()), "default")
    return replace(contract, provenance=defaults | dict(provenance or {}))


def fields_of(document: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The dotted fields of a document whose values are no tables."""
    for name, value in document.items():
        key = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from fields_of(value, key)
        else:
            yield key


def check_schema(table: Table) -> None:
    """Refuse a document of a newer schema before anything else in it is judged."""
    if "schema" not in table.data:
        raise ContractError(f"{table.where}: key 'schema' is missing", hint=f"Begin it with: schema = {SCHEMA}")
    version = table.integer("schema", lo=1)
    if version > SCHEMA:
        table.fail(
            "schema",
            found=show(version),
            expected=f"at most {SCHEMA}",
            hint="This file was written by a newer edgert: upgrade it",
        )


def check_keys(table: Table) -> None:
    """Refuse misspelt keys of a document that need not be complete, before a fact counts as missing for them."""
    parts: list[tuple[Table, tuple[str, ...]]] = [(table, _KEYS)]
    joints, inputs = table.data.get("joints"), table.data.get("inputs")
    if isinstance(joints, Mapping):
        parts.append((Table(joints, table.where, "joints"), _JOINT_KEYS))
    for name, entry in inputs.items() if isinstance(inputs, Mapping) else ():
        if isinstance(entry, Mapping):
            parts.append((Table(entry, table.where, f"inputs.{name}"), _INPUT_KEYS))
    for part, keys in parts:
        for key in keys:
            part.has(key)
        part.close()


def _command(table: Table) -> CommandSpec:
    entry = table.table("command")
    kind = cast(CommandKind, entry.text("kind", "twist", choices=COMMAND_KEYS))
    ranges = tuple(entry.range(key) if entry.has(key) else None for key in COMMAND_KEYS[kind])
    entry.close()
    return CommandSpec(kind=kind, ranges=ranges)


def _phase(table: Table, command: CommandSpec | None) -> PhaseSpec:
    entry = table.table("phase")
    if entry.has("still_rad") and command is None:
        entry.fail("still_rad", found="no [command]", expected="a [command] whose smallness holds the clock")
    if entry.has("still_below") and not entry.has("still_rad"):
        entry.fail("still_below", found="no still_rad", expected="still_rad, the phase at which the clock is held")
    offsets = entry.numbers("offsets_rad", (0.0,))
    if not 1 <= len(offsets) <= MAX_JOINTS:
        entry.fail("offsets_rad", found=f"{len(offsets)} phases", expected=f"1 to {MAX_JOINTS}")
    spec = PhaseSpec(
        hz=entry.number("hz", above=0.0, hi=MAX_CONTROL_HZ),
        offsets_rad=offsets,
        still_rad=entry.number("still_rad") if entry.has("still_rad") else None,
        still_below=entry.number("still_below", PhaseSpec.__dataclass_fields__["still_below"].default, lo=0.0),
    )
    entry.close()
    return spec


def _check_gains(table: Table, action: ActionSpec, kp: Mapping[str, float]) -> None:
    """Refuse position targets that nothing would follow, and velocities that a stiffness would hold back."""
    driven: dict[str, set[str]] = {}
    for name, kind in zip(action.joints, action.kinds, strict=True):
        driven.setdefault(name, set()).add("position" if kind in POSITIONS else kind)
    positions = [name for name, kinds in driven.items() if "position" in kinds]
    if positions and not any(kp[name] > 0.0 for name in positions):
        table.fail(
            "kp", found="0 for every joint", expected="the position gains in N·m/rad", hint="A position action needs kp"
        )
    stiff = [name for name, kinds in driven.items() if "position" not in kinds and kp[name] > 0.0]
    if stiff:
        table.fail(
            "kp",
            found=f"{kp[stiff[0]]:g} for {stiff[0]}, which gets no position",
            expected="0 for joints that get a velocity or a torque alone",
        )
