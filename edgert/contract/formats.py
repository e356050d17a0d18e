"""Policies of other trainers: one reader for each format that says what an ONNX file's numbers mean.

A reader turns what an exporter left (names and shapes, metadata, files beside the model) into a document of edgert's
own schema, with the source of each field. It computes and executes nothing, and never guesses in silence: what it has
to assume stands in `Reading.notes` and in the provenance. Plug-ins add readers under `edgert.formats`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeVar

from edgert.errors import ContractError, UnsupportedError
from edgert.registry import Registry

Shape = tuple[int | str | None, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a robot's scene tells about it; nothing where no robot is named yet."""

    joints: tuple[str, ...] = ()
    """The joints that are driven, in the order of the scene."""
    velocity_site: str = ""
    """The site of its base where a velocity is measured, if there is one such site."""


NO_BODY: Final = Body()


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
    """`Body.joints` of the robot that it will run on."""
    velocity_site: str = ""
    """`Body.velocity_site` of that robot."""
    wanted: bool = False
    """Whether the user names this format, so that it need not be told from others that look alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reader understood.

    Attributes:
        document: of the schema of docs/policy-toml.md, complete or not.
        source: what it was read from, such as "deploy.yaml".
        sources: dotted field to another source than that, such as "assumed: order of the robot's joints".
        notes: what was assumed, one line each.
        reasons: dotted field that is needed, and that the document lacks, to why, as "joints.kp": "0 for every joint".
    """

    document: Mapping[str, Any]
    source: str
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


class Format(Protocol):
    """One way to export policies.

    A reader may leave `files` and `generic` out, which is the same as nothing and False.
    """

    @property
    def files(self) -> tuple[str, ...]:
        """Names or fnmatch patterns of the files beside the model that it wants parsed: .yaml, .yml, .json or .toml."""
        ...

    @property
    def generic(self) -> bool:
        """Whether only names of inputs and outputs speak for it, so that it counts where no other format fits."""
        ...

    def evidence(self, found: Evidence) -> str:
        """What speaks for this format, in words; "" if nothing does."""
        ...

    def read(self, found: Evidence) -> Reading:
        """The contract, as far as it is told.

        Raises:
            ContractError: something in it cannot be understood, or contradicts itself.
        """
        ...


