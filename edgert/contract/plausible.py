"""Whether what a trainer's file says can be true: sizes that add up, gains that hold a robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from edgert.contract.formats import Evidence
from edgert.contract.terms import TermSizes, load_term
from edgert.errors import ContractError

_ESTIMATED: Final = ("base_lin_vel", "motion_anchor_pos_b")
"""Terms that need a state estimator, which trainers leave out in a second variant of a task."""


def check_sizes(found: Evidence, name: str, terms: Sequence[Mapping[str, Any]], sizes: TermSizes) -> None:
    """Refuse terms that do not add up to the input `name`, where both are known.

    Raises:
        ContractError: they do not.
    """
    shape = found.inputs[name]
    takes = shape[-1] if shape else None
    if not isinstance(takes, int):
        return
    parts = [(term["name"], _dim(term, sizes) * term.get("history", 1)) for term in terms]
    total = sum(dim for _, dim in parts)
    if total == takes:
        return
    hint = "Correct [inputs." + name + "] terms in policy.toml"
    estimated = sum(dim for term, dim in parts if term in _ESTIMATED)
    if estimated and total - estimated == takes:
        hint = "The network was trained without state estimation, its metadata list the terms with it: " + hint.lower()
    elif total < takes and takes - total <= 6 * max(term.get("history", 1) for term in terms):
        absent = [term for term in _ESTIMATED if term not in dict(parts)]
        if absent:
            hint = f"With or without state estimation ({', '.join(absent)})? {hint}"
    raise ContractError(
        f"policy {found.model}: its terms add up to {total}, input '{name}' takes {takes}",
        found=" + ".join(f"{term} {dim}" for term, dim in parts),
        hint=hint,
    )


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
        return f"{where} are 0 for every joint: its actuators are modelled elsewhere"
    low = min(*kp, *kd)
    return f"{where} hold {low:g}: a gain is at least 0" if low < 0.0 else ""
