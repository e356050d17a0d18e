"""What a policy is asked for, by whoever runs it or where nobody says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from edgert.contract.spec import CommandSpec
from edgert.errors import ContractError
from edgert.sim.protocol import Floats
from edgert.tables import MAX_MAGNITUDE
from edgert.task.draws import middle_goal
from edgert.task.sampling import GoalSampling
from edgert.task.task import Task

DEFAULT_TWIST: Final = (0.5, 0.0, 0.0)


def asked(task: Task, command: Sequence[float] | None) -> Sequence[float] | None:
    """What every world is asked for: `command` as it is, or None where the task draws commands, or takes none."""
    spec = task.contract.command
    if command is not None or spec is None or task.command is not None:
        return command  # Worlds refuses one that a task does not take
    return default_command(spec, task)


def default_command(spec: CommandSpec, task: Task | None) -> tuple[float, ...]:
    """What is asked for if nobody says: a slow walk, or the middle of the task's or of the trained positions."""
    if spec.kind == "twist":
        return DEFAULT_TWIST
    if task is not None and isinstance(task.command, GoalSampling):
        return middle_goal(task.command)
    if None in spec.ranges:
        raise ContractError("the policy aims at a position, and none is given", hint="Name one: --command X Y Z, in m")
    return tuple(0.5 * (bounds[0] + bounds[1]) for bounds in spec.ranges if bounds is not None)


def fixed_command(command: Sequence[float], task: Task) -> Floats:
    """A command (3,) that every world gets, in the order of the contract; refuse one that the task does not take."""
    try:
        values = np.asarray(command, np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.zeros(0)
    if task.contract.command is None:
        raise ContractError(f"task '{task.name}' takes no command", found=command, hint="Leave it out")
    if values.shape != (3,) or not (np.abs(values) <= MAX_MAGNITUDE).all():
        names = ", ".join(key.split("_")[0] for key in task.contract.command.keys)
        raise ContractError("the fixed command is wrong", found=command, expected=f"three finite numbers: {names}")
    return values
