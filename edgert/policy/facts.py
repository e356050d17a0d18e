"""`Facts`: all that is known of a policy, complete or not, each field with its source.

Documents are laid over each other: what the model's own names tell, its metadata (`edgert.contract`) or what another
trainer left, and on top the user's `policy.toml`. `load_policy` makes a contract of it, or refuses what is missing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from edgert.contract.document import METADATA_KEY, PROVENANCE_KEY, check_keys, check_schema, overlay, parse_contract
from edgert.contract.formats import (
    Body,
    Evidence,
    Reading,
    choose_format,
    files_of,
    load_formats,
    rate_beside,
    read_format,
)
from edgert.contract.recurrent import state_pairs
from edgert.contract.spec import Contract
from edgert.contract.writing import SCHEMA
from edgert.errors import ContractError, EdgertError, IntegrityError
from edgert.policy.companions import read_companions
from edgert.policy.fit import check_fit, misfits
from edgert.policy.judge import ASSUMED_HZ, EMBEDDED, Missing, MissingFactsError, check_plausible, missing_facts
from edgert.policy.model import PolicyFile, read_policy
from edgert.policy.sidecars import OWN, Sidecars, matches, read_sidecars
from edgert.tables import Table, read_json, read_toml

_FROM_MODEL: Final = "model: "
"""How the sources begin that are the model's own names."""
_ACTIONS: Final = ("actions", "action", "continuous_actions")
"""How the trainers whose formats are known call the output that is the action."""
_FOREIGN: Final = (".yaml", ".yml", ".json")
"""How names of files end that trainers write, and that people take for a contract."""
_UNUSED: Final = "not used: "
"""How notes begin on files that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a policy.

    Attributes:
        file: the model.
        document: of the schema of docs/policy-toml.md, complete or not.
        provenance: dotted field of it to its source.
        overrides: the fields that a sidecar or the user replaced, as "field: source".
        sources: the documents that it was read from.
        notes: how the format was recognised, and what had to be assumed, one line each.
        sidecar: where the user would write what is missing.
        given: whether the user named that file.
        reasons: dotted field that nobody states to why, where that is known.
        networks: the further networks that it names.
        broken: why others that it names cannot be read.
        refused: why its format does not take it, such as a robot with other joints; the document then holds what can
            be told without the robot.
    """

    file: PolicyFile
    document: Mapping[str, Any]
    provenance: Mapping[str, str]
    overrides: tuple[str, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    sidecar: Path
    given: bool
    reasons: Mapping[str, str]
    networks: Mapping[str, PolicyFile]
    broken: tuple[IntegrityError, ...] = ()
    refused: tuple[ContractError, ...] = ()

    def missing(self) -> tuple[Missing, ...]:
        """Every fact that a contract needs and nobody states."""
        return missing_facts(self.document, self.file, self.reasons, self.networks)

    def refusal(self) -> MissingFactsError | None:
        """The error that lists what is missing; None if nothing is."""
        missing = self.missing()
        if not missing:
            return None
        known = Counter(
            source
            for field, source in self.provenance.items()
            if not source.startswith(_FROM_MODEL) and field != "schema"
        )
        found = ", ".join(f"{count} fact{'s' if count > 1 else ''} from {source}" for source, count in known.items())
        unread = [note for note in self.notes if note.startswith(_UNUSED)]
        nothing = f"no '{METADATA_KEY}' metadata, no {OWN} and no file of a known trainer beside it"
        return MissingFactsError(
            missing,
            path=self.file.path,
            sidecar=self.sidecar,
            given=self.given,
            anything=bool(self.sources),
            found="; ".join((found if self.sources else nothing, *unread)),
        )

    def contract(self) -> Contract:
        """The contract.

        Raises:
            MissingFactsError: something is not stated.
            ContractError: it is malformed, its values cannot be meant, or it is not this model's.
            UnsupportedError: the model cannot be run as a policy.
        """
        contract, unfit = self.judged()
        refusals = (*unfit, self.refusal() if contract is None else None)
        for refusal in refusals:
            if refusal is not None:
                raise refusal
        assert contract is not None
        return contract

    def judged(self) -> tuple[Contract | None, tuple[EdgertError, ...]]:
        """The contract, None where facts are missing, and every other reason for which the policy is refused.

        Raises:
            ContractError: the contract is malformed.
        """
        unfit: list[EdgertError] = [*self.refused, *misfits(self.document, self.provenance, self.file)]
        if self.missing():
            return None, tuple(unfit)
        contract = parse_contract(self.document, " over ".join(reversed(self.sources)), self.provenance)
        if self.broken:
            return contract, (*unfit, *self.broken)
        try:
            check_plausible(contract, self.file)
            check_fit(contract, self.file, self.networks)
        except EdgertError as error:
            unfit.append(error)
        return contract, tuple(unfit)


def read_facts(path: Path, contract_path: Path | None, body: Body, wanted: str | None) -> Facts:
    """See `edgert.policy.load_policy`.

    Raises:
        IntegrityError: the model or its external data cannot be used.
        ContractError: a document cannot be read, or is not of the schema.
    """
    file = read_policy(path)
    provenance: dict[str, str] = {}
    document: dict[str, Any] = {}
    sources: list[str] = []
    notes: list[str] = []
    reasons: Mapping[str, str] = {}
    refused: list[ContractError] = []
    pairs = state_pairs(tuple(file.input_shapes), file.outputs)
    if pairs:
        document = overlay(document, {"recurrent": pairs}, f"{_FROM_MODEL}names of its inputs and outputs", provenance)
    given = [name for name in file.outputs if name not in pairs.values()]
    if len(given) == 1:
        document = overlay(document, {"action": {"output": given[0]}}, f"{_FROM_MODEL}its only output", provenance)
    if METADATA_KEY in file.metadata:
        where = f"metadata '{METADATA_KEY}' of {path}"
        own = read_json(file.metadata[METADATA_KEY], where=where)
        check_schema(Table(own, where))
        document = overlay(document, own, "metadata", provenance)
        sources.append(where)
        _restore(file, provenance, notes)
    if METADATA_KEY not in file.metadata or wanted is not None:
        completed = contract_path is not None or os.path.lexists(path.parent / OWN)
        reading = _foreign(file, body, wanted, notes, refused, completed=completed)
        if reading is not None:
            document = overlay(document, reading.document, reading.source, provenance)
            provenance |= reading.sources
            if reading.document:
                sources.append(reading.source)
                document = _with_output(document, given, provenance)
            reasons = reading.reasons
    sidecar = contract_path or path.parent / OWN
    _check_own(sidecar)
    overrides: tuple[str, ...] = ()
    if contract_path is not None or os.path.lexists(sidecar):
        source = f"{'user' if contract_path is not None else 'sidecar'} ({sidecar.name})"
        over = read_toml(sidecar, kind="contract")
        if "schema" in over or "schema" not in document:
            check_schema(Table(over, str(sidecar)))
        check_keys(Table(over, str(sidecar)))
        before = document
        document = overlay(before, over, source, provenance)
        overrides = tuple(f"{key}: {source}" for key in _replaced(before, over) if not key.endswith("schema"))
        sources.append(str(sidecar))
    document, networks, broken = read_companions(document, path)
    document.setdefault("schema", SCHEMA)
    if "control_hz" not in document:
        document["control_hz"] = ASSUMED_HZ
        provenance["control_hz"] = f"assumed {ASSUMED_HZ:g} Hz"
        notes.append(f"nothing says at which rate the policy runs: assumed {ASSUMED_HZ:g} Hz (control_hz)")
    return Facts(
        file=file,
        document=document,
        provenance=provenance,
        overrides=overrides,
        sources=tuple(sources),
        notes=tuple(notes),
        sidecar=sidecar,
        given=contract_path is not None,
        reasons=reasons,
        networks=networks,
        broken=broken,
        refused=tuple(refused),
    )


def _check_own(path: Path) -> None:
    """Refuse a trainer's file where the user's own contract belongs."""
    if path.suffix.lower() in _FOREIGN:
        raise ContractError(
            f"contract file {path} is not in edgert's own format",
            found=f"a {path.suffix} file",
            expected=f"a {OWN}",
            hint="Leave it out: what a trainer left beside the model, such as deploy.yaml, is found by itself",
        )


def _with_output(document: dict[str, Any], outputs: Iterable[str], provenance: dict[str, str]) -> dict[str, Any]:
    """The document of a known trainer's policy, where it leaves open which output is the action, and a name tells."""
    named = [name for name in outputs if name in _ACTIONS]
    if len(named) != 1 or "output" in document.get("action", {}):
        return document
    return overlay(document, {"action": {"output": named[0]}}, f"{_FROM_MODEL}the name of its output", provenance)


def _restore(file: PolicyFile, provenance: dict[str, str], notes: list[str]) -> None:
    """The sources that the fields of an embedded contract had; what was assumed then is said again."""
    if PROVENANCE_KEY not in file.metadata:
        return
    where = f"metadata '{PROVENANCE_KEY}' of {file.path}"
    origins = read_json(file.metadata[PROVENANCE_KEY], where=where)
    wrong = [field for field, source in origins.items() if not isinstance(source, str)]
    if wrong:
        raise ContractError(f"{where} is wrong", found=f"no text for {wrong[0]}", expected="a source for each field")
    for field, source in origins.items():
        if provenance.get(field) == "metadata":
            provenance[field] = f"{EMBEDDED}{source}"
            if "assumed" in source:
                what = source.removeprefix("assumed").lstrip(": ")
                notes.append(f"{field} was assumed when the contract was embedded: {what}")


def _foreign(
    file: PolicyFile,
    body: Body,
    wanted: str | None,
    notes: list[str],
    refused: list[ContractError],
    *,
    completed: bool,
) -> Reading | None:
    """What a reader of another trainer's format makes of the policy; what is to be said of that joins the notes.

    Why the reader does not take it joins `refused`; then it is asked what it knows without the robot.

    Where the user's own contract completes it, a file that cannot be read is said, and only refused if it is needed.
    """
    readers = load_formats(wanted, notes)
    beside = read_sidecars(file.path, (name for reader in readers.values() for name in files_of(reader)))
    if wanted is not None:
        _refuse_broken(beside, files_of(readers[wanted]), notes)
    found = Evidence(
        model=str(file.path),
        inputs=file.input_shapes,
        outputs=file.output_shapes,
        metadata=file.metadata,
        sidecars=beside.found,
        joints=body.joints,
        velocity_site=body.velocity_site,
    )
    chosen = choose_format(found, wanted, notes)
    if wanted is None:
        if chosen is None or getattr(readers[chosen[0]], "generic", False):  # a file that cannot be read may say more
            names = [file for reader in readers.values() for file in files_of(reader)]
            _refuse_broken(beside, names, notes, refuse=not completed)
        else:
            _refuse_broken(beside, files_of(readers[chosen[0]]), [])
    if chosen is None:
        return None
    name, words = chosen
    if beside.left_out:
        notes.append(f"{beside.left_out} more files beside the model match and were not read")
    try:
        reading = read_format(name, found)
    except ContractError as error:
        refused.append(error)
        found = replace(found, joints=(), velocity_site="")
        try:
            reading = read_format(name, found)
        except ContractError:
            return None
    rate = None if "control_hz" in reading.document else rate_beside(name, found, reading.document)
    if rate is not None:
        hz, source = rate
        reading = replace(
            reading,
            document={**reading.document, "control_hz": hz},
            sources={**reading.sources, "control_hz": source},
            notes=(*reading.notes, f"its rate, {hz:g} Hz, is that of {source}"),
        )
    if reading.document:
        notes += (f"format {name}: {words}", *reading.notes)
    return reading


def _refuse_broken(beside: Sidecars, files: Iterable[str], notes: list[str], *, refuse: bool = True) -> None:
    """Refuse a file that cannot be read and is called by its name; note one that a pattern only might mean."""
    wanted = tuple(files)
    for name, error in beside.broken.items():
        if name in wanted and refuse:
            raise error
        if name in wanted or matches(name, wanted):
            notes.append(f"{_UNUSED}{error}")


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
