"""How well a body follows its reference motion."""

from __future__ import annotations

import numpy as np

from edgert.contract.motion import MotionState
from edgert.contract.state import RobotState


class TrackingError:
    """Means over the ticks of a run; `see` is called while reference and state are of the same tick.

    Args:
        state: of one body, refreshed in place.
        motion: its reference, refreshed in place.
    """

    def __init__(self, state: RobotState, motion: MotionState) -> None:
        self._ticks = 0
        self._pairs = []
        if motion.joint_pos is not None and state.joint_pos is not None:
            self._pairs.append(("joint_pos_error_rad", motion.joint_pos[0], state.joint_pos[0]))
        if motion.anchor_pos is not None and motion.anchor in state.body_pos:
            self._pairs.append(("anchor_pos_error_m", motion.anchor_pos[0], state.body_pos[motion.anchor][0]))
        self._sums = [0.0 for _ in self._pairs]

    def see(self) -> None:
        """Look at the tick that was just commanded."""
        self._ticks += 1
        for i, (name, wanted, found) in enumerate(self._pairs):
            apart = wanted - found
            self._sums[i] += float(np.abs(apart).mean() if name.startswith("joint") else np.sqrt(apart.dot(apart)))

    def metrics(self) -> dict[str, float | None]:
        """Mean error of a joint, rad, and mean distance of the anchor, m; None without a tick."""
        return {
            name: total / self._ticks if self._ticks else None
            for (name, _, _), total in zip(self._pairs, self._sums, strict=True)
        }
