"""A contract as rows, complete or not: each field with its value, unit, source, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from edgert.contract.spec import Contract
from edgert.policy.doubts import Doubt
from edgert.policy.facts import Facts

State = Literal["stated", "default", "assumed", "doubtful", "missing"]
_UNITS: Final = {
    "control_hz": "Hz",
    "joints.default_pos": "rad",
    "joints.kp": "N·m/rad",
    "joints.kd": "N·m·s/rad",
    "phase.still_below": "m/s and rad/s",
    "motion.hz": "Hz",
}
_ENDINGS: Final = (("_rad_s", "rad/s"), ("_m_s", "m/s"), ("_rad", "rad"), ("_m", "m"), (".hz", "Hz"))
_LEAVES: Final = ("joints.default_pos", "joints.kp", "joints.kd")
"""Fields that may be a table by joint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One fact of a contract.

    Attributes:
        name: dotted key of policy.toml.
        value: as the schema writes it; None where it is missing.
        unit: "" where it has none.
        source: where it came from; "" where nobody states it.
        state: how sure it is.
        reason: of a doubt, or what is missing; else "".
    """

    name: str
    value: Any
    unit: str
    source: str
    state: State
    reason: str = ""


def contract_fields(facts: Facts, contract: Contract | None, doubts: Iterable[Doubt]) -> list[Field]:
    """The rows of a policy: those of the contract, or what is known in place of it; then what is missing or doubtful.

    A doubt about a field that the document does not have, such as a range that is not known, is a row of its own.
    """
    document = facts.document if contract is None else contract.to_document()
    provenance = facts.provenance if contract is None else contract.provenance
    reasons: dict[str, list[str]] = {}
    for doubt in doubts:
        reasons.setdefault(doubt.field, []).append(doubt.reason)
    rows = []
    for name, value in _flat(document):
        if name == "schema" or value == "":
            continue
        source = provenance.get(name, "default")
        why = reasons.pop(name, [])
        state: State = "assumed" if "assumed" in source else "default" if source.endswith("default") else "stated"
        state = "doubtful" if why and state != "assumed" else state
        rows.append(
            Field(name=name, value=value, unit=_unit(name, document), source=source, state=state, reason="; ".join(why))
        )
    rows += [
        Field(name=name, value=None, unit=_unit(name, document), source="", state="doubtful", reason="; ".join(why))
        for name, why in reasons.items()
    ]
    rows += [
        Field(name=each.field, value=None, unit="", source="", state="missing", reason=each.what)
        for each in (facts.missing() if contract is None else ())
    ]
    return rows


def _flat(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        key = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping) and key not in _LEAVES and not key.startswith("action."):
            yield from _flat(value, key)
        else:
            yield key, value


def _unit(name: str, document: Mapping[str, Any]) -> str:
    if name in ("action.scale", "action.offset", "action.target_clip"):
        action = document.get("action")
        kind = action.get("kind", "position") if isinstance(action, Mapping) else "position"
        units = {"position": "rad", "relative_position": "rad", "velocity": "rad/s", "torque": "N·m"}
        return units.get(kind, "") if isinstance(kind, str) else "by kind"
    return _UNITS.get(name) or next((unit for ending, unit in _ENDINGS if name.endswith(ending)), "")
