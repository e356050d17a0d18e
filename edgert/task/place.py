"""`Place`: where a policy runs: a bundled sim, a task of your own, or a bare scene. Each file is read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgert import assets
from edgert.contract.formats import Body
from edgert.contract.motion import Motion
from edgert.contract.spec import Contract
from edgert.files import is_path
from edgert.policy import LoadedPolicy, load_policy
from edgert.sim.scene import scene_body
from edgert.task.task import Task, TaskFile, read_task, scene_task

SCENE_SECONDS = 10.0
"""Length of an episode where no task says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A scene, and the task that is run in it."""

    scene: Path
    task: Task | None
    """Under its own contract; None for a bare scene."""
    file: TaskFile | None

    @property
    def body(self) -> Body:
        """What the scene tells about the robot."""
        return scene_body(self.scene)

    def under(self, contract: Contract, seconds: float | None, motion: Motion | None = None) -> Task:
        """The task under the contract of a policy; in a bare scene one of episodes of so many seconds."""
        if self.file is None:
            return scene_task(self.scene, contract, seconds or SCENE_SECONDS, motion)
        return self.file.task(contract)

    def load(self, model: str | Path, contract: Path | None, format: str | None) -> LoadedPolicy:
        """The policy that a user named, for the robot of this place; see `load_policy`."""
        return load_policy(model, contract, body=self.body, format=format)


def place_of(sim: str | Path | None, model: str | Path = "") -> Place:
    """The place that a user named, or where `model` runs if none is named.

    Raises:
        EdgertError: there is no such sim, or its task cannot be used.
    """
    sim = default_sim(model) if sim is None else sim
    if Path(sim).suffix not in ("", ".toml"):
        return Place(scene=Path(sim), task=None, file=None)
    file = read_task(sim)
    task = file.task()
    return Place(scene=task.scene, task=task, file=file)


def default_sim(model: str | Path) -> str:
    """Where a policy runs if nothing is said: a bundled one in the sim of its name, any other with the quadruped."""
    bundled = isinstance(model, str) and not is_path(model) and model in assets.names("sims")
    return str(model) if bundled else "quadruped"
