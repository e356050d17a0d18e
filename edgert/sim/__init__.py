"""Batched physics behind one protocol: MuJoCo C on the CPU, and the scenes and bodies in it."""

from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.protocol import Sim
from edgert.sim.scene import Scene, scene_body
from edgert.sim.sequential import SequentialSim

__all__ = ["BatchSim", "Scene", "SequentialSim", "Sim", "SimBody", "scene_body"]
