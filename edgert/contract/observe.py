"""Building a policy's inputs for many worlds: the terms of a contract, concatenated, scaled and clipped.

`Observer` is the generic path over the Array API, for any number of worlds. For one robot in real time `plan`
compiles the same contract into a gather and one affine map; tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from array_api_compat import array_namespace

from edgert.contract.action import action_map
from edgert.contract.motion import ANCHORED, MotionState
from edgert.contract.spec import Contract, InputSpec, ObservationTerm
from edgert.contract.state import Array, RobotState
from edgert.contract.terms import Term, TermInputs, load_term
from edgert.errors import ContractError


class Observer:
    """One tick of an ONNX input as a function of `TermInputs`; `History` makes the input of several of them.

    Args:
        contract: whose input it is.
        name: the ONNX input.
        like: an array of the library, floating dtype and device of the state.
    """

    def __init__(self, contract: Contract, name: str, like: Array) -> None:
        xp = array_namespace(like)
        spec = contract.inputs[name]
        options = {"dtype": like.dtype, "device": like.device}
        self.dim = spec.frame_dim
        self._xp = xp
        self._terms: list[tuple[ObservationTerm, Term]] = [(term, load_term(term.name)) for term in spec.terms]
        self._gathers = [
            None if term.index is None or term.of else xp.asarray(term.index, device=like.device) for term in spec.terms
        ]
        scale, offset, low, high = affine(spec)
        self._scale = None if all(value == 1.0 for value in scale) else xp.asarray(scale, **options)
        self._offset = None if all(value == 0.0 for value in offset) else xp.asarray(offset, **options)
        clipped = any(term.clip is not None for term in spec.terms)
        self._bounds = (xp.asarray(low, **options), xp.asarray(high, **options)) if clipped else None

    def __call__(self, inputs: TermInputs) -> Array:
        """The frame of this tick, (nworld, frame_dim), in the dtype of the state."""
        xp = self._xp
        parts = []
        for (spec, term), gather in zip(self._terms, self._gathers, strict=True):
            value = term.function(inputs, spec, xp)
            parts.append(value if gather is None else xp.take(value, gather, axis=1))
        result = xp.concat(parts, axis=1)  # of one part too: a term may return a live view of the state
        if self._scale is not None:
            result = result * self._scale
        if self._offset is not None:
            result = result + self._offset
        if self._bounds is not None:
            result = xp.minimum(xp.maximum(result, self._bounds[0]), self._bounds[1])
        return result


def whole_inputs(inputs: Mapping[str, InputSpec]) -> list[str]:
    """Those inputs of which every number is whole, so that they may be integers."""
    return [name for name, spec in inputs.items() if all(load_term(term.name).integer for term in spec.terms)]


def affine(spec: InputSpec) -> tuple[list[float], list[float], list[float], list[float]]:
    """Scale, offset, low and high of every component of a tick, each of length `spec.frame_dim`.

    Clipping before scaling is clipping to scaled bounds after it.
    """
    scale: list[float] = []
    offset: list[float] = []
    low: list[float] = []
    high: list[float] = []
    for term in spec.terms:
        scale += term.scale
        offset += term.offset
        bounds = term.clip or (float("-inf"), float("inf"))
        if term.clip is not None and term.clip_first:
            pairs = [[bound * s + o for bound in bounds] for s, o in zip(term.scale, term.offset, strict=True)]
            low += [min(pair) for pair in pairs]
            high += [max(pair) for pair in pairs]
        else:
            low += [bounds[0]] * term.dim
            high += [bounds[1]] * term.dim
    return scale, offset, low, high


def make_term_inputs(
    contract: Contract,
    state: RobotState,
    *,
    command: Array,
    last_action: Array,
    phase_rad: Array,
    xp: Any,
    step: Array | None = None,
    motion: MotionState | None = None,
) -> TermInputs:
    """`TermInputs` with the contract's constants, in the dtype and on the device of `last_action`.

    `step` (nworld,) counts control ticks, and is 0 for whoever does not count; `motion` is its `MotionState`.
    """
    options = {"dtype": last_action.dtype, "device": last_action.device}
    offsets = contract.phase.offsets_rad if contract.phase is not None else (0.0,)
    return TermInputs(
        state=state,
        command=command,
        last_action=last_action,
        phase_rad=phase_rad,
        gait=contract.phase,
        default_pos=xp.asarray(contract.default_pos, **options),
        phase_offsets_rad=xp.asarray(offsets, **options),
        action=action_map(contract.action, last_action, xp),
        step=xp.zeros(last_action.shape[0], dtype=xp.int64, device=last_action.device) if step is None else step,
        motion=motion,
    )


def check_state(contract: Contract, state: RobotState, body: str) -> None:
    """Refuse a body that lacks what the contract's terms read.

    Raises:
        ContractError: a field, sensor or point is absent, or the joints are not those of the contract in its order.
    """
    if state.joint_names != contract.joints:
        raise ContractError(
            f"{body} presents its joints in another order than the policy",
            found=", ".join(state.joint_names),
            expected=", ".join(contract.joints),
        )
    for name, spec in contract.inputs.items():
        for term in spec.terms:
            kind = load_term(term.name)
            for needed in kind.needs:
                if state.source(needed) == "absent":
                    raise ContractError(
                        f"term '{term.name}' of input '{name}' needs {needed}, which {body} does not have",
                        hint="A floating base needs a free joint" if needed.startswith("base_") else "",
                    )
            missing = [
                sensor
                for sensor in term.sensors
                if sensor not in state.sensors or state.sources.get(sensor) == "absent"
            ]
            if missing:
                raise ContractError(
                    f"term '{term.name}' of input '{name}' reads a sensor that {body} does not have",
                    found=", ".join(missing),
                    expected="one of " + (", ".join(sorted(state.sensors)) or "none"),
                )
            for sensor in term.sensors:
                width = state.sensors[sensor].shape[1]
                if kind.sensor_dim not in (None, width):
                    raise ContractError(
                        f"term '{term.name}' of input '{name}' cannot read sensor '{sensor}' of {body}",
                        found=f"a sensor of {width}",
                        expected=f"one of {kind.sensor_dim} numbers",
                    )
            if term.name in ANCHORED and not state.body_quat:
                anchor = contract.motion.anchor if contract.motion is not None else ""
                raise ContractError(
                    f"term '{term.name}' of input '{name}' needs the pose of its anchor, which {body} does not tell",
                    found=f"no pose of {anchor or 'the base'}",
                )
            if term.sense is not None and term.sense not in state.senses:
                raise ContractError(
                    f"term '{term.name}' of input '{name}' needs a view of the surroundings that {body} does not have"
                )
            if term.point != "origin" and term.point not in state.points:
                raise ContractError(
                    f"term '{term.name}' of input '{name}' refers to a point that {body} does not have",
                    found=term.point,
                    expected="one of origin" + "".join(f", {point}" for point in state.points),
                )
