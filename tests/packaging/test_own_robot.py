"""The page on robots and tasks of one's own, as a reader would follow it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from edgert.cli.main import run
from edgert.task.task import load_task

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/own-robot.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the reader has after the first two steps."""
    result = tmp_path_factory.mktemp("own")
    (result / "my_arm").mkdir()
    (scene,), (task,) = blocks("xml"), blocks("toml")
    (result / "my_arm/scene.xml").write_text(scene)
    (result / "my_arm/task.toml").write_text(task)
    return result


def commands() -> list[str]:
    return [line for block in blocks("bash") for line in block.splitlines()]


def test_the_task_is_one(folder: Path) -> None:
    task = load_task(folder / "my_arm")
    assert task.contract.joints == ("shoulder", "elbow")
    assert task.success is not None
    assert task.trials is not None


def test_the_page_shows_every_command_in_order() -> None:
    programs = [tuple(shlex.split(line)[:2]) for line in commands()]
    assert programs == [
        ("edgert", "sim"),
        ("python", "examples/train_ppo.py"),
        ("edgert", "run"),
        ("edgert", "run"),
    ]


def test_the_environment_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (code,) = blocks("python")
    exec(compile(code, "own-robot.md", "exec"), {})
    assert capsys.readouterr().out.startswith("(8, 12)")


@pytest.mark.torch
@pytest.mark.slow
def test_the_commands_do_what_the_page_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    show, train, policy, trials = commands()
    assert run(shlex.split(show)[1:]) == 0
    assert "shoulder" in capsys.readouterr().out
    _, script, *arguments = shlex.split(train)
    subprocess.run([sys.executable, ROOT / script, *arguments], check=True, timeout=600)
    without_video = policy.replace("--video reach.mp4", "--no-real-time")
    assert without_video != policy
    assert run(shlex.split(without_video)[1:]) == 0
    assert run(shlex.split(trials)[1:]) == 0  # every bar was met
    assert "passed" in capsys.readouterr().out
