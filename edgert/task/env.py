"""The Gymnasium environments of a task: `TaskVecEnv` for many worlds, `TaskEnv` for one.

Both are thin drivers of `Worlds`; the vector environment equals a `SyncVectorEnv` of single ones bit for bit, infos
included, in all three autoreset modes. Observations, rewards and infos are new objects at every call.

Info keys: `command` (3,) of a task with commands and `velocity` (3,) = vx, vy m/s, wz rad/s in the base frame of a
floating base, after every reset and step; after every step `reward_<term>`, the weighted value of each reward term, and
`is_success`, whether the criterion of a task that has one holds at that instant.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Space
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from edgert.contract.motion import Motion
from edgert.errors import UnsupportedError
from edgert.policy import LoadedPolicy
from edgert.policy.load_motion import load_motion
from edgert.sim.batch import check_count
from edgert.task.commands import asked
from edgert.task.place import place_of
from edgert.task.task import Task, load_task
from edgert.task.worlds import Worlds

Observation = Any
"""An array (…, dim) of a policy with one input, else a dict of them by ONNX input; float32."""
Action = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
ACTION_BOUND = 100.0
"""Bound of the action space where the contract sets no clip."""


def _spaces(worlds: Worlds) -> tuple[Space[Observation], Space[Action]]:
    action = worlds.contract.action
    nact = len(action.joints)
    bounds = np.array(action.clip or ((-ACTION_BOUND, ACTION_BOUND),) * nact, np.float32)
    boxes = {name: Box(-np.inf, np.inf, (spec.dim,), np.float32) for name, spec in worlds.contract.inputs.items()}
    observation = next(iter(boxes.values())) if len(boxes) == 1 else Dict(boxes)  # type: ignore[arg-type]
    actions = Box(bounds[:, 0], bounds[:, 1], (nact,), np.float32)
    return cast(Space[Observation], observation), cast(Space[Action], actions)  # Box does not tell its dtype


def _shown(observation: Mapping[str, npt.NDArray[Any]], world: int | None = None) -> Observation:
    """A copy of what all worlds see, or one of them, in the form of the space."""
    copies = {name: (rows if world is None else rows[world]).copy() for name, rows in observation.items()}
    return next(iter(copies.values())) if len(copies) == 1 else copies


def _update(observation: Mapping[str, npt.NDArray[Any]], mask: Flags, new: Mapping[str, npt.NDArray[Any]]) -> None:
    for name, rows in observation.items():
        rows[mask] = new[name]


def _check_render_mode(render_mode: str | None) -> None:
    if render_mode is not None:
        raise UnsupportedError("the environments do not render", found=f"render_mode {render_mode!r}", expected="None")


def _task(
    sim: str | Path, policy: str | Path | LoadedPolicy | None, contract: str | Path | None
) -> tuple[Task, Motion | None]:
    """The task of a sim, under the contract of a policy if one is named, and the motion that this one follows."""
    if policy is None:
        if contract is not None:
            raise UnsupportedError(
                "a contract needs its policy", found=f"contract {contract}", hint="Name it: policy=…"
            )
        return load_task(sim), None
    place = place_of(sim)
    if not isinstance(policy, LoadedPolicy):
        policy = place.load(policy, None if contract is None else Path(contract), None)
    elif contract is not None:
        raise UnsupportedError("a loaded policy has its contract", found=f"contract {contract}", hint="Leave it out")
    motion = load_motion(policy)
    return place.under(policy.contract, None, motion), motion


class TaskVecEnv(VectorEnv[Observation, Action, npt.NDArray[Any]]):
    """`num_envs` worlds of a bundled sim (by name) or of a task of your own (by path).

    Args:
        num_envs: number of worlds.
        sim: name of a bundled sim, or a folder with a `task.toml`; with a `policy` also a scene (.xml).
        max_episode_steps: truncate episodes after fewer steps than the task's episode has.
        autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED, as Gymnasium defines them.
        randomise: draw the task's randomisation at each reset.
        command: a fixed command instead of drawn ones.
        nthread: physics threads, 0: one per CPU.
        policy: whose contract counts instead of the task's own: a file, a bundled one's name, or one that is loaded.
        contract: a policy.toml of your own for it.
        render_mode: None, the only one there is.

    Attributes:
        elapsed: (num_envs,) control steps since the reset of each world; may be written, to spread time limits.

    Raises:
        EdgertError: the task cannot be found or run, or an argument is out of range.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        sim: str | Path = "quadruped",
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        randomise: bool = True,
        command: Sequence[float] | None = None,
        policy: str | Path | LoadedPolicy | None = None,
        contract: str | Path | None = None,
        nthread: int = 0,
        render_mode: str | None = None,
    ) -> None:
        _check_render_mode(render_mode)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.task, motion = _task(sim, policy, contract)
        asks = asked(self.task, command)
        self.worlds = Worlds(self.task, num_envs, nthread=nthread, randomise=randomise, command=asks, motion=motion)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = _spaces(self.worlds)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._limit = _limit(self.task, max_episode_steps)
        self.elapsed = np.zeros(num_envs, np.int64)
        self._done = np.zeros(num_envs, np.bool_)
        self._observation: dict[str, npt.NDArray[Any]] | None = None
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._seeds: list[int] = [-1] * num_envs
        self._everyone = np.ones(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start new episodes; `options={"reset_mask": bool (num_envs,)}` resets some worlds only.

        Raises:
            TypeError, ValueError: the mask or the seeds have the wrong type or shape, as in Gymnasium.
        """
        seeds = _seeds(seed, self.num_envs)
        mask = None
        if options is not None and "reset_mask" in options:
            mask = _checked_mask(options.pop("reset_mask"), self.num_envs)
        if mask is not None and self._observation is None:
            raise ResetNeeded("reset all worlds before resetting some with options['reset_mask']")
        self._seed(seeds, self._everyone if mask is None else mask)
        self.worlds.reset(mask)
        if mask is None or self._observation is None:
            self.elapsed[:] = 0
            self._done[:] = False
            self._observation = self.worlds.observe()
        else:
            self.elapsed[mask] = 0
            self._done[mask] = False
            _update(self._observation, mask, self.worlds.observe(mask))
        return _shown(self._observation), self._state_info({}, mask)

    def step(self, actions: Action) -> tuple[Observation, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        """One control step of every world; `autoreset_mode` says what happens to those that ended.

        Raises:
            ContractError: the actions have the wrong shape or are not finite; nothing was stepped then.
            AssertionError: mode DISABLED, and a world that ended was not reset, as in Gymnasium.
            ResetNeeded: there was no reset yet.
        """
        if self._observation is None:
            raise ResetNeeded("call reset before step")
        resetting: Flags | None = None  # no world
        stepped: Flags | None = None  # every world
        if self._done.any():
            if self.autoreset_mode is AutoresetMode.DISABLED:
                raise AssertionError(f"worlds {np.flatnonzero(self._done)} ended and were not reset")
            if self.autoreset_mode is AutoresetMode.NEXT_STEP:
                resetting, stepped = self._done, ~self._done
                actions = _without(actions, resetting)
        worlds = self.worlds
        worlds.step(actions, stepped)
        self.elapsed += 1
        reward = worlds.reward.copy()
        terminated = worlds.terminated.copy()
        truncated = self.elapsed >= self._limit
        infos: dict[str, Any] = {}
        worlds.resample(stepped)
        if resetting is not None:
            reward[resetting] = 0.0
            terminated[resetting] = truncated[resetting] = False
            self._restart(resetting)
        observation = self._observation = worlds.observe()
        self._done = done = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP and done.any():
            final = np.full(self.num_envs, None, dtype=object)
            for world in np.flatnonzero(done).tolist():
                final[world] = _shown(observation, world)
            infos |= {"final_obs": final, "_final_obs": done.copy()}
            infos |= {"final_info": self._reward_info(self._state_info({}, done), done), "_final_info": done.copy()}
            self._reward_info(infos, ~done)
            self._restart(done)
            _update(observation, done, worlds.observe(done))
        else:
            self._reward_info(infos, stepped)
        self._state_info(infos, None)
        return _shown(observation), reward, terminated, truncated, infos

    @property
    def dt(self) -> float:
        """Control period, s, named as in Gymnasium's MuJoCo environments."""
        return self.task.contract.period_s

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulation."""
        self.worlds.close()

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # one a world, as SyncVectorEnv has it
        """The seed of each world, -1 before its first reset."""
        return tuple(self._seeds)

    @property  # type: ignore[misc]  # a generator of each world cannot be set through the environment
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generator of each world, none before the first reset."""
        return tuple(generator for generator in self._generators if generator is not None)

    def _seed(self, seeds: Sequence[int | None], mask: Flags) -> None:
        new: list[np.random.Generator | None] = [None] * self.num_envs
        for world in np.flatnonzero(mask).tolist():
            if seeds[world] is not None or self._generators[world] is None:
                generator, self._seeds[world] = seeding.np_random(seeds[world])
                new[world] = self._generators[world] = generator
        self.worlds.seed(new)

    def _restart(self, mask: Flags) -> None:
        self.worlds.reset(mask)
        self.elapsed[mask] = 0

    def _state_info(self, infos: dict[str, Any], mask: Flags | None) -> dict[str, Any]:
        """Add what is known after resets and steps of the worlds of the mask (None: all)."""
        for key, values in self.worlds.described().items():
            infos[key] = values.copy() if mask is None else np.where(mask[:, None], values, 0.0)
            infos[f"_{key}"] = np.ones(self.num_envs, np.bool_) if mask is None else mask.copy()
        return infos

    def _reward_info(self, infos: dict[str, Any], mask: Flags | None) -> dict[str, Any]:
        """Add the reward terms of the worlds of the mask (None: all); the rows of one new table serve all terms."""
        if mask is not None and not mask.any():
            return infos
        table = self.worlds.reward_table
        values = table.copy() if mask is None else np.where(mask, table, 0.0)
        present = np.ones(table.shape, np.bool_) if mask is None else np.repeat(mask[None, :], len(table), axis=0)
        for row, name in enumerate(self.worlds.reward_terms):
            infos[f"reward_{name}"] = values[row]
            infos[f"_reward_{name}"] = present[row]
        if self.worlds.success is not None:
            success = self.worlds.success
            infos["is_success"] = success.copy() if mask is None else success & mask
            infos["_is_success"] = np.ones(self.num_envs, np.bool_) if mask is None else mask.copy()
        return infos


def _limit(task: Task, max_episode_steps: int | None) -> int:
    """Steps after which an episode is truncated: the task's length, or fewer."""
    if max_episode_steps is None:
        return task.episode_steps
    return min(task.episode_steps, check_count("steps of an episode", max_episode_steps, 1, sys.maxsize))


def _without(actions: npt.ArrayLike, resetting: Flags) -> npt.NDArray[Any]:
    """A copy of the actions with those of resetting worlds, which nobody judges, at 0."""
    result = np.array(actions)
    if result.shape[:1] == resetting.shape:
        result[resetting] = 0.0
    return result


def _seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """One seed a world: seed + i, or those given."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + i for i in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(f"one seed for each world is needed: num_envs={num_envs}, got {len(seed)}")
    return list(seed)


def _checked_mask(mask: object, num_envs: int) -> Flags:
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"options['reset_mask'] must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(f"options['reset_mask'] must have shape ({num_envs},), got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] must have dtype bool, got {mask.dtype}")
    if not mask.any():
        raise ValueError("options['reset_mask'] must be True somewhere, got all False")
    return mask


class TaskEnv(gymnasium.Env[Observation, Action]):
    """One world of a task; arguments as for `TaskVecEnv`. Episodes have the task's length, or less by a `TimeLimit`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # declared so by Gymnasium

    def __init__(
        self,
        *,
        sim: str | Path = "quadruped",
        randomise: bool = True,
        command: Sequence[float] | None = None,
        policy: str | Path | LoadedPolicy | None = None,
        contract: str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        _check_render_mode(render_mode)
        self.task, motion = _task(sim, policy, contract)
        self.worlds = Worlds(
            self.task, 1, nthread=1, randomise=randomise, command=asked(self.task, command), motion=motion
        )
        self.observation_space, self.action_space = _spaces(self.worlds)
        self.render_mode = render_mode
        self._seeded = False

    @property
    def dt(self) -> float:
        """Control period, s, named as in Gymnasium's MuJoCo environments."""
        return self.task.contract.period_s

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self.worlds.seed([self.np_random])
            self._seeded = True
        self.worlds.reset()
        return _shown(self.worlds.observe(), 0), self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One control step.

        Raises:
            ContractError: the action has the wrong shape or is not finite; nothing was stepped then.
            ResetNeeded: there was no reset yet.
        """
        if not self._seeded:
            raise ResetNeeded("call reset before step")
        worlds = self.worlds
        worlds.step([action])
        reward, terminated = float(worlds.reward[0]), bool(worlds.terminated[0])
        worlds.resample()
        info = self._info()
        info |= {f"reward_{name}": float(values[0]) for name, values in worlds.reward_terms.items()}
        if worlds.success is not None:
            info["is_success"] = bool(worlds.success[0])
        truncated = bool(worlds.steps[0] >= self.task.episode_steps)
        return _shown(worlds.observe(), 0), reward, terminated, truncated, info

    def close(self) -> None:
        """Release the simulation."""
        self.worlds.close()

    def _info(self) -> dict[str, Any]:
        return {key: values[0].copy() for key, values in self.worlds.described().items()}
