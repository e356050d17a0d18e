"""One body: observe, command, damp."""

from edgert.robot.protocol import Robot, SimulatedRobot
from edgert.robot.sim import SimRobot

__all__ = ["Robot", "SimRobot", "SimulatedRobot"]
