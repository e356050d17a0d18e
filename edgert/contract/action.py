"""From raw network outputs to targets: the numbers of an `ActionSpec` as arrays, over the Python Array API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edgert.contract.state import Array

if TYPE_CHECKING:
    from edgert.contract.spec import ActionSpec, Range

EVERY: Final = slice(None)
_FIELDS: Final = {"position": "q", "relative_position": "q", "velocity": "qd", "torque": "tau"}
"""Where the target of an action of each kind goes in a `JointCommand`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionMap:
    """Arrays (nact,) of one library, dtype and device."""

    scale: Array
    offset: Array
    clip: tuple[Array, Array] | None
    target_clip: tuple[Array, Array] | None
    relative: Array | None
    """1 where a target starts from the measured position, 0 elsewhere; None where none does."""

    def clipped(self, raw: Array, xp: Any) -> Array:
        """Raw actions (nworld, nact) within their bounds."""
        return raw if self.clip is None else xp.minimum(xp.maximum(raw, self.clip[0]), self.clip[1])

    def target(self, raw: Array, xp: Any, measured: Array | None = None) -> Array:
        """Targets (nworld, nact) in rad, rad/s or N·m of raw actions.

        Args:
            raw: (nworld, nact).
            xp: the namespace of the arrays.
            measured: positions of the joints of the action, (nworld, nact) rad, where a target starts from them.
        """
        target = self.scale * self.clipped(raw, xp) + self.offset
        if self.relative is not None:
            target = target + measured * self.relative
        if self.target_clip is None:
            return target
        return xp.minimum(xp.maximum(target, self.target_clip[0]), self.target_clip[1])


def action_map(spec: ActionSpec, like: Array, xp: Any) -> ActionMap:
    """The `ActionMap` of a spec, in the dtype and on the device of `like`."""
    options = {"dtype": like.dtype, "device": like.device}

    def bounds(pairs: Sequence[Range] | None) -> tuple[Array, Array] | None:
        if pairs is None:
            return None
        low, high = ([pair[i] for pair in pairs] for i in (0, 1))
        return xp.asarray(low, **options), xp.asarray(high, **options)

    starts = [1.0 if kind == "relative_position" else 0.0 for kind in spec.kinds]
    return ActionMap(
        scale=xp.asarray(spec.scale, **options),
        offset=xp.asarray(spec.offset, **options),
        clip=bounds(spec.clip),
        target_clip=bounds(spec.target_clip),
        relative=xp.asarray(starts, **options) if spec.relative else None,
    )


def places(spec: ActionSpec, joints: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """Where the numbers of an action go: for each field of a `JointCommand` that gets some, its joints and the numbers.

    Args:
        spec: the action.
        joints: those of the contract, in its order.

    Returns:
        (field, joints, numbers) with indices into the field's joints and into the action, `EVERY` for all in order.
    """
    found = []
    for field in dict.fromkeys(_FIELDS.values()):
        numbers = [number for number, kind in enumerate(spec.kinds) if _FIELDS[kind] == field]
        if numbers:
            acted = [joints.index(spec.joints[number]) for number in numbers]
            found.append((field, picked(acted, len(joints)), picked(numbers, len(spec.joints))))
    return found


def picked(indices: Sequence[int], length: int) -> Any:
    """These indices into an axis of that length, `EVERY` for all in order: without a copy."""
    return EVERY if list(indices) == list(range(length)) else list(indices)
