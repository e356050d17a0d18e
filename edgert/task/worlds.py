"""`Worlds`: many copies of a task in one simulation: reset, step, observe, reward, terminate.

The batched core under the Gymnasium environments and under closed-loop evaluation. It knows nothing of autoreset:
whoever drives it says which worlds to reset. World i depends on its own generator and its own actions alone, bit for
bit, whatever the number of worlds and threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.contract.observe import Observer, check_state, make_term_inputs
from edgert.contract.terms import advance_phase, gravity_in_body, raw_action_target, rotate_to_body
from edgert.errors import ContractError, RobotError
from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.protocol import Floats, Mask
from edgert.sim.scene import Scene, build
from edgert.task.draws import Generators, ResetDraws, around, draw_commands, needs_model_fields, spread, within
from edgert.task.rewards import RewardInputs, fallen
from edgert.task.task import Task, check_rate


class Worlds:
    """`nworld` worlds of `task`.

    Args:
        task: what to run.
        nworld: number of worlds.
        nthread: physics threads, 0 for one per CPU.
        randomise: draw the task's randomisation at each reset; False keeps the nominal robot and no noise.
        command: a fixed command (vx m/s, vy m/s, wz rad/s) instead of drawn ones.
    """

    def __init__(
        self,
        task: Task,
        nworld: int,
        *,
        nthread: int = 0,
        randomise: bool = True,
        command: Sequence[float] | None = None,
    ) -> None:
        self.task = task
        self.nworld = nworld
        self.contract = contract = task.contract
        self.randomise = task.randomise if randomise else type(task.randomise)()
        self.scene = build_scene(task, delay_s=self.randomise.delay_s[1] if self.randomise.delay_s else 0.0)
        self.sim = BatchSim(self.scene.model, nworld, nthread)
        self.body = SimBody(self.sim, self.scene)
        check_state(contract, self.body.state, f"scene {task.scene.name}")
        self._fixed_command = None if command is None else _fixed(command, task)

        nact = len(contract.action.joints)
        self.action = np.zeros((nworld, nact))
        self._last_action = np.zeros((nworld, nact))
        self.command = np.zeros((nworld, 3 if contract.command is not None else 0))
        self.phase = np.zeros(nworld)
        self.steps = np.zeros(nworld, np.int64)
        self.velocity = np.zeros((nworld, 3))
        self.reward = np.zeros(nworld)
        self.reward_terms: dict[str, Floats] = {term.name: np.zeros(nworld) for term in task.rewards}
        self.terminated = np.zeros(nworld, np.bool_)

        self._scale = np.array(contract.action.scale)
        self._offset = np.array(contract.action.offset)
        self._columns = self.body.joint_columns(contract.action.joints)
        self._ctrl = self.sim.view("ctrl")
        self._qvel = self.sim.view("qvel")
        self._inputs = make_term_inputs(
            contract,
            self.body.state,
            command=self.command,
            last_action=self.action,
            phase_rad=self.phase,
            xp=np,
        )
        (name,) = contract.inputs
        self._observer = Observer(contract, name, np, self.action)
        self.observation_dim = self._observer.dim
        self._generators = Generators(nworld, self._noise_scale(name))
        self._draws = ResetDraws(len(contract.joints), nact)
        self._randomiser = _Randomiser(self) if needs_model_fields(self.randomise) else None
        self._next_push = np.zeros(nworld, np.int64)
        self._next_command = np.zeros(nworld, np.int64)
        self._dt = contract.period_s

    def _noise_scale(self, name: str) -> Floats:
        widths: list[float] = []
        for term in self.contract.inputs[name].terms:
            half_width = self.randomise.noise.get(term.name, 0.0)
            widths += [half_width * abs(scale) for scale in term.scale]
        return np.array(widths)

    def seed(self, generators: Sequence[np.random.Generator | None]) -> None:
        """Give worlds their generators; None keeps a world's own, or makes one from entropy."""
        self._generators.seed(generators)

    def reset(self, mask: Mask | None = None) -> None:
        """Start a new episode in the worlds of the mask (None: all)."""
        worlds = range(self.nworld) if mask is None else [int(world) for world in np.flatnonzero(mask)]
        if len(worlds) == 0:
            return
        rows = self._generators.rows(worlds, self._draws.width)
        index: Any = slice(None) if mask is None else mask
        if self._randomiser is not None:
            self._randomiser.apply(rows, index, mask)
        self.sim.reset(mask, keyframe=self.scene.keyframe)
        self._perturb(rows, index)
        home = self._offset
        controls = self._ctrl[index]
        controls[:, self._columns] = home
        self._ctrl[index] = controls
        self.body.settle(mask)
        self.sim.forward(mask)
        self.body.refresh()

        self.action[index] = 0.0
        self._last_action[index] = 0.0
        self.steps[index] = 0
        self.terminated[index] = False
        self.phase[index] = 0.0
        if self.task.command is not None:
            drawn = draw_commands(self._draws.column(rows, "command"), self.task.command)
            self.command[index] = drawn if self._fixed_command is None else self._fixed_command
            self._next_command[index] = self._steps_of(self.task.command.resample_s)
            self._hold_still_phase(index)
        if self.randomise.push_interval_s is not None:
            interval = self._steps_of(self.randomise.push_interval_s)
            self._next_push[index] = 1 + (self._draws.column(rows, "push")[:, 0] * interval).astype(np.int64)
        self._measure()

    def step(self, actions: npt.ArrayLike, active: Mask | None = None) -> None:
        """One control step in every world. `actions` (nworld, nact) are raw network outputs.

        Worlds outside `active` (None: all) move too, but draw nothing: they are about to be reset.

        Raises:
            ContractError: the shape is wrong, or an action is not finite; nothing was stepped then.
        """
        raw = np.asarray(actions, np.float64)
        if raw.shape != self.action.shape:
            raise ContractError("actions have the wrong shape", found=raw.shape, expected=self.action.shape)
        if not np.isfinite(raw).all():
            world = int(np.flatnonzero(~np.isfinite(raw).all(axis=1))[0])
            raise ContractError(f"the action of world {world} is not finite", found=raw[world], expected="finite numbers")
        self._last_action[:] = self.action
        self.action[:] = raw
        self._ctrl[:, self._columns] = raw_action_target(raw, self.contract.action, self._scale, self._offset, np)
        self._push(active)
        self.sim.step(self.task.decimation)
        self.body.refresh()
        self.steps += 1
        self._measure()
        self._score()
        if self.contract.phase is not None:
            self.phase[:] = advance_phase(self.phase, self.command, self.contract.phase, self._dt, np)

    def observe(self, mask: Mask | None = None) -> npt.NDArray[np.float32]:
        """The policy's input of the worlds of the mask (None: all), (n, dim), with noise if the task has some."""
        observation = self._observer(self._inputs)
        if mask is not None:
            observation = observation[mask]
        noise = self._generators.noise(mask)
        return (observation if noise is None else observation + noise).astype(np.float32)

    def resample(self, mask: Mask | None = None) -> None:
        """Draw new commands where they are due, in the worlds of the mask; call it after the step was scored."""
        sampling = self.task.command
        if sampling is None or self._fixed_command is not None:
            return
        due = self.steps >= self._next_command
        if mask is not None:
            due &= mask
        if due.any():
            unit = self._generators.rows([int(world) for world in np.flatnonzero(due)], 5)
            self.command[due] = draw_commands(unit, sampling)
            self._next_command[due] += self._steps_of(sampling.resample_s)

    def body_velocity(self) -> Floats:
        """A copy of the base velocity (nworld, 3): vx, vy in m/s at the base origin and wz in rad/s, base frame."""
        result = self.velocity.copy()
        if self.body.state.base_ang_vel is not None:
            result[:, 2] = self.body.state.base_ang_vel[:, 2]
        return result

    def close(self) -> None:
        """Release the simulation."""
        self.sim.close()

    def _steps_of(self, seconds: float) -> int:
        return max(1, round(seconds * self.contract.control_hz))

    def _hold_still_phase(self, index: Any) -> None:
        phase = self.contract.phase
        if phase is not None and phase.still_rad is not None:
            still = np.sqrt(np.sum(self.command[index] ** 2, axis=1)) < phase.still_below
            self.phase[index] = np.where(still, phase.still_rad, self.phase[index])

    def _perturb(self, rows: Floats, index: Any) -> None:
        """Spread the initial state of the worlds of `index` around the keyframe."""
        qpos, qvel = self.sim.view("qpos"), self._qvel
        positions, velocities = qpos[index], qvel[index]
        spread(positions, velocities, self.scene, self.task.reset, self._draws, rows)
        qpos[index] = positions
        qvel[index] = velocities

    def _push(self, active: Mask | None) -> None:
        """Kick the base sideways in the active worlds where a push is due."""
        if self.randomise.push_interval_s is None:
            return
        due = self.steps == self._next_push
        if active is not None:
            due &= active
        if due.any():
            unit = self._generators.rows([int(world) for world in np.flatnonzero(due)], 2)
            dof = self.scene.base_dof_adr
            self._qvel[due, dof : dof + 2] += around(unit, self.randomise.push_m_s)
            self._next_push[due] += self._steps_of(self.randomise.push_interval_s)

    def _measure(self) -> None:
        state = self.body.state
        if state.base_quat is not None:
            self.velocity[:] = rotate_to_body(state.base_quat, state.base_lin_vel, np)

    def _score(self) -> None:
        state, task = self.body.state, self.task
        gravity = gravity_in_body(state.base_quat, np) if state.base_quat is not None else np.zeros((self.nworld, 3))
        inputs = RewardInputs(
            state=state,
            command=self.command,
            velocity=self.velocity,
            gravity=gravity,
            action=self.action,
            last_action=self._last_action,
            joint_error=state.joint_pos - self._inputs.default_pos,
            phase_rad=self.phase,
        )
        self.reward[:] = 0.0
        for term in task.rewards:
            value = self.reward_terms[term.name]
            value[:] = term.weight * self._dt * term.function(inputs, term.parameters, np)
            self.reward += value
        if task.fall is not None:
            height = state.base_pos[:, 2]  # type: ignore[index]
            self.terminated[:] = fallen(gravity, height, task.fall.tilt_rad, task.fall.height_m, np)


