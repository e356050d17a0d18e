"""Reading contracts: one documented schema for `policy.toml` and for the ONNX metadata key `edgert.contract`.

`overlay` lays one document over another field by field and remembers where each field came from; `parse_contract`
turns the result into a `Contract` or refuses it, naming the source, the key, what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast, get_args

from edgert.contract.spec import (
    COMMAND_KEYS,
    SCHEMA,
    ActionKind,
    ActionSpec,
    CommandKind,
    CommandSpec,
    Contract,
    InputSpec,
    Layout,
    ObservationTerm,
    PhaseSpec,
)
from edgert.contract.terms import TermSizes, load_term
from edgert.errors import ContractError, UnknownNameError
from edgert.tables import Table, is_number, show, type_name

METADATA_KEY: Final = "edgert.contract"
MAX_CONTROL_HZ: Final = 10_000.0
MAX_JOINTS: Final = 1_000
MAX_TERMS: Final = 1_000
MAX_HISTORY: Final = 1_000
_DIMENSION_LIMIT: Final = 1_000_000
_BY_JOINT: Final = ("joints.default_pos", "joints.kp", "joints.kd", "action.scale", "action.offset")
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
    default_pos = _per_joint(joints_table, "default_pos", joints)
    kp = _per_joint(joints_table, "kp", joints, lo=0.0)
    kd = _per_joint(joints_table, "kd", joints, lo=0.0)
    joints_table.close()
    command = _command(table) if table.has("command") else None
    phase = _phase(table, command) if table.has("phase") else None
    action = _action(table.table("action"), joints, default_pos)
    if not any(value > 0.0 for name, value in zip(joints, kp, strict=True) if name in action.joints):
        joints_table.fail(
            "kp", found="0 for every joint", expected="the position gains in N·m/rad", hint="A position action needs kp"
        )
    sizes = TermSizes(
        njoint=len(joints),
        nact=len(action.joints),
        ncommand=3 if command is not None else 0,
        ngoal=3 if command is not None and command.kind == "position" else 0,
        nphase=len(phase.offsets_rad) if phase is not None else 0,
    )
    inputs_table = table.table("inputs")
    inputs = inputs_table.each(lambda name, entry: _input(entry, sizes))
    if not inputs:
        table.fail("inputs", found="no input", expected="one table [inputs.<ONNX input name>]")
    recurrent = _recurrent(table, inputs) if table.has("recurrent") else {}
    table.close()
    contract = Contract(
        robot=robot,
        control_hz=control_hz,
        joints=joints,
        default_pos=default_pos,
        kp=kp,
        kd=kd,
        inputs=inputs,
        action=action,
        command=command,
        phase=phase,
        recurrent=recurrent,
    )
    defaults = dict.fromkeys(_fields(contract.to_document()), "default")
    return replace(contract, provenance=defaults | dict(provenance or {}))


def _fields(document: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The dotted fields of a document whose values are no tables."""
    for name, value in document.items():
        key = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _fields(value, key)
        else:
            yield key


def check_schema(table: Table) -> None:
    """Refuse a document of a newer schema before anything else in it is judged."""
    version = table.integer("schema", lo=1)
    if version > SCHEMA:
        table.fail(
            "schema",
            found=show(version),
            expected=f"at most {SCHEMA}",
            hint="This file was written by a newer edgert: upgrade it",
        )


def _per_joint(
    table: Table, name: str, joints: tuple[str, ...], default: Any = None, *, lo: float = float("-inf")
) -> tuple[float, ...]:
    """One number for all joints, a list in joint order, or a table by joint name."""
    value = table.raw(name, default) if default is not None else table.raw(name)
    if is_number(value):
        table.number(name, value, lo=lo)
        return (float(value),) * len(joints)
    if isinstance(value, list):
        numbers = table.numbers(name)
        if len(numbers) != len(joints):
            table.fail(name, found=f"{len(numbers)} numbers", expected=f"{len(joints)}, one for each joint")
        result = numbers
    elif isinstance(value, Mapping):
        known = set(joints)
        unknown = [joint for joint in value if joint not in known]
        missing = [joint for joint in joints if joint not in value]
        if unknown:
            table.fail(name, found=f"unknown joint {', '.join(unknown)}", expected="joints of " + ", ".join(joints))
        if missing:
            table.fail(name, found=f"no value for {', '.join(missing)}", expected="a value for every joint")
        entries = Table(value, table.where, table.key(name))
        result = tuple(entries.number(joint) for joint in joints)
    else:
        table.fail(
            name,
            found=f"{type_name(value)} {show(value)}",
            expected="a number, a list in joint order or a table by joint",
        )
    for joint, number in zip(joints, result, strict=True):
        if number < lo:
            table.fail(name, found=f"{number:g} for {joint}", expected=f"at least {lo:g}")
    return result


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


def _recurrent(table: Table, inputs: Mapping[str, InputSpec]) -> dict[str, str]:
    """State inputs and the outputs that feed them."""
    entry = table.table("recurrent")
    pairs = {name: entry.text(name) for name in entry.data}
    for name, output in pairs.items():
        if name in inputs:
            entry.fail(name, found="the name of an observation", expected="a state input, which is not in [inputs]")
        if list(pairs.values()).count(output) > 1:
            entry.fail(name, found=show(output), expected="an output of its own")
    entry.close()
    return pairs


