"""What a policy's numbers mean: contracts, the state of a body, observation terms."""

from edgert.contract.command import JointCommand
from edgert.contract.document import overlay, parse_contract
from edgert.contract.spec import (
    ActionSpec,
    CommandSpec,
    Contract,
    InputSpec,
    MotionSpec,
    NetworkSpec,
    ObservationTerm,
    PhaseSpec,
)
from edgert.contract.state import RobotState

__all__ = [
    "ActionSpec",
    "CommandSpec",
    "Contract",
    "InputSpec",
    "JointCommand",
    "MotionSpec",
    "NetworkSpec",
    "ObservationTerm",
    "PhaseSpec",
    "RobotState",
    "overlay",
    "parse_contract",
]
