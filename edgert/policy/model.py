"""An ONNX file, read without trusting it: what it holds, where its weights lie, and its digest.

Nothing is executed here. External data must be plain files inside the model's folder; the digest covers the model
and every external data file, by name and bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

from edgert.errors import IntegrityError
from edgert.files import beside, read_regular, regular_size
from edgert.policy.graph import custom_operators, dtype_name, forgetful_nodes
from edgert.policy.protos import onnx_protos

MAX_MODEL_BYTES: Final = 2**31 - 1
"""Largest `.onnx` that protobuf can hold."""
MAX_EXTERNAL_BYTES: Final = 64 << 30
MAX_EXTERNAL_FILES: Final = 1_000
IMAGE_AXES: Final = 4
"""Axes of an image: batch, channels, rows, columns."""
_CHUNK: Final = 1 << 20
_EXPORT_HINT: Final = (
    "Export the policy as ONNX: with torch.onnx.export, or as Isaac Lab's and rsl_rl's play.py do "
    "(export_policy_as_onnx)"
)
_OTHERS: Final = tuple(
    (re.compile(sign, re.DOTALL), what, hint)
    for sign, what, hint in (
        (
            rb"PK\x03\x04.{26}[ -~]{0,200}?(?:manifest\.json|metadata\.json|\.onnx)",
            "a package (zip) around a model, not the model itself",
            "Unpack it, and name the .onnx file in it, with its manifest beside it",
        ),
        (
            rb"\x1f\x8b",
            "a package (gzip), as kinfer's are, not the model itself",
            "Unpack it with tar xf, and name step_fn.onnx, with metadata.json beside it",
        ),
        (
            rb"PK\x03\x04|\x80[\x02-\x05]",
            "a PyTorch file (TorchScript or pickle), which edgert never loads",
            _EXPORT_HINT,
        ),
        (rb".{7}\x00\{\s*\"", "a safetensors file: weights without the network", _EXPORT_HINT),
        (rb"\x89HDF\r\n\x1a\n", "an HDF5 file: a Keras model or data", _EXPORT_HINT),
        (rb".{4}TFL3", "a TensorFlow Lite model", _EXPORT_HINT),
        (rb"version https://git-lfs", "a Git LFS pointer, not the file itself", "Run: git lfs pull"),
        (rb"\s*<(?i:!doctype|html)", "a web page, not the file itself", "Download the raw file"),
    )
)
"""What people take for an ONNX file: how it begins, what it is, and the way out."""
_SIGN_BYTES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """A policy on disk. `data` is what was digested, so that what runs is what was checked.

    The digest of a model without external data is its sha256; with external data it covers both, by name and bytes.
    """

    path: Path
    data: bytes = field(repr=False)
    external: tuple[str, ...]
    sha256: str
    metadata: dict[str, str]
    opset: int
    inputs: tuple[str, ...]
    """Name and shape of each input, for messages."""
    outputs: tuple[str, ...]
    input_shapes: Mapping[str, tuple[int | str | None, ...]]
    output_shapes: Mapping[str, tuple[int | str | None, ...]]
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Of each input and output, as numpy calls it."""
    custom_operators: tuple[str, ...] = ()
    """Operators of domains that ONNX Runtime does not know, as "domain:operator"."""
    forgetful: tuple[str, ...] = ()
    """Recurrent nodes that begin every run anew, as "LSTM name"; see `edgert.policy.graph`."""


def read_policy(path: Path) -> PolicyFile:
    """Read and digest a model and its external data.

    Raises:
        IntegrityError: missing, unreadable, not ONNX, truncated, or with external data that is missing, outside the
            model's folder or too large.
    """
    data = read_regular(path, "policy", MAX_MODEL_BYTES)
    model = _parse(path, data)
    messages = list(_messages(model))
    _check_texts(messages, path)
    external = tuple(sorted(set(_external_files(messages, path))))
    if len(external) > MAX_EXTERNAL_FILES:
        raise IntegrityError(
            f"policy {path} refers to too many files", found=len(external), expected=MAX_EXTERNAL_FILES
        )
    digest = hashlib.sha256()
    _add(digest, "", data)
    for name in external:
        _add_file(digest, name, beside(path, name, "data file"))
    weights = {tensor.name for tensor in model.graph.initializer}
    opsets = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return PolicyFile(
        path=path,
        data=data,
        external=external,
        sha256=digest.hexdigest() if external else hashlib.sha256(data).hexdigest(),
        metadata={entry.key: entry.value for entry in model.metadata_props},
        opset=max(opsets, default=0),
        inputs=tuple(_named_shape(entry) for entry in model.graph.input if entry.name not in weights),
        input_shapes={entry.name: _shape(entry) for entry in model.graph.input if entry.name not in weights},
        output_shapes={entry.name: _shape(entry) for entry in model.graph.output},
        outputs=tuple(output.name for output in model.graph.output),
        dtypes={entry.name: dtype_name(entry) for entry in (*model.graph.input, *model.graph.output)},
        custom_operators=custom_operators(model),
        forgetful=forgetful_nodes(model),
    )


