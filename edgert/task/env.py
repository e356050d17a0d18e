"""The Gymnasium environments of a task: `TaskVecEnv` for many worlds, `TaskEnv` for one.

Both are thin drivers of `Worlds`; the vector environment equals a `SyncVectorEnv` of single ones bit for bit, infos
included, in all three autoreset modes. Observations, rewards and infos are new objects at every call.

Info keys: `command` (3,) and `velocity` (3,) = vx, vy m/s, wz rad/s in the base frame, after every reset and step;
`reward_<term>` after every step: the weighted value of each reward term.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from edgert.task.task import load_task
from edgert.task.worlds import Worlds

Observation = npt.NDArray[np.float32]
Action = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
ACTION_BOUND = 100.0
"""Bound of the action space where the contract sets no clip."""


def _spaces(worlds: Worlds) -> tuple[Box, Box]:
    low, high = worlds.contract.action.clip or (-ACTION_BOUND, ACTION_BOUND)
    nact = len(worlds.contract.action.joints)
    observation = Box(-np.inf, np.inf, (worlds.observation_dim,), np.float32)
    return observation, Box(np.float32(low), np.float32(high), (nact,), np.float32)


class TaskVecEnv(VectorEnv[Observation, Action, npt.NDArray[Any]]):
    """`num_envs` worlds of a bundled sim (by name) or of a task of your own (by path).

    Args:
        num_envs: number of worlds.
        sim: name of a bundled sim, or a folder with a `task.toml`.
        max_episode_steps: steps after which an episode is truncated; None: the task's episode length.
        autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED, as Gymnasium defines them.
        randomise: draw the task's randomisation at each reset.
        command: a fixed command instead of drawn ones.
        nthread: physics threads, 0: one per CPU.
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
        nthread: int = 0,
        render_mode: None = None,
    ) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.task = load_task(sim)
        self.worlds = Worlds(self.task, num_envs, nthread=nthread, randomise=randomise, command=command)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode, "render_fps": self._fps()}
        self.single_observation_space, self.single_action_space = _spaces(self.worlds)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._limit = self.task.episode_steps if max_episode_steps is None else max_episode_steps
        self._elapsed = np.zeros(num_envs, np.int64)
        self._done = np.zeros(num_envs, np.bool_)
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._seeds: list[int] = [-1] * num_envs
        self._everyone = np.ones(num_envs, np.bool_)

    def _fps(self) -> float:
        return self.task.contract.control_hz

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start new episodes; `options={"reset_mask": bool (num_envs,)}` resets some worlds only.

        Raises:
            TypeError, ValueError: the mask or the seeds have the wrong type or shape, as in Gymnasium.
        """
        seeds = [None if seed is None else seed + i for i in range(self.num_envs)] if not _many(seed) else list(seed)  # type: ignore[arg-type,operator]
        if len(seeds) != self.num_envs:
            raise ValueError(f"one seed per world is needed: num_envs={self.num_envs}, got {len(seeds)}")
        mask = self._everyone
        if options is not None and "reset_mask" in options:
            mask = _checked_mask(options.pop("reset_mask"), self.num_envs)
        self._seed(seeds, mask)
        self._restart(mask)
        self._done[mask] = False
        if mask is self._everyone:
            self._observation = self.worlds.observe()
        else:
            self._observation = self._observation.copy()
            self._observation[mask] = self.worlds.observe(mask)
        return self._observation.copy(), self._state_info({}, mask)

    def step(self, actions: Action) -> tuple[Observation, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        """One control step of every world; see the class for what happens to those that ended."""
        if self.autoreset_mode is AutoresetMode.DISABLED and self._done.any():
            raise AssertionError(f"worlds {np.flatnonzero(self._done)} ended and were not reset")
        resetting = self._done if self.autoreset_mode is AutoresetMode.NEXT_STEP else ~self._everyone
        worlds = self.worlds
        if resetting.any():
            actions = np.where(resetting[:, None], np.float32(0.0), actions)
        stepped = ~resetting
        worlds.step(actions, stepped)
        self._elapsed += 1
        reward = worlds.reward.copy()
        terminated = worlds.terminated.copy()
        truncated = self._elapsed >= self._limit
        infos: dict[str, Any] = {}
        if resetting.any():
            reward[resetting] = 0.0
            terminated[resetting] = truncated[resetting] = False
            worlds.resample(stepped)
            self._restart(resetting)
        else:
            worlds.resample()
        self._observation = worlds.observe()
        self._done = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._done.any():
            done = self._done
            final = np.full(self.num_envs, None, dtype=object)
            for world in np.flatnonzero(done):
                final[world] = self._observation[world].copy()
            infos |= {"final_obs": final, "_final_obs": done.copy()}
            infos |= {"final_info": self._reward_info(self._state_info({}, done), done), "_final_info": done.copy()}
            self._reward_info(infos, ~done)
            self._restart(done)
            self._observation[done] = worlds.observe(done)
        else:
            self._reward_info(infos, stepped)
        self._state_info(infos, self._everyone)
        return self._observation.copy(), reward, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulation."""
        self.worlds.close()

    @property
    def np_random_seed(self) -> tuple[int, ...]:
        """The seed of each world, -1 where it came from entropy."""
        return tuple(self._seeds)

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:
        """The generator of each world."""
        return tuple(generator for generator in self._generators if generator is not None)

    def _seed(self, seeds: Sequence[int | None], mask: Flags) -> None:
        new: list[np.random.Generator | None] = [None] * self.num_envs
        for world in np.flatnonzero(mask):
            seed = seeds[world]
            if seed is not None or self._generators[world] is None:
                new[world], given = seeding.np_random(seed)
                self._generators[world] = new[world]
                self._seeds[world] = -1 if seed is None else given
        self.worlds.seed(new)

    def _restart(self, mask: Flags) -> None:
        self.worlds.reset(None if mask is self._everyone else mask)
        self._elapsed[mask] = 0

    def _state_info(self, infos: dict[str, Any], mask: Flags) -> dict[str, Any]:
        worlds = self.worlds
        _add(infos, "command", worlds.command, mask)
        _add(infos, "velocity", worlds.body_velocity(), mask)
        return infos

    def _reward_info(self, infos: dict[str, Any], mask: Flags) -> dict[str, Any]:
        if mask.any():
            for name, values in self.worlds.reward_terms.items():
                _add(infos, f"reward_{name}", values, mask)
        return infos


