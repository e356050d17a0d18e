"""Whether what a trainer's file says can be true: sizes that add up, gains that hold a robot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from edgert.contract.foreign import Draft, size
from edgert.contract.formats import Evidence
from edgert.contract.input_document import terms_key
from edgert.contract.terms import TermSizes, load_term

_ESTIMATED: Final = ("base_lin_vel", "motion_anchor_pos_b")
"""Terms that need a state estimator, which trainers leave out in a second variant of a task."""


def size_mismatch(found: Evidence, name: str, terms: Sequence[Mapping[str, Any]], sizes: TermSizes) -> str:
    """Why these terms cannot be the numbers of the input `name`, in words; "" if they can be, or nothing says."""
    takes = size(found.inputs[name])
    parts = [(term["name"], _dim(term, sizes) * term.get("history", 1)) for term in terms]
    total = sum(dim for _, dim in parts)
    if takes is None or total == takes:
        return ""
    listed = " + ".join(f"{term} {dim}" for term, dim in parts)
    why = f"its terms add up to {total}, the input takes {takes}: {listed}"
    estimated = sum(dim for term, dim in parts if term in _ESTIMATED)
    absent = [term for term in _ESTIMATED[: 1 + sizes.nmotion] if term not in dict(parts)]
    lengths = {term.get("history", 1) for term in terms}
    if estimated and total - estimated == takes:
        return f"{why}; trained without state estimation, it seems, which leaves out {' and '.join(_ESTIMATED)}"
    if takes - total in {3 * length * count for length in lengths for count in range(1, len(absent) + 1)}:
        return f"{why}; with or without state estimation ({', '.join(absent)})?"
    return why


def put_terms(
    draft: Draft, found: Evidence, name: str, terms: Sequence[Mapping[str, Any]], sizes: TermSizes, why: str
) -> bool:
    """Write the terms of an input into a draft, unless there is a reason not to: `why`, or sizes that do not fit."""
    why = why or size_mismatch(found, name, terms, sizes)
    if why:
        draft.reasons[terms_key(name)] = why
        return False
    draft.document["inputs"] = {name: {"terms": [dict(term) for term in terms]}}
    return True


def unknown_terms(unknown: Sequence[str], known: Iterable[str]) -> str:
    """Why terms of these names cannot be used; "" where there are none."""
    return f"{', '.join(unknown)} unknown; known are {', '.join(known)}" if unknown else ""


def _dim(term: Mapping[str, Any], sizes: TermSizes) -> int:
    for picked in ("index", "joints"):
        if picked in term:
            return len(term[picked])
    kind = load_term(term["name"])
    return kind.dim(sizes, term.get("sensors", kind.sensors)) if kind.dim is not None else int(term["dim"])


def doubtful_gains(kp: Sequence[float], kd: Sequence[float], where: str) -> str:
    """Why these gains cannot be the trained ones, in words; "" if they can be.

    Exporters write 0 where the trainer models its actuators outside the physics.
    """
    if not any(value > 0.0 for value in kp):
        what = f"{where.partition(' ')[0]} is" if any(kd) else f"{where} are"
        return f"{what} 0 for every joint: its actuators are modelled elsewhere"
    low = min(*kp, *kd)
    return f"{where} hold {low:g}: a gain is at least 0" if low < 0.0 else ""
