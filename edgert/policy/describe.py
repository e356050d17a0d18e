"""What an ONNX file holds, for people and programs that look at it before they run it. Nothing is executed.

Names come from a file that nobody vouches for: every list is bounded, and what is left out is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from edgert.errors import one_line
from edgert.files import regular_size
from edgert.policy.graph import dtype_name, nodes
from edgert.policy.model import PolicyFile
from edgert.policy.protos import onnx_protos

MAX_LISTED: Final = 100
"""Most inputs, outputs, operator types or metadata keys that are named."""

_FLOATS: Final = ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16")


def describe_model(file: PolicyFile) -> dict[str, Any]:
    """The facts of a model as one JSON object; see docs/json.md for the keys.

    Parameters are the numbers in floating-point tensors of the graph, its subgraphs and its functions: initializers
    and constants, a normaliser's among them.
    """
    model = onnx_protos().ModelProto.FromString(file.data)
    weights = {tensor.name for tensor in model.graph.initializer}
    all_nodes = [node for graph in (model.graph, *model.functions) for node in nodes(graph)]
    operators = Counter(_name(f"{node.domain}:{node.op_type}" if node.domain else node.op_type) for node in all_nodes)
    return {
        "path": str(file.path),
        "policy_sha256": file.sha256,
        "size_bytes": len(file.data),
        "external_data": [
            {"name": _name(name), "size_bytes": regular_size(file.path.parent / name, "external data")}
            for name in file.external[:MAX_LISTED]
        ],
        "ir_version": model.ir_version,
        "opsets": {_name(entry.domain or "ai.onnx"): entry.version for entry in model.opset_import[:MAX_LISTED]},
        "producer": _name(f"{model.producer_name} {model.producer_version}".strip()),
        "inputs": _values(entry for entry in model.graph.input if entry.name not in weights),
        "outputs": _values(model.graph.output),
        "parameters": sum(_size(tensor) for tensor in _tensors(model)),
        "nodes": len(all_nodes),
        "operators": dict(operators.most_common(MAX_LISTED)),
        "metadata": [
            {"key": _name(key), "characters": len(value)} for key, value in list(file.metadata.items())[:MAX_LISTED]
        ],
        "left_out": {
            name: count - MAX_LISTED
            for name, count in (
                ("external_data", len(file.external)),
                ("inputs", len(file.inputs)),
                ("outputs", len(file.outputs)),
                ("operators", len(operators)),
                ("metadata", len(file.metadata)),
            )
            if count > MAX_LISTED
        },
    }


def _name(text: str) -> str:
    """A name out of the file, without terminal controls and of bounded length."""
    return one_line(text)


def _values(entries: Iterable[Any]) -> list[dict[str, Any]]:
    """Name, shape and dtype of inputs or outputs; a dimension is a number, a name, or None where it is not given."""
    described = []
    for entry in list(entries)[:MAX_LISTED]:
        tensor = entry.type.tensor_type
        shape = [
            dim.dim_value if dim.HasField("dim_value") else _name(dim.dim_param) or None for dim in tensor.shape.dim
        ]
        described.append(
            {
                "name": _name(entry.name),
                "shape": shape[:MAX_LISTED] if tensor.HasField("shape") else None,
                "dtype": dtype_name(entry),
            }
        )
    return described


def _tensors(model: Any) -> Iterator[Any]:
    """The constant tensors of a model, in whatever place."""
    yield from _initializers(model.graph)
    for graph in (model.graph, *model.functions):
        for node in nodes(graph):
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                    yield from _initializers(inner)


def _initializers(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    yield from (sparse.values for sparse in graph.sparse_initializer)


def _size(tensor: Any) -> int:
    """How many floating-point numbers a tensor holds, by its shape; the data may lie elsewhere."""
    kinds = onnx_protos().TensorProto
    if tensor.data_type not in {getattr(kinds, name) for name in _FLOATS}:
        return 0
    count = 1
    for dim in tensor.dims:
        count *= max(0, dim)
    return count
