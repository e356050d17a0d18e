"""`JointCommand`: what a body is asked to do, joint by joint.

The drive law of every body is tau = kp (q - q_meas) + kd (qd - qd_meas) + tau_ff, clipped to the joint's torque
limit by the body. Unlike a bare position target it can say "damp": kp = 0 with kd kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgert.contract.state import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class JointCommand:
    """Arrays of shape (nworld, njoint), in the body's joint order."""

    q: Array  # rad
    qd: Array  # rad/s
    kp: Array  # N·m/rad
    kd: Array  # N·m·s/rad
    tau: Array  # N·m, feed-forward
