"""Policies of other trainers: one reader for each format that says what an ONNX file's numbers mean.

A reader turns what an exporter left (names and shapes, metadata, files beside the model) into a document of edgert's
own schema, with the source of each field. It computes and executes nothing, and never guesses in silence: what it has
to assume stands in `Reading.notes` and in the provenance. Plug-ins add readers under `edgert.formats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from edgert.errors import ContractError, UnsupportedError
from edgert.registry import Registry

Shape = tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What there is to read from."""

    model: str
    """How messages call the policy."""
    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    metadata: Mapping[str, str]
    sidecars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Documents found beside the model, by the name of the file, parsed and bounded."""
    joints: tuple[str, ...] = ()
    """Joints of the robot that it will run on, in the order of its scene; empty where none is named yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reader understood.

    Attributes:
        document: of the schema of docs/policy-toml.md, complete or not.
        source: what it was read from, such as "deploy.yaml".
        sources: dotted field to another source than that, such as "assumed: order of the robot's joints".
        notes: what was assumed, one line each.
    """

    document: Mapping[str, Any]
    source: str
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Format(Protocol):
    """One way to export policies."""

    def evidence(self, found: Evidence) -> str:
        """What speaks for this format, in words; "" if nothing does."""
        ...

    def read(self, found: Evidence) -> Reading:
        """The contract, as far as it is told.

        Raises:
            ContractError: something in it cannot be understood, or contradicts itself.
        """
        ...


FORMATS: Final = Registry("edgert.formats", "policy format", {"unitree": "edgert.contract.unitree:UNITREE"})


def choose_format(found: Evidence, wanted: str | None = None) -> tuple[str, str] | None:
    """The format of a policy and what speaks for it; None if nothing is known of it.

    Args:
        found: what there is.
        wanted: the format that the user names, which decides.

    Raises:
        UnknownNameError: no format has the wanted name.
        ContractError: several formats fit, or the wanted one does not.
    """
    names = FORMATS.names() if wanted is None else (wanted,)
    speaks = {name: load_format(name).evidence(found) for name in names}
    fitting = {name: words for name, words in speaks.items() if words}
    if wanted is not None and not fitting:
        raise ContractError(f"policy {found.model} shows nothing of the format '{wanted}'", hint="Leave --format out")
    if len(fitting) > 1:
        raise ContractError(
            f"policy {found.model} may be of several formats",
            found="; ".join(f"{name}: {words}" for name, words in fitting.items()),
            expected="one",
            hint="Choose with --format",
        )
    return next(iter(fitting.items()), None)


def load_format(name: str) -> Format:
    """The reader of that name.

    Raises:
        UnknownNameError: there is none.
        UnsupportedError: the plug-in that offers it cannot be loaded, or offers something else.
    """
    reader = FORMATS.load(name)
    if not callable(getattr(reader, "evidence", None)) or not callable(getattr(reader, "read", None)):
        raise UnsupportedError(
            f"the plug-in for policy format '{name}' is no reader",
            found=type(reader).__name__,
            expected="an object with evidence() and read()",
        )
    return reader  # type: ignore[no-any-return]
