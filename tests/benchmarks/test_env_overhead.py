"""What a whole environment step costs over its physics alone, side by side in one run, in CPU time of all threads.

The physics alone is a bare `mujoco.batch.Batch` of the same model, with the same model fields for each world, put in
the same states under the same controls before every step; that both end in the same states is checked.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import mujoco.batch
import numpy as np
import pytest

from edgert.task.env import TaskVecEnv
from edgert.task.randomise import needs_model_fields

NUM_ENVS, PAIRS = 256, 80
LIMIT = 1.10


def cpu_s(call: Callable[[], object]) -> float:
    """CPU time of a call, over all threads of the process."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def measured(nthread: int) -> float:
    """CPU time of all steps: environment over physics alone, in the same states; pushes and noise are part of it."""
    env = TaskVecEnv(NUM_ENVS, nthread=nthread)
    env.reset(seed=0)
    worlds = env.worlds
    bare = mujoco.batch.Batch(worlds.scene.model, nsim=NUM_ENVS, nthread=nthread)
    for name in needs_model_fields(worlds.randomise):
        bare.expand(name)[:] = worlds.sim.expand(name)
    bare.set_const()
    ctrl, qpos = bare.bind("ctrl"), bare.bind("qpos")
    scale, offset = np.array(env.task.contract.action.scale), np.array(env.task.contract.action.offset)
    rng = np.random.default_rng(0)
    whole, physics = [], []
    for pair in range(PAIRS):
        actions = rng.uniform(-0.5, 0.5, (NUM_ENVS, len(scale))).astype(np.float32)
        bare.state[:] = worlds.sim.state()
        ctrl[:] = offset + scale * actions
        calls = [
            lambda: physics.append(cpu_s(lambda: bare.step(nstep=env.task.decimation))),
            lambda actions=actions: whole.append(cpu_s(lambda: env.step(actions))),
        ]
        for call in calls if pair % 2 else reversed(calls):
            call()
        assert not worlds.terminated.any()
        same = (worlds.sim.view("qpos") == qpos).all(axis=1)
        assert same.mean() > 0.95  # the task pushes a few of the others
    ours, theirs = statistics.median(whole), statistics.median(physics)
    ratio = sum(whole) / sum(physics)
    print(
        f"{NUM_ENVS} worlds on {nthread} threads, CPU time of one step: environment {ours / NUM_ENVS * 1e6:.1f} µs a "
        f"world, physics alone {theirs / NUM_ENVS * 1e6:.1f} µs, ratio {ratio:.3f}"
    )
    env.close()
    return ratio


@pytest.mark.slow
def test_an_environment_step_costs_little_more_than_its_physics() -> None:
    # On one thread CPU time is the cost of the work. With more, MuJoCo's other threads busy-wait while the environment
    # works between two physics steps, and the same code comes out at 1.05 to 1.18: printed, and not judged.
    measured(2)
    assert statistics.median(measured(1) for _ in range(3)) <= LIMIT
