"""The compiled path for one robot: a contract's terms as gathers into one vector, then one affine map.

The generic terms cost tens of microseconds for one robot because every small array operation does. Here each term is
bound once to a function that writes its raw numbers into its slot of a float64 vector; scale, offset and clip are
applied to the whole vector, and the result is cast into the policy's input. Tests hold it equal to `Observer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import cos, pi, sin, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.contract.history import History
from edgert.contract.motion_terms import motion_of, relative_columns
from edgert.contract.observe import affine
from edgert.contract.spec import Contract, ObservationTerm, PhaseSpec
from edgert.contract.terms import TermInputs, load_term

Floats = npt.NDArray[np.float64]
Writer = Callable[[], None]


class ObservationPlan:
    """One ONNX input of one robot, written in place.

    Args:
        contract: whose input it is.
        name: the ONNX input.
        inputs: state, command, last action and phase of one world; numpy arrays that stay the same objects and are
            refreshed in place. float64 for the compiled terms.
        out: the policy's input array, (1, dim).
    """

    def __init__(self, contract: Contract, name: str, inputs: TermInputs, out: npt.NDArray[Any]) -> None:
        spec = contract.inputs[name]
        self._raw = np.zeros(spec.frame_dim)
        self._out = out[0]
        self._history = History(spec, out) if spec.history > 1 else None
        self._writers: list[Writer] = []
        start = 0
        for term in spec.terms:
            self._writers.append(_writer(term, inputs, self._raw[start : start + term.dim]))
            start += term.dim
        scale, offset, low, high = (np.array(values) for values in affine(spec))
        self._scale = scale if np.any(scale != 1.0) else None
        self._offset = offset if np.any(offset != 0.0) else None
        clipped = any(term.clip is not None for term in spec.terms)
        self._bounds = (low, high) if clipped else None

    def __call__(self) -> None:
        """Write the observation of this instant into `out`."""
        raw = self._raw
        for write in self._writers:
            write()
        if self._scale is not None:
            np.multiply(raw, self._scale, out=raw)
        if self._offset is not None:
            np.add(raw, self._offset, out=raw)
        if self._bounds is not None:
            np.maximum(raw, self._bounds[0], out=raw)
            np.minimum(raw, self._bounds[1], out=raw)
        if self._history is None:
            self._out[:] = raw
        else:
            self._history.push(raw)

    def reset(self) -> None:
        """The next tick is the first of an episode."""
        if self._history is not None:
            self._history.reset()


def _writer(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    """A function that writes the raw numbers of a term into its slot."""
    if term.index is not None and not term.of:
        return _picked(term, inputs, slot)
    compiled = _COMPILED.get(term.name)
    write = compiled(term, inputs, slot) if compiled is not None else None
    return write or _generic(term, inputs, slot)


def _picked(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    """Write the whole term elsewhere, and its chosen components into the slot."""
    whole = replace(term, index=None)
    raw = np.zeros(load_term(term.name).function(inputs, whole, np).shape[1])
    write, index, take = _writer(whole, inputs, raw), np.array(term.index), raw.take

    def pick() -> None:
        write()
        take(index, out=slot)

    return pick


def _generic(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    function = load_term(term.name).function

    def write() -> None:
        slot[:] = function(inputs, term, np)[0]

    return write


def _copy(source: Floats, slot: Floats) -> Writer:
    def write() -> None:
        slot[:] = source

    return write


def _joint_pos(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    position, default = inputs.state.joint_pos[0], inputs.default_pos  # type: ignore[index]
    subtract = np.subtract

    def write() -> None:
        subtract(position, default, out=slot)

    return write


def _base_lin_vel(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer | None:
    if term.frame != "body":
        return None
    state = inputs.state
    quat, velocity, rate = state.base_quat[0], state.base_lin_vel[0], state.base_ang_vel[0]  # type: ignore[index]
    px, py, pz = (0.0, 0.0, 0.0) if term.point == "origin" else np.ravel(state.points[term.point]).tolist()
    at_origin = term.point == "origin"

    def write() -> None:
        u, v, s = rotate_to_body(quat.tolist(), velocity.tolist())
        if at_origin:
            slot[0], slot[1], slot[2] = u, v, s
        else:
            p, q, r = rate.tolist()
            slot[0], slot[1], slot[2] = u + (q * pz - r * py), v + (r * px - p * pz), s + (p * py - q * px)

    return write


def _projected_gravity(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    quat = inputs.state.base_quat[0]  # type: ignore[index]

    def write() -> None:
        w, x, y, z = quat.tolist()
        slot[0], slot[1], slot[2] = 2.0 * (w * y - x * z), -2.0 * (y * z + w * x), 2.0 * (x * x + y * y) - 1.0

    return write


def _base_ang_vel(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer | None:
    return _copy(inputs.state.base_ang_vel[0], slot) if term.frame == "body" else None  # type: ignore[index]


def _joint_vel(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    return _copy(inputs.state.joint_vel[0], slot)  # type: ignore[index]


def _of_joints(function: Any, inputs: TermInputs, slot: Floats) -> Writer:
    joint_pos = inputs.state.joint_pos[0]  # type: ignore[index]

    def write() -> None:
        function(joint_pos, out=slot)

    return write


def _sensors(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    """Copy each sensor into its part of the slot."""
    sources = [inputs.state.sensors[name][0] for name in term.sensors]
    ends = np.cumsum([len(source) for source in sources]).tolist()
    parts = [(source, slot[end - len(source) : end]) for source, end in zip(sources, ends, strict=True)]
    if len(parts) == 1:
        return _copy(*parts[0])

    def write() -> None:
        for source, part in parts:
            part[:] = source

    return write


def _foot_contact(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    gather, threshold, greater = _sensors(term, inputs, slot), term.threshold or 0.0, np.greater

    def write() -> None:
        gather()
        greater(slot, threshold, out=slot)

    return write


def _phases(functions: tuple[Callable[[float], float], ...]) -> Callable[[ObservationTerm, TermInputs, Floats], Writer]:
    def compile_phase(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
        phase, offsets = inputs.phase_rad, inputs.phase_offsets_rad.tolist()
        gait, command = inputs.gait, inputs.command[0]

        def write() -> None:
            now = phase.item()
            angles = [now + offset for offset in offsets]
            if gait is not None and gait.still_rad is not None and is_still(command, gait):
                angles = [gait.still_rad] * len(offsets)
            slot[:] = [function(angle) for function in functions for angle in angles]

        return write

    return compile_phase


def _motion(*tables: str) -> Callable[[ObservationTerm, TermInputs, Floats], Writer]:
    """Copy the rows of a reference motion, one after the other."""

    def compile_motion(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
        motion = motion_of(inputs, term)
        rows = [getattr(motion, table)[0] for table in tables]
        if len(rows) == 1:
            return _copy(rows[0], slot)
        (first, second), middle = rows, len(rows[0])
        low, high = slot[:middle], slot[middle:]

        def write() -> None:
            low[:] = first
            high[:] = second

        return write

    return compile_motion


def _motion_anchor_pos_b(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    motion, state = motion_of(inputs, term), inputs.state
    pos, quat = state.body_pos[motion.anchor][0], state.body_quat[motion.anchor][0]
    wanted = motion.anchor_pos[0]  # type: ignore[index]
    apart, subtract = np.zeros(3), np.subtract

    def write() -> None:
        subtract(wanted, pos, out=apart)
        slot[0], slot[1], slot[2] = rotate_to_body(quat.tolist(), apart.tolist())

    return write


def _motion_anchor_ori_b(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    motion = motion_of(inputs, term)
    wanted, quat = motion.anchor_quat[0], inputs.state.body_quat[motion.anchor][0]  # type: ignore[index]

    def write() -> None:
        slot[:] = relative_columns(quat.tolist(), wanted.tolist())

    return write


def _time_step(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    return _copy(motion_of(inputs, term).frame, slot)


def _motion_phase(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    motion = motion_of(inputs, term)
    frame, last = motion.frame, motion.frames - 1

    def write() -> None:
        slot[0] = frame.item() / last

    return write


def _seen(term: ObservationTerm, inputs: TermInputs, slot: Floats) -> Writer:
    return _copy(inputs.state.senses[term.sense][0], slot)  # type: ignore[index]


def rotate_to_body(quat: list[float], vector: list[float]) -> tuple[float, float, float]:
    """`terms.rotate_to_body` for one robot: a world vector (3,) in the body frame of `quat` (4,) wxyz."""
    (w, x, y, z), (a, b, c) = quat, vector
    tx, ty, tz = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return a - w * tx + (y * tz - z * ty), b - w * ty + (z * tx - x * tz), c - w * tz + (x * ty - y * tx)


def is_still(command: Floats, gait: PhaseSpec) -> bool:
    """`terms.is_still` for the command (ncommand,) of one robot."""
    return sqrt(sum(value * value for value in command.tolist())) < gait.still_below


def next_phase(phase: float, gait: PhaseSpec, dt_s: float, command: Floats) -> float:
    """`terms.advance_phase` for one robot, with its command (ncommand,)."""
    if gait.still_rad is not None and is_still(command, gait):
        return 0.0
    return float((phase + 2.0 * pi * gait.hz * dt_s) % (2.0 * pi))


_COMPILED: dict[str, Callable[[ObservationTerm, TermInputs, Floats], Writer | None]] = {
    "base_lin_vel": _base_lin_vel,
    "base_ang_vel": _base_ang_vel,
    "projected_gravity": _projected_gravity,
    "joint_pos": _joint_pos,
    "joint_vel": _joint_vel,
    "joint_angle": lambda term, inputs, slot: _copy(inputs.state.joint_pos[0], slot),  # type: ignore[index]
    "joint_torque": lambda term, inputs, slot: _copy(inputs.state.joint_torque[0], slot),  # type: ignore[index]
    "base_pos": lambda term, inputs, slot: _copy(inputs.state.base_pos[0], slot),  # type: ignore[index]
    "last_action": lambda term, inputs, slot: _copy(inputs.last_action[0], slot) if term.stage == "raw" else None,
    "constant": lambda term, inputs, slot: _copy(np.array(term.value), slot),
    "network_output": lambda term, inputs, slot: _copy(np.zeros(term.dim), slot),
    "command": lambda term, inputs, slot: _copy(inputs.command[0], slot),
    "goal_pos": lambda term, inputs, slot: _copy(inputs.command[0], slot),
    "joint_sin": lambda term, inputs, slot: _of_joints(np.sin, inputs, slot),
    "joint_cos": lambda term, inputs, slot: _of_joints(np.cos, inputs, slot),
    "ee_pos": _sensors,
    "imu_ang_vel": _sensors,
    "imu_lin_acc": _sensors,
    "imu_quat": lambda term, inputs, slot: _sensors(term, inputs, slot) if term.order == "wxyz" else None,
    "foot_contact": _foot_contact,
    "phase": _phases((sin, cos)),
    "sin_phase": _phases((sin,)),
    "cos_phase": _phases((cos,)),
    "motion_joint_pos": _motion("joint_pos"),
    "motion_joint_vel": _motion("joint_vel"),
    "motion_command": _motion("joint_pos", "joint_vel"),
    "motion_anchor_pos_b": _motion_anchor_pos_b,
    "motion_anchor_ori_b": _motion_anchor_ori_b,
    "motion_phase": _motion_phase,
    "time_step": _time_step,
    "height_scan": _seen,
    "camera": _seen,
}
