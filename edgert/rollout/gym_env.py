"""A policy in closed loop with a Gymnasium environment: observations straight in, actions straight out.

No contract is asked for: the environment's spaces say what the numbers are. Actions are clipped to the action space,
and how many were outside is counted; anything that is not a number stops the run. It runs as fast as the CPU can.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from edgert.closing import Closes
from edgert.device import Device
from edgert.errors import UnsupportedError
from edgert.policy import OnnxModel, OnnxNetwork
from edgert.policy.engine import Placement
from edgert.policy.load import locate
from edgert.policy.model import read_policy
from edgert.policy.placing import place
from edgert.policy.where import Where
from edgert.rollout.gym_fit import fit
from edgert.rollout.gym_worlds import Array, Flags, GymWorlds, Moved, noting
from edgert.rollout.options import check_seed
from edgert.rollout.statistics import latency_us, summary
from edgert.sim.batch import check_count
from edgert.tables import is_number

DEFAULT_S: Final = 10.0
MAX_ENVS: Final = 65_536
MAX_STEPS: Final = 10_000_000
"""Most steps of one environment in one run."""
_WARM_UP_RUNS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvRun(Where):
    """What to run; on which chips, `Where` says, but that the environment decides about its physics.

    Attributes:
        env_id: the environment's id, "Name-v0" or "module:Name-v0", which imports the module first.
        model: an .onnx file, or the name of a bundled policy.
        num_envs: environments in one batch.
        seconds: time of each environment, s; None: its longest episode, or `DEFAULT_S` where nothing limits that.
        seed: of the first environment; environment i has seed + i.
        output: the ONNX output that is the action; found by its name or size where None.
        every_output: give the network's other outputs to `EnvStep.outputs` as well.
    """

    env_id: str
    model: str | Path
    num_envs: int = 1
    seconds: float | None = None
    seed: int = 0
    output: str | None = None
    every_output: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvStep:
    """One step of all environments, for whoever records it. The arrays are used again by the next step.

    Attributes:
        step: number of this step of the batch, from 0.
        real: (num_envs,) rows that made a transition; in the others only an episode began, or their time is over.
        observation: (num_envs, dim) as the network took it.
        action: (num_envs, nact) as the network gave it.
        target: (num_envs, nact) as the environment took it: clipped, in the dtype of its action space.
        reward: (num_envs,) float64.
        terminated, truncated: (num_envs,) whether the episode ended with this step.
        next_observation: (num_envs, dim) what the step led to, in the dtype of `observation`; of a row that ended the
            last observation of its episode, not the first one of the next.
        outputs: the network's outputs by ONNX name, each (num_envs, …).
        latency_ns: from the observation in hand to the action ready.
    """

    step: int
    real: Flags
    observation: Array
    action: Array
    target: Array
    reward: Array
    terminated: Flags
    truncated: Flags
    next_observation: Array
    outputs: Mapping[str, Array]
    latency_ns: int


def run_env(
    options: EnvRun,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    on_step: Callable[[EnvStep], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Open a run, run it and close it; see `EnvSession`."""
    with EnvSession(options) as session:
        return session.run(progress=progress, on_step=on_step, stop=stop)


