"""A reference motion inside a network: frame after frame read out of it, until it holds its last one.

Trackers bake the motion into the exported graph as tables, indexed by an input `time_step` that is clamped at the
motion's end. Reading it once, when the policy is opened, tells how long it is and leaves one run a tick afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.contract.motion import MAX_FRAMES
from edgert.contract.spec import MotionSpec
from edgert.errors import ContractError, IntegrityError
from edgert.policy.motion import Floats, Track

Row = npt.NDArray[np.float64]
Run = Callable[[int, float], Mapping[str, npt.NDArray[Any]]]
"""(time_step, observation) to outputs by their ONNX names, of one run with every observed number set to that.

It raises IntegrityError where the network fails, as one that does not clamp does beyond its end.
"""
MAX_NUMBERS: Final = 1 << 26
"""Most numbers of a motion that are read out of a network."""
SOURCE: Final = "the motion in the network"
_GROWTH: Final = 1.125
_WIDTHS: Final = {"anchor_pos": 3, "anchor_quat": 4, "body_pos": 3, "body_quat": 4}


def read_network(run: Run, spec: MotionSpec, control_hz: float) -> Track:
    """Every frame of the motion in a network.

    Raises:
        ContractError: it does not change, does not end within `MAX_FRAMES`, follows the observation, or an output has
            an impossible size.
        IntegrityError: the network fails on its first frame.
    """
    names = tuple(spec.outputs.values())

    def row(step: int, observation: float = 0.0) -> Row:
        outputs = run(step, observation)
        return np.concatenate([np.asarray(outputs[name], np.float64).reshape(-1) for name in names])

    first = row(0)
    if not _same(first, row(0, 1.0)):
        raise ContractError(
            f"{SOURCE} follows the observation",
            found=", ".join(names),
            expected="outputs of time_step alone",
            hint="Correct [motion.outputs] in policy.toml",
        )
    frames = _end(row) + 1
    if frames * len(first) > MAX_NUMBERS:
        raise ContractError(
            f"{SOURCE} is too large",
            found=f"{frames} frames of {len(first)} numbers",
            expected=f"at most {MAX_NUMBERS} numbers",
        )
    rows = [row(step) for step in range(frames)]
    if len(rows) < 2:
        raise ContractError(
            f"{SOURCE} never changes with its input '{spec.time_step}'",
            found=", ".join(names),
            expected="outputs that give another frame for each time step",
            hint="Correct [motion.outputs] and time_step in policy.toml",
        )
    table, sizes = np.stack(rows), [run(0, 0.0)[name].size for name in names]
    parts = dict(zip(spec.outputs, np.split(table, np.cumsum(sizes)[:-1], axis=1), strict=True))
    for name, width in _WIDTHS.items():
        if name in parts:
            parts[name] = _poses(parts[name], spec.outputs[name], width, one=name.startswith("anchor"))
    return Track(
        source=SOURCE,
        hz=control_hz,
        joint_pos=parts.get("joint_pos"),
        joint_vel=parts.get("joint_vel"),
        body_pos=parts.get("anchor_pos", parts.get("body_pos")),
        body_quat=parts.get("anchor_quat", parts.get("body_quat")),
        bodies=(spec.anchor,) if {"anchor_pos", "anchor_quat"} & {*parts} else (),
    )


def _end(row: Callable[[int], Row]) -> int:
    """The last frame: the first one after which nothing changes any more."""
    last = _row_or_none(row, MAX_FRAMES)
    if last is None:
        return _last_that_runs(row)
    if not all(_same(last, row(MAX_FRAMES + more)) for more in (1, 2, 3, 1_000)):
        raise ContractError(
            f"{SOURCE} does not end",
            found=f"other outputs at time step {MAX_FRAMES + 1} than at {MAX_FRAMES}",
            expected=f"at most {MAX_FRAMES} frames, and the last one held",
            hint="Export the motion with time_step clamped at its end",
        )
    # Backwards in strides to a frame that differs: a motion that passes its last pose on the way has not ended there.
    held, step = MAX_FRAMES, int(MAX_FRAMES / _GROWTH)
    while step > 0 and _same(last, row(step)):
        held, step = step, min(step - 1, int(step / _GROWTH))
    while held > 0 and _same(last, row(held - 1)):
        held -= 1
    return held


def _last_that_runs(row: Callable[[int], Row]) -> int:
    """The last frame of tables that are read without clamping, by bisection."""
    runs, fails = 0, MAX_FRAMES
    while fails - runs > 1:
        middle = (runs + fails) // 2
        if _row_or_none(row, middle) is None:
            fails = middle
        else:
            runs = middle
    return runs


def _row_or_none(row: Callable[[int], Row], step: int) -> Row | None:
    try:
        return row(step)
    except IntegrityError:
        return None


def _same(one: Row, other: Row) -> bool:
    return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=True))


def _poses(table: Floats, output: str, width: int, *, one: bool) -> Floats:
    """The same numbers as (frames, bodies, width)."""
    count, rest = divmod(table.shape[1], width)
    if rest or count == 0 or (one and count != 1):
        raise ContractError(
            f"output '{output}' of {SOURCE} has a wrong size",
            found=f"{table.shape[1]} numbers a frame",
            expected=f"{width} for {'the anchor' if one else 'each body'}",
        )
    return table.reshape(len(table), count, width)
