"""Randomisation: model fields with a value for each world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgert.errors import ContractError
from edgert.sim.protocol import Floats, Mask, Sim
from edgert.sim.scene import Scene
from edgert.task.draws import ResetDraws, within
from edgert.task.sampling import Randomisation
from edgert.task.task import Task


def needs_model_fields(randomise: Randomisation) -> tuple[str, ...]:
    """The MjModel fields that get a value for each world."""
    fields: list[str] = []
    if randomise.friction is not None:
        fields.append("geom_friction")
    if randomise.mass_add_kg is not None:
        fields += ["body_mass", "body_inertia"]
    if randomise.kp is not None or randomise.kd is not None:
        fields += ["actuator_gainprm", "actuator_biasprm"]
    if randomise.delay_s is not None:
        fields.append("actuator_delay")
    return tuple(fields)


def randomised(task: Task, scene: Scene) -> Mapping[str, list[int]]:
    """Ids of the geoms, body and actuators that the task randomises; refuses names that the scene does not have."""
    randomise, model = task.randomise, scene.model
    names = {model.geom(i).name: i for i in range(model.ngeom)}
    # Without names every geom gets the friction.
    geoms = _ids(task, "geom", randomise.friction_geoms, names) or list(range(model.ngeom))
    bodies = {model.body(i).name: i for i in range(1, model.nbody)}
    body = _ids(task, "body", [randomise.mass_body] if randomise.mass_add_kg is not None else [], bodies)
    if randomise.mass_add_kg is not None:
        lightest = model.body_mass[body[0]] + randomise.mass_add_kg[0]
        if not lightest > 0.0:
            raise ContractError(
                f"task '{task.name}' would leave body '{randomise.mass_body}' without mass",
                found=f"{model.body_mass[body[0]]:g} kg and add_kg = {randomise.mass_add_kg[0]:g}",
                expected="a sum above 0 kg",
            )
    joints = task.contract.action.joints
    actuators = [scene.actuator_ids[scene.joints.index(name)] for name in joints]
    return {"geoms": geoms, "body": body, "actuators": actuators}


def _ids(task: Task, kind: str, names: Sequence[str], known: Mapping[str, int]) -> list[int]:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ContractError(
            f"task '{task.name}' randomises a {kind} that scene {task.scene} does not have",
            found=", ".join(unknown),
            expected="one of " + (", ".join(name for name in known if name) or "none, as it names no " + kind),
        )
    return [known[name] for name in names]


class Randomiser:
    """The model fields that differ between worlds, drawn anew at each reset of a world.

    Args:
        randomise: what differs, and within which bounds.
        scene: the scene of every world.
        sim: the worlds; only the fields that differ get a value for each of them.
        targets: as `randomised` found them.
        draws: the meaning of the columns of a world's random row.
    """

    def __init__(
        self,
        randomise: Randomisation,
        scene: Scene,
        sim: Sim,
        targets: Mapping[str, list[int]],
        draws: ResetDraws,
    ) -> None:
        self._randomise, self._sim, self._draws = randomise, sim, draws
        self._fields = {name: sim.expand(name) for name in needs_model_fields(randomise)}
        self._nominal = {name: getattr(scene.model, name).copy() for name in self._fields}
        self._geoms, self._mass_body = targets["geoms"], targets["body"]
        self._actuators = targets["actuators"]
        drives = dict(zip(scene.actuator_ids, scene.drives, strict=True))
        self._of_drive = {
            drive: [i for i, actuator in enumerate(self._actuators) if drives[actuator] == drive]
            for drive in ("position", "velocity")
        }

    def apply(self, rows: Floats, index: Any, mask: Mask | None) -> None:
        """Draw for the worlds of `index`, which are those of `mask`, from their rows of uniform numbers."""
        randomise, draws = self._randomise, self._draws
        if randomise.friction is not None:
            friction = within(draws.column(rows, "friction"), randomise.friction)
            values = self._fields["geom_friction"][index]
            values[:, self._geoms, 0] = friction
            self._fields["geom_friction"][index] = values
        if randomise.mass_add_kg is not None:
            (body,) = self._mass_body
            nominal = self._nominal["body_mass"][body]
            mass = nominal + within(draws.column(rows, "mass")[:, 0], randomise.mass_add_kg)
            self._fields["body_mass"][index, body] = mass
            inertia = self._nominal["body_inertia"][body]
            self._fields["body_inertia"][index, body] = inertia * (mass / nominal)[:, None]
            self._sim.set_const(mask)
        if randomise.kp is not None:
            kp = self._nominal["actuator_biasprm"][self._actuators, 1] * within(draws.column(rows, "kp"), randomise.kp)
            self._assign("actuator_biasprm", index, 1, kp)
            self._assign_gain("position", index, kp)
        if randomise.kd is not None:
            kd = self._nominal["actuator_biasprm"][self._actuators, 2] * within(draws.column(rows, "kd"), randomise.kd)
            self._assign("actuator_biasprm", index, 2, kd)
            self._assign_gain("velocity", index, kd)
        if randomise.delay_s is not None:
            delay = within(draws.column(rows, "delay"), randomise.delay_s)
            values = self._fields["actuator_delay"][index]
            values[:, self._actuators] = delay
            self._fields["actuator_delay"][index] = values

    def _assign(self, field: str, index: Any, parameter: int, values: Floats) -> None:
        rows = self._fields[field][index]
        rows[:, self._actuators, parameter] = values
        self._fields[field][index] = rows

    def _assign_gain(self, drive: str, index: Any, bias: Floats) -> None:
        """The gain of the actuators of a drive: what their control is multiplied with is what opposes it."""
        chosen = self._of_drive[drive]
        if chosen:
            rows = self._fields["actuator_gainprm"][index]
            rows[:, [self._actuators[i] for i in chosen], 0] = -bias[:, chosen]
            self._fields["actuator_gainprm"][index] = rows
