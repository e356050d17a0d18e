"""edgert: an edge runtime for robots.

Run a trained policy on the chip that is there, against a simulated or real robot, in time; simulate by the thousand.
Importing the package loads nothing heavy; the names below are imported when they are first used. With Gymnasium, the
environments of the bundled sims are registered: `gymnasium.make("edgert/Quadruped-v0")`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgert.environments import register_when_imported
from edgert.errors import (
    ContractError,
    DeviceError,
    EdgertError,
    IntegrityError,
    RobotError,
    UnknownNameError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from edgert.contract import Contract, JointCommand, RobotState
    from edgert.device import Device, find_device
    from edgert.policy import LoadedPolicy, OnnxPolicy, Policy, load_policy
    from edgert.rollout import RolloutOptions, open_rollouts
    from edgert.runtime import RunOptions, Session, open_session
    from edgert.sim import Sim
    from edgert.task.task import Task, load_task

__version__ = "0.1.0"

_LAZY = {
    "Contract": "edgert.contract",
    "Device": "edgert.device",
    "JointCommand": "edgert.contract",
    "LoadedPolicy": "edgert.policy",
    "RolloutOptions": "edgert.rollout",
    "OnnxPolicy": "edgert.policy",
    "RunOptions": "edgert.runtime",
    "Policy": "edgert.policy",
    "RobotState": "edgert.contract",
    "Session": "edgert.runtime",
    "Sim": "edgert.sim",
    "Task": "edgert.task.task",
    "find_device": "edgert.device",
    "open_rollouts": "edgert.rollout",
    "load_policy": "edgert.policy",
    "load_task": "edgert.task.task",
    "open_session": "edgert.runtime",
}

__all__ = [
    "Contract",
    "ContractError",
    "Device",
    "DeviceError",
    "EdgertError",
    "IntegrityError",
    "JointCommand",
    "LoadedPolicy",
    "OnnxPolicy",
    "Policy",
    "RobotError",
    "RobotState",
    "RolloutOptions",
    "RunOptions",
    "Session",
    "Sim",
    "Task",
    "UnknownNameError",
    "UnsupportedError",
    "find_device",
    "load_policy",
    "load_task",
    "open_rollouts",
    "open_session",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'edgert' has no attribute '{name}'")
    module = import_module(_LAZY[name])
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


register_when_imported()
