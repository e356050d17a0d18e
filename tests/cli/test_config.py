"""The project file `edgert.toml`, the environment, and `edgert config show`."""

from __future__ import annotations

import json
import os
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import click
import pytest

from edgert import assets
from edgert.cli import main
from edgert.cli.main import run


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugged-in group with a command that prints its options, of every kind there is."""

    @click.group()
    def group() -> None:
        pass

    @group.command()
    @click.argument("model", default="m")
    @click.option("--sim")
    @click.option("--command", type=float, nargs=3)
    @click.option("-s", "--seconds", type=float, default=10.0, show_default=True)
    @click.option("--seed", type=click.IntRange(min=0), default=0)
    @click.option("--real-time/--no-real-time", default=True)
    @click.option("--actuators", type=click.Choice(["contract", "scene"]), default="contract")
    @click.option("--tag", multiple=True)
    @click.option("-v", "--verbose", count=True)
    @click.option("--quiet", is_flag=True)
    @click.option("--json", "as_json", is_flag=True)
    @click.option("--env")
    @click.option("--video")
    def walk(**values: Any) -> None:
        click.echo(json.dumps(values))

    monkeypatch.setitem(main.COMMANDS.entries(), "demo", EntryPoint("demo", "a:b", "edgert.commands"))
    monkeypatch.setitem(main.COMMANDS._loaded, "demo", group)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(capsys: pytest.CaptureFixture[str], text: str | None, *arguments: str) -> tuple[int, str, list[str]]:
    if text is not None:
        Path("edgert.toml").write_text(text)
    code = run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err.splitlines()


def refused(capsys: pytest.CaptureFixture[str], text: str, *arguments: str) -> str:
    code, out, (line,) = ran(capsys, text, *arguments)
    assert (code, out) == (2, "")
    return line.removeprefix("edgert: ")


def said(lines: list[str]) -> list[str]:
    return [line.removeprefix("edgert.toml: ") for line in lines if line.startswith("edgert.toml: ")]


def test_defaults_of_options_come_from_the_file_and_are_said(capsys, folder, demo):
    text = """[demo.walk]
    seconds = 2
    real_time = false
    quiet = true
    command = [0, 0.5, 1]
    actuators = "scene"
    tag = ["a b", "c"]
    verbose = 2
    """
    code, out, lines = ran(capsys, text, "demo", "walk")
    assert code == 0
    assert json.loads(out) == {
        "model": "m",
        "sim": None,
        "command": [0.0, 0.5, 1.0],
        "seconds": 2.0,
        "seed": 0,
        "real_time": False,
        "actuators": "scene",
        "tag": ["a b", "c"],
        "verbose": 2,
        "quiet": True,
        "as_json": False,
        "env": None,
        "video": None,
    }
    assert sorted(said(lines)) == [
        "--actuators scene",
        "--command 0 0.5 1",
        "--no-real-time",
        "--quiet",
        "--seconds 2",
        "--tag 'a b' c",
        "--verbose 2",
    ]


def test_run_policy_takes_them(capsys, folder):
    arguments = ("run", "policy", "--seconds", "0.1", "--no-real-time", "--json")
    code, out, lines = ran(capsys, "[run.policy]\nseconds = 5\nseed = 3\n", *arguments)
    assert code == 0
    report = json.loads(out)
    assert (report["steps"], report["seed"]) == (5, 3)
    assert said(lines) == ["--seed 3"]


def test_flags_win_and_are_not_said(capsys, folder, demo):
    text = "[demo.walk]\nseconds = 5\nreal_time = false\nquiet = false\n"
    code, out, lines = ran(capsys, text, "demo", "walk", "-s", "7", "--real-time")
    values = json.loads(out)
    assert (code, values["seconds"], values["real_time"], values["quiet"]) == (0, 7.0, True, False)
    assert said(lines) == ["--quiet off"]


@pytest.mark.parametrize("name", ["real-time", "real_time"])
def test_dashes_and_underscores_are_the_same(capsys, folder, demo, name):
    code, out, _ = ran(capsys, f"[demo.walk]\n{name} = false\n", "demo", "walk")
    assert (code, json.loads(out)["real_time"]) == (0, False)


def test_a_file_about_other_commands_says_nothing(capsys, folder, demo):
    text = '[run.policy]\nseconds = "wrong"\n[policy.inspect]\ncontract = "my.toml"\n'
    code, _, lines = ran(capsys, text, "demo", "walk")
    assert (code, lines) == (0, [])


def test_only_the_working_folder_counts(capsys, folder, demo, monkeypatch):
    inner = folder / "inner"
    inner.mkdir()
    (folder / "edgert.toml").write_text("[demo.walk]\nseed = 3\n")
    monkeypatch.chdir(inner)
    code, out, lines = ran(capsys, None, "demo", "walk")
    assert (code, json.loads(out)["seed"], said(lines)) == (0, 0, [])


def test_options_of_a_group(capsys, folder, monkeypatch):
    @click.group(invoke_without_command=True)
    @click.option("--where")
    def group(where: str) -> None:
        click.echo(where)

    @group.command()
    @click.option("--seed", type=int)
    def walk(seed: int) -> None:
        click.echo(seed)

    monkeypatch.setitem(main.COMMANDS.entries(), "demo", EntryPoint("demo", "a:b", "edgert.commands"))
    monkeypatch.setitem(main.COMMANDS._loaded, "demo", group)
    code, out, lines = ran(capsys, '[demo]\nwhere = "here"\n[demo.walk]\nseed = 3\n', "demo", "walk")
    assert (code, out, said(lines)) == (0, "here\n3\n", ["--where here", "--seed 3"])


def test_text_is_said_as_one_would_type_it(capsys, folder, demo):
    code, _, lines = ran(capsys, '[demo.walk]\nsim = "my \\u001b[31m scene.xml"\n', "demo", "walk")
    assert code == 0
    assert lines[0] == "edgert.toml: --sim 'my \\x1b[31m scene.xml'"


REFUSED = [
    (
        "[dmeo.walk]\nseed = 1",
        "edgert has no command 'dmeo': expected one of [bench], [completion], [config], [demo], [device], ",
    ),
    ("[demo.wlak]\nseed = 1", "edgert demo has no command 'wlak': expected one of [demo.walk]"),
    ("[demo]\nseed = 1", "edgert demo has no option 'seed': expected one of [demo.walk]"),
    ("demo = 0", "key 'demo' is wrong: found an integer 0, expected a table [demo] with options of edgert demo"),
    (
        "[demo]\nwalk = true",
        "key 'demo.walk' is wrong: found a boolean True, expected a table [demo.walk] with options of",
    ),
    ("[demo.walk]\nsead = 1", "edgert demo walk has no option 'sead': expected one of sim, command, seconds, seed, "),
    ('[demo.walk]\nmodel = "x"', "edgert demo walk has no option 'model': expected one of sim, command, "),
    ("[demo.walk]\nhelp = true", "edgert demo walk has no option 'help': expected one of sim, command, "),
]
WRONG = [
    ("seconds", '"20"', "found text '20', expected a finite number"),
    ("seconds", "nan", "found a number nan, expected a finite number"),
    ("seconds", "true", "found a boolean True, expected a finite number"),
    ("seed", "1.0", "found a number 1.0, expected an integer of 64 bits"),
    ("seed", "true", "found a boolean True, expected an integer of 64 bits"),
    ("seed", "-1", "found -1 is not in the range x>=0"),
    ("seed", "0x" + "f" * 5000, f"found an integer 0x{'f' * 55}..., expected an integer of 64 bits"),
    ("sim", "3", "found an integer 3, expected text"),
    ("quiet", '"yes"', "found text 'yes', expected true or false"),
    ("actuators", '"no"', "found 'no' is not one of 'contract', 'scene'"),
    ("command", "[1, 2]", "found a list [1, 2], expected a list of 3"),
    ("command", "[1, 2, true]", "found a list [1, 2, True], expected a list of 3, each a finite number"),
    ("command", '"1 2 3"', "found text '1 2 3', expected a list of 3"),
    ("tag", '"a"', "found text 'a', expected a list"),
    ("tag", "[1]", "found a list [1], expected a list, each text"),
    ("real-time", "true\nreal_time = true", "found the same option twice, expected one spelling of it"),
]


@pytest.mark.parametrize(("text", "line"), REFUSED)
def test_unknown_names_are_refused_with_the_valid_ones(capsys, folder, demo, text, line):
    assert refused(capsys, text, "demo", "walk").startswith(f"edgert.toml: {line}")


@pytest.mark.parametrize(("name", "value", "line"), WRONG)
def test_wrong_values_are_refused_with_what_fits(capsys, folder, demo, name, value, line):
    text = f"[demo.walk]\n{name} = {value}\n"
    key = "real_time" if name == "real-time" else name
    assert refused(capsys, text, "demo", "walk") == f"edgert.toml: key 'demo.walk.{key}' is wrong: {line}"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("env", '"stranger:Trap-v0"', "it may import any module"),
        ("video", '"thesis.mp4"', "it replaces a file"),
        ("json", "true", "it is for whoever reads the result"),
    ],
)
def test_some_options_are_always_typed(capsys, folder, name, value, why):
    text = f"[run.policy]\n{name} = {value}\n"
    line = f"edgert.toml: key 'run.policy.{name}' cannot be set here: {why}. Type --{name}"
    assert refused(capsys, text, "run", "policy") == line
    assert refused(capsys, text, "config", "show") == line


def test_broken_toml_is_refused_by_whoever_needs_it(capsys, folder, demo):
    for arguments in (("demo", "walk"), ("config", "show")):
        line = refused(capsys, "[demo.walk", *arguments)
        assert line.startswith("project file edgert.toml is not valid TOML: found ")


@pytest.mark.parametrize("line", ["version", "doctor", "completion bash", "sim list", "policy list", "run --help"])
def test_commands_that_the_file_could_not_set_anything_in_do_not_read_it(capsys, folder, line):
    code, out, lines = ran(capsys, "[run", *line.split())
    assert (code, lines) == (0, [])
    assert out


def test_pipes_and_folders_are_refused(capsys, folder, demo):
    os.mkfifo("edgert.toml")
    assert run(["demo", "walk"]) == 2
    assert "project file edgert.toml is no regular file" in capsys.readouterr().err
    Path("edgert.toml").unlink()
    Path("edgert.toml").mkdir()
    assert run(["demo", "walk"]) == 2
    assert "project file edgert.toml is a folder" in capsys.readouterr().err


def test_help_works_beside_a_broken_file_and_shows_what_a_good_one_sets(capsys, folder, demo):
    Path("edgert.toml").write_text("[run")
    assert run(["--help"]) == 0
    assert run(["--version"]) == 0
    capsys.readouterr()
    code, out, lines = ran(capsys, "[demo.walk]\nseconds = 2\n", "demo", "walk", "--help")
    assert (code, lines) == (0, [])
    assert "[default: 2]" in out


def test_config_show(capsys, folder, demo, monkeypatch):
    monkeypatch.setenv("EDGERT_HOME", "state")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    text = '[demo.walk]\nsim = "my.xml"\nreal_time = false\n[run.policy]\nseed = 3\n'
    code, out, lines = ran(capsys, text, "config", "show", "--json")
    assert (code, lines) == (0, [])
    assert json.loads(out) == {
        "project_file": str(folder / "edgert.toml"),
        "settings": [
            {"name": "state_folder", "value": str(folder / "state"), "source": "environment", "from": "EDGERT_HOME"},
            {"name": "sims_folder", "value": str(assets.root("sims")), "source": "default", "from": ""},
            {"name": "models_folder", "value": str(assets.root("models")), "source": "default", "from": ""},
            {"name": "MUJOCO_GL", "value": "egl", "source": "environment", "from": "MUJOCO_GL"},
            {"name": "demo.walk.sim", "value": "my.xml", "source": "file", "from": "edgert.toml"},
            {"name": "demo.walk.real-time", "value": False, "source": "file", "from": "edgert.toml"},
            {"name": "run.policy.seed", "value": 3, "source": "file", "from": "edgert.toml"},
        ],
    }
    code, out, _ = ran(capsys, None, "config", "show")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["state_folder", str(folder / "state"), "EDGERT_HOME"] in rows
    assert ["demo.walk.sim", "my.xml", "edgert.toml"] in rows


def test_config_show_without_a_file(capsys, folder, monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    code, out, _ = ran(capsys, None, "config", "show", "--json")
    report = json.loads(out)
    assert (code, report["project_file"], len(report["settings"])) == (0, None, 4)
    assert report["settings"][3] == {"name": "MUJOCO_GL", "value": None, "source": "default", "from": ""}


def test_config_show_reads_all_of_the_file(capsys, folder):
    assert "edgert sim has no command 'lst'" in refused(capsys, "[sim.lst]\nseed = 1\n", "config", "show")
    assert "'run.policy.seed' is wrong" in refused(capsys, "[run.policy]\nseed = true\n", "config", "show")
