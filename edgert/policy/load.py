"""From a model's name or path to a `Contract`: documents laid over each other, each field with its source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgert import assets
from edgert.contract.document import METADATA_KEY, check_schema, overlay, parse_contract
from edgert.contract.recurrent import state_pairs
from edgert.contract.spec import Contract
from edgert.errors import ContractError, UnknownNameError
from edgert.files import is_path
from edgert.policy.model import PolicyFile, read_policy
from edgert.tables import Table, read_json, read_toml

SIDECAR = "policy.toml"


class NoContractError(ContractError):
    """The model is sound, but nothing says what its numbers mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPolicy:
    """A policy file with its effective contract.

    `overrides` are the fields that a sidecar or the user replaced, as "field: source".
    """

    file: PolicyFile
    contract: Contract
    overrides: tuple[str, ...]
    sources: tuple[str, ...]


def locate(model: str) -> Path:
    """The `.onnx` of a bundled model's name, or the path itself.

    A bare word is always a name, whatever lies in the working folder; a path has a suffix or a separator in it.

    Raises:
        UnknownNameError: it is neither a path nor the name of a bundled model.
    """
    if is_path(model):
        path = Path(model)
        return path / "policy.onnx" if not path.suffix and os.path.isfile(path / "policy.onnx") else path
    try:
        return assets.find("models", model) / "policy.onnx"
    except UnknownNameError as error:
        raise UnknownNameError(
            f"no policy '{model}'", expected=f"an .onnx file, or {error.expected.removeprefix('one of ')}"
        ) from error


def load_policy(model: str | Path, contract_path: Path | None = None) -> LoadedPolicy:
    """Read a policy and work out its contract.

    The model's own metadata (`edgert.contract`) lies below; `contract_path`, or else `policy.toml` beside the model,
    is laid over it field by field.

    Raises:
        IntegrityError: the model or its external data cannot be used.
        NoContractError: no contract is found.
        ContractError: it is malformed.
    """
    path = locate(model) if isinstance(model, str) else model
    file = read_policy(path)
    provenance: dict[str, str] = {}
    document: dict[str, Any] = {}
    sources: list[str] = []
    pairs = state_pairs(file.input_names, file.outputs)
    if pairs:
        document = overlay(document, {"recurrent": pairs}, "model: names of its inputs and outputs", provenance)
    given = [name for name in file.outputs if name not in pairs.values()]
    if len(given) == 1:
        document = overlay(document, {"action": {"output": given[0]}}, "model: its only output", provenance)
    if METADATA_KEY in file.metadata:
        where = f"metadata '{METADATA_KEY}' of {path}"
        own = read_json(file.metadata[METADATA_KEY], where=where)
        check_schema(Table(own, where))
        document = overlay(document, own, "metadata", provenance)
        sources.append(where)
    sidecar = contract_path or path.parent / SIDECAR
    overrides: tuple[str, ...] = ()
    if contract_path is not None or os.path.lexists(sidecar):
        source = f"{'user' if contract_path is not None else 'sidecar'} ({sidecar.name})"
        over = read_toml(sidecar, kind="contract")
        if "schema" in over or "schema" not in document:
            check_schema(Table(over, str(sidecar)))
        before = document
        document = overlay(before, over, source, provenance)
        overrides = tuple(f"{key}: {source}" for key in _replaced(before, over) if not key.endswith("schema"))
        sources.append(str(sidecar))
    if not sources:
        raise NoContractError(
            f"policy {path} does not say what its numbers mean",
            found=f"no '{METADATA_KEY}' metadata and no {SIDECAR} beside it",
            expected=f"a contract for a model that takes {', '.join(file.inputs)} and gives {', '.join(file.outputs)}",
            hint=f"Write {sidecar} or name one with --contract; docs/policy-toml.md shows how",
        )
    contract = parse_contract(document, " over ".join(reversed(sources)), provenance)
    return LoadedPolicy(file=file, contract=contract, overrides=overrides, sources=tuple(sources))


def _replaced(under: Mapping[str, Any], over: Mapping[str, Any], path: str = "") -> list[str]:
    """Dotted fields that `over` gives another value than `under` has."""
    fields = []
    for name, value in over.items():
        if name not in under:
            continue
        key = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and isinstance(under[name], Mapping):
            fields += _replaced(under[name], value, key)
        elif value != under[name]:
            fields.append(key)
    return fields
