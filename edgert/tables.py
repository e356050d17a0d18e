"""Strict reading of TOML and JSON tables: every key asked for, every other key refused.

A `Table` remembers which keys its reader asked for; `close()` refuses the rest and names the valid ones, so that a
typo never becomes a silent default. Numbers must be finite, booleans are not numbers, and every error carries the
file and the dotted key.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from edgert.errors import ContractError
from edgert.files import read_regular

MAX_FILE_BYTES: Final = 1 << 20
"""Largest table file that is read; real ones are a few kilobytes."""

MAX_MAGNITUDE: Final = 1e12
"""Largest number in any unit: products of two still fit into the float32 of a network's input."""

MAX_DEPTH: Final = 16
"""Deepest nesting of tables and lists that is accepted."""

MAX_YAML_NODES: Final = 200_000
"""Most values in a YAML file, those of its aliases counted wherever they stand."""

_PART: Final = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_KEY: Final = re.compile(rf"""(?<![A-Za-z0-9_\-"'.])(?:{_PART}[ \t]*+\.[ \t]*+){{{4 * MAX_DEPTH},}}""")
"""A dotted key of very many parts, for which tomllib would take time that grows with their square. A comment or text
can look like one too, but not at this length."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_REQUIRED: Final = object()
_T = TypeVar("_T")


def read_toml(path: Path, *, kind: str) -> dict[str, Any]:
    """Parse a bounded TOML file; `kind` names it in errors ("contract", "task")."""
    data = read_regular(path, f"{kind} file", MAX_FILE_BYTES, ContractError, expected="a few kilobytes of TOML")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ContractError(f"{kind} file {path} is not UTF-8 text", found=error.reason, expected="TOML") from error
    if _DEEP_KEY.search(text):
        raise _too_deep(str(path))
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: TOMLDecodeError, or an integer of too many digits
        raise ContractError(f"{kind} file {path} is not valid TOML", found=str(error) or "nested too deep") from error
    check_depth(document, str(path))
    return document


def read_json(text: str, *, where: str) -> dict[str, Any]:
    """Parse a bounded JSON object from text found at `where`."""
    document = read_json_value(text, where=where)
    if not isinstance(document, dict):
        raise ContractError(f"{where} is not a JSON object", found=type_name(document), expected="an object")
    return document


def read_json_value(text: str, *, where: str) -> Any:
    """Parse bounded JSON of any type from text found at `where`."""
    if len(text) > MAX_FILE_BYTES:
        raise ContractError(
            f"{where} is too large", found=f"{len(text)} characters", expected=f"at most {MAX_FILE_BYTES}"
        )
    try:
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique_keys)
        # Refuses half a surrogate pair, which no stream encodes, and 1e999, which is read as no finite number.
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{where} is not valid JSON", found=str(error) or "nested too deep") from error
    check_depth(document, where)
    return document


def read_yaml(path: Path, *, kind: str) -> dict[str, Any]:
    """Parse a bounded YAML file by the safe loader: no object is made, no key taken twice.

    Aliases, which exporters write where one list stands in two places, are followed as long as the document that they
    unfold to is bounded too.

    A Python `slice`, as some exporters write it for "every one", is never executed: it reads as the text "all", or as
    "slice(0, 3, None)" where it means a part. A Python tuple reads as a list.
    """
    import yaml

    data = read_regular(path, f"{kind} file", MAX_FILE_BYTES, ContractError, expected="a few kilobytes of YAML")
    try:
        document = yaml.load(data, Loader=_loader())  # noqa: S506  # a safe loader, made stricter
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        problem = getattr(error, "problem", None) or str(error) or "nested too deep"
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise ContractError(f"{kind} file {path} cannot be read as safe YAML", found=f"{problem}{where}") from error
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise ContractError(f"{kind} file {path} is no table of names", found=type_name(document))
    check_depth(document, str(path))
    return document


@cache
def _loader() -> Any:
    import yaml

    class Strict(yaml.SafeLoader):
        """Without aliases that unfold to too much, as a few lines can, or keys that win over earlier ones."""

        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self._count = 0
            self._sizes: dict[str, int] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            alias, before = self.check_event(yaml.AliasEvent), self._count
            if alias and event.anchor in self.anchors and event.anchor not in self._sizes:
                raise yaml.constructor.ConstructorError(None, None, "an alias of what holds it", event.start_mark)
            self._count += self._sizes.get(event.anchor, 1) if alias else 1
            if self._count > MAX_YAML_NODES:
                raise yaml.constructor.ConstructorError(None, None, "more than can be meant", event.start_mark)
            node = super().compose_node(parent, index)
            if not alias and event.anchor is not None:
                self._sizes[event.anchor] = self._count - before
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            twice = _repeated(str(key) for key in keys)
            if twice:
                raise yaml.constructor.ConstructorError(None, None, f"the key {twice} more than once", node.start_mark)
            return super().construct_mapping(node, deep)

    def slice_text(loader: Any, node: Any) -> str:
        if isinstance(node, yaml.MappingNode):  # the longer way to write it: {args: [0, 3, null]}
            node = next((value for key, value in node.value if key.value == "args"), node)
        plain = isinstance(node, yaml.SequenceNode) and all(isinstance(each, yaml.ScalarNode) for each in node.value)
        ends = loader.construct_sequence(node) if plain else []
        if not 1 <= len(ends) <= 3 or not all(end is None or type(end) is int for end in ends):
            return "a slice that cannot be read"
        start, stop, step = (None, *ends, None) if len(ends) == 1 else (*ends, None, None)[:3]
        return "all" if (start or None, stop, step or 1) == (None, None, 1) else f"slice({start}, {stop}, {step})"

    for name in ("apply:builtins.slice", "apply:__builtin__.slice", "apply:slice", "new:builtins.slice", "new:slice"):
        Strict.add_constructor(f"tag:yaml.org,2002:python/object/{name}", slice_text)

    # YAML 1.1 takes a number with an exponent and no point for text; 1.2 does not, and nobody who writes one.
    Strict.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
    )

    def tuple_list(loader: Any, node: Any) -> list[Any]:
        return list(loader.construct_sequence(node, deep=True))

    Strict.add_constructor("tag:yaml.org,2002:python/tuple", tuple_list)
    return Strict


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the number {name}, which JSON does not have")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError(f"the key {_repeated(name for name, _ in pairs)} more than once")
    return table


def _repeated(names: Iterable[str]) -> str:
    return ", ".join(sorted(name for name, count in Counter(names).items() if count > 1))


def _too_deep(where: str) -> ContractError:
    return ContractError(f"{where} is nested too deep", expected=f"at most {MAX_DEPTH} levels")


def check_depth(value: object, where: str, depth: int = 0) -> None:
    """Refuse nesting deeper than `MAX_DEPTH`."""
    if depth > MAX_DEPTH:
        raise _too_deep(where)
    items: Iterable[object] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        check_depth(item, where, depth + 1)


def toml_key(name: str) -> str:
    """A name as TOML writes it in a dotted key."""
    return name if _BARE_KEY.fullmatch(name) else f'"{name}"'


def type_name(value: object) -> str:
    """The TOML name of a value's type."""
    names: dict[type, str] = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "text",
        list: "a list",
        type(None): "nothing",
    }
    return "a table" if isinstance(value, Mapping) else names.get(type(value), type(value).__name__)


