"""`GymWorlds`: any Gymnasium environment, or several of one kind, as rows that a policy can act on.

Whatever the environment does when an episode ends, a row always shows three things: what its step led to, whether it
was a step at all, and what to act on next. Errors of the environment become refusals that name it.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import metadata
from typing import Any, Final, TypeVar

import mujoco
import numpy as np
import numpy.typing as npt

from edgert.errors import EdgertError, UnknownNameError, UnsupportedError, importing, one_line
from edgert.rollout.layout import MAX_HZ, MIN_HZ
from edgert.tables import show

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
_Result = TypeVar("_Result")
MAX_NOTES: Final = 20
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_QUIET: Final = (DeprecationWarning, PendingDeprecationWarning, ResourceWarning, ImportWarning)
"""Warnings for the people who write an environment, not for those who use it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One step of every row.

    Attributes:
        after: (num_envs, dim) what the step led to; the last observation of an episode that ended.
        observation: (num_envs, dim) what to act on next; the first observation of the next episode.
        reward, terminated, truncated: (num_envs,)
    """

    after: Array
    observation: Array
    reward: npt.NDArray[np.float64]
    terminated: Flags
    truncated: Flags


class GymWorlds:
    """`num_envs` environments of one id: `gymnasium.make` for one, `gymnasium.make_vec` for more.

    Attributes:
        dim, nact: sizes of an observation and an action.
        low, high: (nact,) bounds of an action, in its dtype.
        period_s: time that one step takes, s.
        resetting: (num_envs,) rows whose next step only starts an episode, whatever the action is.

    Raises:
        UnknownNameError: there is no such environment.
        UnsupportedError: it cannot be made, is no environment of flat numbers, or does not tell its time step.
    """

    def __init__(self, env_id: str, num_envs: int) -> None:
        self.name = env_id
        self.num_envs = num_envs
        self._env = env = _make(env_id, num_envs)
        try:
            self._single = num_envs == 1
            self._guarded("telling its spaces", self._measure)
            self.period_s = self._guarded("telling its time step", self._told_period_s)
            self.episode_steps = self._guarded("telling its longest episode", self._told_episode_steps)
            self._next_step = not self._single and self._guarded("telling its restarts", self._restarts_at_next_step)
        except BaseException:
            with suppress(Exception, SystemExit):  # the first error is the one to tell
                env.close()
            raise
        self.resetting: Flags = np.zeros(num_envs, np.bool_)

    def reset(self, seed: int) -> Array:
        """Start an episode in every row, row i with seed + i; returns the observations (num_envs, dim)."""
        self.resetting[:] = False
        return self._guarded("reset", lambda: self._begin(seed))

    def step(self, actions: Array) -> Moved:
        """One step of every row by `actions` (num_envs, nact), in the action space's dtype.

        Raises:
            UnsupportedError: the environment fails, or gives other things than its spaces say.
        """
        moved = self._guarded("step", lambda: self._one(actions) if self._single else self._many(actions))
        if self._next_step:
            ended = moved.terminated | moved.truncated
            if (ended & self.resetting).any():
                raise self._other("ends an episode where it starts one", "an end at a reset", "a step in between")
            self.resetting = ended
        return moved

    def close(self) -> None:
        """Release the environment."""
        self._guarded("close", self._env.close)

    def _measure(self) -> None:
        env = self._env
        observation = env.observation_space if self._single else env.single_observation_space
        action = env.action_space if self._single else env.single_action_space
        self.dim = _flat(observation, f"environment '{self.name}' observes other things than a flat array", "iuf")
        self.nact = _flat(action, f"environment '{self.name}' takes other actions than a flat array", "f")
        self.low, self.high = action.low, action.high

    def _begin(self, seed: int) -> Array:
        observation, _ = self._env.reset(seed=seed)
        return self._observed([observation] if self._single else observation)

    def _one(self, actions: Array) -> Moved:
        after, reward, terminated, truncated, _ = self._env.step(actions[0])
        after = observation = self._observed([after])
        columns = self._columns([reward], [terminated], [truncated])
        if terminated or truncated:
            observation = self._observed([self._env.reset()[0]])
        return Moved(after, observation, *columns)

    def _many(self, actions: Array) -> Moved:
        after, reward, terminated, truncated, infos = self._env.step(actions)
        after = observation = self._observed(after)
        columns = self._columns(reward, terminated, truncated)
        ended = np.flatnonzero(columns[1] | columns[2])
        if not self._next_step and len(ended):
            observation, final = after.copy(), infos.get("final_obs")
            if final is None:
                raise self._other("gives no final_obs when an episode ends", "none", "one, in autoreset mode SAME_STEP")
            after[ended] = self._observed([final[row] for row in ended], len(ended))
        return Moved(after, observation, *columns)

    def _columns(self, reward: Any, terminated: Any, truncated: Any) -> tuple[npt.NDArray[np.float64], Flags, Flags]:
        columns = np.array(reward, np.float64), np.array(terminated, np.bool_), np.array(truncated, np.bool_)
        for column in columns:
            if column.shape != (self.num_envs,):
                raise self._other("gives other rewards or ends than one a step", list(column.shape), [self.num_envs])
        return columns

    def _observed(self, values: Any, rows: int | None = None) -> Array:
        """A copy, since environments may go on writing into what they gave."""
        array = np.array(values)
        expected = (self.num_envs if rows is None else rows, self.dim)
        if array.shape != expected or array.dtype.kind not in "biuf":
            found = f"{array.dtype}{list(array.shape)}"
            raise self._other("gives other observations than its space says", found, f"numbers {list(expected)}")
        return array

    def _other(self, what: str, found: object, expected: object) -> UnsupportedError:
        return UnsupportedError(f"environment '{self.name}' {what}", found=found, expected=expected)

    def _guarded(self, what: str, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except (EdgertError, KeyboardInterrupt):
            raise
        except BaseException as error:  # an environment may raise anything, and may end the program by sys.exit
            raise UnsupportedError(
                f"environment '{self.name}' fails in {what}", found=f"{type(error).__name__}: {_text(error)}"
            ) from error

    def _told_period_s(self) -> float:
        """What the environment says of its time step, as those of MuJoCo do, else of its frames, s."""
        env = self._env
        one = env if self._single else (getattr(env.unwrapped, "envs", None) or [env])[0]  # of a SyncVectorEnv
        dt: Any = getattr(one.unwrapped, "dt", None)
        fps: Any = env.metadata.get("render_fps")
        period_s = _number(dt) or 1.0 / (_number(fps) or math.inf)
        if not 1.0 / MAX_HZ <= period_s <= 1.0 / MIN_HZ:
            raise self._other(
                "does not tell its time step",
                f"dt {show(dt)}, metadata render_fps {show(fps)}",
                f"a property dt in s, or metadata['render_fps'] in Hz, of {MIN_HZ:g} to {MAX_HZ:g} Hz",
            )
        return period_s

    def _told_episode_steps(self) -> int | None:
        """The longest episode, as the environment was registered; None where nothing limits it."""
        told: Any = getattr(getattr(self._env, "spec", None), "max_episode_steps", None)
        task: Any = getattr(self._env.unwrapped, "task", None)  # of an environment of edgert
        told = told if told is not None else getattr(task, "episode_steps", None)
        return min(told, sys.maxsize) if isinstance(told, int) and told > 0 else None

    def _restarts_at_next_step(self) -> bool:
        from gymnasium.vector import AutoresetMode

        mode = self._env.metadata.get("autoreset_mode")
        if mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            raise self._other("restarts its episodes in another way", mode, "autoreset_mode NEXT_STEP or SAME_STEP")
        return bool(mode is AutoresetMode.NEXT_STEP)


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Put warnings for users into `notes`, each once and without colour, instead of on stderr.

    Python's and MuJoCo's, which would write them to MUJOCO_LOG.TXT in the working folder as well.
    """

    def note(text: str) -> None:
        text = one_line(_COLOUR.sub("", text)).removeprefix("WARN: ")
        if text not in notes and len(notes) < MAX_NOTES:
            notes.append(text)

    def show(message: Warning | str, category: type[Warning], *where: object) -> None:
        ours = "WARN: " in str(message)  # Gymnasium's own, of deprecated versions among them
        if ours or not issubclass(category, _QUIET):
            note(str(message))

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(note)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show  # type: ignore[assignment]  # takes what there is to say, not where
            yield
    finally:
        mujoco.set_mju_user_warning(before)


