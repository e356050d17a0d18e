"""What a newcomer types first: nothing, half a command, a wrong one."""

from __future__ import annotations

import json

import pytest

from edgert.cli.episode_tables import spark
from edgert.cli.main import flagged, run
from edgert.errors import ContractError
from edgert.tables import Table


@pytest.mark.parametrize(
    "command", [[], ["run"], ["episode"], ["policy"], ["sim"], ["config"], ["device"]], ids=" ".join
)
def test_half_a_command_shows_its_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith(" ".join(["Usage: edgert", *command]))
    assert "Commands:" in lines


def test_a_misspelt_key_is_named_with_the_one_that_is_missing() -> None:
    table = Table({"wieght": -2.0}, "task.toml", "rewards.tilt")
    with pytest.raises(ContractError) as caught:
        table.number("weight")
    assert str(caught.value) == (
        "task.toml: key 'rewards.tilt.weight' is missing: found 'wieght', which is no key. "
        "Add rewards.tilt.weight to it"
    )


def test_a_constant_is_flat_whatever_its_last_bits() -> None:
    assert spark([0.7999999999999999, 0.8, 0.8]) == "▁▁▁"


def test_an_arm_is_sent_to_the_middle_of_its_goals_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "policy", "arm_reach", "--seconds", "2", "--no-real-time"]) == 0
    assert "asked      x +0.486 m, y +0.000 m, z +0.470 m" in capsys.readouterr().out


def test_a_file_without_a_sim_says_where_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from edgert import assets

    path = str(assets.find("models", "quadruped") / "policy.onnx")
    assert run(["run", "policy", path, "--seconds", "0.1", "--no-real-time"]) == 0
    assert "no --sim is given: it runs in the bundled sim 'quadruped'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "success"),
    [
        (["cartpole"], True),
        (["cartpole", "--seconds", "3"], False),  # upright, but not yet for five seconds
        (["arm_reach", "--seconds", "2"], True),
        (["arm_reach", "--seconds", "2", "--command", "2", "0", "0.5"], False),  # out of reach
        (["quadruped", "--seconds", "0.2"], None),
    ],
    ids=str,
)
def test_a_run_tells_whether_it_met_the_tasks_criterion(
    arguments: list[str], success: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "policy", *arguments, "--no-real-time", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).get("success") is success


def test_options_that_the_library_names_are_said_as_they_are_typed() -> None:
    assert flagged("found two. Choose with option 'motion_loop'") == "found two. Choose with --motion-loop"
    assert flagged("edgert demo has no option 'seed'") == "edgert demo has no option 'seed'"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["policy", "--command", "0.5", "0", "--no-real-time"], "three numbers are wanted, VX VY WZ"),
        (["rollouts", "--mass", "1", "--json"], "two numbers are wanted, LOW HIGH"),
    ],
)
def test_too_few_numbers_are_told_as_that(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert run(["run", *arguments]) == 2
    assert f"{text}, and '{arguments[-1]}' is none" in capsys.readouterr().err
