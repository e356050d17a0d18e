"""When a world does what its task is for: criteria over the state, held for a time until the end of an episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any, Final

from edgert.contract.state import Array
from edgert.errors import ContractError
from edgert.tables import Table
from edgert.task.rewards import Parameters, RewardInputs, goal_distance, read_end_effector

Criterion = Callable[[RewardInputs, Parameters, Any], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessRule:
    """An episode succeeds if the criterion holds at its end and held for `hold_s` before."""

    name: str
    hold_s: float
    function: Criterion
    parameters: Parameters

    def hold_ticks(self, control_hz: float) -> int:
        """Control ticks in a row for which the criterion has to hold."""
        return max(1, round(self.hold_s * control_hz))


def _joint_near(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    angle = inputs.state.joint_pos[:, parameters["joint"]] - parameters["angle_rad"]  # type: ignore[index]
    return xp.abs(xp.remainder(angle + pi, 2.0 * pi) - pi) <= parameters["within_rad"]


def _goal_near(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    return goal_distance(inputs, parameters, xp) <= parameters["within_m"]


def _read_joint_near(table: Table, joints: tuple[str, ...]) -> Parameters:
    return {
        "joint": joints.index(table.text("joint", choices=joints)),
        "angle_rad": table.number("angle_rad", 0.0),
        "within_rad": table.number("within_rad", above=0.0),
    }


def _read_goal_near(table: Table, joints: tuple[str, ...]) -> Parameters:
    return {**read_end_effector(table, joints), "within_m": table.number("within_m", above=0.0)}


GOAL_TERMS: Final = ("goal_distance", "near_goal", "goal_near")
"""Rewards and criteria that measure the distance from a commanded position."""

CRITERIA: Final[dict[str, tuple[Criterion, Callable[[Table, tuple[str, ...]], Parameters]]]] = {
    "joint_near": (_joint_near, _read_joint_near),
    "goal_near": (_goal_near, _read_goal_near),
}


def read_success(table: Table, joints: tuple[str, ...], max_hold_s: float) -> SuccessRule:
    """The rule of a `[success]` table with its one criterion."""
    hold_s = table.number("hold_s", 0.0, lo=0.0, hi=max_hold_s)
    named = [name for name in CRITERIA if table.has(name)]
    if len(named) != 1:
        raise ContractError(
            f"{table.where}: [{table.path}] needs exactly one criterion",
            found=", ".join(named) or "none",
            expected="one of " + ", ".join(CRITERIA),
        )
    (name,) = named
    function, read = CRITERIA[name]
    entry = table.table(name)
    parameters = read(entry, joints)
    entry.close()
    table.close()
    return SuccessRule(name=name, hold_s=hold_s, function=function, parameters=parameters)
