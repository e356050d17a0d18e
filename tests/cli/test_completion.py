"""`edgert completion`, and what the shell gets when it asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from edgert import assets
from edgert.cli.completion import complete_models, complete_sims
from edgert.cli.main import run

HEAVY = ("numpy", "mujoco", "onnx", "onnxruntime", "gymnasium", "rich", "torch")
PROGRAM = "import sys; from edgert.cli.main import main; main()"


def completed(line: str, *, cwd: Path | None = None) -> list[str]:
    """What bash gets for the last word of the line."""
    asked = {"_EDGERT_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env=os.environ | asked, cwd=cwd, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("edgert ru", ["plain,run"]),
        ("edgert run po", ["plain,policy"]),
        ("edgert completion ", ["plain,bash", "plain,zsh", "plain,fish"]),
        ("edgert policy inspect qua", ["plain,quadruped"]),
        ("edgert policy inspect ./my", ["file,./my"]),
        ("edgert sim show quad", ["plain,quadruped"]),
        ("edgert policy inspect --c", ["plain,--contract"]),
        ("edgert doctor --j", ["plain,--json"]),
        ("edgert run policy x.onnx --format uni", ["plain,unitree"]),
    ],
)
def test_words(line, expected):
    assert completed(line) == expected


def test_a_broken_project_file_does_not_hinder_it(tmp_path):
    (tmp_path / "edgert.toml").write_text("[run")
    assert completed("edgert ver", cwd=tmp_path) == ["plain,version"]


def test_all_names_are_offered():
    context = click.Context(click.Command("x"))
    option = click.Option(["--sim"])
    assert [item.value for item in complete_sims(context, option, "")] == list(assets.names("sims"))
    assert [item.value for item in complete_models(context, option, "")] == list(assets.names("models"))
    (item,) = complete_models(context, option, "quadrupeds")
    assert (item.type, item.value) == ("file", "quadrupeds")


def test_it_is_quick():
    code = (
        "import atexit, sys; "
        f"atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)); {PROGRAM}"
    )
    asked = {"_EDGERT_COMPLETE": "bash_complete", "COMP_WORDS": "edgert sim show q", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["plain,quadruped"]
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", '# To install it: eval "$(edgert completion bash)"  in ~/.bashrc'),
        ("zsh", '# To install it: eval "$(edgert completion zsh)"  in ~/.zshrc, after compinit'),
        ("fish", "# To install it: edgert completion fish | source  in ~/.config/fish/config.fish"),
    ],
)
def test_scripts(capsys, shell, line):
    assert run(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == line
    assert f"_EDGERT_COMPLETE={shell}_complete" in out


def test_an_unknown_shell_is_refused(capsys):
    assert run(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_takes_the_script_and_completes(tmp_path):
    """The function that Tab calls, in a real bash, with `edgert` found by its name."""
    program = tmp_path / "edgert"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}\n")
    program.chmod(0o755)
    script = """
    eval "$(edgert completion bash)"
    complete -p edgert
    COMP_WORDS=(edgert ru) COMP_CWORD=1 COMPREPLY=()
    _edgert_completion edgert
    echo "${COMPREPLY[*]}"
    """
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["complete -o nosort -F _edgert_completion edgert", "run"]
