"""Reading values as other trainers write them: one number or a list, bounds with infinities, indices, null for none.

What the readers of `formats` share. Everything raises `ContractError` with the file and the dotted key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, Final

from edgert.contract.formats import Evidence, Reading, Shape
from edgert.contract.recurrent import state_pairs
from edgert.errors import ContractError
from edgert.tables import MAX_MAGNITUDE, Table, is_number, show, type_name

Bounds = list[list[float]]
TIME_STEP: Final = "time_step"
"""The input of a network that holds its reference motion, as all exporters call it."""
MAX_DECIMATION: Final = 10_000
"""Most physics steps in one control tick; real trainers have 1 to 50."""
LOOSE: Final = ("*.yaml", "*.yml", "*.json")
"""Patterns of files that a reader knows by their content."""
_SLICE: Final = re.compile(r"slice\((None|-?\d{1,6}), (None|-?\d{1,6}), (None|-?\d{1,6})\)")
_UNBOUNDED: Final = (-MAX_MAGNITUDE, MAX_MAGNITUDE)


def evident(found: Evidence, holds: Callable[[Mapping[str, Any]], bool], usual: Sequence[str] = ()) -> list[str]:
    """Names of the files beside the model whose content is what a reader wants, whatever they are called.

    Where there are several, that of the model's own name is meant, or else that of the trainer's usual name.
    """
    names = [name for name, document in found.sidecars.items() if holds(document)]
    own = [name for name in names if PurePath(name).stem == PurePath(found.model).stem]
    named = [name for name in names if any(fnmatchcase(name, pattern) for pattern in usual)]
    return next((few for few in (own, named) if len(few) == 1), names)


def only_file(found: Evidence, names: Sequence[str], what: str) -> str:
    """The one file of them.

    Raises:
        ContractError: there are several.
    """
    if len(names) != 1:
        raise ContractError(
            f"policy {found.model} has several files of {what}",
            found=", ".join(names),
            expected="one",
            hint="Leave only that of this policy beside it",
        )
    return names[0]


def given(table: Table, name: str) -> bool:
    """Whether a key is there and not null."""
    return table.raw(name, None) is not None


def inner(table: Table, name: str) -> Table:
    """A table inside another one, empty where it is missing or null."""
    return table.table(name) if given(table, name) else Table({}, table.where, table.key(name))


def numbers(table: Table, name: str, length: int | None = None) -> list[float] | float:
    """One number for all, or a list of `length` numbers; None: of any length."""
    return table.number(name) if is_number(table.raw(name)) else list(table.numbers(name, length=length))


def spread(table: Table, name: str, length: int) -> list[float]:
    """`length` numbers, of a list or of one number for all."""
    value = numbers(table, name, length)
    return value if isinstance(value, list) else [value] * length


def whole(value: object) -> bool:
    """Whether a value is a list of integers."""
    return isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)


def indices(table: Table, name: str, size: int) -> list[int] | None:
    """Distinct indices below `size`, of a list or a slice; None where the key is missing, null or says "all"."""
    value = table.raw(name, None)
    part = _SLICE.fullmatch(value) if isinstance(value, str) else None
    if part is not None:
        start, stop, step = (None if end == "None" else int(end) for end in part.groups())
        value = list(range(size)[start:stop:step]) if step != 0 else value
    if value is None or value == "all":
        return None
    if not whole(value) or not value or not all(0 <= i < size for i in value) or len(set(value)) < len(value):
        table.fail(name, found=f"{type_name(value)} {show(value)}", expected=f"distinct indices from 0 to {size - 1}")
    return list(value)


def bounds(table: Table, name: str, length: int) -> Bounds | None:
    """[low, high] for each of `length` numbers, from one pair or one for each; infinite ones count as none.

    None where the key is missing or null, or bounds nothing.
    """
    value = table.raw(name, None)
    if value is None:
        return None
    pairs = [value] * length if isinstance(value, list) and len(value) == 2 and not _is_pair(value[0]) else value
    if not isinstance(pairs, list) or len(pairs) != length or not all(_is_pair(pair) for pair in pairs):
        table.fail(name, found=f"{type_name(value)} {show(value)}", expected=f"[low, high], or {length} of them")
    limited = [[max(low, -MAX_MAGNITUDE), min(high, MAX_MAGNITUDE)] for low, high in pairs]
    for low, high in limited:
        if low > high or low >= MAX_MAGNITUDE or high <= -MAX_MAGNITUDE:
            table.fail(name, found=f"[{low:g}, {high:g}]", expected="[low, high] with low <= high")
    return [[float(low), float(high)] for low, high in limited] if any(map(_binds, limited)) else None


def twist(ranges: Table | None, names: Mapping[str, str]) -> dict[str, Any]:
    """The [command] of a twist with its trained ranges, where those are told; `names` are theirs to ours."""
    told = Table({}, "") if ranges is None else ranges
    return {"kind": "twist"} | {ours: list(told.range(theirs)) for theirs, ours in names.items() if given(told, theirs)}


def one_bound(table: Table, name: str) -> list[float] | None:
    """[low, high] for every number of a term, written once or alike for each; None where there is none."""
    value = table.raw(name, None)
    if isinstance(value, list) and value and all(_is_pair(pair) and pair == value[0] for pair in value):
        table = Table({name: value[0]}, table.where, table.path)
    pairs = bounds(table, name, 1)
    return None if pairs is None else pairs[0]


def observed(found: Evidence) -> list[str]:
    """The inputs that are neither memory of the network's own nor the frame of a motion."""
    memory = state_pairs(tuple(found.inputs), tuple(found.outputs))
    return [name for name in found.inputs if name not in memory and name != TIME_STEP]


def only_input(found: Evidence, source: str) -> str:
    """The name of the one input that a file describes.

    Raises:
        ContractError: the network takes several.
    """
    names = observed(found)
    if len(names) != 1:
        raise ContractError(
            f"policy {found.model} does not take the one input that {source} describes", found=", ".join(names)
        )
    return names[0]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Numbers of the action that belong together."""

    joints: Sequence[str]
    """Empty where the joints have no names yet."""
    kind: str
    scale: Sequence[float]
    offset: Sequence[float]
    target_clip: Bounds | None = None


def action_document(runs: Sequence[Run]) -> dict[str, Any]:
    """The [action] of runs of numbers, side by side."""
    kinds = [run.kind for run in runs for _ in run.scale]
    document: dict[str, Any] = {
        "scale": [value for run in runs for value in run.scale],
        "offset": [value for run in runs for value in run.offset],
    }
    joints = [name for run in runs for name in run.joints]
    if joints:
        document["joints"] = joints
    if set(kinds) != {"position"}:
        document["kind"] = kinds if len(set(kinds)) > 1 else kinds[0]
    if any(run.target_clip is not None for run in runs):
        limits = [run.target_clip or [list(_UNBOUNDED) for _ in run.scale] for run in runs]
        document["target_clip"] = [pair for part in limits for pair in part]
    return document


def size(shape: Shape | None) -> int | None:
    """Length of the last axis, None where it is open."""
    return shape[-1] if shape and isinstance(shape[-1], int) else None


def _is_pair(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(is_number(item) or (isinstance(item, float) and math.isinf(item)) for item in value)


def _binds(pair: Sequence[float]) -> bool:
    return pair[0] > -MAX_MAGNITUDE or pair[1] < MAX_MAGNITUDE
