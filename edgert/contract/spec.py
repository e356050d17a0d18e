"""`Contract`: what a policy's numbers mean, in types.

A contract says what each number of each ONNX input is, in which unit, frame and order, and what each number of the
output does to which joint. It says nothing about the physics, the task or the device. `document` reads and writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Frame = Literal["body", "world"]
ActionKind = Literal["position", "relative_position"]
CommandKind = Literal["twist", "position"]
Layout = Literal["term", "frame"]
Range = tuple[float, float]
COMMAND_KEYS: Mapping[CommandKind, tuple[str, ...]] = {
    "twist": ("vx_m_s", "vy_m_s", "wz_rad_s"),
    "position": ("x_m", "y_m", "z_m"),
}
"""The components of each kind of command, named with their units."""
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTerm:
    """One run of numbers in an ONNX input: clip(raw * scale + offset); with `clip_first` clip(raw) * scale + offset."""

    name: str
    dim: int
    """Numbers of one sample."""
    scale: tuple[float, ...]  # (dim,)
    offset: tuple[float, ...]  # (dim,)
    clip: tuple[float, float] | None = None
    index: tuple[int, ...] | None = None
    """Which components of the raw term are used, in this order; None: all."""
    frame: Frame = "body"
    point: str = "origin"
    """Reference point of a linear velocity: "origin", "com" or "site:<name>" of the base body."""
    sensors: tuple[str, ...] = ()
    threshold: float | None = None
    """In the unit of the sensors, for terms that compare; None for the others."""
    clip_first: bool = False
    history: int = 1
    """Samples of the latest control ticks that the network sees, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One ONNX input: its terms in order, concatenated along the last axis."""

    terms: tuple[ObservationTerm, ...]
    layout: Layout = "term"
    """How samples of several ticks stand: all of a term before the next one, or all terms of a tick before the next."""

    @property
    def dim(self) -> int:
        """Length of the last axis."""
        return sum(term.dim * term.history for term in self.terms)

    @property
    def frame_dim(self) -> int:
        """Numbers of one tick."""
        return sum(term.dim for term in self.terms)

    @property
    def history(self) -> int:
        """Ticks that the longest history reaches over."""
        return max(term.history for term in self.terms)

    def sizes(self) -> str:
        """The terms with their sizes, for people: "joint_pos 12 + joint_vel 12 × 5"."""
        return " + ".join(f"{t.name} {t.dim}{f' × {t.history}' if t.history > 1 else ''}" for t in self.terms)

    def names(self) -> list[str]:
        """The term of each number of the last axis."""
        if self.layout == "frame":
            return [term.name for _ in range(self.history) for term in self.terms for _ in range(term.dim)]
        return [term.name for term in self.terms for _ in range(term.dim * term.history)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """What the output does: joint target = offset + scale * clip(raw action).

    "relative_position" adds the measured joint position of the same tick to that.
    """

    output: str
    joints: tuple[str, ...]
    kind: ActionKind = "position"
    scale: tuple[float, ...]  # (nact,) rad for one unit of action
    offset: tuple[float, ...]  # (nact,) rad
    clip: tuple[float, float] | None = None
    """Bounds of the raw action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """What the operator asks, three numbers.

    "twist": of the base in its own frame, (vx m/s, vy m/s, wz rad/s); "position": of the end effector, (x, y, z) m in
    the frame of the sensor that measures it.
    """

    kind: CommandKind = "twist"
    ranges: tuple[Range | None, ...] = (None, None, None)
    """The trained range of each component, None where it is not known."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The name of each component, with its unit."""
        return COMMAND_KEYS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpec:
    """A gait clock kept outside the network, in radians, advanced by 2 pi hz dt each control tick, 0 at reset."""

    hz: float
    offsets_rad: tuple[float, ...] = (0.0,)
    still_rad: float | None = None
    """Every phase is held at this value while the command is nearly zero; None: the clock never stops.

    Motion begins again from the offsets."""
    still_below: float = 0.01
    """Norm of the command (m/s and rad/s together) under which the clock is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Everything that a runtime has to know to feed a policy and to obey it."""

    control_hz: float
    joints: tuple[str, ...]
    """Every joint that the contract speaks of, in the policy's order."""
    default_pos: tuple[float, ...]  # (njoint,) rad
    kp: tuple[float, ...]  # (njoint,) N·m/rad
    kd: tuple[float, ...]  # (njoint,) N·m·s/rad
    inputs: Mapping[str, InputSpec]
    action: ActionSpec
    command: CommandSpec | None = None
    phase: PhaseSpec | None = None
    recurrent: Mapping[str, str] = field(default_factory=dict)
    """State inputs of a network with memory, each with the output that is its value at the next tick; 0 at reset."""
    robot: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Dotted field to where its value came from: "metadata", "sidecar", "user …", "task", "default"."""

    @property
    def period_s(self) -> float:
        """Control period, s."""
        return 1.0 / self.control_hz

    def to_document(self) -> dict[str, Any]:
        """The contract as the documented schema, complete: what `edgert.contract` metadata holds."""
        inputs = {name: _input_document(spec) for name, spec in self.inputs.items()}
        action: dict[str, Any] = {
            "output": self.action.output,
            "kind": self.action.kind,
            "joints": list(self.action.joints),
            "scale": _floats(self.action.scale),
            "offset": _floats(self.action.offset),
        }
        if self.action.clip is not None:
            action["clip"] = _floats(self.action.clip)
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "robot": self.robot,
            "control_hz": float(self.control_hz),
            "joints": {
                "names": list(self.joints),
                "default_pos": _floats(self.default_pos),
                "kp": _floats(self.kp),
                "kd": _floats(self.kd),
            },
            "inputs": inputs,
            "action": action,
        }
        if self.command is not None:
            pairs = zip(self.command.keys, self.command.ranges, strict=True)
            known = {key: _floats(pair) for key, pair in pairs if pair is not None}
            document["command"] = {"kind": self.command.kind, **known}
        if self.phase is not None:
            phase: dict[str, Any] = {"hz": float(self.phase.hz), "offsets_rad": _floats(self.phase.offsets_rad)}
            if self.phase.still_rad is not None:
                phase |= {"still_rad": float(self.phase.still_rad), "still_below": float(self.phase.still_below)}
            document["phase"] = phase
        if self.recurrent:
            document["recurrent"] = dict(self.recurrent)
        return document

    def sha256(self) -> str:
        """Digest of the effective contract: canonical JSON of `to_document()`."""
        text = json.dumps(self.to_document(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def _floats(values: Iterable[float]) -> list[float]:
    """As JSON numbers with a fraction, so that 1 and 1.0 have one digest."""
    return [float(value) for value in values]


def _input_document(spec: InputSpec) -> dict[str, Any]:
    document: dict[str, Any] = {"terms": [_term_document(term) for term in spec.terms]}
    return document if spec.layout == "term" else document | {"layout": spec.layout}


def _term_document(term: ObservationTerm) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": term.name,
        "dim": term.dim,
        "scale": _floats(term.scale),
        "offset": _floats(term.offset),
    }
    if term.frame != "body":
        document["frame"] = term.frame
    if term.point != "origin":
        document["point"] = term.point
    if term.clip is not None:
        document["clip"] = _floats(term.clip)
    if term.index is not None:
        document["index"] = list(term.index)
    if term.sensors:
        document["sensors"] = list(term.sensors)
    if term.threshold is not None:
        document["threshold"] = float(term.threshold)
    if term.clip_first:
        document["clip_first"] = True
    if term.history != 1:
        document["history"] = term.history
    return document
