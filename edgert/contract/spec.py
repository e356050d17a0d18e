"""`Contract`: what a policy's numbers mean, in types.

A contract says what each number of each ONNX input is, in which unit, frame and order, and what each number of the
output does to which joint. It says nothing about the physics, the task or the device. `document` reads and writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from edgert.contract.senses import Sense
from edgert.contract.writing import contract_document

Frame = Literal["body", "world"]
ActionKind = Literal["position", "relative_position", "velocity", "torque"]
Stage = Literal["raw", "clipped", "target"]
QuatOrder = Literal["wxyz", "xyzw"]
CommandKind = Literal["twist", "position"]
Layout = Literal["term", "frame"]
Fill = Literal["first", "zero"]
Newest = Literal["last", "first"]
Range = tuple[float, float]
COMMAND_KEYS: Mapping[CommandKind, tuple[str, ...]] = {
    "twist": ("vx_m_s", "vy_m_s", "wz_rad_s"),
    "position": ("x_m", "y_m", "z_m"),
}
"""The components of each kind of command, named with their units."""
POSITIONS: tuple[ActionKind, ...] = ("position", "relative_position")
MOTION_OUTPUTS: tuple[str, ...] = ("joint_pos", "joint_vel", "anchor_pos", "anchor_quat", "body_pos", "body_quat")
"""What a reference motion may give: rad, rad/s, m and quaternions, of its joints, anchor and bodies."""


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
    """Samples of the latest control ticks that the network sees."""
    order: QuatOrder = "wxyz"
    """Of a quaternion."""
    stage: Stage = "raw"
    """What of the last action: the network's output, that within its bounds, or the target of each joint."""
    value: tuple[float, ...] = ()
    """Of a constant."""
    of: str = ""
    """The output of a network, "network.output" or one of MODEL itself, that a term "network_output" hands on."""
    previous: bool = False
    """That output at the tick before, 0 at reset, instead of this tick's."""
    sense: Sense | None = None
    """The view of the surroundings that a term "height_scan" or "camera" hands on."""


TIME_STEP = ObservationTerm(name="time_step", dim=1, scale=(1.0,), offset=(0.0,))
"""What the input of a network that holds its motion takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One ONNX input: its terms in order, concatenated along the last axis."""

    terms: tuple[ObservationTerm, ...]
    layout: Layout = "term"
    """How samples of several ticks stand: all of a term before the next one, or all terms of a tick before the next."""
    fill: Fill = "first"
    """What stands for the ticks before an episode's first one: its sample, or zeros."""
    newest: Newest = "last"
    """Where the latest sample stands among those of a history."""

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

    @property
    def image(self) -> tuple[int, int, int] | None:
        """(channels, rows, columns) of an input that is one camera or one scan, whole; its history adds channels."""
        term = self.terms[0]
        if len(self.terms) > 1 or term.sense is None or term.index is not None:
            return None
        channels, rows, columns = term.sense.shape
        return channels * term.history, rows, columns

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
    """What the outputs do, number by number: target = offset + scale * clip(raw action), within `target_clip`.

    The raw action is the `outputs` side by side, plus each of `added`. "position" and "relative_position", which adds
    the measured position of the same tick, give a joint its position in rad; "velocity" in rad/s; "torque" in N·m.
    """

    outputs: tuple[str, ...]
    added: tuple[str, ...] = ()
    joints: tuple[str, ...]
    """The joint of each number; one that stands twice gets several kinds of target."""
    kinds: tuple[ActionKind, ...]
    scale: tuple[float, ...]  # (nact,) rad, rad/s or N·m for one unit of action
    offset: tuple[float, ...]  # (nact,) rad, rad/s or N·m
    clip: tuple[Range, ...] | None = None
    """Bounds of each raw number."""
    target_clip: tuple[Range, ...] | None = None
    """Bounds of each target."""

    @property
    def relative(self) -> bool:
        """Whether any target starts from the measured position."""
        return "relative_position" in self.kinds

    @property
    def positions_only(self) -> bool:
        """Whether every number is the position of a joint of its own."""
        return all(kind in POSITIONS for kind in self.kinds) and len(set(self.joints)) == len(self.joints)


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
class MotionSpec:
    """A reference motion: what a tracking policy is asked for, from a file or from the network itself."""

    file: str = ""
    """Beside the model; "": the network holds it."""
    hz: float | None = None
    """Rate of the file, where it does not say; None: it does, or it is in the network, a frame for each tick."""
    time_step: str = ""
    """The ONNX input that takes the frame."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Of `MOTION_OUTPUTS`, to the ONNX output that gives it."""
    joints: tuple[str, ...] = ()
    """Joints of its columns in their order."""
    bodies: tuple[str, ...] = ()
    """Bodies whose poses it holds, in their order; empty: the pose of the anchor alone."""
    anchor: str = ""
    """The body of the robot that is compared with the reference; "": the base."""
    quat_order: QuatOrder = "wxyz"
    loop: bool = False
    """Begin again after the last frame, instead of holding it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """One of several networks that act as one policy, in the order in which they run."""

    name: str
    file: str = ""
    """Beside the model; "": MODEL itself, whose inputs and states are the contract's own."""
    every: int = 1
    """Control ticks from one run to the next; its outputs are held in between."""
    inputs: tuple[str, ...] = ()
    """Its ONNX inputs; `Contract.inputs` holds them as "network.input"."""
    recurrent: Mapping[str, str] = field(default_factory=dict)
    """As `Contract.recurrent`."""

    def key(self, name: str) -> str:
        """How the contract calls an input or output of this network."""
        return f"{self.name}.{name}" if self.file else name


MODEL = NetworkSpec(name="policy")
"""MODEL itself, by the name that it has among several networks if nothing else is said."""


def output_place(networks: Sequence[NetworkSpec], name: str) -> tuple[int, str]:
    """Where an output that a contract names comes from: the number of the network, and its ONNX output.

    "network.output" is one of the named network, anything else one of MODEL itself; 0 for a policy of one network.
    """
    head, dot, tail = name.partition(".")
    for number, network in enumerate(networks):
        if dot and network.name == head:
            return number, tail
    return next((number for number, network in enumerate(networks) if not network.file), 0), name


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
    motion: MotionSpec | None = None
    networks: tuple[NetworkSpec, ...] = ()
    """Empty for a policy of one network, else every network, MODEL itself among them."""
    robot: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Dotted field to its source in words: "metadata", "deploy.yaml", "user (policy.toml)", "assumed …",
    "default"."""

    @property
    def period_s(self) -> float:
        """Control period, s."""
        return 1.0 / self.control_hz

    def inputs_of(self, network: NetworkSpec | None = None) -> dict[str, InputSpec]:
        """The inputs of one of its networks (None: MODEL itself), by their ONNX names."""
        if network is not None and network.file:
            return {name: self.inputs[network.key(name)] for name in network.inputs}
        others = {each.key(name) for each in self.networks if each.file for name in each.inputs}
        return {name: spec for name, spec in self.inputs.items() if name not in others}

    def to_document(self) -> dict[str, Any]:
        """The contract as the documented schema, complete: what `edgert.contract` metadata holds."""
        return contract_document(self)

    def sha256(self) -> str:
        """Digest of the effective contract: canonical JSON of `to_document()`."""
        text = json.dumps(self.to_document(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()
