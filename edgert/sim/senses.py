"""`Senses`: what a body sees of its surroundings in every world, as the terms of a contract ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.contract.senses import HeightScan, Picture, Sense
from edgert.errors import RobotError
from edgert.sim.cameras import Cameras
from edgert.sim.heights import HeightScans
from edgert.sim.protocol import Mask, Sim
from edgert.sim.scene import Scene


class Senses(Closes):
    """The views of many worlds, refreshed when somebody looks.

    Args:
        sim: the worlds.
        scene: what there is to see.
        wanted: the views.
        pos: of each body around which a scan lies by name, (nworld, 3), live.
        quat: likewise, (nworld, 4).

    Attributes:
        values: of each view, (nworld, dim).
        notes: what they cost, one line each.
        draw_s: how long the pictures of one world took, 0 without any.

    Raises:
        RobotError: the scene has no ground.
        UnknownNameError: it has no such camera.
        UnsupportedError: nothing draws pictures here.
    """

    def __init__(
        self, sim: Sim, scene: Scene, wanted: Sequence[Sense], pos: Mapping[str, Any], quat: Mapping[str, Any]
    ) -> None:
        self._scans = {
            sense: HeightScans(scene, sense, pos[sense.body], quat[sense.body])
            for sense in wanted
            if isinstance(sense, HeightScan)
        }
        pictures = [sense for sense in wanted if isinstance(sense, Picture)]
        self._cameras = Cameras(sim, scene, pictures) if pictures else None
        self.values: dict[Sense, npt.NDArray[Any]] = {sense: scans.values for sense, scans in self._scans.items()}
        for picture, drawn in self._cameras.values.items() if self._cameras is not None else ():
            self.values[picture] = drawn
        self.notes = () if self._cameras is None else (self._cameras.note,)
        self.draw_s = 0.0 if self._cameras is None else self._cameras.draw_s

    def look(self, mask: Mask | None = None) -> None:
        """Bring the views of the worlds of the mask (None: all) up to date."""
        worlds = None if mask is None else np.flatnonzero(mask)
        for scans in self._scans.values():
            scans.refresh(worlds)
        if self._cameras is not None:
            self._cameras.refresh(worlds)

    def close(self) -> None:
        """Release what was made to look."""
        for scans in self._scans.values():
            scans.close()
        if self._cameras is not None:
            self._cameras.close()


def sense_bytes(sense: Sense) -> int:
    """What a view of one world takes: a number each in a picture, the start of a ray and a number in a scan."""
    return sense.dim * (4 if isinstance(sense, Picture) else 32)


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
