"""From a model's name or path to a `Contract`: documents laid over each other, each field with its source."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edgert import assets
from edgert.contract.document import METADATA_KEY, check_schema, overlay, parse_contract
from edgert.contract.formats import Evidence, Reading, choose_format, load_format
from edgert.contract.recurrent import state_pairs
from edgert.contract.spec import Contract
from edgert.errors import ContractError, UnknownNameError
from edgert.files import is_path
from edgert.policy.model import PolicyFile, read_policy
from edgert.tables import Table, read_json, read_toml, read_yaml

SIDECAR = "policy.toml"
_KNOWN: Final = ("deploy.yaml",)
"""Names of the files in which other trainers say what their numbers mean."""


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
    notes: tuple[str, ...] = ()
    """How the format was recognised, and what had to be assumed, one line each."""


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


def load_policy(
    model: str | Path,
    contract_path: Path | None = None,
    *,
    joints: Sequence[str] = (),
    wanted: str | None = None,
) -> LoadedPolicy:
    """Read a policy and work out its contract.

    The model's own metadata (`edgert.contract`), or what another trainer left beside it, lies below; `contract_path`,
    or else `policy.toml` beside the model, is laid over it field by field.

    Args:
        model: an .onnx file, or the name of a bundled policy.
        contract_path: a policy.toml of the user's.
        joints: those of the robot that it will run on, in the order of its scene; some formats name none.
        wanted: the format that it was exported in, where several fit; see `edgert.contract.formats`.

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
    pairs = state_pairs(tuple(file.input_shapes), file.outputs)
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
    notes: tuple[str, ...] = ()
    if METADATA_KEY not in file.metadata or wanted is not None:
        reading, notes = _foreign(file, tuple(joints), wanted)
        if reading is not None:
            document = overlay(document, reading.document, reading.source, provenance)
            provenance |= reading.sources
            sources.append(reading.source)
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
            found=f"no '{METADATA_KEY}' metadata, no {SIDECAR} and no file of a known trainer beside it",
            expected=f"a contract for a model that takes {', '.join(file.inputs)} and gives {', '.join(file.outputs)}",
            hint=f"Write {sidecar} or name one with --contract; docs/policy-toml.md shows how",
        )
    contract = parse_contract(document, " over ".join(reversed(sources)), provenance)
    return LoadedPolicy(file=file, contract=contract, overrides=overrides, sources=tuple(sources), notes=notes)


def _foreign(file: PolicyFile, joints: tuple[str, ...], wanted: str | None) -> tuple[Reading | None, tuple[str, ...]]:
    """What a reader of another trainer's format makes of the policy, and what is to be said of that."""
    found = Evidence(
        model=str(file.path),
        inputs=file.input_shapes,
        outputs=file.output_shapes,
        metadata=file.metadata,
        sidecars=_sidecars(file.path),
        joints=joints,
    )
    chosen = choose_format(found, wanted)
    if chosen is None:
        return None, ()
    name, words = chosen
    reading = load_format(name).read(found)
    return reading, (f"format {name}: {words}", *reading.notes)


def _sidecars(path: Path) -> dict[str, dict[str, Any]]:
    """Files of known names beside the model, or where trainers put them: above it, or in a folder params."""
    places = (path.parent, path.parent / "params", path.parent.parent / "params", path.parent.parent)
    found: dict[str, dict[str, Any]] = {}
    for name in _KNOWN:
        for place in places:
            if os.path.lexists(place / name):
                found[name] = read_yaml(place / name, kind="sidecar")
                break
    return found


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