def _add(infos: dict[str, Any], key: str, values: npt.NDArray[Any], mask: Flags) -> None:
    where = mask if values.ndim == 1 else mask[:, None]
    infos[key] = np.where(where, values, np.zeros((), values.dtype))
    infos[f"_{key}"] = mask.copy()


def _many(seed: object) -> bool:
    return seed is not None and not isinstance(seed, (int, np.integer))


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
    """One world of a task; arguments as for `TaskVecEnv`. The episode length is Gymnasium's `TimeLimit`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        *,
        sim: str | Path = "quadruped",
        randomise: bool = True,
        command: Sequence[float] | None = None,
        render_mode: None = None,
    ) -> None:
        self.task = load_task(sim)
        self.worlds = Worlds(self.task, 1, nthread=1, randomise=randomise, command=command)
        self.observation_space, self.action_space = _spaces(self.worlds)
        self.render_mode = render_mode
        self._seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self.worlds.seed([self.np_random])
            self._seeded = True
        self.worlds.reset()
        return self.worlds.observe()[0], self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One control step."""
        worlds = self.worlds
        worlds.step(np.asarray(action)[None, :])
        reward, terminated = float(worlds.reward[0]), bool(worlds.terminated[0])
        worlds.resample()
        info = self._info()
        info |= {f"reward_{name}": float(values[0]) for name, values in worlds.reward_terms.items()}
        return worlds.observe()[0], reward, terminated, False, info

    def close(self) -> None:
        """Release the simulation."""
        self.worlds.close()

    def _info(self) -> dict[str, Any]:
        return {"command": self.worlds.command[0].copy(), "velocity": self.worlds.body_velocity()[0]}
