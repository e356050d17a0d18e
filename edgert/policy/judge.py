"""Judging what is known of a policy before it runs: facts that are missing, and values that cannot be meant.

Nothing here knows a format. A missing fact is one that the schema needs and nobody states; all of them are refused at
once, so that one look at policy.toml mends them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edgert.contract.input_document import terms_key
from edgert.contract.motion import NEEDS
from edgert.contract.spec import POSITIONS, Contract
from edgert.errors import ContractError
from edgert.policy.companions import named_networks
from edgert.policy.model import IMAGE_AXES, PolicyFile, numbers_of
from edgert.policy.sidecars import OWN

ASSUMED_HZ: Final = 50.0
"""Control rate of a policy that does not say its own: that of nearly every published one."""
EMBEDDED: Final = "metadata, from "
"""How the source of an embedded field begins, before that which it had then."""
MIN_HZ: Final = 1.0
"""Below, a rate is a mistake of units: milliseconds for seconds, or a period for a rate."""
MAX_KP: Final = 1e5
"""N·m/rad: above, a gain is a mistake of units or a placeholder for "stiff"."""
_OF_NETWORK: Final = re.compile(r"latent|embed|encod|estimat")
"""Inputs that another network feeds, by their names."""
_JOINT_FACTS: Final = {
    "names": "the joints in the policy's order",
    "default_pos": "the default pose, rad",
    "kp": "N·m/rad",
    "kd": "N·m·s/rad",
}
_EXAMPLES: Final = {
    "joints.names": '["hip", "knee"]',
    "joints.default_pos": "[0.9, -1.8]",
    "joints.kp": "35.0",
    "joints.kd": "0.5",
    "command.kind": '"twist"',
    "phase.hz": "1.5",
    "motion.file": '"dance.npz"',
}
"""How a fact is written in policy.toml."""
_SECTIONS: Final = {
    "command.kind": ("command", "goal_pos"),
    "phase.hz": ("phase", "sin_phase", "cos_phase"),
    "motion.file": tuple(NEEDS),
}
"""Facts that some terms need, each with those terms."""
_OF_SECTION: Final = {
    "command.kind": "what the operator asks for: twist or position",
    "phase.hz": "the gait clock",
    "motion.file": "the reference motion",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that nobody states: the dotted key of policy.toml, and what it has to say."""

    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.field} ({self.what})"


class MissingFactsError(ContractError):
    """The model is sound, but nothing says all that its numbers mean; `missing` lists what is not said."""

    line_chars = 4_000

    def __init__(
        self, missing: tuple[Missing, ...], *, path: Path, sidecar: Path, given: bool, found: str, anything: bool
    ) -> None:
        """See the class.

        Args:
            missing: what is not said.
            path: the model.
            sidecar: where to write it.
            given: whether the user named that file.
            found: what is known, for the message.
            anything: whether that is anything at all.
        """
        self.missing = missing
        count = f"{len(missing)} fact{'s' if len(missing) > 1 else ''}"
        examples = (f", such as {each.field} = {_EXAMPLES[each.field]}" for each in missing if each.field in _EXAMPLES)
        super().__init__(
            f"policy {path} lacks {count}" if anything else f"policy {path} does not say what its numbers mean",
            found=found,
            expected=", ".join(map(str, missing)),
            hint=f"Write that into {sidecar}{'' if given else ', or into a file for --contract'}"
            f"{next(examples, '')}; docs/policy-toml.md shows how",
        )


def missing_facts(
    document: Mapping[str, Any],
    file: PolicyFile,
    reasons: Mapping[str, str] | None = None,
    networks: Mapping[str, PolicyFile] | None = None,
) -> tuple[Missing, ...]:
    """Every fact that a contract for this model needs and the document does not state.

    A part of the wrong type counts as stated: what is wrong with it is for `parse_contract` to say.

    Args:
        document: complete or not.
        file: the model.
        reasons: dotted field to why nobody states it; one that is needed for a reason that only its format knows, too.
        networks: further networks, by name.
    """
    why = reasons or {}
    missing = {fact.field: fact for fact in _missing(document, file, networks or {})}
    for field, reason in why.items():
        if field in missing:
            missing[field] = Missing(field, f"{missing[field].what}; {reason}")
        elif not field.startswith("inputs.") and not _states(document, field):
            missing[field] = Missing(field, reason)
    return tuple(missing.values())


def _states(document: Mapping[str, Any], field: str) -> bool:
    section, _, name = field.partition(".")
    table = _table(document, section)
    return table is None or name in table


