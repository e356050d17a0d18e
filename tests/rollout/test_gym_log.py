"""Recorded runs against Gymnasium environments: the rows are the steps that were made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gym_examples import DIM, NACT, POINT, SAME_STEP, Failing, Point, blowing_up, linear, register
from rollout_examples import Array, same_bits

from edgert.policy.model import read_policy
from edgert.rollout import Recording, read
from edgert.rollout.gym_env import EnvRun, EnvSession, EnvStep
from edgert.rollout.gym_log import EnvLog, env_folder

FAILING = register("Failing", Failing, max_episode_steps=9)


class Far(Failing):
    """Gives a reward that is no number in the step that ends its episode."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *_ = super().step(action)
        return observation, float("inf") if self.count == 5 else reward, self.count == 5, False, {}


FAR = register("Far", Far)
BROKEN = register("BrokenReward", lambda: Failing("reward"), max_episode_steps=9)


def run(
    path: Path, folder: Path, env_id: str = POINT, stop: Callable[[], bool] = lambda: False, **options: Any
) -> tuple[dict[str, Any], list[dict[str, Array]]]:
    """The report of a recorded run, and copies of its steps, one dictionary a step of the batch."""
    steps: list[dict[str, Array]] = []
    options = {"every_output": True, **options}
    with (
        EnvSession(EnvRun(env_id=env_id, model=str(path), **options)) as session,
        env_folder(session, folder) as sink,
    ):
        log = EnvLog(session, sink)

        def step(made: EnvStep) -> None:
            log.step(made)
            names = ("real", "observation", "action", "target", "reward", "terminated", "truncated")
            copies = {name: getattr(made, name).copy() for name in (*names, "next_observation")}
            copies |= {f"output.{name}": array.copy() for name, array in made.outputs.items()}
            steps.append(copies | {"latency_ns": np.array(made.latency_ns)})

        report = session.run(on_step=step, stop=stop)
        log.finish()
    return report, steps


def compare(recording: Recording, steps: list[dict[str, Array]], num_envs: int) -> None:
    """Follow each environment through its steps and episodes."""
    assert recording.torn == ()
    for env in range(num_envs):
        mine = [episode for episode in recording if episode.info["world"] == env]
        made = [step for step in steps if step["real"][env]]
        assert sum(episode.steps for episode in mine) == len(made)
        for episode in mine:
            rows, made = made[: episode.steps], made[episode.steps :]
            assert episode.steps == episode.info["steps"] > 0
            for column, name in (
                ("observation.obs", "observation"),
                ("action", "action"),
                ("target", "target"),
                ("reward", "reward"),
                ("terminated", "terminated"),
                ("truncated", "truncated"),
                ("output.value", "output.value"),
            ):
                expected = np.array([row[name][env] for row in rows])
                same_bits(episode[column][: len(rows)], expected)
            same_bits(episode["observation.obs"][-1], rows[-1]["next_observation"][env])
            assert len(episode["observation.obs"]) == len(rows) + 1
            assert episode["latency_ns"].tolist() == [int(row["latency_ns"]) for row in rows]
            assert episode["t_ns"].tolist() == [100_000_000 * step for step in range(len(rows) + 1)]
            assert episode["step"].tolist() == list(range(len(rows) + 1))
            ended = rows[-1]["terminated"][env] or rows[-1]["truncated"][env]
            if ended:
                assert episode.info["outcome"] == "completed"
                assert episode.info["terminated"] == bool(rows[-1]["terminated"][env])
                assert episode.info["return"] == pytest.approx(sum(row["reward"][env] for row in rows))
            else:
                assert episode is mine[-1]