def numbers_of(shape: tuple[int | str | None, ...]) -> int | None:
    """How many numbers one row of a vector or image has; None where the model leaves it open, or has other axes."""
    sizes = shape if len(shape) == 1 else shape[1:]
    fixed = [size for size in sizes if isinstance(size, int)]
    return prod(fixed) if len(fixed) == len(sizes) and len(shape) in (1, 2, IMAGE_AXES) else None


def _named_shape(entry: Any) -> str:
    return f"{entry.name}[{', '.join('?' if size is None else str(size) for size in _shape(entry))}]"


def _shape(entry: Any) -> tuple[int | str | None, ...]:
    """Of each axis its size, its name, or None where it is open; exporters also write -1 for that."""
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
        for dim in entry.type.tensor_type.shape.dim
    )


def _parse(path: Path, data: bytes) -> Any:
    protos = onnx_protos()
    from google.protobuf.message import DecodeError

    if not data:
        raise IntegrityError(f"policy {path} is empty", expected="an ONNX model")
    for sign, what, hint in _OTHERS:
        if sign.match(data[:_SIGN_BYTES]):
            raise IntegrityError(f"policy {path} is {what}", expected="an ONNX model", hint=hint)
    try:
        model = protos.ModelProto.FromString(data)
    except (DecodeError, ValueError) as error:
        raise IntegrityError(
            f"policy {path} is not an ONNX model, or a truncated one",
            found=f"{len(data)} bytes that do not parse",
            expected="a complete .onnx file",
            hint="Copy or export it again",
        ) from error
    if not model.ir_version or not model.graph.node or not model.graph.output:
        raise IntegrityError(
            f"policy {path} is not a complete ONNX model",
            found=f"{len(model.graph.node)} nodes and {len(model.graph.output)} outputs",
            expected="a graph with outputs",
            hint="Copy or export it again",
        )
    counts = Counter(entry.key for entry in model.metadata_props)
    twice = sorted(key for key, count in counts.items() if count > 1)
    if twice:
        raise IntegrityError(f"policy {path} has metadata twice", found=", ".join(twice), expected="each key once")
    return model


def _check_texts(messages: list[Any], path: Path) -> None:
    """Refuse names that are no text: protobuf hands them on as bytes."""
    for message in messages:
        for entry, value in message.ListFields():
            texts = value if entry.is_repeated else (value,)
            if entry.type == entry.TYPE_STRING and not all(isinstance(text, str) for text in texts):
                raise IntegrityError(
                    f"policy {path} holds text that is not UTF-8", found=f"in '{entry.name}'", hint="Export it again"
                )


def _external_files(messages: list[Any], path: Path) -> Iterator[str]:
    kind = onnx_protos().TensorProto
    for tensor in messages:
        if not isinstance(tensor, kind) or tensor.data_location != kind.EXTERNAL:
            continue
        places = {entry.key: entry.value for entry in tensor.external_data}
        if len(places) != len(tensor.external_data):
            raise IntegrityError(f"tensor '{tensor.name}' of policy {path} says twice where its data lies")
        name = places.get("location", "")
        target = beside(path, name, "data file")
        if not target.exists():
            raise IntegrityError(
                f"policy {path} keeps its weights in '{name}', which is not there",
                expected=f"{target}",
                hint="Copy that file beside the model",
            )
        size = regular_size(target, "external data")
        if size > MAX_EXTERNAL_BYTES:
            raise IntegrityError(
                f"external data {target} is too large", found=f"{size} bytes", expected=MAX_EXTERNAL_BYTES
            )
        try:
            end = int(places.get("offset", 0)) + int(places.get("length", 0))
        except ValueError:
            end = size + 1
        if not 0 <= end <= size:
            raise IntegrityError(
                f"external data {target} of policy {path} is truncated or belongs to another model",
                found=f"{size} bytes",
                expected=f"at least {end} for tensor '{tensor.name}'",
                hint="Copy the pair again",
            )
        yield name


def _messages(message: Any) -> Iterator[Any]:
    """A protobuf message and everything in it: tensors hide in attributes, functions and sparse values too."""
    yield message
    for entry, value in message.ListFields():
        if entry.message_type is not None:
            for part in value if entry.is_repeated else (value,):
                yield from _messages(part)


def _add(digest: Any, name: str, data: bytes) -> None:
    digest.update(f"{name}\0{len(data)}\0".encode())
    digest.update(data)


def _add_file(digest: Any, name: str, path: Path) -> None:
    digest.update(f"{name}\0{path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
