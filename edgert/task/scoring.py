"""Whether a scene gives what the rewards of a task and its criterion of success measure."""

from __future__ import annotations

import numpy as np

from edgert.contract.spec import Contract
from edgert.errors import ContractError
from edgert.task.rewards import RewardInputs, RewardTerm
from edgert.task.success import GOAL_TERMS, SuccessRule
from edgert.task.task import Task


def check_terms(task: Task, inputs: RewardInputs) -> None:
    """Refuse rewards and a criterion of success that this scene cannot feed, by computing each once."""
    command = task.contract.command
    terms: list[tuple[str, RewardTerm | SuccessRule]] = [("reward", term) for term in task.rewards]
    for kind, term in [*terms, *([("criterion", task.success)] if task.success is not None else [])]:
        if term.name in GOAL_TERMS and (command is None or command.kind != "position"):
            raise ContractError(
                f"{kind} '{term.name}' of task '{task.name}' measures the distance from a commanded position",
                found="no command" if command is None else f"{command.kind} commands",
                expected='[contract.command] kind = "position"',
            )
        missing = [name for name in term.parameters.get("sensors", ()) if name not in inputs.state.sensors]
        if missing:
            raise ContractError(
                f"{kind} '{term.name}' of task '{task.name}' reads a sensor that scene {task.scene} does not have",
                found=", ".join(missing),
                expected="one of " + (", ".join(sorted(inputs.state.sensors)) or "none"),
            )
        try:
            value = np.asarray(term.function(inputs, term.parameters, np))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ContractError(
                f"{kind} '{term.name}' of task '{task.name}' cannot be computed for scene {task.scene}",
                found=_absent(task.contract, inputs) if "NoneType" in str(error) else error,
                hint="It may need a floating base, a [contract.phase], or a sensor with more numbers; a policy of "
                "another robot needs the scene of that, with --sim",
            ) from error
        if value.shape != inputs.joint_error.shape[:1]:
            raise ContractError(
                f"{kind} '{term.name}' of task '{task.name}' gives no single number for each world",
                found=f"shape {value.shape}",
                expected=f"shape {inputs.joint_error.shape[:1]}",
            )


def _absent(contract: Contract, inputs: RewardInputs) -> str:
    """What terms may read and this task does not have."""
    has = {"floating base": inputs.velocity, "command": contract.command, "gait clock in the contract": contract.phase}
    return ", ".join(f"no {name}" for name, value in has.items() if value is None)
