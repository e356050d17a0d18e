"""`TaskVecEnv` against Gymnasium's `SyncVectorEnv` over single environments: equal bit for bit, infos included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from edgert.task.env import TaskEnv, TaskVecEnv

NUM_ENVS, LIMIT, STEPS = 5, 45, 300
MODES = list(AutoresetMode)


def assert_equal(ours: Any, theirs: Any, where: str) -> None:
    """The same keys, types, shapes and bits."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key in theirs:
            assert_equal(ours[key], theirs[key], f"{where}/{key}")
    elif theirs.dtype == object:
        assert ours.dtype == object, where
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert (a is None) == (b is None), f"{where}[{i}]"
            if b is not None:
                assert_equal(a, b, f"{where}[{i}]")
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=where, strict=True)


def pair(mode: AutoresetMode, **options: Any) -> tuple[TaskVecEnv, SyncVectorEnv]:
    ours = TaskVecEnv(NUM_ENVS, max_episode_steps=LIMIT, autoreset_mode=mode, nthread=2, **options)
    singles = [lambda: TimeLimit(TaskEnv(**options), LIMIT)] * NUM_ENVS
    return ours, SyncVectorEnv(singles, autoreset_mode=mode)


def actions(seed: int) -> Iterator[np.ndarray]:
    """By turns gentle ones, under which robots stand until the time limit, and wild ones, under which they fall."""
    rng = np.random.default_rng(seed)
    for step in range(STEPS):
        width = 4.0 if step // 60 % 2 else 0.3
        yield (width * rng.normal(size=(NUM_ENVS, 12))).astype(np.float32)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("randomise", [True, False])
def test_steps_and_resets_are_those_of_single_environments(mode: AutoresetMode, randomise: bool) -> None:
    ours, theirs = pair(mode, randomise=randomise)
    for a, b in zip(ours.reset(seed=3), theirs.reset(seed=3), strict=True):
        assert_equal(a, b, "reset")
    falls = limits = finals = 0
    for step, action in enumerate(actions(0)):
        mine, wanted = ours.step(action), theirs.step(action)
        for name, a, b in zip(("obs", "reward", "terminated", "truncated", "info"), mine, wanted, strict=True):
            assert_equal(a, b, f"{step} {name}")
        falls += int(wanted[2].sum())
        limits += int(wanted[3].sum())
        finals += int("final_obs" in wanted[4])
        done = wanted[2] | wanted[3]
        if mode is AutoresetMode.DISABLED and done.any():
            resets = [env.reset(options={"reset_mask": done.copy()}) for env in (ours, theirs)]
            assert_equal(resets[0][0], resets[1][0], f"{step} reset obs")
            assert_equal(resets[0][1], resets[1][1], f"{step} reset info")
    assert falls > 5
    assert limits > 5
    assert (finals > 5) == (mode is AutoresetMode.SAME_STEP)


def test_a_fixed_command_is_the_same_in_both() -> None:
    ours, theirs = pair(AutoresetMode.SAME_STEP, command=(0.4, 0.0, -0.2))
    for a, b in zip(ours.reset(seed=1), theirs.reset(seed=1), strict=True):
        assert_equal(a, b, "reset")
    for step, action in enumerate(actions(1)):
        if step == 120:
            break
        for a, b in zip(ours.step(action), theirs.step(action), strict=True):
            assert_equal(a, b, str(step))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_resets_between_episodes_and_new_seeds(mode: AutoresetMode) -> None:
    """A masked reset of running worlds, a list of seeds with gaps, and a reset of all in the middle of episodes."""
    envs = pair(mode)
    resets: list[dict[str, Any]] = [
        {"seed": [7, 7, 1, 0, 2**40]},
        {"options": {"reset_mask": np.array([True, False, False, True, False])}},
        {"seed": [None, 5, None, 6, None]},
        {"seed": 11, "options": {"reset_mask": np.array([False, False, True, True, False])}},
        {},
    ]
    rng = np.random.default_rng(0)
    for arguments in resets:
        ours, theirs = (
            env.reset(**{key: dict(value) if key == "options" else value for key, value in arguments.items()})
            for env in envs
        )
        assert_equal(ours[0], theirs[0], "reset obs")
        assert_equal(ours[1], theirs[1], "reset info")
        assert envs[0].np_random_seed == envs[1].np_random_seed
        for _ in range(10):
            action = rng.normal(size=(NUM_ENVS, 12)).astype(np.float32)
            ours, theirs = (env.step(action) for env in envs)
            for a, b in zip(ours, theirs, strict=True):
                assert_equal(a, b, "step")


def test_spaces_are_those_of_single_environments() -> None:
    ours, theirs = pair(AutoresetMode.NEXT_STEP)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


REFUSED_MASKS: dict[str, Any] = {
    "a list": [True] * NUM_ENVS,
    "too short": np.ones(NUM_ENVS - 1, np.bool_),
    "a matrix": np.ones((NUM_ENVS, 1), np.bool_),
    "integers": np.ones(NUM_ENVS, np.int64),
    "no world": np.zeros(NUM_ENVS, np.bool_),
}


@pytest.mark.parametrize("case", REFUSED_MASKS)
def test_wrong_masks_are_refused_as_gymnasium_does(case: str) -> None:
    ours, theirs = pair(AutoresetMode.DISABLED)
    errors = []
    for env in (ours, theirs):
        env.reset(seed=0)
        with pytest.raises((TypeError, ValueError)) as caught:
            env.reset(options={"reset_mask": REFUSED_MASKS[case]})
        errors.append(caught.type)
        assert "options['reset_mask']" in str(caught.value)
    assert errors[0] is errors[1]


@pytest.mark.parametrize("seed", [[1, 2], [1] * (NUM_ENVS + 1), 1.5], ids=str)
def test_wrong_seeds_are_refused_as_gymnasium_does(seed: Any) -> None:
    errors = []
    for env in pair(AutoresetMode.NEXT_STEP):
        with pytest.raises((TypeError, ValueError)) as caught:
            env.reset(seed=seed)
        errors.append(caught.type)
    assert errors[0] is errors[1]


def test_a_finished_world_that_was_not_reset_is_refused_in_mode_disabled() -> None:
    for env in (
        TaskVecEnv(2, max_episode_steps=3, autoreset_mode=AutoresetMode.DISABLED),
        SyncVectorEnv([lambda: TimeLimit(TaskEnv(), 3)] * 2, autoreset_mode=AutoresetMode.DISABLED),
    ):
        env.reset(seed=0)
        action = np.zeros((2, 12), np.float32)
        for _ in range(3):
            *_, truncated, _info = env.step(action)
        assert truncated.all()
        env.reset(options={"reset_mask": np.array([True, False])})
        with pytest.raises(AssertionError):
            env.step(action)
        env.reset(options={"reset_mask": np.array([False, True])})
        env.step(action)


def test_the_refusal_names_the_worlds() -> None:
    env = TaskVecEnv(3, max_episode_steps=1, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    env.step(np.zeros((3, 12), np.float32))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    with pytest.raises(AssertionError, match=r"worlds \[0 2\] ended and were not reset"):
        env.step(np.zeros((3, 12), np.float32))