def _missing(document: Mapping[str, Any], file: PolicyFile, networks: Mapping[str, PolicyFile]) -> Iterator[Missing]:
    joints = _table(document, "joints")
    for name, what in _JOINT_FACTS.items():
        if joints is not None and name not in joints:
            yield Missing(f"joints.{name}", what)
    yield from _unfed(document, file, {(_table(document, "motion") or {}).get("time_step")}, "")
    for number, name, _ in named_networks(document):
        if name in networks:
            yield from _unfed(document["network"][number], networks[name], set(), f"network '{name}' ")
    action = _table(document, "action")
    if action is not None and "output" not in action:
        yield Missing("action.output", f"which of {', '.join(file.outputs)}")
    named = set(_term_names(document))
    for field, terms in _SECTIONS.items():
        if field.partition(".")[0] not in document and named.intersection(terms):
            yield Missing(field, _OF_SECTION[field])


def _unfed(document: Mapping[str, Any], file: PolicyFile, fed: set[Any], where: str) -> Iterator[Missing]:
    """The inputs of a network whose terms are not stated."""
    inputs = _table(document, "inputs")
    if inputs is None or set(inputs).difference(file.input_shapes):
        return  # a contract of another model, which is refused as that
    fed = fed.union(_table(document, "recurrent") or ())
    for name, shape in file.input_shapes.items():
        spec = None if name in fed else _table(inputs, name)
        if spec is not None and "terms" not in spec:
            whose = "; those of another network need [[network]]" if _OF_NETWORK.search(name.lower()) else ""
            what = f"what its {_count(shape)} are, in their order{whose}"
            if len(shape) == IMAGE_AXES:
                what = _camera(shape)
            yield Missing(f"{where}{terms_key(name)}", what)


def _camera(shape: tuple[int | str | None, ...]) -> str:
    """What has to be said of an image, with the term as far as its shape tells it."""
    channels, height, width = (axis if isinstance(axis, int) else "…" for axis in shape[1:])
    image = "rgb" if channels == 3 else "depth"
    term = f'{{ name = "camera", camera = "…", image = "{image}", height = {height}, width = {width} }}'
    return f"which camera its image of {channels} × {height} × {width} is from: {term}"


def check_plausible(contract: Contract, file: PolicyFile) -> None:
    """Refuse gains and scales that an exporter wrote in place of the real ones; what the user states is taken.

    Args:
        contract: with its provenance.
        file: the model, for messages.

    Raises:
        ContractError: they cannot be meant.
    """
    kp, kd, scale = contract.kp, contract.kd, contract.action.scale
    wrong = ""
    fields: tuple[str, ...] = ()
    if all(value == 1.0 for value in kp) and not any(kd):
        wrong, fields = "kp 1 and kd 0 for every joint, a placeholder", ("joints.kp", "joints.kd")
    elif max(kp) > MAX_KP:
        wrong, fields = f"kp {max(kp):g} N·m/rad for {contract.joints[kp.index(max(kp))]}", ("joints.kp",)
    elif not any(scale):
        wrong, fields = "an action scale of 0 for every joint", ("action.scale",)
    elif contract.control_hz < MIN_HZ:
        wrong, fields = f"an action every {contract.period_s:g} s", ("control_hz",)
    elif loose := _undriven(contract):
        wrong, fields = f"kp 0 for {', '.join(loose)}, which the network gives positions alone", ("joints.kp",)
    sources = {contract.provenance.get(field, "default") for field in fields} if wrong else set()
    if any(not is_users(source) for source in sources):
        raise ContractError(
            f"policy {file.path} states values that cannot be meant",
            found=f"{wrong} ({', '.join(sorted(sources))})",
            expected="those that it was trained with",
            hint=f"Write {' and '.join(fields)} into policy.toml; docs/policy-toml.md shows how",
        )


def _undriven(contract: Contract) -> list[str]:
    """Joints that are given positions alone, which nothing would follow."""
    kinds: dict[str, set[str]] = {}
    for joint, kind in zip(contract.action.joints, contract.action.kinds, strict=True):
        kinds.setdefault(joint, set()).add(kind)
    kp = dict(zip(contract.joints, contract.kp, strict=True))
    return [joint for joint, targets in kinds.items() if targets.issubset(POSITIONS) and kp[joint] == 0.0]


def is_users(source: str) -> bool:
    """Whether a field comes from the user's own contract, now or when it was embedded."""
    return source.removeprefix(EMBEDDED).startswith(("user (", f"sidecar ({OWN})"))


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """A table inside a document, empty where it is missing; None where it is something else."""
    value = document.get(name, {})
    return value if isinstance(value, Mapping) else None


def _term_names(document: Mapping[str, Any]) -> Iterator[str]:
    networks = document.get("network", ())
    for part in (document, *(networks if isinstance(networks, list) else ())):
        inputs = _table(part, "inputs") if isinstance(part, Mapping) else None
        for spec in (inputs or {}).values():
            terms = spec.get("terms") if isinstance(spec, Mapping) else None
            for term in terms if isinstance(terms, list) else ():
                name = term.get("name") if isinstance(term, Mapping) else term
                if isinstance(name, str):
                    yield name


def _count(shape: tuple[int | str | None, ...]) -> str:
    size = numbers_of(shape)
    return "numbers" if size is None else f"{size} numbers"
