"""Writing contracts: the documented schema, complete and in one form, so that equal contracts have one digest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from edgert.contract.senses import Picture

if TYPE_CHECKING:
    from edgert.contract.spec import ActionSpec, Contract, InputSpec, MotionSpec, NetworkSpec, ObservationTerm, Range

SCHEMA = 1


def contract_document(contract: Contract) -> dict[str, Any]:
    """See `Contract.to_document`."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "robot": contract.robot,
        "control_hz": float(contract.control_hz),
        "joints": {
            "names": list(contract.joints),
            "default_pos": _floats(contract.default_pos),
            "kp": _floats(contract.kp),
            "kd": _floats(contract.kd),
        },
        "inputs": _inputs(contract.inputs_of()),
        "action": _action(contract.action),
    }
    if contract.command is not None:
        pairs = zip(contract.command.keys, contract.command.ranges, strict=True)
        known = {key: _floats(pair) for key, pair in pairs if pair is not None}
        document["command"] = {"kind": contract.command.kind, **known}
    if contract.phase is not None:
        gait = contract.phase
        phase: dict[str, Any] = {"hz": float(gait.hz), "offsets_rad": _floats(gait.offsets_rad)}
        if gait.still_rad is not None:
            phase |= {"still_rad": float(gait.still_rad), "still_below": float(gait.still_below)}
        document["phase"] = phase
    if contract.motion is not None:
        document["motion"] = _motion(contract.motion)
    if contract.recurrent:
        document["recurrent"] = dict(contract.recurrent)
    if contract.networks:
        document["network"] = [_network(network, contract) for network in contract.networks]
    return document


def _network(network: NetworkSpec, contract: Contract) -> dict[str, Any]:
    document: dict[str, Any] = {"name": network.name}
    if network.file:
        document["file"] = network.file
        document["inputs"] = _inputs(contract.inputs_of(network))
    if network.every != 1:
        document["every"] = network.every
    if network.recurrent:
        document["recurrent"] = dict(network.recurrent)
    return document


def _inputs(inputs: Mapping[str, InputSpec]) -> dict[str, Any]:
    return {
        name: {"terms": [_term(term) for term in spec.terms]} | _changed(spec, skip=("terms",))
        for name, spec in inputs.items()
    }


def _term(term: ObservationTerm) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": term.name,
        "dim": term.dim,
        "scale": _components(term, term.scale),
        "offset": _components(term, term.offset),
    }
    document |= _changed(term, skip=(*document, "sense"))
    return document if term.sense is None else document | term.sense.document()


def _components(term: ObservationTerm, values: Sequence[float]) -> list[float]:
    """Of a picture one for each channel."""
    return _floats(values[:: term.dim // term.sense.shape[0]] if isinstance(term.sense, Picture) else values)


def _motion(motion: MotionSpec) -> dict[str, Any]:
    return _changed(motion, skip=())


def _changed(noun: Any, *, skip: Iterable[str]) -> dict[str, Any]:
    """The fields of a dataclass that differ from their default, as data."""
    result: dict[str, Any] = {}
    for each in fields(noun):
        value = getattr(noun, each.name)
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        if each.name not in skip and value != default:
            result[each.name] = _data(value)
    return result


def _data(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_data(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _action(action: ActionSpec) -> dict[str, Any]:
    document: dict[str, Any] = {
        "output": action.outputs[0] if len(action.outputs) == 1 else list(action.outputs),
        "kind": action.kinds[0] if len(set(action.kinds)) == 1 else list(action.kinds),
        "joints": list(action.joints),
        "scale": _floats(action.scale),
        "offset": _floats(action.offset),
    }
    if action.added:
        document["added"] = list(action.added)
    for name, bounds in (("clip", action.clip), ("target_clip", action.target_clip)):
        if bounds is not None:
            document[name] = _bounds(bounds)
    return document


def _bounds(bounds: Sequence[Range]) -> list[Any]:
    """One pair where all are alike."""
    pairs = [_floats(pair) for pair in bounds]
    return pairs[0] if all(pair == pairs[0] for pair in pairs) else pairs


def _floats(values: Iterable[float]) -> list[float]:
    """As JSON numbers with a fraction, so that 1 and 1.0 have one digest."""
    return [float(value) for value in values]
