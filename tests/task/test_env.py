"""The Gymnasium environments of a task: their own promises, beside parity with Gymnasium's vector environment."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from scenes import leg_xml
from support import QUADRUPED
from task_examples import leg_document, write_task

import edgert  # noqa: F401  # registers the environments
from edgert.errors import ContractError, EdgertError, UnknownNameError, UnsupportedError
from edgert.task.env import ACTION_BOUND, TaskEnv, TaskVecEnv

ID = "edgert/Quadruped-v0"
WORLDS = 64
STEPS = 60
MODES = list(AutoresetMode)


def test_gymnasiums_checker_accepts_the_environment() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on the bounds of spaces
        check_env(gymnasium.make(ID).unwrapped, skip_render_check=True)


def test_spaces_are_those_of_the_contract() -> None:
    env = TaskEnv()
    ((low, high),) = set(QUADRUPED.contract.action.clip)
    assert env.observation_space.shape == (QUADRUPED.contract.inputs["obs"].dim,)
    assert env.action_space.shape == (12,)
    assert (env.action_space.low == low).all()
    assert (env.action_space.high == high).all()
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)


def test_without_a_clip_the_actions_are_bounded_all_the_same(tmp_path: Path) -> None:
    folder = write_task(tmp_path, leg_document(), leg_xml())
    assert (TaskEnv(sim=folder).action_space.high == ACTION_BOUND).all()


@pytest.fixture(scope="module")
def played() -> dict[str, np.ndarray]:
    """What 64 worlds on two threads do; world i has seed 100 + i and the actions of column i."""
    return play(WORLDS, 2, table())


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (2.0 * rng.normal(size=(STEPS, WORLDS, 12))).astype(np.float32)


def play(num_envs: int, nthread: int, actions: np.ndarray) -> dict[str, np.ndarray]:
    env = TaskVecEnv(num_envs, nthread=nthread, autoreset_mode=AutoresetMode.SAME_STEP, max_episode_steps=25)
    rows: dict[str, list[np.ndarray]] = {"obs": [env.reset(seed=100)[0]], "reward": [], "done": [], "command": []}
    for action in actions[:, :num_envs]:
        obs, reward, terminated, truncated, info = env.step(action)
        for key, value in (("obs", obs), ("reward", reward), ("done", terminated | truncated)):
            rows[key].append(value)
        rows["command"].append(info["command"])
    return {key: np.array(values) for key, values in rows.items()}


@pytest.mark.parametrize("nthread", [1, 2])
@pytest.mark.parametrize("num_envs", [1, 2, 5, WORLDS])
def test_world_i_is_the_same_among_any_number(num_envs: int, nthread: int, played: dict[str, np.ndarray]) -> None:
    mine = play(num_envs, nthread, table())
    for key, values in mine.items():
        np.testing.assert_array_equal(values, played[key][:, :num_envs], err_msg=key)
    assert played["done"].sum() > WORLDS


def test_the_same_seed_gives_the_same_episode() -> None:
    first, second, other = (TaskEnv() for _ in range(3))
    rng = np.random.default_rng(0)
    start = [env.reset(seed=seed)[0] for env, seed in ((first, 5), (second, 5), (other, 6))]
    np.testing.assert_array_equal(start[0], start[1])
    assert not np.array_equal(start[0], start[2])
    for _ in range(30):
        action = rng.normal(size=12)
        mine, again = first.step(action), second.step(action)
        np.testing.assert_array_equal(mine[0], again[0])
        assert mine[1:4] == again[1:4]


def test_a_seed_starts_the_stream_anew_and_none_goes_on_with_it() -> None:
    env = TaskEnv()
    once, next_one = env.reset(seed=5)[0], env.reset()[0]
    again, next_again = env.reset(seed=5)[0], env.reset()[0]
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal(next_one, next_again)
    assert not np.array_equal(once, next_one)


def test_without_a_seed_episodes_differ() -> None:
    first, second = TaskVecEnv(2).reset()[0], TaskVecEnv(2).reset()[0]
    assert len({tuple(row) for row in (*first, *second)}) == 4


def test_seeds_are_told() -> None:
    env = TaskVecEnv(3)
    assert env.np_random_seed == (-1, -1, -1)
    assert env.np_random == ()
    env.reset(seed=[4, None, 9])
    assert env.np_random_seed[::2] == (4, 9)
    assert env.np_random_seed[1] >= 0
    assert len(env.np_random) == 3
    entropy = env.np_random_seed[1]
    observation = env.reset(seed=[4, entropy, 9])[0]
    np.testing.assert_array_equal(observation, TaskVecEnv(3).reset(seed=[4, entropy, 9])[0])


def test_numpy_integers_are_seeds() -> None:
    np.testing.assert_array_equal(TaskVecEnv(2).reset(seed=np.int64(3))[0], TaskVecEnv(2).reset(seed=3)[0])


def test_infos_hold_command_velocity_and_reward_terms() -> None:
    env = TaskEnv(command=(0.3, 0.0, -0.1))
    _, info = env.reset(seed=0)
    assert set(info) == {"command", "velocity"}
    np.testing.assert_array_equal(info["command"], [0.3, 0.0, -0.1])
    _, reward, _, _, info = env.step(np.zeros(12, np.float32))
    terms = {f"reward_{term.name}" for term in QUADRUPED.rewards}
    assert set(info) == {"command", "velocity"} | terms
    assert reward == pytest.approx(sum(info[name] for name in terms))
    assert info["velocity"].shape == (3,)
    assert not np.array_equal(info["velocity"], np.zeros(3))


def test_a_fixed_command_reaches_the_observation() -> None:
    command = (0.3, -0.2, 0.1)
    env = TaskEnv(command=command, randomise=False)
    observation, _ = env.reset(seed=0)
    terms = QUADRUPED.contract.inputs["obs"].terms
    start = sum(term.dim for term in terms[: [term.name for term in terms].index("command")])
    scale = next(term.scale for term in terms if term.name == "command")
    np.testing.assert_allclose(observation[start : start + 3], np.array(command) * scale, rtol=1e-6)


def arrays(value: Any) -> list[np.ndarray]:
    """Every array inside a result."""
    if isinstance(value, dict):
        return [array for item in value.values() for array in arrays(item)]
    if isinstance(value, tuple):
        return [array for item in value for array in arrays(item)]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [array for item in value if item is not None for array in arrays(item)]
    return [value] if isinstance(value, np.ndarray) else []


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_what_was_returned_is_never_touched_again(mode: AutoresetMode) -> None:
    """Results are kept and compared later; and spoiling them does not spoil what follows."""
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    results = []
    for spoil in (False, True):
        env = TaskVecEnv(3, autoreset_mode=mode, max_episode_steps=6)
        rng = np.random.default_rng(0)
        rows = [env.reset(seed=0)]
        for _ in range(20):
            rows.append(env.step(rng.normal(size=(3, 12)).astype(np.float32)))
            done = rows[-1][2] | rows[-1][3]
            if mode is AutoresetMode.DISABLED and done.any():
                rows.append(env.reset(options={"reset_mask": done.copy()}))
            if spoil:
                results.append([array.copy() for array in arrays(rows[-1])])
                for array in arrays(rows[-1]):
                    array.fill(7)
            else:
                kept += [(array, array.copy()) for array in arrays(rows[-1])]
        if not spoil:
            clean = [[array.copy() for array in arrays(row)] for row in rows]
    for array, copy in kept:
        np.testing.assert_array_equal(array, copy)
    last = results[-1]
    for array, copy in zip(last, clean[-1], strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_arrays_of_one_result_share_no_memory_with_each_other(mode: AutoresetMode) -> None:
    env = TaskVecEnv(2, autoreset_mode=mode, max_episode_steps=1)
    env.reset(seed=0)
    found = arrays(env.step(np.zeros((2, 12), np.float32)))
    for i, first in enumerate(found):
        for second in found[:i]:
            assert not np.shares_memory(first, second)


@pytest.mark.parametrize("shape", [(2, 11), (3, 12), (12,), (2, 1), ()], ids=str)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_actions_of_another_shape_are_refused(shape: tuple[int, ...], mode: AutoresetMode) -> None:
    env = TaskVecEnv(2, autoreset_mode=mode)
    env.reset(seed=0)
    with pytest.raises(ContractError, match=r"actions have the wrong shape: found .*, expected"):
        env.step(np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", [(2, 11), (3, 12), (12,), ()], ids=str)
def test_actions_of_another_shape_are_refused_while_a_world_is_resetting(shape: tuple[int, ...]) -> None:
    env = TaskVecEnv(2, max_episode_steps=1)
    env.reset(seed=0)
    env.step(np.zeros((2, 12), np.float32))
    with pytest.raises(ContractError, match="actions have the wrong shape"):
        env.step(np.zeros(shape, np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_actions_that_are_not_finite_are_refused_and_nothing_moves(bad: float) -> None:
    env, untouched = TaskVecEnv(2), TaskVecEnv(2)
    action = np.zeros((2, 12), np.float32)
    for each in (env, untouched):
        each.reset(seed=0)
    action[1, 3] = bad
    with pytest.raises(ContractError, match="the action of world 1 is not finite"):
        env.step(action)
    ours, theirs = (each.step(np.zeros((2, 12), np.float32)) for each in (env, untouched))
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert env.elapsed.tolist() == [1, 1]


def test_the_action_of_a_resetting_world_is_ignored_whatever_it_is() -> None:
    env = TaskVecEnv(2, max_episode_steps=2)
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros((2, 12), np.float32))
    action = np.full((2, 12), np.nan, np.float32)
    observation, reward, terminated, truncated, _ = env.step(action)
    assert np.isfinite(observation).all()
    assert not np.array([reward, terminated, truncated]).any()
    assert np.isnan(action).all()  # the caller's array is left alone


def test_wrong_actions_of_a_single_environment() -> None:
    env = TaskEnv()
    env.reset(seed=0)
    with pytest.raises(ContractError, match=r"found \(1, 11\), expected \(1, 12\)"):
        env.step(np.zeros(11, np.float32))
    with pytest.raises(ContractError, match="the action of world 0 is not finite"):
        env.step(np.full(12, np.nan, np.float32))


def test_the_time_limit_of_the_vector_environment_is_the_tasks() -> None:
    env = TaskVecEnv(2, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    env.elapsed[:] = QUADRUPED.episode_steps - 2
    action = np.zeros((2, 12), np.float32)
    assert not env.step(action)[3].any()
    assert env.step(action)[3].all()
    assert not env.elapsed.any()


@pytest.mark.parametrize("limit", [1, 3])
def test_max_episode_steps(limit: int) -> None:
    env = TaskVecEnv(2, max_episode_steps=limit, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    flags = [env.step(np.zeros((2, 12), np.float32))[3].all() for _ in range(6)]
    assert flags == [(step + 1) % limit == 0 for step in range(6)]


def test_a_masked_reset_starts_the_time_of_those_worlds_anew() -> None:
    env = TaskVecEnv(3, max_episode_steps=5)
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.zeros((3, 12), np.float32))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    assert env.elapsed.tolist() == [3, 0, 3]


@pytest.mark.parametrize("limit", [0, -1])
def test_an_episode_without_steps_is_refused(limit: int) -> None:
    with pytest.raises(UnsupportedError, match=f"steps of an episode is wrong: found {limit}, expected a whole number"):
        TaskVecEnv(1, max_episode_steps=limit)


@pytest.mark.parametrize("make", [TaskEnv, TaskVecEnv])
def test_rendering_is_refused(make: Any) -> None:
    with pytest.raises(UnsupportedError, match="do not render: found render_mode 'human'"):
        make(render_mode="human")


@pytest.mark.parametrize("make", [TaskEnv, TaskVecEnv])
def test_steps_before_the_first_reset_are_refused(make: Any) -> None:
    env = make()
    with pytest.raises(ResetNeeded, match="call reset before step"):
        env.step(np.zeros(env.action_space.shape, np.float32))


def test_a_masked_reset_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ResetNeeded, match="reset all worlds before"):
        TaskVecEnv(2).reset(options={"reset_mask": np.array([True, False])})


@pytest.mark.parametrize("make", [TaskEnv, TaskVecEnv])
def test_an_unknown_sim_is_refused(make: Any) -> None:
    with pytest.raises(UnknownNameError, match="unknown sim 'biped'"):
        make(sim="biped")


def test_no_world_is_refused() -> None:
    with pytest.raises(EdgertError, match="the number of worlds is wrong: found 0"):
        TaskVecEnv(0)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_modes_may_be_named(mode: str) -> None:
    env = TaskVecEnv(1, autoreset_mode=mode)
    assert env.metadata["autoreset_mode"] is AutoresetMode(mode)
    assert TaskVecEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_a_task_of_ones_own_runs_in_both(tmp_path: Path) -> None:
    folder = write_task(tmp_path, leg_document(), leg_xml())
    single, many = TaskEnv(sim=folder), TaskVecEnv(2, sim=folder)
    first = single.reset(seed=0)[0]
    np.testing.assert_array_equal(first, many.reset(seed=0)[0][0])
    np.testing.assert_array_equal(single.step(np.ones(2))[0], many.step(np.ones((2, 2)))[0][0])
    single.close()
    many.close()


def test_a_world_that_fell_says_terminated_and_not_truncated() -> None:
    env = TaskEnv()
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(500):
        _, _, terminated, truncated, _ = env.step((8.0 * rng.normal(size=12)).astype(np.float32))
        assert not truncated
        if terminated:
            break
    assert terminated
    assert QUADRUPED.fall is not None
    w, x, y, z = env.worlds.sim.view("qpos")[0, 3:7]
    low = env.worlds.sim.view("qpos")[0, 2] < QUADRUPED.fall.height_m
    assert low or w * w - x * x - y * y + z * z < np.cos(QUADRUPED.fall.tilt_rad)
