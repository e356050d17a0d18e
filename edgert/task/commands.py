"""What a policy is asked for where nobody says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from edgert.contract.spec import CommandSpec
from edgert.errors import ContractError
from edgert.task.draws import middle_goal
from edgert.task.task import GoalSampling, Task

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