FORMATS: Final = Registry(
    "edgert.formats",
    "policy format",
    {
        "unitree": "edgert.contract.unitree:UNITREE",
        "isaac_lab": "edgert.contract.isaac_lab:ISAAC_LAB",
        "rl_sar": "edgert.contract.rl_sar:RL_SAR",
        "rl_gym": "edgert.contract.rl_gym:RL_GYM",
        "microduck": "edgert.contract.microduck:MICRODUCK",
        "policy_package": "edgert.contract.packages:POLICY_PACKAGE",
        "kinfer": "edgert.contract.packages:KINFER",
        "rsl_rl": "edgert.contract.nameless:RSL_RL",
        "brax": "edgert.contract.nameless:BRAX",
        "beyondmimic": "edgert.contract.beyondmimic:BEYONDMIMIC",
        "mjlab": "edgert.contract.mjlab:MJLAB",
        "holosoma": "edgert.contract.holosoma:HOLOSOMA",
        "exploy": "edgert.contract.exploy:EXPLOY",
    },
)
_SHOWN: Final = 8
_ROUNDED: Final = 0.01
"""rad: how far two exports of one angle may be apart, that were rounded."""
_FAULTS: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What a reader raises that was not ready for what it found."""


def choose_format(found: Evidence, wanted: str | None = None, notes: list[str] | None = None) -> tuple[str, str] | None:
    """The format of a policy and what speaks for it; None if nothing is known of it.

    A specific format wins over a generic one, and what the model itself holds over files beside it, which may be those
    of another export; of two that are equal none is chosen.

    Args:
        found: what there is.
        wanted: the format that the user names, which decides.
        notes: gains a line for each plug-in that could not be asked; None: do not say.

    Raises:
        UnknownNameError: no format has the wanted name.
        ContractError: several formats fit, or the wanted one does not.
    """
    fitting: dict[str, str] = {}
    found = replace(found, wanted=wanted is not None)
    readers = load_formats(wanted, [] if notes is None else notes)
    for name, reader in readers.items():
        try:
            words = _guarded(name, found, lambda: reader.evidence(found), str)  # noqa: B023  # called at once
        except ContractError as error:
            if wanted is not None:
                raise
            if notes is not None:
                notes.append(str(error))
            continue
        if words:
            fitting[name] = words
    if wanted is not None and not fitting:
        raise ContractError(
            f"policy {found.model} shows nothing of the format '{wanted}'",
            found=_shown(found),
            expected=f"what docs/formats.md has under {wanted}",
            hint="Copy the file that belongs to it beside the model, or leave option 'format' out",
        )
    specific = {name: words for name, words in fitting.items() if not getattr(readers[name], "generic", False)}
    inside = {name: words for name, words in specific.items() if not files_of(readers[name])}
    beside = {name: words for name, words in specific.items() if name not in inside}
    if len(inside) == 1 and beside and notes is not None:
        notes += (
            f"{n} would fit too: {words}; what the model itself says counts first, unless option 'format' says {n}"
            for n, words in beside.items()
        )
    fitting = inside or specific or fitting
    if len(fitting) > 1:
        raise ContractError(
            f"policy {found.model} may be of several formats",
            found="; ".join(f"{name}: {words}" for name, words in fitting.items()),
            expected="one",
            hint="Choose with option 'format'",
        )
    return next(iter(fitting.items()), None)


def read_format(name: str, found: Evidence) -> Reading:
    """What the reader of that name makes of a policy.

    Raises:
        ContractError: it is refused, or the reader was not ready for what it found.
        UnsupportedError: the plug-in that offers it cannot be loaded.
    """
    reader = load_format(name)
    return _guarded(name, found, lambda: reader.read(found), Reading)


def _shown(found: Evidence) -> str:
    """What there is to read from, for messages."""
    parts = (("metadata", found.metadata), ("outputs", found.outputs), ("files beside it", found.sidecars))
    shown = (
        f"{what} {', '.join(list(names)[:_SHOWN])}{' …' if len(names) > _SHOWN else ''}"
        for what, names in parts
        if names
    )
    return "; ".join(shown) or "nothing"


def rate_beside(name: str, found: Evidence, document: Mapping[str, Any]) -> tuple[float, str] | None:
    """The control rate that a file beside the model states, and that file, where the format `name` is the model's own.

    Metadata hardly ever hold it, and trainers leave the file of another format beside them. One with another default
    pose than that of `document`, which the format makes of the model, is another policy's.
    """
    readers = load_formats(None, [])
    if name not in readers or files_of(readers[name]) or getattr(readers[name], "generic", False):
        return None
    for other, reader in readers.items():
        if other == name or not files_of(reader):
            continue
        try:
            fits = _guarded(other, found, lambda: reader.evidence(found), str)  # noqa: B023  # called at once
            reading = read_format(other, found) if fits else None
        except ContractError:
            continue
        if reading is not None and "control_hz" in reading.document and _alike(document, reading.document):
            return reading.document["control_hz"], reading.source
    return None


def _alike(document: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents may be of one policy: every angle of the first one's default pose is in the other's."""
    poses = [each.get("joints", {}).get("default_pos") for each in (document, other)]
    if not all(isinstance(pose, list) and pose for pose in poses):
        return False
    return all(any(abs(a - b) <= _ROUNDED for b in poses[1]) for a in poses[0])


def load_formats(wanted: str | None, notes: list[str]) -> dict[str, Format]:
    """The readers to ask: the wanted one, or all. A plug-in that does not load is noted and left out of all.

    Raises:
        UnknownNameError: no format has the wanted name.
        UnsupportedError: the plug-in that offers the wanted one cannot be loaded.
    """
    if wanted is not None:
        return {wanted: load_format(wanted)}
    readers = {}
    for name in FORMATS.names():
        try:
            readers[name] = load_format(name)
        except UnsupportedError as error:
            notes.append(str(error))
    return readers


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


def files_of(reader: Format) -> tuple[str, ...]:
    """See `Format.files`."""
    return tuple(getattr(reader, "files", ()))


def _guarded(name: str, found: Evidence, call: Callable[[], T], kind: type[T]) -> T:
    """What a reader returns; what it raises by mistake is refused with the format's name, and chained."""
    try:
        result = call()
    except _FAULTS as error:
        raise ContractError(
            f"the reader of policy format '{name}' fails on policy {found.model}",
            found=f"{type(error).__name__}: {error}",
            hint="Choose another one with option 'format', or report it with the policy",
        ) from error
    if not isinstance(result, kind):
        raise ContractError(
            f"the reader of policy format '{name}' answers wrongly", found=type(result).__name__, expected=kind.__name__
        )
    return result