class EnvSession(Closes):
    """An opened run: the environment is made and the network fits it, nothing has moved yet.

    Attributes:
        options: what was asked for.
        file, device, network, output: the policy, where and how it runs, and the ONNX output that is the action.
        placed: by which provider, and why.
        worlds: the environment.
        steps: steps that each environment will make.
        notes: warnings of the environment, one line each; `run` may add some.
        stopped: the environment in which the last run was stopped for safety, else None.

    Raises:
        EdgertError: an option, the policy or the environment cannot be used, or they do not fit together.
    """

    def __init__(self, options: EnvRun) -> None:
        _check(options)
        self.options = options
        self.device = options.policy_on()
        self.file = read_policy(locate(options.model) if isinstance(options.model, str) else options.model)
        self.notes: list[str] = []
        self.stopped: int | None = None
        with ExitStack() as resources:
            with noting(self.notes):
                self.worlds = GymWorlds(options.env_id, options.num_envs)
            resources.callback(self.worlds.close)
            self.steps = _steps(options.seconds, self.worlds)
            self.network, self.placed = place(
                self._open, self.device, options.placement(rows=options.num_envs), self.file.sha256
            )
            resources.callback(self.network.close)
            self.notes += self.placed.notes()
            self._resources = resources.pop_all()

    def _open(self, device: Device, placement: Placement) -> OnnxNetwork:
        model = OnnxModel(self.file, device, placement=placement)
        network, self.output = fit(model, self.worlds, self.options.output, every_output=self.options.every_output)
        return network

    def run(
        self,
        *,
        progress: Callable[[int, int], None] = lambda done, total: None,
        on_step: Callable[[EnvStep], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """Run every environment for the same number of steps, with new episodes as they end, and report.

        Args:
            progress: called with (steps made by every environment, steps in all).
            on_step: called after each step of the batch.
            stop: asked before each step; True ends the run as interrupted.

        Returns:
            The report, one flat JSON object; docs/json.md describes it.

        Raises:
            UnsupportedError: the environment fails.
        """
        tally = _Tally(self.worlds.num_envs, self.steps)
        with noting(self.notes):
            observation = self.worlds.reset(self.options.seed)
            self.network.obs[self._input][:] = observation
            for _ in range(_WARM_UP_RUNS):
                self.network.act(self.network.obs, self.network.out)
            begin = time.perf_counter_ns()
            self._loop(observation, tally, progress, on_step, stop)
            wall_s = (time.perf_counter_ns() - begin) * 1e-9
        self.stopped = tally.stopped_env
        return self._report(tally, wall_s)

    def _loop(
        self,
        observation: Array,
        tally: _Tally,
        progress: Callable[[int, int], None],
        on_step: Callable[[EnvStep], None] | None,
        stop: Callable[[], bool],
    ) -> None:
        worlds, network = self.worlds, self.network
        low, high = worlds.low, worlds.high
        rest = np.clip(np.zeros_like(low), low, high)
        seen, action = network.obs[self._input], network.out[self.output]
        while tally.left.any():
            if stop():
                tally.outcome, tally.reason = "interrupted", "stopped by the operator"
                return
            real = tally.left & ~worlds.resetting
            begin = time.perf_counter_ns()
            seen[:] = observation
            network.act(network.obs, network.out)
            wanted = action.astype(low.dtype)
            target = np.clip(wanted, low, high)
            latency_ns = time.perf_counter_ns() - begin
            if tally.stopped(real, np.isnan(seen), seen, "the environment gave {} as component {} of its observation"):
                return
            if tally.stopped(real, ~np.isfinite(action), action, "the policy gave {} as component {} of its action"):
                return
            if not real.all():
                target[~real] = rest  # nobody looks at it, and it may be no number
            moved = worlds.step(target)
            if on_step is not None:
                on_step(
                    EnvStep(
                        step=len(tally.latency_ns),
                        real=real,
                        observation=seen,
                        action=action,
                        target=target,
                        reward=moved.reward,
                        terminated=moved.terminated,
                        truncated=moved.truncated,
                        next_observation=moved.after.astype(seen.dtype),
                        outputs=network.out,
                        latency_ns=latency_ns,
                    )
                )
            rewards = moved.reward[:, None]
            if tally.stopped(real, ~np.isfinite(rewards), rewards, "the environment gave {} as its reward"):
                return
            tally.add(real, moved, target != wanted, latency_ns)
            observation = moved.observation
            progress(int(tally.steps.min()), self.steps)

    @property
    def _input(self) -> str:
        return next(iter(self.network.obs))

    def _report(self, tally: _Tally, wall_s: float) -> dict[str, Any]:
        options, period_s = self.options, self.worlds.period_s
        steps, transitions = int(tally.steps.min()), int(tally.steps.sum())
        unfinished = tally.episode_return[tally.episode_steps > 0]
        return {
            "policy": str(self.file.path),
            "policy_sha256": self.file.sha256,
            "output": self.output,
            "env": options.env_id,
            "num_envs": self.worlds.num_envs,
            "device": self.device.name,
            "device_chip": self.device.chip,
            "provider": self.network.provider,
            "placement": self.placed.report(),
            "seed": options.seed,
            "control_hz": 1.0 / period_s,
            "seconds": steps * period_s,
            "steps": steps,
            "episodes": len(tally.returns),
            "returns": summary(tally.returns),
            "return_so_far": summary(unfinished),
            "episode_length": summary(tally.lengths),
            "clipped": {
                "components": tally.clipped_components,
                "fraction": tally.clipped_components / (transitions * self.worlds.nact) if transitions else 0.0,
                "steps": tally.clipped_steps,
            },
            "latency_us": latency_us(tally.latency_ns),
            "steps_per_s": transitions / wall_s if wall_s > 0.0 else 0.0,
            "real_time_factor": steps * period_s / wall_s if wall_s > 0.0 else 0.0,
            "outcome": tally.outcome,
            "reason": tally.reason,
            "notes": list(self.notes),
        }

    def close(self) -> None:
        """Release the network and the environment."""
        self._resources.close()


class _Tally:
    """What the environments did so far."""

    def __init__(self, num_envs: int, limit: int) -> None:
        self.limit = limit
        self.steps = np.zeros(num_envs, np.int64)
        self.left = np.ones(num_envs, np.bool_)
        self.episode_return = np.zeros(num_envs)
        self.episode_steps = np.zeros(num_envs, np.int64)
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.clipped_components = self.clipped_steps = 0
        self.latency_ns = array("q")
        self.outcome, self.reason = "completed", ""
        self.stopped_env: int | None = None

    def add(self, real: Flags, moved: Moved, outside: Array, latency_ns: int) -> None:
        """Count a step of the rows that are real; `outside` (num_envs, nact) marks what was clipped."""
        self.steps += real
        self.left = self.steps < self.limit
        self.episode_steps += real
        self.episode_return[real] += moved.reward[real]
        ended = np.flatnonzero(real & (moved.terminated | moved.truncated))
        if len(ended):
            self.returns += self.episode_return[ended].tolist()
            self.lengths += self.episode_steps[ended].tolist()
            self.episode_return[ended] = self.episode_steps[ended] = 0
        outside = outside[real]
        self.clipped_components += int(outside.sum())
        self.clipped_steps += int(outside.any(axis=1).sum())
        self.latency_ns.append(latency_ns)

    def stopped(self, real: Flags, bad: Array, values: Array, what: str) -> bool:
        """Stop for safety if one of `values` (num_envs, n) is bad in a real row."""
        if not bad.any():
            return False
        rows, components = np.nonzero(bad & real[:, None])
        if not len(rows):
            return False
        row, component = int(rows[0]), int(components[0])
        where = f" of environment {row}" if len(real) > 1 else ""
        self.outcome, self.stopped_env = "safety_stop", row
        self.reason = f"{what.format(values[row, component], component)} at step {self.steps[row]}{where}"
        return True


def _steps(seconds: float | None, worlds: GymWorlds) -> int:
    period_s = worlds.period_s
    if seconds is None:
        seconds = DEFAULT_S if worlds.episode_steps is None else worlds.episode_steps * period_s
    if seconds / period_s > MAX_STEPS:
        raise UnsupportedError(
            "the run is too long", found=f"{seconds / period_s:g} steps", expected=f"at most {MAX_STEPS}"
        )
    return max(1, round(seconds / period_s))


def _check(options: EnvRun) -> None:
    check_count("environments", options.num_envs, 1, MAX_ENVS)
    seconds = options.seconds
    if seconds is not None and (not is_number(seconds) or seconds <= 0.0):
        raise UnsupportedError("--seconds is out of range", found=seconds, expected="above 0")
    check_seed(options.seed)
