"""`Worlds`: many copies of a task in one simulation: reset, step, observe, reward, terminate.

The batched core under the Gymnasium environments and under closed-loop evaluation. It knows nothing of autoreset:
whoever drives it says which worlds to reset. World i depends on its own generator and its own actions alone, bit for
bit, whatever the number of worlds and threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.contract.motion import Motion, MotionPlayer, check_motion, tracked_bodies
from edgert.contract.observe import check_state, make_term_inputs
from edgert.contract.senses import senses_of
from edgert.contract.terms import advance_phase, gravity_in_body, rotate_to_body
from edgert.errors import ContractError, RobotError
from edgert.sim.batch import MAX_WORLDS, BatchSim, check_count, check_memory, world_bytes
from edgert.sim.body import SimBody
from edgert.sim.drives import build_for
from edgert.sim.motion import in_scene, start_of
from edgert.sim.protocol import Floats, Mask
from edgert.sim.scene import Scene
from edgert.sim.senses import sense_bytes
from edgert.tables import MAX_MAGNITUDE
from edgert.task.actuation import Actuation
from edgert.task.commands import fixed_command
from edgert.task.draws import Generators, ResetDraws, around, draw_bytes, draw_commands, spread
from edgert.task.observing import Observation, Observations, noise_scale, observation_bytes
from edgert.task.randomise import Randomiser, needs_model_fields, randomised
from edgert.task.rewards import RewardInputs, fallen, goal_distance
from edgert.task.sampling import CommandSampling, Randomisation
from edgert.task.scoring import check_terms
from edgert.task.task import Task, check_rate


class Worlds(Closes):
    """`nworld` worlds of `task`.

    Args:
        task: what to run.
        nworld: number of worlds.
        nthread: physics threads, 0 for one per CPU.
        randomise: draw the task's randomisation at each reset; False keeps the nominal robot and no noise.
        command: a fixed command (vx m/s, vy m/s, wz rad/s) instead of drawn ones.
        motion: the reference motion of a tracking policy; each episode begins around its first frame.

    Attributes that callers read; all are refreshed in place:
        reward: (nworld,) the sum of `reward_table`.
        reward_table: (number of terms, nworld) weighted values of this step; `reward_terms` names its rows.
        success: (nworld,) where the task's criterion holds now; None for a task without one.
        terminated: (nworld,) where the robot fell, or where physics diverged since the world's reset.
        velocity: (nworld, 3) of the base origin, base frame, m/s.

    Raises:
        IntegrityError, RobotError: the scene cannot be used for this task.
        ContractError: a term of the contract, a reward or the command does not fit the scene.
    """

    def __init__(
        self,
        task: Task,
        nworld: int,
        *,
        nthread: int = 0,
        randomise: bool = True,
        command: Sequence[float] | None = None,
        motion: Motion | None = None,
    ) -> None:
        self.task = task
        self.nworld = nworld
        self.contract = contract = task.contract
        self.randomise = task.randomise if randomise else type(task.randomise)()
        self.scene = build_scene(task, delay_s=self.randomise.delay_s[1] if self.randomise.delay_s else 0.0)
        targets = randomised(task, self.scene)
        noise = noise_scale(contract, self.randomise.noise)
        _check_size(nworld, self.scene, task, self.randomise, noise)
        self.sim = BatchSim(self.scene.model, nworld, nthread)
        self.body = SimBody(self.sim, self.scene, tracked_bodies(contract), senses_of(contract))
        self.motion = in_scene(motion, contract, self.scene)
        check_motion(contract, self.motion)
        self._player = None if self.motion is None else MotionPlayer(self.motion, self.body.state, nworld)
        self._start = None if self.motion is None else start_of(self.scene, self.motion, contract.default_pos)
        check_state(contract, self.body.state, f"scene {task.scene.name}")
        self._fixed_command = None if command is None else fixed_command(command, task)

        nact = len(contract.action.joints)
        self.action = np.zeros((nworld, nact))
        self._last_action = np.zeros((nworld, nact))
        self.command = np.zeros((nworld, 3 if contract.command is not None else 0))
        self.phase = np.zeros(nworld)
        self.steps = np.zeros(nworld, np.int64)
        self.velocity = np.zeros((nworld, 3))
        self.reward = np.zeros(nworld)
        self.reward_table = np.zeros((len(task.rewards), nworld))
        self.reward_terms: dict[str, Floats] = {
            term.name: row for term, row in zip(task.rewards, self.reward_table, strict=True)
        }
        self.terminated = np.zeros(nworld, np.bool_)
        self.success = None if task.success is None else np.zeros(nworld, np.bool_)

        gains_differ = "actuator_biasprm" in needs_model_fields(self.randomise)
        self.asked = Actuation(contract, self.body, gains_differ=gains_differ)
        self._ctrl = self.sim.view("ctrl")
        self._qpos = self.sim.view("qpos")
        self._qvel = self.sim.view("qvel")
        self._inputs = make_term_inputs(
            contract,
            self.body.state,
            command=self.command,
            last_action=self.action,
            phase_rad=self.phase,
            xp=np,
            step=self.steps,
            motion=None if self._player is None else self._player.state,
        )
        self._generators = Generators(nworld, noise)
        self._observations = Observations(contract, self._inputs, self._generators)
        self._draws = ResetDraws(len(contract.joints), nact)
        self._randomiser = Randomiser(self.randomise, self.scene, self.sim, targets, self._draws)
        self._next_push = np.zeros(nworld, np.int64)
        self._next_command = np.zeros(nworld, np.int64)
        self._dt = contract.period_s
        self._rewarded = self._reward_inputs()
        self._weights = [term.weight * self._dt for term in task.rewards]
        check_terms(task, self._rewarded)

    def observe_in(self, types: Mapping[str, np.dtype[Any]]) -> None:
        """Let observations have the types of a network's inputs instead of float32; to be called before a reset."""
        self._observations = Observations(self.contract, self._inputs, self._generators, types)

    def seed(self, generators: Sequence[np.random.Generator | None]) -> None:
        """Give worlds their generators; None keeps a world's own, or makes one from entropy."""
        self._generators.seed(generators)

    def reset(self, mask: Mask | None = None) -> None:
        """Start a new episode in the worlds of the mask (None: all)."""
        worlds = np.arange(self.nworld) if mask is None else np.flatnonzero(mask)
        if len(worlds) == 0:
            return
        index: Any = slice(None) if mask is None else worlds
        rows = self._generators.rows(worlds.tolist(), self._draws.width)
        self._randomiser.apply(rows, index, mask)
        self.sim.reset(mask, keyframe=self.scene.keyframe)
        self._perturb(rows, index)
        self._hold(worlds)
        self.body.refresh()
        self.action[index] = 0.0
        self._last_action[index] = 0.0
        self.asked.aim(self.action[index], index)
        self.body.settle(mask)
        self.sim.forward(mask)
        self.body.refresh()

        self.steps[index] = 0
        self.terminated[index] = False
        self._observations.reset(mask)
        if self._player is not None:
            self._player.reset(mask)
        if self.success is not None:
            self.success[index] = False
        self.phase[index] = 0.0
        if self._fixed_command is not None:
            self.command[index] = self._fixed_command
        elif self.task.command is not None:
            self.command[index] = draw_commands(self._draws.column(rows, "command"), self.task.command)
            self._next_command[index] = self._steps_of(self.task.command.resample_s)
        if self.randomise.push_interval_s is not None:
            interval = self._steps_of(self.randomise.push_interval_s)
            self._next_push[index] = 1 + (self._draws.column(rows, "push")[:, 0] * interval).astype(np.int64)
        self._measure(index)

    def step(self, actions: npt.ArrayLike, active: Mask | None = None) -> None:
        """One control step in every world. `actions` (nworld, nact) are raw network outputs.

        Worlds outside `active` (None: all) move too, but draw nothing: they are about to be reset.

        Raises:
            ContractError: the shape is wrong, or an action is not finite; nothing was stepped then.
        """
        try:
            raw = np.asarray(actions)
            raw = raw.astype(np.float64, copy=False) if raw.dtype.kind in "fiu" else np.zeros(0)
        except (TypeError, ValueError, OverflowError) as error:
            raise ContractError("actions are not an array of numbers", found=error) from error
        if raw.shape != self.action.shape:
            raise ContractError("actions have the wrong shape", found=raw.shape, expected=self.action.shape)
        if not (np.abs(raw) <= MAX_MAGNITUDE).all():
            world = int(np.flatnonzero(~(np.abs(raw) <= MAX_MAGNITUDE).all(axis=1))[0])
            raise ContractError(
                f"the action of world {world} is not finite or absurd",
                found=raw[world],
                expected=f"finite numbers of at most {MAX_MAGNITUDE:g} in magnitude",
            )
        self._last_action[:] = self.action
        self.action[:] = raw
        self.asked.aim(self.action)
        self._push(active)
        self.sim.step(self.task.decimation)
        self.body.refresh()
        self.steps += 1
        self._measure(slice(None))
        self._score()
        if self.contract.phase is not None:
            self.phase[:] = advance_phase(self.phase, self.command, self.contract.phase, self._dt, np)
        if self._player is not None:
            self._player.advance()

    def observe(self, mask: Mask | None = None) -> Observation:
        """Each input of the policy in the worlds of the mask (None: all), with noise if the task has some."""
        if self._player is not None:
            self._player.refresh()
        self.body.look(mask)
        return self._observations(mask, self.terminated if self.terminated.any() else None)

    def resample(self, mask: Mask | None = None) -> None:
        """Draw new commands where they are due, in the worlds of the mask; call it after the step was scored."""
        sampling = self.task.command
        if sampling is None or self._fixed_command is not None:
            return
        due = self.steps >= self._next_command
        if mask is not None:
            due &= mask
        worlds = np.flatnonzero(due)
        if len(worlds) > 0:
            unit = self._generators.rows(worlds.tolist(), 5)
            self.command[worlds] = draw_commands(unit, sampling)
            self._next_command[worlds] += self._steps_of(sampling.resample_s)

    def body_velocity(self, mask: Mask | None = None) -> Floats:
        """A copy of the base velocity of the worlds of the mask (None: all), (n, 3).

        vx, vy in m/s at the base origin and wz in rad/s, base frame.
        """
        result = self.velocity.copy() if mask is None else self.velocity[mask]
        if self.body.state.base_ang_vel is not None:
            rate = self.body.state.base_ang_vel[:, 2]
            result[:, 2] = rate if mask is None else rate[mask]
        return result

    def goal_distance(self) -> Floats | None:
        """Distance of the end effector from the commanded position, (nworld,) m; None for a task without one."""
        success = self.task.success
        aims = [term.parameters for term in self.task.rewards if term.name == "goal_distance"]
        aims += [success.parameters] if success is not None and success.name == "goal_near" else []
        if not aims:
            return None
        return cast(Floats, goal_distance(self._rewarded, aims[0], np))

    def described(self) -> dict[str, Floats]:
        """What is worth telling of every world at any time, live arrays: `command` and `velocity`, where they exist."""
        told = {"command": self.command} if self.contract.command is not None else {}
        return told | ({"velocity": self.body_velocity()} if self.scene.base is not None else {})

    def close(self) -> None:
        """Release the simulation."""
        self.body.close()
        self.sim.close()

    def _steps_of(self, seconds: float) -> int:
        return max(1, round(seconds * self.contract.control_hz))

    def _hold(self, worlds: npt.NDArray[np.intp]) -> None:
        """Let the scene's own actuators of joints that the contract does not name hold them."""
        held = self.scene.held
        self._ctrl[worlds[:, None], list(held.actuator_ids)] = held.ctrl

    def _perturb(self, rows: Floats, index: Any) -> None:
        """Spread the initial state of the worlds of `index` around the keyframe, or a motion's first frame."""
        positions, velocities = self._qpos[index], self._qvel[index]
        if self._start is not None:
            positions[:], velocities[:] = self._start
        elif self.scene.keyframe < 0:
            positions[:, list(self.scene.qpos_adr)] = self.contract.default_pos
        spread(positions, velocities, self.scene, self.task.reset, self._draws, rows)
        self._qpos[index] = positions
        self._qvel[index] = velocities

    def _push(self, active: Mask | None) -> None:
        """Kick the base sideways in the active worlds where a push is due."""
        if self.randomise.push_interval_s is None:
            return
        due = self.steps == self._next_push
        if active is not None:
            due &= active
        worlds = np.flatnonzero(due)
        if len(worlds) > 0:
            unit = self._generators.rows(worlds.tolist(), 2)
            dof = self.scene.base_dof_adr
            push = around(unit, self.randomise.push_m_s)
            if self.randomise.push_speed_m_s > 0.0:
                turn = 2.0 * np.pi * unit[:, 0]
                push = self.randomise.push_speed_m_s * np.stack((np.cos(turn), np.sin(turn)), axis=1)
            self._qvel[worlds, dof : dof + 2] += push
            self._next_push[worlds] += self._steps_of(self.randomise.push_interval_s)

    def _measure(self, index: Any) -> None:
        state = self.body.state
        if state.base_quat is not None:
            self.velocity[index] = rotate_to_body(state.base_quat[index], state.base_lin_vel[index], np)  # type: ignore[index]

    def _reward_inputs(self) -> RewardInputs:
        """What rewards read, made once: `_score` refreshes `gravity` and `joint_error`, the rest are live arrays."""
        floating = self.body.state.base_quat is not None
        return RewardInputs(
            state=self.body.state,
            command=self.command,
            velocity=self.velocity if floating else None,
            gravity=np.zeros((self.nworld, 3)) if floating else None,
            action=self.action,
            last_action=self._last_action,
            joint_error=np.zeros((self.nworld, len(self.contract.joints))),
            phase_rad=self.phase if self.contract.phase is not None else None,
        )

    def _score(self) -> None:
        state, task, inputs = self.body.state, self.task, self._rewarded
        inputs.joint_error[:] = state.joint_pos - self._inputs.default_pos
        if inputs.gravity is not None:
            inputs.gravity = gravity_in_body(state.base_quat, np)
        self.reward[:] = 0.0
        for term, weight, row in zip(task.rewards, self._weights, self.reward_table, strict=True):
            np.multiply(term.function(inputs, term.parameters, np), weight, out=row)
            self.reward += row
        self.terminated[:] = self.sim.diverged()
        if task.success is not None:
            self.success[:] = task.success.function(inputs, task.success.parameters, np)  # type: ignore[index]
        if task.fall is not None:
            height = state.base_pos[:, 2]  # type: ignore[index]  # build_scene refused a fixed base
            self.terminated |= fallen(inputs.gravity, height, task.fall.tilt_rad, task.fall.height_m, np)
        if self.terminated.any():  # a world that diverged may have no numbers left; a learner must not see NaN
            lost = self.terminated & ~np.isfinite(self.reward)
            self.reward[lost] = 0.0
            self.reward_table[:, lost] = 0.0


def build_scene(task: Task, *, delay_s: float = 0.0) -> Scene:
    """The task's scene with the contract's actuators, and room for an actuator delay of up to `delay_s`."""
    contract = task.contract
    scene = build_for(contract, task.scene, base=task.base, max_delay_s=delay_s)
    check_rate(task, scene)
    pushed = task.randomise.push_interval_s is not None
    driven = isinstance(task.command, CommandSampling)
    if scene.base is None and (task.fall is not None or driven or pushed):
        raise RobotError(
            f"task '{task.name}' needs a floating base, which scene {task.scene} does not have",
            hint="Add <freejoint/> to the base body",
        )
    return scene


def _check_size(nworld: int, scene: Scene, task: Task, randomise: Randomisation, noise: Floats) -> None:
    """Refuse more worlds than the memory holds."""
    check_count("worlds", nworld, 1, MAX_WORLDS)
    seen = observation_bytes(task.contract) + sum(sense_bytes(sense) for sense in senses_of(task.contract))
    check_memory(nworld, world_bytes(scene.model, needs_model_fields(randomise)) + draw_bytes(noise) + seen)
