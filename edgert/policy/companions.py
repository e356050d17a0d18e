"""The further networks of a policy: files that its [[network]] tables name, read as the model itself is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgert.contract.network_document import MAX_NETWORKS
from edgert.contract.recurrent import state_pairs
from edgert.errors import IntegrityError
from edgert.files import beside
from edgert.policy.model import PolicyFile, read_policy


def named_networks(document: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Number, name and file of each [[network]] table that has both; what is malformed is for `parse_contract`."""
    entries = document.get("network")
    for number, entry in enumerate(entries[:MAX_NETWORKS] if isinstance(entries, list) else ()):
        name, file = (entry.get(key) if isinstance(entry, Mapping) else None for key in ("name", "file"))
        if isinstance(name, str) and isinstance(file, str) and file:
            yield number, name, file


def read_companions(
    document: Mapping[str, Any], path: Path
) -> tuple[dict[str, Any], dict[str, PolicyFile], tuple[IntegrityError, ...]]:
    """The document with the memory of each further network, found by its names; those networks; what cannot be read.

    A file that is missing, outside the model's folder or no ONNX model is an answer too: what the tables themselves
    have wrong is worth more to the user.

    Args:
        document: of the schema, complete or not.
        path: the model, beside which they lie.
    """
    files: dict[str, PolicyFile] = {}
    broken: list[IntegrityError] = []
    entries = list(document.get("network", ())) if isinstance(document.get("network"), list) else []
    for number, name, file in named_networks(document):
        try:
            files[name] = read_policy(beside(path, file, "network"))
        except IntegrityError as error:
            broken.append(error)
            continue
        pairs = state_pairs(tuple(files[name].input_shapes), files[name].outputs)
        if pairs and "recurrent" not in entries[number]:
            entries[number] = {**entries[number], "recurrent": pairs}
    return ({**document, "network": entries} if entries else dict(document)), files, tuple(broken)


def digested(file: PolicyFile, networks: Mapping[str, PolicyFile]) -> PolicyFile:
    """The model with the digest of all networks of the policy."""
    if not networks:
        return file
    digest = hashlib.sha256(file.sha256.encode())
    for name, network in sorted(networks.items()):
        digest.update(f"\0{name}\0{network.sha256}".encode())
    return replace(file, sha256=digest.hexdigest())