def build_scene(task: Task, *, delay_s: float = 0.0) -> Scene:
    """The task's scene with the contract's actuators, and room for an actuator delay of up to `delay_s`."""
    contract = task.contract
    scene = build(
        task.scene,
        contract.joints,
        contract.action.joints,
        kp=contract.kp,
        kd=contract.kd,
        base=task.base,
    )
    check_rate(task, float(scene.model.opt.timestep))
    if delay_s > 0.0:
        samples = int(np.ceil(delay_s / scene.model.opt.timestep)) + 1
        scene = build(
            task.scene,
            contract.joints,
            contract.action.joints,
            kp=contract.kp,
            kd=contract.kd,
            base=task.base,
            delay_samples=samples,
        )
    if scene.base is None and (task.fall is not None or task.command is not None):
        raise RobotError(
            f"task '{task.name}' needs a floating base, which scene {task.scene} does not have",
            hint="Add <freejoint/> to the base body",
        )
    return scene


def _fixed(command: Sequence[float], task: Task) -> Floats:
    values = np.asarray(command, np.float64)
    if task.contract.command is None or values.shape != (3,) or not np.isfinite(values).all():
        raise ContractError("the fixed command is wrong", found=command, expected="three finite numbers: vx, vy, wz")
    return values


class _Randomiser:
    """Per-world model fields, drawn anew at each reset."""

    def __init__(self, worlds: Worlds) -> None:
        randomise, scene, sim = worlds.randomise, worlds.scene, worlds.sim
        model = scene.model
        self._worlds = worlds
        self._fields = {name: sim.expand(name) for name in needs_model_fields(randomise)}
        self._nominal = {name: getattr(model, name).copy() for name in self._fields}
        self._geoms = [_id(model, "geom", name, worlds.task) for name in randomise.friction_geoms]
        self._mass_body = _id(model, "body", randomise.mass_body, worlds.task) if randomise.mass_add_kg else -1
        joints = worlds.contract.action.joints
        self._actuators = [scene.actuator_ids[scene.joints.index(name)] for name in joints]

    def apply(self, rows: Floats, index: Any, mask: Mask | None) -> None:
        worlds = self._worlds
        randomise, draws = worlds.randomise, worlds._draws
        if randomise.friction is not None:
            friction = within(draws.column(rows, "friction"), randomise.friction)
            values = self._fields["geom_friction"][index]
            values[:, self._geoms, 0] = friction
            self._fields["geom_friction"][index] = values
        if randomise.mass_add_kg is not None:
            nominal = self._nominal["body_mass"][self._mass_body]
            mass = nominal + within(draws.column(rows, "mass")[:, 0], randomise.mass_add_kg)
            self._fields["body_mass"][index, self._mass_body] = mass
            inertia = self._nominal["body_inertia"][self._mass_body]
            self._fields["body_inertia"][index, self._mass_body] = inertia * (mass / nominal)[:, None]
            worlds.sim.set_const(mask)
        if randomise.kp is not None:
            kp = self._nominal["actuator_gainprm"][self._actuators, 0] * within(draws.column(rows, "kp"), randomise.kp)
            self._assign("actuator_gainprm", index, 0, kp)
            self._assign("actuator_biasprm", index, 1, -kp)
        if randomise.kd is not None:
            kd = self._nominal["actuator_biasprm"][self._actuators, 2] * within(draws.column(rows, "kd"), randomise.kd)
            self._assign("actuator_biasprm", index, 2, kd)
        if randomise.delay_s is not None:
            delay = within(draws.column(rows, "delay"), randomise.delay_s)
            values = self._fields["actuator_delay"][index]
            values[:, self._actuators] = delay
            self._fields["actuator_delay"][index] = values

    def _assign(self, field: str, index: Any, parameter: int, values: Floats) -> None:
        rows = self._fields[field][index]
        rows[:, self._actuators, parameter] = values
        self._fields[field][index] = rows


def _id(model: Any, kind: str, name: str, task: Task) -> int:
    try:
        return int(getattr(model, kind)(name).id)
    except KeyError:
        raise RobotError(f"task '{task.name}' randomises a {kind} '{name}' that its scene does not have") from None
