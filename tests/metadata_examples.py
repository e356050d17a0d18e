"""Small networks with known weights and the metadata that other trainers' exporters attach to them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from support import linear_model, save

from edgert.contract import RobotState
from edgert.contract.formats import Evidence
from edgert.contract.observe import Observer, make_term_inputs
from edgert.policy import load_policy

Shapes = Mapping[str, Sequence[int | str]]


def csv(values: Sequence[Any]) -> str:
    """A list as mjlab and whole_body_tracking print it: three decimals, semicolons inside an item."""

    def one(value: Any) -> str:
        return f"{value:.3f}" if isinstance(value, (int, float)) else str(value)

    return ",".join(";".join(map(one, value)) if isinstance(value, list) else one(value) for value in values)


def printed(values: Mapping[str, Any]) -> dict[str, str]:
    """Metadata with their lists printed by `csv`."""
    return {key: csv(value) if isinstance(value, list) else str(value) for key, value in values.items()}


def as_json(values: Mapping[str, Any]) -> dict[str, str]:
    """Metadata with their values printed as JSON, as holosoma and Exploy do."""
    return {key: json.dumps(value) for key, value in values.items()}


def evidence(inputs: Shapes, outputs: Shapes, metadata: Mapping[str, str], **fields: Any) -> Evidence:
    """What a reader is shown."""
    return Evidence(
        model="p.onnx",
        inputs={name: tuple(shape) for name, shape in inputs.items()},
        outputs={name: tuple(shape) for name, shape in outputs.items()},
        metadata=metadata,
        **fields,
    )


def with_value(document: Mapping[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    """A copy of a document with another value at a path of keys and indices."""
    copied: dict[str, Any] = copy.deepcopy(dict(document))
    *above, last = path
    table: Any = copied
    for key in above:
        table = table[key]
    table[last] = value
    return copied


def attach(model: onnx.ModelProto, metadata: Mapping[str, str]) -> onnx.ModelProto:
    """The model with metadata."""
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    return model


def linear(weight: np.ndarray, metadata: Mapping[str, str], path: Path, inp: str = "obs", out: str = "actions") -> Path:
    """The network out = inp W, saved with metadata; a wrong order of terms gives a wrong number."""
    size, nact = weight.shape
    model = linear_model(dim=size, nact=nact, weight=weight, batch=1, inp=inp, out=out)
    return save(attach(model, metadata), path)


def acts(path: Path, state: RobotState, command: Sequence[float]) -> np.ndarray:
    """What a network of one input without histories answers at the first tick, its contract read from its metadata."""
    contract = load_policy(path).contract
    ((name, _),) = contract.inputs.items()
    like = np.zeros((1, len(contract.action.joints)))
    inputs = make_term_inputs(
        contract, state, command=np.array([command]), last_action=like, phase_rad=np.zeros(1), xp=np
    )
    observation = Observer(contract, name, like)(inputs)
    return ReferenceEvaluator(str(path)).run(None, {name: observation.astype(np.float32)})[0][0]