def _action(table: Table, joints: tuple[str, ...], default_pos: tuple[float, ...]) -> ActionSpec:
    names = table.names("joints", joints)
    known = set(joints)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        table.fail(
            "joints", found=", ".join(unknown) or "no joint", expected="some of joints.names: " + ", ".join(joints)
        )
    kind = cast(ActionKind, table.text("kind", "position", choices=get_args(ActionKind)))
    if table.raw("offset", "default") == "default":
        pose = [default_pos[joints.index(name)] for name in names]
        offset = tuple(pose) if kind == "position" else (0.0,) * len(names)
    else:
        offset = _per_joint(table, "offset", names)
    spec = ActionSpec(
        output=table.text("output"),
        joints=names,
        kind=kind,
        scale=_per_joint(table, "scale", names, 1.0),
        offset=offset,
        clip=table.range("clip") if table.has("clip") else None,
    )
    table.close()
    return spec


def _input(table: Table, sizes: TermSizes) -> InputSpec:
    entries = table.raw("terms")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_TERMS:
        table.fail("terms", found=f"{type_name(entries)} {show(entries)}", expected=f"a list of 1 to {MAX_TERMS} terms")
    terms = []
    for number, entry in enumerate(entries):
        data = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(data, Mapping):
            table.fail(
                "terms", found=f"{type_name(entry)} {show(entry)}", expected="the name of a term, or a table with it"
            )
        terms.append(_term(Table(data, table.where, f"{table.key('terms')}[{number}]"), sizes))
    layout = cast(Layout, table.text("layout", "term", choices=get_args(Layout)))
    lengths = {term.history for term in terms}
    if layout == "frame" and len(lengths) > 1:
        table.fail(
            "layout",
            found=f"'frame', and histories of {', '.join(map(str, sorted(lengths)))}",
            expected="one length of history for every term",
        )
    spec = InputSpec(terms=tuple(terms), layout=layout)
    if spec.dim > _DIMENSION_LIMIT:
        table.fail("terms", found=f"{spec.dim} numbers", expected=f"at most {_DIMENSION_LIMIT}")
    return spec


def _term(table: Table, sizes: TermSizes) -> ObservationTerm:
    name = table.text("name")
    try:
        kind = load_term(name)
    except UnknownNameError as error:
        raise UnknownNameError(
            f"{table.where}: key '{table.key('name')}' is no observation term",
            found=show(name),
            expected=error.expected,
        ) from error
    sensors = table.names("sensors", kind.sensors) if "sensors" in kind.parameters else kind.sensors
    if "sensors" in kind.parameters and not sensors:
        table.fail("sensors", found="no sensor", expected="the names of the sensors that this term reads")
    raw_dim = kind.dim(sizes, sensors)
    if raw_dim == 0:
        section = "phase" if "phase" in name else "command"
        kind_of = ' of kind "position"' if name == "goal_pos" else ""
        raise ContractError(
            f"{table.where}: term '{name}' needs a [{section}] table{kind_of}",
            hint=f"Add [{section}], or remove the term",
        )
    index = _index(table, raw_dim) if table.has("index") else None
    dim = raw_dim if index is None else len(index)
    if table.has("dim") and table.integer("dim", lo=1, hi=_DIMENSION_LIMIT) != dim:
        table.fail("dim", found=table.raw("dim"), expected=f"{dim} for '{name}'")
    point = table.text("point", "origin")
    if point not in ("origin", "com") and not (point.startswith("site:") and len(point) > len("site:")):
        table.fail("point", found=show(point), expected="origin, com or site:<name>")
    if point != "origin" and "point" not in kind.parameters:
        table.fail("point", found=show(point), expected=f"no point: '{name}' has none")
    frame = table.text("frame", "body", choices=("body", "world") if "frame" in kind.parameters else ("body",))
    term = ObservationTerm(
        name=name,
        dim=dim,
        scale=_per_component(table, "scale", 1.0, dim),
        offset=_per_component(table, "offset", 0.0, dim),
        clip=table.range("clip") if table.has("clip") else None,
        index=index,
        frame="world" if frame == "world" else "body",
        point=point,
        sensors=sensors,
        threshold=table.number("threshold", 1.0) if "threshold" in kind.parameters else None,
        clip_first=table.flag("clip_first", False),
        history=table.integer("history", 1, lo=1, hi=MAX_HISTORY),
    )
    table.close()
    return term


def _index(table: Table, raw_dim: int) -> tuple[int, ...]:
    value = table.raw("index")
    fits = isinstance(value, list) and bool(value) and len(value) <= _DIMENSION_LIMIT
    if not fits or not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < raw_dim for i in value):
        table.fail("index", found=show(value), expected=f"a list of integers from 0 to {raw_dim - 1}")
    return tuple(value)


def _per_component(table: Table, name: str, default: float, dim: int) -> tuple[float, ...]:
    value = table.raw(name, default)
    if is_number(value):
        return (float(value),) * dim
    if not isinstance(value, list) or len(value) != dim:
        table.fail(name, found=f"{type_name(value)} {show(value)}", expected=f"a number or a list of {dim} numbers")
    return table.numbers(name)
