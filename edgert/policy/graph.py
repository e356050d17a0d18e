"""What the nodes of an ONNX graph give away before it runs: operators nobody has, and memories that do not last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from edgert.policy.protos import onnx_protos

KNOWN_DOMAINS: Final = frozenset(
    ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training")
)
"""Domains of ONNX itself; those of ONNX Runtime begin with com.microsoft or com.ms."""
_OF_RUNTIME: Final = ("com.microsoft", "com.ms.")
_STATES: Final[Mapping[str, tuple[int, ...]]] = {"RNN": (5,), "GRU": (5,), "LSTM": (5, 6)}
"""Which inputs of a recurrent node hold its state."""
_VALUELESS: Final = ("Shape", "Size")
"""Operators whose result does not depend on the values of their input."""


def nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph or function and of every graph inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from nodes(inner)


def dtype_name(value: Any) -> str:
    """The type of an input or output as numpy calls it; "sequence" and the like for what is no tensor."""
    protos = onnx_protos()
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return str(kind or "unknown").removesuffix("_type")
    element = value.type.tensor_type.elem_type
    if element not in protos.TensorProto.DataType.values():
        return f"unknown type {element}"
    name = str(protos.TensorProto.DataType.Name(element))
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())


def custom_operators(model: Any) -> tuple[str, ...]:
    """Operators that neither ONNX, nor ONNX Runtime, nor a function of the model defines, as "domain:operator"."""
    own = {(function.domain, function.name) for function in model.functions}
    return tuple(
        sorted(
            {
                f"{node.domain}:{node.op_type}"
                for graph in (model.graph, *model.functions)
                for node in nodes(graph)
                if node.domain not in KNOWN_DOMAINS
                and not node.domain.startswith(_OF_RUNTIME)
                and (node.domain, node.op_type) not in own
            }
        )
    )


def forgetful_nodes(model: Any) -> tuple[str, ...]:
    """Recurrent nodes whose state is the same at the beginning of every run, as "LSTM name".

    Such a network forgets everything between control ticks, unless it sees a sequence of several ticks at once: a node
    whose sequence is known to be longer than 1 is not listed.
    """
    found = [node for node in nodes(model.graph) if node.op_type in _STATES and node.domain in ("", "ai.onnx")]
    if not found:
        return ()
    producers = {name: node for node in nodes(model.graph) for name in node.output if name}
    weights = {tensor.name for tensor in _weights(model.graph)}
    lasting = [
        node
        for node in found
        if any(_fed(node.input[slot], producers, weights) for slot in _STATES[node.op_type] if slot < len(node.input))
    ]
    left = [node for node in found if node not in lasting]
    lengths = _sequence_lengths(model) if left else {}
    return tuple(
        f"{node.op_type} {node.name}".strip() for node in left if node.input and lengths.get(node.input[0], 1) <= 1
    )


def _weights(graph: Any) -> Iterator[Any]:
    """The initializers of a graph and of every graph inside it."""
    yield from graph.initializer
    yield from (sparse.values for sparse in graph.sparse_initializer)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _weights(inner)


def _fed(name: str, producers: Mapping[str, Any], weights: set[str]) -> bool:
    """Whether the values of a tensor depend on an input of the graph, or of a loop in it."""
    waiting, seen = [name], {""}
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        node = producers.get(each)
        if node is None and each not in weights:
            return True
        if node is not None and node.op_type not in _VALUELESS:
            waiting += node.input
    return False


def _sequence_lengths(model: Any) -> dict[str, int]:
    """The first axis of every tensor for which it can be inferred, by name."""
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:  # it raises anything, of a model that ONNX Runtime will refuse with its own words
        return {}
    values = (*inferred.graph.value_info, *inferred.graph.input)
    return {
        value.name: value.type.tensor_type.shape.dim[0].dim_value
        for value in values
        if len(value.type.tensor_type.shape.dim) and value.type.tensor_type.shape.dim[0].HasField("dim_value")
    }
