"""`SimBody`: one kind of robot in every world of a `Sim`, seen as a `RobotState`.

Joints appear in the order of the scene's `joints` (the policy's order), whatever their order in the model. Where the
addresses are contiguous the state's arrays are live views of the simulation; otherwise `refresh` gathers them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from edgert.closing import Closes
from edgert.contract.senses import Sense
from edgert.contract.state import RobotState, Source
from edgert.sim.kinematics import BodyPoses, body_id
from edgert.sim.protocol import Floats, Mask, Sim
from edgert.sim.scene import Scene, base_points, sensor_slices
from edgert.sim.senses import Senses, scanned_bodies


class SimBody(Closes):
    """State and actuation of the body of `scene` in every world of `sim`.

    Args:
        sim: the worlds.
        scene: that they are made of.
        bodies: whose poses the state tells too, by name; "" is the base.
        senses: what the body sees of its surroundings.

    Raises:
        RobotError: the scene has no such body, or nothing to be seen.
    """

    def __init__(self, sim: Sim, scene: Scene, bodies: Sequence[str] = (), senses: Sequence[Sense] = ()) -> None:
        self.sim = sim
        self.scene = scene
        qpos, qvel, sensordata, torque = (sim.view(name) for name in ("qpos", "qvel", "sensordata", "qfrc_actuator"))
        self._gathers: list[tuple[Floats, Any, Floats]] = []
        joint_pos = self._columns(qpos, scene.qpos_adr)
        joint_vel = self._columns(qvel, scene.dof_adr)
        joint_torque = self._columns(torque, scene.dof_adr)
        base: dict[str, Any] = {}
        if scene.base is not None:
            at, dof = scene.base_qpos_adr, scene.base_dof_adr
            base = {
                "base_pos": qpos[:, at : at + 3],
                "base_quat": qpos[:, at + 3 : at + 7],
                "base_lin_vel": qvel[:, dof : dof + 3],
                "base_ang_vel": qvel[:, dof + 3 : dof + 6],
            }
        bodies = tuple(dict.fromkeys((*bodies, *scanned_bodies(scene, senses))))
        hanging = [name for name in bodies if scene.base is None or body_id(scene, name) != body_id(scene, "")]
        self._poses = BodyPoses(scene, qpos, hanging)
        self._hangs, self._sees = bool(hanging), bool(senses)  # asked at every tick, and mostly not
        carried = [name for name in bodies if name not in hanging]
        pos = self._poses.pos | dict.fromkeys(carried, base.get("base_pos"))
        quat = self._poses.quat | dict.fromkeys(carried, base.get("base_quat"))
        self._senses = Senses(sim, scene, senses, pos, quat)
        self.state = RobotState(
            joint_names=scene.joints,
            joint_pos=joint_pos,
            joint_vel=joint_vel,
            joint_torque=joint_torque,
            sensors={name: sensordata[:, where] for name, where in sensor_slices(scene.model).items()},
            points=base_points(scene),
            body_pos=pos,
            body_quat=quat,
            senses=self._senses.values,
            sources=_sources(scene),
            **base,
        )
        self._ctrl = sim.view("ctrl")
        self._history = _HistoryTemplate(scene.model) if scene.model.nhistory else None

    def _columns(self, source: Floats, addresses: Sequence[int]) -> Floats:
        first = addresses[0]
        if list(addresses) == list(range(first, first + len(addresses))):
            return source[:, first : first + len(addresses)]
        index = np.array(addresses)
        gathered = np.ascontiguousarray(source[:, index])
        self._gathers.append((source, index, gathered))
        return gathered

    def refresh(self) -> None:
        """Bring gathered arrays and poses up to date after the simulation moved; views need nothing."""
        for source, index, gathered in self._gathers:
            np.take(source, index, axis=1, out=gathered, mode="clip")  # "raise" would copy twice
        if self._hangs:
            self._poses.refresh()

    def notes(self, period_s: float = math.inf) -> list[str]:
        """What the senses cost, one line each; `period_s`: between two looks, where they have to be in time."""
        notes = list(self._senses.notes)
        if self._senses.draw_s > period_s:
            notes.append(
                f"warning: drawing takes longer than the control period of {period_s * 1e3:g} ms: commands will be "
                "late, but for --no-real-time"
            )
        return notes

    def look(self, mask: Mask | None = None) -> None:
        """Bring what the body sees of its surroundings up to date, after `refresh`, in the worlds of the mask."""
        if self._sees:
            self._senses.look(mask)

    def close(self) -> None:
        """Release what the senses need; the simulation belongs to whoever made it."""
        self._senses.close()

    def settle(self, mask: Mask | None = None) -> None:
        """Fill the actuators' delay lines of the worlds of the mask with their present controls."""
        if self._history is not None:
            worlds = slice(None) if mask is None else mask
            history = self.sim.view("history")
            history[worlds] = self._history.filled(self._ctrl[worlds])

    def joint_columns(self, names: Sequence[str]) -> Any:
        """Index of the actuators of the named joints into `ctrl`: a slice where contiguous, else an array."""
        ids = [self.scene.actuator_ids[self.scene.joints.index(name)] for name in names]
        if ids == list(range(ids[0], ids[0] + len(ids))):
            return slice(ids[0], ids[0] + len(ids))
        return np.array(ids)


def _sources(scene: Scene) -> dict[str, Source]:
    """A simulation measures everything that its body has."""
    base: Source = "measured" if scene.base is not None else "absent"
    joints = dict.fromkeys(("joint_pos", "joint_vel", "joint_torque"), "measured")
    return {**joints, **dict.fromkeys(("base_pos", "base_quat", "base_lin_vel", "base_ang_vel"), base)}  # type: ignore[dict-item]


class _HistoryTemplate:
    """The delay lines of a model at time 0, with room for the controls to be filled in.

    `mj_initCtrlHistory` writes one actuator's line; where its values went is read off by writing a marker.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        data = mujoco.MjData(model)
        self._columns: list[tuple[int, Any]] = []
        for actuator in range(model.nu):
            samples = int(model.actuator_history[actuator, 0])
            if samples == 0:
                continue
            times = -model.opt.timestep * np.arange(samples, 0, -1)
            mujoco.mj_initCtrlHistory(model, data, actuator, times, np.full(samples, np.inf))
            self._columns.append((actuator, np.flatnonzero(np.isinf(data.history))))
            mujoco.mj_initCtrlHistory(model, data, actuator, times, np.zeros(samples))
        self._row = data.history.copy()

    def filled(self, ctrl: Floats) -> Floats:
        """(n, nhistory) for controls (n, nu)."""
        rows = np.repeat(self._row[None, :], len(ctrl), axis=0)
        for actuator, columns in self._columns:
            rows[:, columns] = ctrl[:, actuator, None]
        return rows
