"""The page on the first ten minutes, as a reader would follow it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from edgert.cli.main import cli, run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/first-ten-minutes.md").read_text()
MANY_WORLDS = re.compile(r"edgert run rollouts (quadruped|cartpole|arm_reach)\b")
"""Commands that take a while; they are parsed alone."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def commands() -> list[str]:
    """What the reader types, but for what installs something."""
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    assert [line for line in lines if re.match(r"(python3 -m venv|pip) ", line)] == [*lines[:2], lines[-3]]
    return [line for line in lines if re.match(r"(edgert|python) ", line)]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with what a checkout has."""
    for name in ("models", "sims"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("edgert ")])
def test_every_command_and_option_is_one(line: str, checkout: Path) -> None:
    command: click.Command = cli
    words = shlex.split(line)[1:]
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words[0]
        command, words = found, words[1:]
    command.make_context("command", words)  # raises where an option or its value is none


def test_the_commands_do_what_the_page_says(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    (program,) = blocks("python")
    (checkout / "make_balance.py").write_text(program)
    said: dict[str, str] = {}
    for line in commands():
        if MANY_WORLDS.match(line):
            continue
        if line.startswith("python "):
            subprocess.run([sys.executable, *shlex.split(line)[1:]], check=True, timeout=60)
            continue
        typed = line.replace(" --video walk.mp4", "")
        if typed.startswith("edgert run policy") and "--env" not in typed:
            typed += " --no-real-time"
        code = run(shlex.split(typed)[1:])
        captured = capsys.readouterr()
        said[line] = captured.out + captured.err
        assert code == (2 if line == "edgert run policy balance.onnx --sim sims/cartpole" else 0), said[line]
    assert {path.name for path in checkout.iterdir()} == {
        "models", "sims", "make_balance.py", "balance.onnx", "episodes",
    }  # fmt: skip
    assert "cartpole/policy.onnx" in said["edgert policy inspect models/cartpole/policy.onnx"]
    for line in ("edgert policy inspect balance.onnx", "edgert run policy balance.onnx --sim sims/cartpole"):
        assert "inputs.obs.terms" in said[line]
        assert "what its 4 numbers are, in their order" in said[line]


def test_four_numbers_balance_for_a_thousand_steps(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python")[0], "make_balance.py", "exec"), {})
    *_, one, many = commands()
    for line, episodes in ((one, 1), (many, 16)):
        assert run([*shlex.split(line)[1:], "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["episodes"] == episodes
        assert report["returns"]["min"] == 1000.0
