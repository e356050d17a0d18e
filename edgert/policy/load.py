"""From a model's name or path to a policy file with its effective `Contract`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgert import assets, catalog
from edgert.contract.formats import NO_BODY, Body
from edgert.contract.spec import Contract
from edgert.errors import IntegrityError, UnknownNameError
from edgert.files import beside, files_in, is_path
from edgert.policy.companions import digested
from edgert.policy.facts import read_facts
from edgert.policy.model import PolicyFile, read_policy


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
    networks: Mapping[str, PolicyFile] = field(default_factory=dict)
    """Of several networks those that are not the model itself, by name; the digest of `file` covers them."""


def locate(model: str) -> Path:
    """The `.onnx` of a bundled or fetched model's name, or the path itself.

    A bare word is always a name, whatever lies in the working folder; a path has a suffix or a separator in it.

    Raises:
        UnknownNameError: it is neither a path nor the name of a bundled or fetched model.
    """
    if is_path(model):
        path = Path(model)
        if not os.path.isdir(path):
            return path
        if os.path.isfile(path / "policy.onnx"):
            return path / "policy.onnx"
        raise IntegrityError(f"policy {path} is a folder", expected=files_in(path, ".onnx") or "a file in it")
    try:
        return assets.find("models", model) / "policy.onnx"
    except UnknownNameError as error:
        fetched = catalog.locate(model)
        if fetched is not None:
            return fetched
        raise UnknownNameError(
            f"no policy '{model}'",
            expected=f"an .onnx file, or {error.expected.removeprefix('one of ')}",
            hint=error.hint if os.path.lexists(model) else "",
        ) from error


def load_policy(
    model: str | Path,
    contract_path: Path | None = None,
    *,
    body: Body = NO_BODY,
    format: str | None = None,
) -> LoadedPolicy:
    """Read a policy and work out its contract.

    The model's own metadata (`edgert.contract`), or what another trainer left in it or beside it, lies below;
    `contract_path`, or else `policy.toml` beside the model, is laid over it field by field.

    Args:
        model: an .onnx file, or the name of a bundled or downloaded policy.
        contract_path: a policy.toml of the user's.
        body: of the robot that it will run on, for what some formats leave to it.
        format: that it was exported in, where several fit; see `edgert.contract.formats`.

    Raises:
        IntegrityError: the model or its external data cannot be used.
        MissingFactsError: facts are missing; it lists them all.
        ContractError: what is stated is malformed, or cannot be meant.
    """
    facts = read_facts(locate(model) if isinstance(model, str) else model, contract_path, body, format)
    return LoadedPolicy(
        contract=facts.contract(),
        file=digested(facts.file, facts.networks),
        overrides=facts.overrides,
        sources=facts.sources,
        notes=facts.notes,
        networks=facts.networks,
    )


def load_as(path: Path, contract: Contract) -> LoadedPolicy:
    """A policy under a contract that is known already, such as that of a recording, and no other.

    Raises:
        IntegrityError: the model, or another network that the contract names, cannot be used.
    """
    file = read_policy(path)
    networks = {each.name: read_policy(beside(path, each.file, "network")) for each in contract.networks if each.file}
    return LoadedPolicy(file=digested(file, networks), contract=contract, overrides=(), sources=(), networks=networks)
