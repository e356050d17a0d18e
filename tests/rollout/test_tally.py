"""The figures of a report, computed a second time from nothing but the recorded rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from rollout_examples import Recorded, changed_sim, rolled, wild

from edgert.rollout.statistics import rate, summary
from edgert.rollout.tally import tracking

HZ = 50
UP, LOW = np.cos(1.0), 0.15
"""When the bundled quadruped has fallen."""


def followed(run: Recorded) -> list[dict[str, Any]]:
    """Each stretch of one command in an episode: its rows of the state after each of its steps."""
    result = []
    for number, rows in run.episodes.items():
        commands, steps = rows["command"], len(rows["action"])
        starts = [0, *(k for k in range(1, steps) if (commands[k] != commands[k - 1]).any()), steps]
        for first, end in pairwise(starts):
            lost = end == steps and run.memory.ended[number]["outcome"] in ("fell", "safety_stop")
            if first < end and not lost:
                result.append({"rows": rows, "command": commands[first], "after": range(first + 1, end + 1)})
    return result


def in_base_frame(rows: dict[str, Any], place: int) -> list[float]:
    """vx, vy, wz of the base at a row, by MuJoCo's own rotation."""
    local, back = np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(back, rows["state.qpos"][place, 3:7])
    mujoco.mju_rotVecQuat(local, rows["state.qvel"][place, :3], back)
    return [local[0], local[1], rows["state.qvel"][place, 5]]


def test_returns_lengths_and_falls_are_those_of_the_rows(tmp_path: Path) -> None:
    run = rolled(wild("quadruped", tmp_path), "quadruped", num_envs=4, seconds=2.0)
    returns, lengths, falls = [], [], 0
    for number, rows in run.episodes.items():
        qpos = rows["state.qpos"][1:]
        upright = 1.0 - 2.0 * (qpos[:, 4] ** 2 + qpos[:, 5] ** 2)
        down = (upright < UP) | (qpos[:, 2] < LOW)
        assert not down[:-1].any()
        falls += down[-1]
        if down[-1]:
            returns.append(rows["reward"].sum())
            lengths.append(len(rows["reward"]))
            assert run.memory.ended[number]["return"] == pytest.approx(returns[-1])
    report = run.report
    assert (report["episodes"], report["falls"]) == (falls, falls)
    assert falls > 4
    for key, values in (("returns", returns), ("episode_length", lengths)):
        expected = summary(values)
        assert expected is not None
        assert report[key] == pytest.approx(expected)


def test_tracking_of_a_twist_by_stretches(tmp_path: Path) -> None:
    sim = changed_sim("quadruped", tmp_path, {"command.resample_s": 2.5, "command.still_fraction": 0.3})
    run = rolled("quadruped", sim, num_envs=6, seconds=7.0)  # the last stretch of 2 s counts, one of 1.9 s would not
    asked, got = [], []
    for stretch in followed(run):
        after = list(stretch["after"])[HZ:]  # without the first second
        if len(after) >= HZ:
            asked.append(stretch["command"])
            got.append(np.mean([in_base_frame(stretch["rows"], k) for k in after], axis=0))
    expected, report = (np.array(asked), np.array(got)), run.report["tracking"]
    assert report["stretches"] == len(asked) >= 12
    for column, key in enumerate(("vx_m_s", "vy_m_s", "wz_rad_s")):
        error = expected[1][:, column] - expected[0][:, column]
        figures = summary(error)
        assert figures is not None
        assert report[key] == pytest.approx(
            {
                "asked": expected[0][:, column].mean(),
                "mean": expected[1][:, column].mean(),
                "error": figures["mean"],
                "ci95": figures["ci95"],
                "rmse": np.sqrt((error**2).mean()),
                "worst": np.abs(error).max(),
            }
        )
    still = ~expected[0].any(axis=1)
    assert still.any()
    drift = np.linalg.norm(expected[1][still, :2], axis=1)
    assert report["drift_m_s"] == pytest.approx({"mean": drift.mean(), "worst": drift.max()})


