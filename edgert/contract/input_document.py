"""Reading the inputs of a contract: observation terms in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

from edgert.contract.senses import Picture, Sense
from edgert.contract.spec import Fill, InputSpec, Layout, Newest, ObservationTerm, QuatOrder, Stage
from edgert.contract.terms import Term, TermSizes, load_term
from edgert.errors import ContractError, UnknownNameError
from edgert.tables import Table, is_number, show, toml_key, type_name

MAX_TERMS: Final = 1_000
MAX_HISTORY: Final = 1_000
_DIMENSION_LIMIT: Final = 1_000_000


def terms_key(name: str) -> str:
    """The key of policy.toml that holds the terms of an input."""
    return f"inputs.{toml_key(name)}.terms"


def read_input(table: Table, sizes: TermSizes, joints: Sequence[str]) -> InputSpec:
    """One ONNX input."""
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
        terms.append(_term(Table(data, table.where, f"{table.key('terms')}[{number}]"), sizes, joints))
    layout = cast(Layout, table.text("layout", "term", choices=get_args(Layout)))
    lengths = {term.history for term in terms}
    if layout == "frame" and len(lengths) > 1:
        table.fail(
            "layout",
            found=f"'frame', and histories of {', '.join(map(str, sorted(lengths)))}",
            expected="one length of history for every term",
        )
    fill = cast(Fill, table.text("fill", "first", choices=get_args(Fill)))
    newest = cast(Newest, table.text("newest", "last", choices=get_args(Newest)))
    spec = InputSpec(terms=tuple(terms), layout=layout, fill=fill, newest=newest)
    if spec.dim > _DIMENSION_LIMIT:
        table.fail("terms", found=f"{spec.dim} numbers", expected=f"at most {_DIMENSION_LIMIT}")
    return spec


def _term(table: Table, sizes: TermSizes, joints: Sequence[str]) -> ObservationTerm:
    name = table.text("name")
    kind = _kind(table, name)
    sensors = table.names("sensors", kind.sensors) if "sensors" in kind.parameters else kind.sensors
    if "sensors" in kind.parameters and not sensors:
        table.fail("sensors", found="no sensor", expected="the names of the sensors that this term reads")
    value = _value(table) if "value" in kind.parameters else ()
    sense = kind.sense(table) if kind.sense is not None else None
    raw_dim = sense.dim if sense is not None else _raw_dim(table, name, kind, sizes, sensors, value)
    index = None if isinstance(sense, Picture) else _index(table, raw_dim, joints if kind.per_joint else ())
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
        scale=_per_component(table, "scale", 1.0, dim, sense),
        offset=_per_component(table, "offset", 0.0, dim, sense),
        clip=table.range("clip") if table.has("clip") else None,
        index=index,
        frame="world" if frame == "world" else "body",
        point=point,
        sensors=sensors,
        threshold=table.number("threshold", 1.0) if "threshold" in kind.parameters else None,
        clip_first=table.flag("clip_first", False),
        history=table.integer("history", 1, lo=1, hi=MAX_HISTORY),
        order=cast(QuatOrder, _choice(table, kind, "order", get_args(QuatOrder))),
        stage=cast(Stage, _choice(table, kind, "stage", get_args(Stage))),
        value=value,
        of=table.text("of") if "of" in kind.parameters else "",
        previous=table.flag("previous", False) if "previous" in kind.parameters else False,
        sense=sense,
    )
    if term.of and term.history > 1:
        table.fail("history", found=term.history, expected="1, as the history of a network's output is not kept")
    table.close()
    return term


def _kind(table: Table, name: str) -> Term:
    try:
        return load_term(name)
    except UnknownNameError as error:
        raise UnknownNameError(
            f"{table.where}: key '{table.key('name')}' is no observation term",
            found=show(name),
            expected=error.expected,
        ) from error


def _raw_dim(
    table: Table, name: str, kind: Term, sizes: TermSizes, sensors: tuple[str, ...], value: tuple[float, ...]
) -> int:
    """Numbers of the whole term."""
    if kind.dim is None:  # with an index `dim` counts what is picked, of how many is for whoever gives them to say
        return len(value) or (
            _DIMENSION_LIMIT if table.has("index") else table.integer("dim", lo=1, hi=_DIMENSION_LIMIT)
        )
    dim = kind.dim(sizes, sensors)
    if dim == 0:
        kind_of = ' of kind "position"' if name == "goal_pos" else ""
        raise ContractError(
            f"{table.where}: term '{name}' needs a [{kind.lacks}] table{kind_of}",
            hint=f"Add [{kind.lacks}], or remove the term",
        )
    return dim


def _choice(table: Table, kind: Term, name: str, words: tuple[str, ...]) -> str:
    """A word from a few, the first by default, for terms that understand the key."""
    return table.text(name, words[0], choices=words) if name in kind.parameters else words[0]


def _value(table: Table) -> tuple[float, ...]:
    value = table.raw("value")
    numbers = (table.number("value"),) if is_number(value) else table.numbers("value")
    if not 1 <= len(numbers) <= _DIMENSION_LIMIT:
        table.fail("value", found="no number", expected="a number or a list of them")
    return numbers


def _index(table: Table, raw_dim: int, joints: Sequence[str]) -> tuple[int, ...] | None:
    """The components that the term takes, by number or by joint; None: all."""
    if joints and table.has("joints"):
        if table.has("index"):
            table.fail("index", found="index and joints", expected="one of the two")
        names = table.names("joints")
        unknown = [name for name in names if name not in joints]
        if unknown or not names:
            table.fail(
                "joints", found=", ".join(unknown) or "no joint", expected="some of joints.names: " + ", ".join(joints)
            )
        places = [place + joints.index(name) for place in range(0, raw_dim, len(joints)) for name in names]
        return None if places == list(range(raw_dim)) else tuple(places)
    if not table.has("index"):
        return None
    value = table.raw("index")
    fits = isinstance(value, list) and bool(value) and len(value) <= _DIMENSION_LIMIT
    if not fits or not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < raw_dim for i in value):
        table.fail("index", found=show(value), expected=f"a list of integers from 0 to {raw_dim - 1}")
    return tuple(value)


def _per_component(table: Table, name: str, default: Any, dim: int, sense: Sense | None) -> tuple[float, ...]:
    """One number for each component; of a picture, one for each channel."""
    if isinstance(sense, Picture):
        channels = sense.shape[0]
        return tuple(
            number for number in _per_component(table, name, default, channels, None) for _ in range(dim // channels)
        )
    value = table.raw(name, default)
    if is_number(value):
        return (table.number(name, default),) * dim
    if not isinstance(value, list) or len(value) != dim:
        table.fail(name, found=f"{type_name(value)} {show(value)}", expected=f"a number or a list of {dim} numbers")
    return table.numbers(name)
