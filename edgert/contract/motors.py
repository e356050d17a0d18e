"""The order of motors in robots' own SDKs, for files that know a joint only by the number of its motor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from edgert.contract.formats import Evidence
from edgert.errors import ContractError

_LEG: Final = ("hip_joint", "thigh_joint", "calf_joint")
_SIDE_LEG: Final = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_ARM: Final = (
    "shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw",
)  # fmt: skip
_CORNERS: Final = ("FR", "FL", "RR", "RL")

FROM_SCENE: Final = "or name the robot's scene with --sim"
"""What else gives the joints of a file that knows motors by number."""

SDK_ORDERS: Final = {
    "Unitree quadrupeds": (
        *(f"{corner}_{part}" for corner in _CORNERS for part in _LEG),
        *(f"{corner}_foot_joint" for corner in _CORNERS),
    ),
    "Unitree G1": (
        *(f"{side}_{part}_joint" for side in ("left", "right") for part in _SIDE_LEG),
        *(f"waist_{axis}_joint" for axis in ("yaw", "roll", "pitch")),
        *(f"{side}_{part}_joint" for side in ("left", "right") for part in _ARM),
    ),
    "Unitree H1": (
        "right_hip_roll_joint", "right_hip_pitch_joint", "right_knee_joint",
        "left_hip_roll_joint", "left_hip_pitch_joint", "left_knee_joint",
        "torso_joint", "left_hip_yaw_joint", "right_hip_yaw_joint", "", "left_ankle_joint", "right_ankle_joint",
        *(f"{side}_{part}_joint" for side in ("right", "left") for part in _ARM[:4]),
    ),
}  # fmt: skip
"""Joint of each motor, "" where there is none. Source: `joint_sdk_names` of unitree_rl_lab's robots."""


def sdk_order(motors: Sequence[int], joints: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The robot whose SDK has a joint of `joints` at each of these motors, and the joint of every motor; None: unknown.

    Only one robot may fit.
    """
    known = set(joints)
    fitting = [
        (robot, order)
        for robot, order in SDK_ORDERS.items()
        if all(motor < len(order) and order[motor] in known for motor in motors)
    ]
    return fitting[0] if len(fitting) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Motors:
    """The joint of each motor of a robot.

    Attributes:
        joints: motor to joint; empty while no robot is named.
        source: the provenance of their names.
        note: what is to be said of it.
        gaps: whether the robot may lack motors that others of its kind have.
    """

    joints: Mapping[int, str]
    source: str
    note: str
    gaps: bool = False


def find_motors(found: Evidence, order: Sequence[int], count: int, file: str, key: str) -> Motors:
    """The joints of motors that a file knows by number: from the robot's SDK, else from the order of the scene.

    Args:
        found: with the joints of the robot.
        order: the motors of the policy's joints, in its order.
        count: how many motors the file speaks of.
        file: how messages call the file.
        key: that of `order` in it.

    Raises:
        ContractError: the robot has other joints.
    """
    joints = found.joints
    if not joints:
        return Motors(joints={}, source="", note=f"{file} names no joints: name the robot's scene with --sim")
    known = sdk_order(order, joints)
    if known is not None:
        robot, names = known
        motors = {motor: name for motor, name in enumerate(names) if name in joints}
        note = f"{file} names no joints: its motors are numbered as the SDK of {robot} does"
        return Motors(joints=motors, source=f"the SDK's motors of {robot}", note=note, gaps=True)
    if len(joints) not in (count, len(order)) or len(joints) < len(order):
        raise ContractError(
            f"{file} of policy {found.model} has another number of joints than the robot",
            found=f"{len(order)} in {key}",
            expected=f"{len(joints)}: {', '.join(joints)}",
            hint="Name the scene of its robot with --sim",
        )
    if max(order) >= len(joints):
        raise ContractError(f"{file}: key '{key}' is wrong", found=max(order), expected=f"0 to {len(joints) - 1}")
    return Motors(
        joints=dict(enumerate(joints)),
        source="assumed: motors in the order of the scene's actuated joints",
        note=f"{file} names no joints: its motors are taken for the scene's actuated joints in their order",
    )
