"""`RobotState`: what is known of one or many bodies at one instant, as a struct of arrays.

Conventions (fixed here, so that no reader has to ask): positions in m, world frame; quaternions wxyz, body to
world; base linear velocity in m/s, world frame, of the base body's *origin*; base angular velocity in rad/s, in the
base frame; joints in the order of `joint_names`. Whoever fills a state says for each field whether it is measured,
estimated or absent. An absent field is None; zeros never stand in for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgert.contract.senses import Sense

Source = Literal["measured", "estimated", "absent"]
Array = Any
"""Any array of the Python Array API: numpy on the CPU, torch or cupy on an accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotState:
    """State of `nworld` bodies. Arrays may be live views that the owner refreshes in place."""

    joint_names: tuple[str, ...]
    joint_pos: Array | None = None  # (nworld, njoint) rad
    joint_vel: Array | None = None  # (nworld, njoint) rad/s
    joint_torque: Array | None = None  # (nworld, njoint) N·m
    base_pos: Array | None = None  # (nworld, 3) m, world
    base_quat: Array | None = None  # (nworld, 4) wxyz, body to world
    base_lin_vel: Array | None = None  # (nworld, 3) m/s, world frame, at the base origin
    base_ang_vel: Array | None = None  # (nworld, 3) rad/s, base frame
    body_pos: Mapping[str, Array] = field(default_factory=dict)  # name: (nworld, 3) m, world; "" is the base
    body_quat: Mapping[str, Array] = field(default_factory=dict)  # name: (nworld, 4) wxyz, body to world
    sensors: Mapping[str, Array] = field(default_factory=dict)  # name: (nworld, dim), the sensor's own unit
    points: Mapping[str, Array] = field(default_factory=dict)
    """Offsets of named points from the base origin, base frame, m: (3,) or (nworld, 3). "com", "site:<name>"."""
    senses: Mapping[Sense, Array] = field(default_factory=dict)  # what is seen of the surroundings: (nworld, dim)
    stamp_ns: Array | None = None  # (nworld,) monotonic time of the sample
    sources: Mapping[str, Source] = field(default_factory=dict)

    def source(self, name: str) -> Source:
        """How a field or sensor came about; one that nobody declared counts as measured when it is there.

        A field comes before a sensor of the same name, as scenes do call sensors "base_quat" or "joint_pos".
        """
        value = getattr(self, name) if name in self.__dataclass_fields__ else self.sensors.get(name)
        return "absent" if value is None else self.sources.get(name, "measured")
