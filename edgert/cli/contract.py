"""A contract for people, in tables: of a policy or of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from rich.console import RenderableType
from rich.table import Table

from edgert.cli.tables import facts, listing, plain, value_text
from edgert.contract.spec import Contract, InputSpec, ObservationTerm
from edgert.contract.terms import load_term

_OWN_TABLE = ("joints", "inputs")
_UNITS = {"position": "rad", "relative_position": "rad", "velocity": "rad/s", "torque": "N·m"}
_PER_JOINT = ("joints", "scale", "offset")
_IN_COLUMNS = ("name", "dim", "scale", "offset", "clip")


def tables(
    contract: Contract, *, noise: Mapping[str, float] | None = None, also: Sequence[tuple[str, str]] = ()
) -> Iterator[RenderableType]:
    """The single fields, then the details.

    Args:
        contract: what to show.
        noise: half width of uniform noise by term, where a task adds some.
        also: further rows for the single fields.
    """
    rows: list[tuple[str, str]] = []
    for key, value in contract.to_document().items():
        if isinstance(value, Mapping) and key not in _OWN_TABLE:
            rows += [
                (f"{key}.{name}", value_text(content)) for name, content in value.items() if name not in _PER_JOINT
            ]
        elif key not in _OWN_TABLE and value != "":
            rows.append((key, value_text(value)))
    yield facts([*rows, *also])
    yield from details(contract, noise)


def details(contract: Contract, noise: Mapping[str, float] | None = None) -> Iterator[RenderableType]:
    """The terms of each input, and the joints."""
    for name, spec in contract.inputs.items():
        first = ", newest first" if spec.newest == "first" else ""
        ticks = f", the latest {spec.history} ticks {spec.layout} by {spec.layout}{first}" if spec.history > 1 else ""
        yield "\n" + plain(f"input {name}: {spec.dim} numbers{ticks}, each clip(raw × scale + offset)")
        yield _terms(spec, contract, noise)
    start = "position + " if contract.action.relative else ""
    yield f"\njoints; target = {start}offset + scale × action (slides in m and N instead of rad and N·m)"
    yield _joints(contract)


def _terms(spec: InputSpec, contract: Contract, noise: Mapping[str, float] | None) -> Table:
    headers = ["from", "term", "dim", "scale", "offset", "clip"]
    first, rows = 0, []
    for term in spec.terms:
        clip = "–" if term.clip is None else value_text(term.clip)
        row = [str(first), term.name, str(term.dim), value_text(term.scale), value_text(term.offset), clip]
        if noise is not None:
            row.append(f"± {noise[term.name]:g}" if term.name in noise else "–")
        rows.append([*row, _further(term, contract)])
        first += term.dim * (term.history if spec.layout == "term" else 1)
    return listing([*headers, *(["noise"] if noise is not None else []), "raw number"], rows)


def _further(term: ObservationTerm, contract: Contract) -> str:
    """Unit, frame and reference point of a term where they matter, and every other field that is set."""
    kind = load_term(term.name)
    twist = contract.command is not None and contract.command.kind == "twist"
    unit = ("m/s, m/s, rad/s" if twist else "m") if term.name == "command" else kind.unit
    said = [unit] if unit else []
    for field in fields(term):
        value = getattr(term, field.name)
        counts = field.name in kind.parameters if field.name in ("frame", "point") else value != field.default
        if field.name == "sense" and value is not None:
            said += [f"{key} {value_text(each)}" for key, each in value.document().items() if each != ""]
        elif field.name not in _IN_COLUMNS and counts:
            said.append(f"{field.name} {value_text(value)}")
    return ", ".join(said)


def _joints(contract: Contract) -> Table:
    """A row for each number of the action, in the order of the joints; a joint without one is held."""
    action = contract.action
    targets: dict[str, list[tuple[str, str, str]]] = {name: [] for name in contract.joints}
    for name, kind, scale, offset in zip(action.joints, action.kinds, action.scale, action.offset, strict=True):
        targets[name].append((f"{kind.replace('_', ' ')}, {_UNITS[kind]}", f"{scale:g}", f"{offset:g}"))
    return listing(
        ("joint", "default rad", "kp N·m/rad", "kd N·m·s/rad", "target", "scale", "offset"),
        (
            (name, f"{pose:g}", f"{kp:g}", f"{kd:g}", *target)
            for name, pose, kp, kd in zip(contract.joints, contract.default_pos, contract.kp, contract.kd, strict=True)
            for target in targets[name] or [("held at the default", "–", "–")]
        ),
    )