def show(value: object) -> str:
    """A value as a short piece of an error text."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no integer of more than 4300 digits; TOML can write one in hexadecimal
        text = hex(value) if isinstance(value, int) else "with an integer of more than 4300 digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


class Table:
    """One table of a document, read key by key.

    Args:
        data: the parsed table.
        where: how errors name the document, such as a file name.
        path: the dotted key of this table in the document, "" at the top.
    """

    def __init__(self, data: Mapping[str, Any], where: str, path: str = "") -> None:
        self.data = data
        self.where = where
        self.path = path
        self._asked: dict[str, None] = {}

    def key(self, name: str) -> str:
        """The dotted key of `name` in the document."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, *, found: object, expected: object, hint: str = "") -> NoReturn:
        """Refuse the value of `name`."""
        raise ContractError(f"{self.where}: key '{self.key(name)}' is wrong", found=found, expected=expected, hint=hint)

    def has(self, name: str) -> bool:
        """Whether the key is there; asking makes it a valid key."""
        self._asked[name] = None
        return name in self.data

    def raw(self, name: str, default: Any = _REQUIRED) -> Any:
        """The value as parsed."""
        self._asked[name] = None
        if name in self.data:
            return self.data[name]
        if default is _REQUIRED:
            near = get_close_matches(name, [str(key) for key in self.data if key not in self._asked], n=1, cutoff=0.8)
            raise ContractError(
                f"{self.where}: key '{self.key(name)}' is missing",
                found=f"'{near[0]}', which is no key" if near else "",
                hint=f"Add {self.key(name)} to it",
            )
        return default

    def number(
        self,
        name: str,
        default: Any = _REQUIRED,
        *,
        lo: float = -math.inf,
        hi: float = math.inf,
        above: float = -math.inf,
    ) -> float:
        """A finite number with `lo <= value <= hi` and `value > above`."""
        value = self.raw(name, default)
        if not is_number(value):
            self.fail(name, found=f"{type_name(value)} {show(value)}", expected="a finite number")
        self._magnitude(name, value)
        self._bounds(name, value, lo=lo, hi=hi, above=above)
        return float(value)

    def integer(self, name: str, default: Any = _REQUIRED, *, lo: int, hi: float = math.inf) -> int:
        """An integer with `lo <= value <= hi`."""
        value = self.raw(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(name, found=f"{type_name(value)} {show(value)}", expected="an integer")
        self._bounds(name, value, lo=lo, hi=hi)
        return value

    def text(self, name: str, default: Any = _REQUIRED, *, choices: Iterable[str] = ()) -> str:
        """A piece of text, from `choices` if there are any."""
        value = self.raw(name, default)
        if not isinstance(value, str):
            self.fail(name, found=f"{type_name(value)} {show(value)}", expected="text")
        allowed = tuple(choices)
        if allowed and value not in allowed:
            self.fail(name, found=show(value), expected="one of " + ", ".join(allowed))
        return value

    def flag(self, name: str, default: bool) -> bool:
        """A boolean."""
        value = self.raw(name, default)
        if not isinstance(value, bool):
            self.fail(name, found=f"{type_name(value)} {show(value)}", expected="true or false")
        return value

    def names(self, name: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """A list of unique, non-empty texts."""
        value = self.raw(name, default)
        if value is default and isinstance(value, tuple):
            return value
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self.fail(name, found=f"{type_name(value)} {show(value)}", expected="a list of names")
        twice = _repeated(value)
        if twice:
            self.fail(name, found=f"{twice} more than once", expected="each name once")
        return tuple(value)

    def numbers(self, name: str, default: Any = _REQUIRED, *, length: int | None = None) -> tuple[float, ...]:
        """A list of finite numbers."""
        value = self.raw(name, default)
        if value is default and isinstance(value, tuple):
            return value
        if not isinstance(value, list) or not all(is_number(item) for item in value):
            self.fail(name, found=f"{type_name(value)} {show(value)}", expected="a list of finite numbers")
        if length is not None and len(value) != length:
            self.fail(name, found=f"{len(value)} numbers", expected=f"{length}")
        for item in value:
            self._magnitude(name, item)
        return tuple(float(item) for item in value)

    def range(
        self, name: str, default: Any = _REQUIRED, *, lo: float = -math.inf, hi: float = math.inf
    ) -> tuple[float, float]:
        """A pair [low, high], low <= high, both within lo … hi."""
        low, high = self.numbers(name, default, length=2)
        if low > high:
            self.fail(name, found=f"[{low:g}, {high:g}]", expected="[low, high] with low <= high")
        for value in (low, high):
            self._bounds(name, value, lo=lo, hi=hi)
        return low, high

    def table(self, name: str, default: Any = _REQUIRED) -> Table:
        """A table inside this one; close it too."""
        value = self.raw(name, default)
        if not isinstance(value, Mapping):
            self.fail(name, found=f"{type_name(value)} {show(value)}", expected="a table")
        return Table(value, self.where, self.key(name))

    def each(self, read: Callable[[str, Table], _T]) -> dict[str, _T]:
        """Read every entry of a table of tables with `read(name, table)` and close each."""
        result = {}
        for name in self.data:
            entry = self.table(name)
            result[name] = read(name, entry)
            entry.close()
        return result

    def close(self) -> None:
        """Refuse keys that nobody asked for."""
        unknown = [name for name in self.data if name not in self._asked]
        if unknown:
            keys = ", ".join(f"'{self.key(name)}'" for name in unknown)
            raise ContractError(
                f"{self.where}: unknown key {keys}", expected="one of " + (", ".join(sorted(self._asked)) or "none")
            )

    def _magnitude(self, name: str, value: float) -> None:
        if abs(value) > MAX_MAGNITUDE:
            self.fail(name, found=show(value), expected=f"at most {MAX_MAGNITUDE:g} in magnitude")

    def _bounds(
        self, name: str, value: float, *, lo: float = -math.inf, hi: float = math.inf, above: float = -math.inf
    ) -> None:
        if not lo <= value <= hi or not value > above:
            low = f"more than {above:g}" if above > -math.inf else f"at least {lo:g}" if lo > -math.inf else ""
            high = f"at most {hi:g}" if hi < math.inf else ""
            self.fail(name, found=show(value), expected=" and ".join(part for part in (low, high) if part))


def is_number(value: object) -> bool:
    """A finite int or float, not a boolean."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False
