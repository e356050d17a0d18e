"""`Senses`: what a body sees of its surroundings in every world, as the terms of a contract ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgert.closing import Closes
from edgert.contract.senses import HeightScan, Sense
from edgert.errors import RobotError
from edgert.sim.heights import HeightScans
from edgert.sim.protocol import Floats, Mask
from edgert.sim.scene import Scene


class Senses(Closes):
    """The views of many worlds, refreshed when somebody looks.

    Args:
        scene: what there is to see.
        wanted: the views.
        pos: of each body around which a scan lies by name, (nworld, 3), live.
        quat: likewise, (nworld, 4).

    Attributes:
        values: of each view, (nworld, dim).

    Raises:
        RobotError: the scene has no ground, or no floating base to lie around.
    """

    def __init__(self, scene: Scene, wanted: Sequence[Sense], pos: Mapping[str, Any], quat: Mapping[str, Any]) -> None:
        self._scans = {
            sense: HeightScans(scene, sense, pos[sense.body], quat[sense.body])
            for sense in wanted
            if isinstance(sense, HeightScan)
        }
        self.values: dict[Sense, Floats] = {sense: scans.values for sense, scans in self._scans.items()}

    def look(self, mask: Mask | None = None) -> None:
        """Bring the views of the worlds of the mask (None: all) up to date."""
        worlds = None if mask is None else np.flatnonzero(mask)
        for scans in self._scans.values():
            scans.refresh(worlds)

    def close(self) -> None:
        """Release what was made to look."""
        for scans in self._scans.values():
            scans.close()


def scanned_bodies(scene: Scene, wanted: Sequence[Sense]) -> tuple[str, ...]:
    """The bodies around which scans lie; "" is the base.

    Raises:
        RobotError: the scene has none of that name, or the base stands still.
    """
    names = tuple(dict.fromkeys(sense.body for sense in wanted if isinstance(sense, HeightScan)))
    model = scene.model
    for name in names:
        known = [model.body(i).name for i in range(1, model.nbody) if model.body(i).name]
        if name and name not in known:
            raise RobotError(
                f"scene {scene.path} has no body '{name}', around which a height_scan lies",
                expected="one of " + ", ".join(known),
            )
        if not name and scene.base is None:
            raise RobotError(
                f"the robot of scene {scene.path} has a fixed base, and a height_scan lies around the base",
                hint="Name another body in the term: body = …",
            )
    return names
