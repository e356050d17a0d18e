"""Writing a contract into a model's metadata, so that it never gets lost again.

Lossless: entries are cut out of the file and appended, byte by byte, so that the graph, the weights, other metadata and
whatever else stands in it stay as they are. Idempotent: embedding the same contract again gives the same bytes. Under
a second key each field keeps the source that it had, so that what was assumed stays assumed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgert.contract.document import METADATA_KEY, PROVENANCE_KEY, fields_of, parse_contract
from edgert.contract.spec import Contract
from edgert.errors import ContractError, IntegrityError
from edgert.files import beside, regular_size
from edgert.policy.judge import EMBEDDED
from edgert.policy.load import LoadedPolicy
from edgert.policy.model import MAX_MODEL_BYTES
from edgert.policy.protos import onnx_protos
from edgert.tables import MAX_FILE_BYTES, read_json
from edgert.writing import part_of, put

_METADATA_FIELD: Final = 14
"""`metadata_props` of `ModelProto`."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What was written.

    Attributes:
        path: the model with its contract.
        written: whether it was not there already, byte for byte.
        copied: files that were copied beside it: weights, further networks, a motion.
    """

    path: Path
    written: bool
    copied: tuple[str, ...]


def embed(loaded: LoadedPolicy, out: Path, *, overwrite: bool = False) -> Embedded:
    """Write a copy of a model with its complete contract, and copy the files that belong to it beside that.

    Nothing is written before everything is known to be possible; the model itself comes last, in one step.

    Args:
        loaded: the policy and its effective contract.
        out: the file to write, in a folder that is there.
        overwrite: replace a file of that name, even the model itself. Files that belong to it are never replaced.

    Raises:
        IntegrityError: a file of that name is there and differs, or it cannot be written.
        ContractError: the contract is too large for a model's metadata.
    """
    data = with_contract(loaded.file.data, loaded.contract)
    try:
        written = _writable(out, data, overwrite)
        copies = [(source, target) for source, target in _belongings(loaded, out) if not _same(source, target)]
        for source, target in copies:
            _copy(source, target)
        if written:
            _replace(out, data)
    except OSError as error:
        raise IntegrityError(
            f"cannot write {error.filename or out}", found=error.strerror or error, hint="Check the folder and the disk"
        ) from error
    return Embedded(path=out, written=written, copied=tuple(str(target) for _, target in copies))


def with_contract(data: bytes, contract: Contract) -> bytes:
    """The bytes of a model with this contract in its metadata, in place of any that it had.

    Raises:
        IntegrityError: the file is no protobuf message, or too large with it.
        ContractError: the contract is too large.
    """
    document = json.dumps(contract.to_document(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(document) > MAX_FILE_BYTES:
        raise ContractError(
            "the contract is too large for metadata", found=f"{len(document)} characters", expected=MAX_FILE_BYTES
        )
    again = parse_contract(read_json(document, where="the embedded contract"), "the embedded contract")
    assert again.sha256() == contract.sha256()
    entries = {METADATA_KEY: document}
    origins = {
        field: contract.provenance[field].removeprefix(EMBEDDED)
        for field in fields_of(contract.to_document())
        if contract.provenance.get(field, "metadata") != "metadata"
    }
    if origins:
        entries[PROVENANCE_KEY] = json.dumps(origins, ensure_ascii=False, separators=(",", ":"))
    kind = onnx_protos().StringStringEntryProto
    kept = []
    for number, whole, value in _parts(data):
        if number != _METADATA_FIELD or kind.FromString(value).key not in (METADATA_KEY, PROVENANCE_KEY):
            kept.append(whole)
    added = [kind(key=key, value=value).SerializeToString(deterministic=True) for key, value in entries.items()]
    tag = _METADATA_FIELD << 3 | _BYTES
    result = b"".join([*kept, *(bytes([tag]) + _varint(len(entry)) + entry for entry in added)])
    if len(result) > MAX_MODEL_BYTES:
        raise IntegrityError("the model is too large with its contract", found=len(result), expected=MAX_MODEL_BYTES)
    return result


def _parts(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The fields of a protobuf message in their order: number, all of its bytes, and its value's where it is bytes."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = _read_varint(data, at)
        kind, length = tag & 7, 0
        if kind == _VARINT:
            _, at = _read_varint(data, at)
        elif kind == _BYTES:
            length, at = _read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise IntegrityError("the model holds fields of a kind that ONNX does not have", found=f"wire type {kind}")
        end = at + length
        if end > len(data):
            raise IntegrityError("the model is truncated", found=f"{len(data)} bytes", expected=f"at least {end}")
        yield tag >> 3, data[begin:end], data[at:end] if kind == _BYTES else b""
        at = end


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise IntegrityError("the model is no protobuf message", found=f"an endless number at byte {at}")


def _varint(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


def _writable(out: Path, data: bytes, overwrite: bool) -> bool:
    """Whether `out` has to be written at all; refuse if it must not be."""
    if not out.parent.is_dir():
        raise IntegrityError(f"cannot write {out}", found=f"no folder {out.parent}", hint="Make the folder first")
    if out.is_dir():
        raise IntegrityError(f"{out} is a folder", expected="the name of a file to write")
    if not os.path.lexists(out):
        return True
    if out.is_file() and regular_size(out, "policy") == len(data) and out.read_bytes() == data:
        return False
    if not overwrite or not out.is_file():
        raise IntegrityError(
            f"{out} is there already", expected="a new file", hint="Name another one, or replace it with --overwrite"
        )
    return True


def _belongings(loaded: LoadedPolicy, out: Path) -> Iterator[tuple[Path, Path]]:
    """The files that belong to a policy, each with its place beside `out`."""
    path = loaded.file.path
    sources = [network.path for network in loaded.networks.values()]
    sources += [each.path.parent / name for each in (loaded.file, *loaded.networks.values()) for name in each.external]
    motion = loaded.contract.motion
    if motion is not None and motion.file:
        sources.append(beside(path, motion.file, "motion"))
    for source in dict.fromkeys(sources):
        target = beside(out, str(source.relative_to(path.parent)), "file")
        if out.resolve() in (source.resolve(), target.resolve()):
            raise IntegrityError(
                f"{out} would take the place of a file that belongs to the policy",
                found=source.name,
                hint="Name another one",
            )
        yield source, target


def _same(source: Path, target: Path) -> bool:
    """Whether a file is there already; one of that name that differs is refused."""
    if not os.path.lexists(target):
        return False
    if regular_size(target, "file") == regular_size(source, "file") and _digest(target) == _digest(source):
        return True
    raise IntegrityError(
        f"{target} is there already, and is not the file that belongs to the policy",
        expected=f"that of {source}",
        hint="Write into another folder: it is never replaced",
    )


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _copy(source: Path, target: Path) -> None:
    """Copy a file to a place where nothing is, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with part_of(target) as part:
        with part.open("wb") as file, source.open("rb") as data:
            shutil.copyfileobj(data, file, _CHUNK)
        put(part, target, new=True)


def _replace(path: Path, data: bytes) -> None:
    with part_of(path) as part:
        part.write_bytes(data)
        put(part, path)
