"""The trials of a task file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rollout_examples import TASKS, changed_sim

from edgert.errors import ContractError
from edgert.task.task import load_task


def test_the_trials_of_the_bundled_tasks() -> None:
    trials = TASKS["quadruped"].trials
    assert trials is not None
    assert (trials.num_envs, trials.seconds, trials.max_falls, trials.min_success) == (100, 20.0, 0, None)
    assert (trials.pushes, trials.friction, trials.gains) == ((0.5, 4.0), (0.5, 1.0), (0.8, 1.2))
    assert trials.within == {"vx_m_s": 0.1, "vy_m_s": 0.1, "wz_rad_s": 0.15}
    assert len(trials.commands) == 13
    for name in ("cartpole", "arm_reach"):
        trials = TASKS[name].trials
        assert trials is not None
        assert trials.commands == ()
        assert trials.seconds is None
        assert (trials.min_success or 0.0) >= 0.9


REFUSED: list[tuple[str, str, Any, str]] = [
    ("quadruped", "num_envs", None, "key 'trials.num_envs' is missing"),
    ("quadruped", "num_envs", 0, "key 'trials.num_envs' is wrong: found 0, expected at least 1 and at most 100000"),
    ("quadruped", "seconds", 0.0, "key 'trials.seconds' is wrong: found 0.0, expected more than 0"),
    ("quadruped", "pushes", [0.5, 0.0], r"key 'trials.pushes' is wrong: found \[0.5, 0.0\], expected \[m/s, s\]"),
    ("quadruped", "pushes", [0.5], "key 'trials.pushes' is wrong: found 1 numbers, expected 2"),
    ("quadruped", "friction", [0.0, 1.0], "key 'trials.friction' is wrong: found 0.0, expected at least 1e-05"),
    ("quadruped", "gains", [1.0, 0.5], "key 'trials.gains' is wrong: found"),
    ("quadruped", "gains", [1.0, 1e4], "key 'trials.gains' is wrong: found 10000.0, expected at least 0 and at most 1"),
    ("quadruped", "friction", [0.5, 1e3], "found 1000.0, expected at least 1e-05 and at most 100"),
    ("quadruped", "pushes", [101.0, 1.0], r"found \[101.0, 1.0\], expected \[m/s, s\], 0 to 100 and above 0"),
    ("quadruped", "commands", [[1e300, 0.0, 0.0]], "key 'trials.commands' is wrong"),
    ("quadruped", "max_falls", -1, "key 'trials.max_falls' is wrong: found -1"),
    ("quadruped", "max_falls", 0.5, "key 'trials.max_falls' is wrong: found a number 0.5, expected an integer"),
    (
        "quadruped",
        "min_success",
        1.5,
        "key 'trials.min_success' is wrong: found 1.5, expected at least 0 and at most 1",
    ),
    ("quadruped", "max_drift_m_s", 0.0, "key 'trials.max_drift_m_s' is wrong"),
    (
        "quadruped",
        "commands",
        [[0.0, 0.0]],
        "key 'trials.commands' is wrong: found .*, expected a list of commands, three",
    ),
    ("quadruped", "commands", [[0.0, 0.0, "x"]], "key 'trials.commands' is wrong"),
    ("quadruped", "commands", {"x": 1.0}, "key 'trials.commands' is wrong: found a table"),
    ("quadruped", "commands", [[0.0, 0.0, 0.0]] * 1001, "key 'trials.commands' is wrong"),
    ("quadruped", "within", {"x_m": 0.1}, "unknown key 'trials.within.x_m': expected one of vx_m_s, vy_m_s, wz_rad_s"),
    ("quadruped", "within", {"vx_m_s": 0.0}, "key 'trials.within.vx_m_s' is wrong: found 0.0, expected more than 0"),
    ("quadruped", "bar", 1.0, "unknown key 'trials.bar': expected one of commands, friction"),
    ("cartpole", "commands", [[0.0, 0.0, 0.0]], "found 1 commands, expected none, as the policy takes no command"),
    ("cartpole", "within", {"vx_m_s": 0.1}, "unknown key 'trials.within.vx_m_s': expected one of none"),
]


@pytest.mark.parametrize(("sim", "key", "value", "text"), REFUSED)
def test_refusals_name_the_key(sim: str, key: str, value: Any, text: str, tmp_path: Path) -> None:
    path = changed_sim(sim, tmp_path, {f"trials.{key}": value})
    with pytest.raises(ContractError, match=text):
        load_task(path)
