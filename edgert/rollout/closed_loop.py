"""A policy in closed loop with many worlds of a task, and how well each world followed its command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgert.device import Device
from edgert.errors import ContractError
from edgert.policy import LoadedPolicy, OnnxPolicy
from edgert.task.task import Task
from edgert.task.worlds import Worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """One row a world: the mean body velocity over the second half of the run, and whether it fell at any time."""

    velocity: npt.NDArray[np.float64]  # (nworld, 3) vx, vy m/s, wz rad/s; NaN in worlds that fell
    fell: npt.NDArray[np.bool_]  # (nworld,)
    steps: int


def follow(
    loaded: LoadedPolicy,
    task: Task,
    device: Device,
    *,
    seeds: Sequence[int],
    seconds: float,
    command: Sequence[float] | None = None,
    randomise: bool = True,
    nthread: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tracking:
    """Run one world a seed for `seconds`, with no reset in between; a world that falls stays counted as fallen.

    Args:
        loaded: the policy; its inputs and joints must be those of the task.
        task: what to run.
        device: where the network runs.
        seeds: one a world; a world depends on its seed alone.
        seconds: how long.
        command: the same command for all (vx, vy m/s, wz rad/s); None: drawn as the task says.
        randomise: draw the task's randomisation in each world.
        nthread: physics threads, 0 for one per CPU.
        progress: called with (steps done, steps in all).

    Raises:
        ContractError: the policy's contract observes or acts on other things than the task's.
    """
    _check_same(loaded, task)
    steps = max(1, round(seconds * task.contract.control_hz))
    nworld = len(seeds)
    worlds = Worlds(task, nworld, nthread=nthread, randomise=randomise, command=command)
    try:
        with OnnxPolicy(loaded, device, nworld) as policy:
            (name,) = task.contract.inputs
            worlds.seed([np.random.default_rng(seed) for seed in seeds])
            worlds.reset()
            fell = np.zeros(nworld, np.bool_)
            total, count = np.zeros((nworld, 3)), 0
            for step in range(steps):
                policy.obs[name][:] = worlds.observe()
                policy.act(policy.obs, policy.out)
                worlds.step(policy.action)
                worlds.resample()
                fell |= worlds.terminated
                if step >= steps // 2:
                    total += worlds.body_velocity()
                    count += 1
                progress(step + 1, steps)
    finally:
        worlds.close()
    mean = total / count
    mean[fell] = np.nan
    return Tracking(velocity=mean, fell=fell, steps=steps)


def _check_same(loaded: LoadedPolicy, task: Task) -> None:
    ours, theirs = loaded.contract.to_document(), task.contract.to_document()
    for key in ("inputs", "action", "joints", "control_hz", "phase"):
        if ours.get(key) != theirs.get(key):
            raise ContractError(
                f"policy {loaded.file.path} was trained for another task than '{task.name}'",
                found=f"'{key}' of its contract differs",
                expected="the contract of the task",
            )