@pytest.mark.parametrize("env_id", [POINT, SAME_STEP])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_rows_are_the_steps_that_were_made(env_id: str, num_envs: int, tmp_path: Path) -> None:
    path = linear(tmp_path, outputs=(("actions", NACT), ("value", 1)))
    report, steps = run(path, tmp_path / "r", env_id, seconds=4.0, num_envs=num_envs)
    recording = read(tmp_path / "r")
    compare(recording, steps, num_envs)
    ended = [episode for episode in recording if episode.info["outcome"] == "completed"]
    assert len(ended) == report["episodes"] > num_envs
    assert {episode.info["outcome"] for episode in recording} <= {"completed", "interrupted"}
    assert np.mean([episode.info["return"] for episode in ended]) == pytest.approx(report["returns"]["mean"])
    assert [recording[i].info["seed"] for i in range(num_envs)] == list(range(num_envs))


def test_columns_and_header(tmp_path: Path) -> None:
    path = linear(tmp_path, outputs=(("actions", NACT), ("value", 1)))
    run(path, tmp_path / "r", seconds=0.5, seed=3, num_envs=2)
    episode = read(tmp_path / "r")[0]
    assert episode.columns == (
        *("episode", "step", "world", "t_ns", "observation.obs", "action", "target", "output.value"),
        *("reward", "terminated", "truncated", "latency_ns"),
    )
    assert episode["observation.obs"].shape[1:] == (DIM,)
    header = episode.header
    assert (header["env"], header["num_envs"], header["seed"], header["output"]) == (POINT, 2, 3, "actions")
    assert (header["policy"], header["policy_sha256"]) == (str(path), read_policy(path).sha256)
    assert (header["device"], header["provider"], header["clock"]) == ("cpu", "CPUExecutionProvider", "simulated")
    assert header["control_hz"] == pytest.approx(10.0)
    assert header["versions"]["gymnasium"] == gymnasium.__version__
    assert "contract" not in header


def test_stopping_keeps_what_was_done(tmp_path: Path) -> None:
    path = linear(tmp_path, outputs=(("actions", NACT), ("value", 1)))
    asked = iter([False] * 4 + [True])
    report, steps = run(path, tmp_path / "r", stop=lambda: next(asked), seconds=5.0, num_envs=2)
    assert report["outcome"] == "interrupted"
    recording = read(tmp_path / "r")
    compare(recording, steps, 2)
    assert sum(episode.steps for episode in recording) == 8


def test_stopping_at_once_leaves_nothing(tmp_path: Path) -> None:
    run(linear(tmp_path), tmp_path / "r", stop=lambda: True, seconds=5.0)
    assert len(read(tmp_path / "r")) == 0


def test_a_safety_stop_is_that_of_its_environment(tmp_path: Path) -> None:
    """The others are interrupted by it."""
    register("Wander", lambda: Point(reach=np.inf))
    report, _ = run(
        blowing_up(tmp_path, float("nan")), tmp_path / "r", "edgert-test/Wander-v0", seconds=100.0, num_envs=3
    )
    assert report["outcome"] == "safety_stop"
    env = int(report["reason"].rpartition(" ")[2])
    last = {episode.info["world"]: episode for episode in read(tmp_path / "r")}
    assert {world: episode.info["outcome"] for world, episode in last.items()} == {
        world: "safety_stop" if world == env else "interrupted" for world in range(3)
    }
    stopped = last[env]
    assert abs(stopped["observation.obs"][-1, 0]) > 3.0  # what the policy saw before it gave no number
    assert (np.abs(stopped["observation.obs"][:-1, 0]) <= 3.0).all()
    assert stopped.info["steps"] == stopped.steps


@pytest.mark.parametrize("env_id", [BROKEN, FAR])
def test_a_reward_that_is_no_number_is_recorded_and_ends_the_run(env_id: str, tmp_path: Path) -> None:
    """Also where the episode ends in that step; its return is none that JSON could hold."""
    report, steps = run(linear(tmp_path), tmp_path / "r", env_id, seconds=5.0)
    assert report["outcome"] == "safety_stop"
    (episode,) = read(tmp_path / "r")
    assert episode.steps == len(steps) == 5
    assert episode["reward"][-1] == np.inf
    assert episode.info["return"] is None
    assert episode.info["outcome"] == ("safety_stop" if env_id == BROKEN else "completed")