def _make(env_id: str, num_envs: int) -> Any:
    with importing("gymnasium", install="Run: pip install edgert"):
        import gymnasium
        from gymnasium.error import DependencyNotInstalled, UnregisteredEnv

    try:
        return gymnasium.make(env_id) if num_envs == 1 else gymnasium.make_vec(env_id, num_envs)
    except EdgertError:
        raise
    except UnregisteredEnv as error:
        raise UnknownNameError(
            f"no environment '{env_id}'",
            found=_text(error),
            hint="" if ":" in env_id else "Write module:Env-v0 to import the module that registers it",
        ) from error
    except (DependencyNotInstalled, ImportError) as error:
        extra = _extra(env_id)
        missing = getattr(error.__cause__ or error, "name", None)
        hint = f"Install the package of '{missing}', or add its folder to PYTHONPATH" if missing else ""
        raise UnsupportedError(
            f"environment '{env_id}' needs what is not installed",
            found=_text(error),
            hint=f'Run: pip install "gymnasium[{extra}]"' if extra else hint,
        ) from error
    except (Exception, SystemExit) as error:  # an environment, and the module that registers it, may raise anything
        raise UnsupportedError(
            f"environment '{env_id}' cannot be made", found=f"{type(error).__name__}: {_text(error)}"
        ) from error


def _text(error: BaseException) -> str:
    return str(error).rstrip(".")


def _extra(env_id: str) -> str:
    """The extra of Gymnasium that one of its own environments needs, or ""."""
    import gymnasium

    spec = gymnasium.registry.get(env_id)
    parts = re.split(r"[.:]", str(spec.entry_point)) if spec is not None else []
    if parts[:2] != ["gymnasium", "envs"]:
        return ""
    extra = parts[2].replace("_", "-")
    return extra if extra in (metadata("gymnasium").get_all("Provides-Extra") or ()) else ""


def _flat(space: Any, what: str, kinds: str) -> int:
    """The size of a Box of one axis whose numbers are of these kinds."""
    from gymnasium.spaces import Box

    if isinstance(space, Box) and len(space.shape) == 1 and space.shape[0] > 0 and space.dtype.kind in kinds:
        return int(space.shape[0])
    numbers = "floats" if kinds == "f" else "numbers"
    found = f"Box of {space.dtype}{list(space.shape)}" if isinstance(space, Box) else space
    raise UnsupportedError(what, found=found, expected=f"a Box of {numbers} with one axis")


def _number(value: Any) -> float:
    """A positive number, 0 for anything else; one that no float holds is infinite."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool) or not value > 0:
        return 0.0
    try:
        return float(value)
    except OverflowError:
        return math.inf
