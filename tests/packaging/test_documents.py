"""What the documents show is what the program does."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from support import GO1_TOML

from edgert import assets
from edgert.cli.main import run
from edgert.contract.terms import TERMS
from edgert.policy import load_policy
from edgert.task.rewards import REWARDS
from edgert.task.task import load_task

ROOT = Path(__file__).resolve().parents[2]


def blocks(path: Path, language: str) -> list[str]:
    parts = path.read_text().split("```")
    return [part.removeprefix(language + "\n") for part in parts[1::2] if part.startswith(language + "\n")]


def test_readme_has_its_two_commands_as_first_shell_blocks() -> None:
    first, second = blocks(ROOT / "README.md", "bash")[:2]
    assert first == 'python3 -m venv .venv && .venv/bin/pip install -e ".[cpu]" && .venv/bin/edgert run policy\n'
    assert second == '.venv/bin/pip install -e ".[cpu,test]" && .venv/bin/python -m pytest\n'


def test_documented_contract_is_the_tested_one() -> None:
    example = tomllib.loads(blocks(ROOT / "docs/policy-toml.md", "toml")[0])
    assert example == tomllib.loads(GO1_TOML)


@pytest.mark.parametrize("name", TERMS.names())
def test_every_term_is_documented(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/policy-toml.md").read_text()


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_every_reward_is_documented(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/task-toml.md").read_text()


def test_every_json_key_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "policy", "--seconds", "0.1", "--no-real-time", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    text = (ROOT / "docs/json.md").read_text()
    assert [key for key in (*report, *report["metrics"], *report["latency_us"]) if f"`{key}`" not in text] == []


def keys(value: object, *, free: tuple[str, ...]) -> set[str]:
    """Every key of a report, also of objects in it, but not those of the objects whose keys are data."""
    if isinstance(value, list):
        return {key for entry in value for key in keys(entry, free=free)}
    if not isinstance(value, dict):
        return set()
    return {*value, *(key for name, entry in value.items() if name not in free for key in keys(entry, free=free))}


NAMES_AS_KEYS = (
    "contract",
    "contract_provenance",
    "value",
    "opsets",
    "operators",
    "left_out",
    "packages",
    "task",
    "details",
    "evidence",
)
"""Objects whose keys are names, or are explained by another document."""


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        ("policy list", []),
        ("policy inspect", ["quadruped"]),
        ("policy embed", ["quadruped", "-o", "out.onnx"]),
        ("sim list", []),
        ("sim show", ["quadruped"]),
        ("sim show", ["arm.xml"]),
        ("version", []),
        ("config show", []),
        ("doctor", []),
        ("doctor device", []),
        ("device list", []),
        ("device show", ["cuda:0", "--replay", str(ROOT / "tests/device/fixtures/jetson-thor")]),
        ("device top", ["--replay", str(ROOT / "tests/device/fixtures/jetson-thor")]),
        ("device record", ["-o", "machine.tar"]),
    ],
)
def test_every_json_key_of_a_command_is_in_its_section(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    argument: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "<worldbody><body><joint name='j'/><geom size='0.1'/></body></worldbody>"
    Path("arm.xml").write_text(f"<mujoco>{body}<actuator><motor joint='j'/></actuator></mujoco>")
    assert run([*command.split(), *argument, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    named = NAMES_AS_KEYS if command == "policy inspect" else (*NAMES_AS_KEYS, "inputs")
    section = (ROOT / "docs/json.md").read_text().split(f"## `edgert {command} --json`\n")[1].split("\n## ")[0]
    assert [key for key in keys(report, free=named) if f"`{key}`" not in section] == []


@pytest.mark.parametrize("name", assets.names("models"))
def test_a_model_card_is_that_of_its_policy(name: str) -> None:
    card = (ROOT / f"models/{name}/README.md").read_text()
    assert f"sha256 {load_policy(name).file.sha256}" in card
    rows = (ROOT / f"models/{name}/curve.csv").read_text().splitlines()
    assert f"{int(rows[-1].split(',')[0]):,} environment steps" in card
    assert f"`edgert run rollouts models/{name}/policy.onnx --sim {name} --trials`" in card
    measured = card.split("```")[1]
    assert "verdict  passed" in measured
    trials = load_task(name).trials
    assert trials is not None
    assert len(re.findall(r"passed$", measured, re.MULTILINE)) == 1 + len(trials.commands) + 1
    assert str(Path.home()) not in card


DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("models/*/README.md")]


def test_no_placeholder_is_left() -> None:
    assert [path.name for path in DOCUMENTS if re.search(r"@[A-Z]+@|TODO|TBD", path.read_text())] == []


def anchors(path: Path) -> set[str]:
    """What links into a document may name: its headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    links = [link.partition("#") for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", path.read_text())]
    targets = [(path.parent / name if name else path, anchor) for name, _, anchor in links]
    assert [target for target, _ in targets if not target.exists()] == []
    assert [anchor for target, anchor in targets if anchor and anchor not in anchors(target)] == []


@pytest.mark.parametrize("code", blocks(ROOT / "docs/python.md", "python"))
def test_python_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "python.md", "exec"), {})
    assert capsys.readouterr().out


def test_readme_python_example_runs() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    exec(compile(code.replace("1024", "3"), "README.md", "exec"), {})
