"""A task's trials: what is run for them, and how their bars are judged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rollout_examples import changed_sim, rolled, wild

from edgert.errors import UnsupportedError
from edgert.rollout import RolloutOptions
from edgert.rollout.trials import judged, run_trials
from edgert.task.trials import Trials

TWIST = ("vx_m_s", "vy_m_s", "wz_rad_s")
WALK: dict[str, Any] = {
    "num_envs": 3,
    "seconds": 2.0,
    "max_falls": 0,
    "max_drift_m_s": 0.1,
    "within": dict.fromkeys(TWIST, 0.3),
    "commands": [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]],
}


def walked(folder: Path, **changes: Any) -> dict[str, Any]:
    sim = changed_sim("quadruped", folder, {"trials": WALK | changes})
    return run_trials(RolloutOptions(model="quadruped", sim=sim, seed=3))


def test_one_row_for_each_command_and_one_for_drawn_ones(tmp_path: Path) -> None:
    report = walked(tmp_path)
    rows = report["trials"]
    assert [row["name"] for row in rows] == ["0.5, 0, 0", "0, 0, 0", "drawn"]
    assert [row["passed"] for row in rows] == [True] * 3
    assert [row["missed"] for row in rows] == [[]] * 3
    assert (report["passed"], report["outcome"], report["num_envs"], report["seconds"]) == (True, "completed", 3, 2.0)
    assert report["seed"] == 3
    assert "command" not in rows[2]
    assert rows[0]["tracking"]["vx_m_s"]["mean"] == pytest.approx(0.5, abs=0.1)
    json.dumps(report, allow_nan=False)


def test_a_row_is_the_report_of_its_run(tmp_path: Path) -> None:
    conditions = {"pushes": [0.5, 1.0], "friction": [0.5, 0.6], "gains": [0.9, 1.1]}
    report = walked(tmp_path / "a", **conditions)
    options: dict[str, Any] = {name: tuple(value) for name, value in conditions.items()}
    alone = rolled("quadruped", "quadruped", num_envs=3, seconds=2.0, seed=3, command=(0.5, 0.0, 0.0), **options).report
    row = report["trials"][0]
    for key in ("episodes", "falls", "fall_rate", "returns", "episode_length", "tracking", "command"):
        assert row[key] == alone[key]
    assert report["randomise"] == alone["randomise"]
    assert (report["randomise"]["push_speed_m_s"], report["randomise"]["push_interval_s"]) == (0.5, 1.0)


def test_conditions_of_the_options_do_not_count(tmp_path: Path) -> None:
    sim = changed_sim("quadruped", tmp_path, {"trials": WALK | {"commands": []}})
    plain = run_trials(RolloutOptions(sim=sim))
    other = run_trials(
        RolloutOptions(
            sim=sim,
            num_envs=9,
            seconds=0.1,
            command=(1.0, 0.0, 0.0),
            randomise=False,
            pushes=(2.0, 0.1),
            friction=(0.1, 0.2),
            mass=(0.0, 1.0),
            gains=(0.1, 0.2),
            delay=(0.0, 0.1),
        )
    )
    assert plain["randomise"] == other["randomise"]
    assert plain["trials"][0]["returns"] == other["trials"][0]["returns"]


@pytest.mark.parametrize(
    ("changes", "trial", "missed"),
    [
        ({"within": {"vx_m_s": 1e-4}}, 0, r"vx_m_s error 0\.0\d\d, at most 0.0001"),
        ({"max_drift_m_s": 1e-6}, 1, r"drift 0\.0\d\d m/s, at most 1e-06"),
        ({"pushes": [8.0, 0.5]}, 0, r"\d+ falls, at most 0"),
    ],
)
def test_a_bar_that_is_missed_is_said(changes: dict[str, Any], trial: int, missed: str, tmp_path: Path) -> None:
    report = walked(tmp_path, **changes)
    row = report["trials"][trial]
    assert report["passed"] is False
    assert row["passed"] is False
    assert any(re.fullmatch(missed, text) for text in row["missed"]), row["missed"]


def test_success_is_judged_over_drawn_worlds(tmp_path: Path) -> None:
    for bar, passed in ((0.0, True), (1.0, False)):
        changes = {"episode_s": 0.3, "success.hold_s": 0.0, "trials": {"num_envs": 20, "min_success": bar}}
        sim = changed_sim("cartpole", tmp_path / str(bar), changes)
        report = run_trials(RolloutOptions(model=wild("cartpole", tmp_path), sim=sim))
        (row,) = report["trials"]
        assert (row["name"], row["passed"], report["passed"], report["seconds"]) == ("all", passed, passed, 0.3)
        assert row["missed"] == ([] if passed else [f"success {row['success_rate']['mean']:.3f}, at least 1"])


def test_stopping_keeps_the_trials_that_were_done(tmp_path: Path) -> None:
    sim = changed_sim("quadruped", tmp_path, {"trials": WALK})
    told: list[tuple[str, int, int]] = []
    report = run_trials(
        RolloutOptions(sim=sim),
        progress=lambda name, worlds, period_s: lambda done, total: told.append((name, done, total)),
        stop=lambda: len(told) == 150,
    )
    assert [row["name"] for row in report["trials"]] == ["0.5, 0, 0"]
    assert (report["outcome"], report["passed"]) == ("interrupted", False)
    assert told[99:101] == [("0.5, 0, 0", 100, 100), ("0, 0, 0", 1, 100)]


def test_a_task_without_trials_is_refused(tmp_path: Path) -> None:
    sim = changed_sim("quadruped", tmp_path, {"trials": None})
    with pytest.raises(UnsupportedError) as caught:
        run_trials(RolloutOptions(sim=sim))
    assert str(caught.value) == "task 'quadruped' has no trials. Add [trials] to its task.toml"


def some_report(**changes: Any) -> dict[str, Any]:
    return {"falls": 1, "safety_stops": 1, "tracking": None} | changes


@pytest.mark.parametrize(
    ("bars", "report", "missed"),
    [
        ({}, {}, []),
        ({"max_falls": 2}, {}, []),
        ({"max_falls": 1}, {}, ["2 falls, at most 1"]),  # a safety stop is no better than a fall
        ({"min_success": 0.9}, {"success_rate": {"mean": 0.9}}, []),
        ({"min_success": 0.9}, {"success_rate": {"mean": 0.89}}, ["success 0.890, at least 0.9"]),
        ({"min_success": 0.9}, {"success_rate": None}, ["success unknown, at least 0.9"]),
        ({"min_success": 0.9}, {}, ["success unknown, at least 0.9"]),
        ({"within": {"vx_m_s": 0.1}}, {"tracking": {"vx_m_s": {"worst": 0.1}}}, []),
        ({"within": {"vx_m_s": 0.1}}, {"tracking": {"vx_m_s": {"worst": 0.2}}}, ["vx_m_s error 0.200, at most 0.1"]),
        ({"within": {"vx_m_s": 0.1}}, {}, ["vx_m_s error unknown, at most 0.1"]),
        ({"max_drift_m_s": 0.1}, {}, []),  # nobody was told to stand
        ({"max_drift_m_s": 0.1}, {"tracking": {"drift_m_s": {"worst": 0.1}}}, []),
        (
            {"max_drift_m_s": 0.1},
            {"tracking": {"drift_m_s": {"worst": 0.15}}},
            ["drift 0.150 m/s, at most 0.1"],
        ),
    ],
)
def test_bars(bars: dict[str, Any], report: dict[str, Any], missed: list[str]) -> None:
    assert judged(Trials(num_envs=1, **bars), some_report(**report)) == missed