def test_a_stretch_needs_a_second_after_the_first(tmp_path: Path) -> None:
    for seconds, stretches in ((1.98, None), (2.0, 2)):
        report = rolled("quadruped", "quadruped", num_envs=2, seconds=seconds, command=(0.5, 0.0, 0.0)).report
        assert (report["tracking"] and report["tracking"]["stretches"]) == stretches


def test_the_stretch_in_which_a_robot_fell_does_not_count(tmp_path: Path) -> None:
    """Robots that count as fallen as soon as they lean a little, which pushes make them do."""
    sim = changed_sim("quadruped", tmp_path, {"terminations.fall.tilt_rad": 0.2})
    run = rolled("quadruped", sim, num_envs=8, seconds=6.0, command=(0.8, 0.0, 0.0), pushes=(1.0, 3.0))
    long_enough = [s for s in followed(run) if len(s["after"]) >= 2 * HZ]
    lost = [e for e in run.result.episodes if e.outcome == "fell" and e.steps >= 2 * HZ]
    print(f"{len(long_enough)} stretches count, {len(lost)} ended in a fall")
    assert long_enough
    assert lost
    assert run.report["tracking"]["stretches"] == len(long_enough)


@pytest.mark.parametrize("resample_s", [0.5, 10.0])
def test_errors_of_a_goal_are_its_last_distances(resample_s: float, tmp_path: Path) -> None:
    sim = changed_sim("arm_reach", tmp_path, {"command.resample_s": resample_s})
    run = rolled(wild("arm_reach", tmp_path), sim, num_envs=3, seconds=4.0)
    errors = []
    for stretch in followed(run):
        seen = stretch["rows"]["observation.obs"][stretch["after"][-1]]
        errors.append(np.linalg.norm(seen[22:25] - stretch["command"]))  # ee_pos without noise, in float32
    report = run.report["tracking"]
    assert report["stretches"] == len(errors) == (24 if resample_s == 0.5 else 6)
    expected = summary(errors)
    assert expected is not None
    figures = {**expected, "median": np.median(errors), "p95": np.quantile(errors, 0.95, method="higher")}
    assert report["goal_error_m"] == pytest.approx(figures, abs=1e-6)


def test_a_goal_that_the_end_of_the_run_cut_off_does_not_count(tmp_path: Path) -> None:
    sim = changed_sim("arm_reach", tmp_path, {"command.resample_s": 10.0})
    report = rolled(wild("arm_reach", tmp_path), sim, num_envs=3, seconds=3.0).report
    assert (report["episodes"], report["tracking"]["stretches"]) == (3, 3)


def test_success_is_held_until_the_end(tmp_path: Path) -> None:
    within, hold_s = 1.2, 0.4
    near = {"joint": "hinge", "angle_rad": np.pi, "within_rad": within}  # hanging, where the angle wraps
    changes = {"episode_s": 1.0, "success": {"hold_s": hold_s, "joint_near": near}}
    sim = changed_sim("cartpole", tmp_path, changes)
    run = rolled(wild("cartpole", tmp_path), sim, num_envs=40, seconds=2.0)
    successes, passing = 0, 0
    for number, rows in run.episodes.items():
        angle = rows["state.qpos"][1:, 1]
        down = np.cos(angle - np.pi) >= np.cos(within)
        held = bool(down[-round(hold_s * HZ) :].all())
        successes += held
        passing += bool(down.any() and not held)
        assert run.memory.ended[number]["outcome"] == ("success" if held else "completed")
    assert 0 < successes < 80
    assert passing > 0
    assert (run.report["episodes"], run.report["successes"]) == (80, successes)
    assert run.report["success_rate"] == rate(successes, 80)


def test_a_task_without_a_criterion_has_no_successes() -> None:
    assert "successes" not in rolled("quadruped", "quadruped", num_envs=1, seconds=0.1).report


def test_nothing_has_no_rate_and_no_tracking() -> None:
    assert rate(0, 0) is None
    assert tracking([], ("vx_m_s", "vy_m_s", "wz_rad_s")) is None
