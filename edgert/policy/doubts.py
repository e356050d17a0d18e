"""What may be wrong with a contract that is complete and well formed: doubts, each with its field and its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edgert.contract.spec import Contract

FAR_APART: Final = 100.0
"""Gains of one robot whose largest and smallest differ by more than that factor are looked at twice."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A dotted field, and why its value may be wrong."""

    field: str
    reason: str


def doubts(contract: Contract, stated: Mapping[str, Any]) -> Iterator[Doubt]:
    """Doubts about a contract by itself; whether a robot fits it is another question.

    Args:
        contract: what counts.
        stated: the document that it was made of, which shows what nobody said.
    """
    for name, spec in contract.inputs.items():
        for term in spec.terms:
            if term.name == "base_lin_vel":
                where = "" if _says_point(stated) else "; its reference point is not stated, taken as the base's origin"
                reason = f"base_lin_vel is measured in simulation alone, a real robot has to estimate it{where}"
                yield Doubt(f"inputs.{name}.terms", reason)
    moved = set(contract.action.joints)
    for label, gains, unit in (("kp", contract.kp, "N·m/rad"), ("kd", contract.kd, "N·m·s/rad")):
        used = [value for joint, value in zip(contract.joints, gains, strict=True) if joint in moved and value > 0.0]
        if used and max(used) > FAR_APART * min(used):
            yield Doubt(f"joints.{label}", f"from {min(used):g} to {max(used):g} {unit}: far from each other")
    if not any(contract.kd):
        yield Doubt("joints.kd", "0 for every joint: nothing damps the motion but the scene")
    if set(contract.action.scale) == {1.0} and contract.action.positions_only:
        said = "" if "scale" in _table(stated, "action") else ", which nobody states"
        yield Doubt("action.scale", f"one unit of action is 1 rad{said}; most policies have 0.1 to 0.5")
    if contract.command is not None:
        for key, trained in zip(contract.command.keys, contract.command.ranges, strict=True):
            if trained is None:
                yield Doubt(f"command.{key}", "the trained range is not known")


def early_doubts(document: Mapping[str, Any]) -> Iterator[Doubt]:
    """Doubts about a document in which facts are missing: what will be taken for a fact that it may leave out."""
    action = _table(document, "action")
    if "scale" not in action and action.get("kind", "position") == "position":
        yield Doubt("action.scale", "nobody states it: one unit of action is taken for 1 rad; most have 0.1 to 0.5")


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}


def _says_point(stated: Mapping[str, Any]) -> bool:
    """Whether every base velocity of a document has its reference point."""
    networks = stated.get("network")
    parts = [stated, *(part for part in (networks if isinstance(networks, list) else ()) if isinstance(part, Mapping))]
    for spec in (spec for part in parts for spec in _table(part, "inputs").values()):
        for term in spec.get("terms", ()) if isinstance(spec, Mapping) else ():
            name = term.get("name") if isinstance(term, Mapping) else term
            if name == "base_lin_vel" and not (isinstance(term, Mapping) and "point" in term):
                return False
    return True
