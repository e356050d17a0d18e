"""`edgert policy get`, and what it fetched under its name: listed, inspected, run."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from http_server import Server, serving
from support import Command, linear_model, quadruped_document

from edgert import assets
from edgert.cli.completion import complete_models
from edgert.cli.policy_get import complete_known

REAL = assets.root("models")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/json.md"
MODEL = linear_model(document=quadruped_document()).SerializeToString()
DIGEST = hashlib.sha256(MODEL).hexdigest()
UPSTREAM = {
    "go1_policy.onnx": "unitree_go1_playground/go1_policy.onnx",
    "v0/exported/policy.onnx": "unitree_g1_rl_mjlab/policy.onnx",
    "v0/exported/policy.onnx.data": "unitree_g1_rl_mjlab/policy.onnx.data",
    "v0/params/deploy.yaml": "unitree_g1_rl_mjlab/deploy.yaml",
    "ppo_g1_29dof.onnx": "unitree_g1_holosoma/ppo_g1_29dof.onnx",
}
"""Ends of the catalogue's addresses, and where the same files lie among the shared policies."""
SHORT = ("--seconds", "1", "--no-real-time", "--json")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that stands for the catalogue's, with a folder of models whose catalogue leads to it."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("EDGERT_HOME", str(tmp_path / "home"))
    models = tmp_path / "models"
    models.mkdir()
    shutil.copytree(REAL / "catalog", models / "catalog")
    shutil.copytree(REAL / "cartpole", models / "cartpole")
    sims = assets.root("sims")
    monkeypatch.setattr(assets, "root", lambda kind: models if kind == "models" else sims)
    with serving() as running:
        text = (REAL / "catalog.toml").read_text().replace("https://raw.githubusercontent.com", running.url)
        (models / "catalog.toml").write_text(text)
        running.files["/walk.onnx"] = MODEL
        yield running


@pytest.fixture
def walker(server: Server, tmp_path: Path) -> Server:
    """The same with another catalogue, of one small policy."""
    (tmp_path / "models/catalog.toml").write_text(f"""
    schema = 1
    [policies.walker]
    title = "a walker"
    robot = "quadruped"
    licence = "Apache-2.0"
    source = "https://example.org/walker"
    expect = "it stands"
    [[policies.walker.files]]
    name = "policy.onnx"
    url = "{server.url}/walk.onnx"
    sha256 = "{DIGEST}"
    """)
    return server


COMMAND = Command(alone=True)
ran, report_of, refused = COMMAND.ran, COMMAND.told, COMMAND.refused


def test_a_known_policy_is_fetched_and_run_by_its_name(capsys, walker, tmp_path):
    assert refused(capsys, "run", "policy", "walker", "--sim", "quadruped") == (
        "policy 'walker' is not downloaded. Run: edgert policy get walker"
    )
    report = report_of(capsys, "policy", "get", "walker")
    path = Path(report["path"])
    assert path.is_relative_to(tmp_path / "home/policies")
    assert report == {
        "name": "walker",
        "path": str(path),
        "downloaded": True,
        "files": [
            {"name": "policy.onnx", "size_bytes": len(MODEL), "sha256": DIGEST, "url": f"{walker.url}/walk.onnx"}
        ],
        "run": "edgert run policy walker --sim ROBOT.xml",
        "title": "a walker",
        "robot": "quadruped",
        "licence": "Apache-2.0",
        "source": "https://example.org/walker",
        "expect": "it stands",
    }
    section = DOCUMENT.read_text().split("## `edgert policy get --json`\n")[1].split("\n## ")[0]
    assert [key for key in (*report, *report["files"][0]) if f"`{key}`" not in section] == []
    assert path.read_bytes() == MODEL
    asked = len(walker.asked)
    assert report_of(capsys, "policy", "get", "walker") == report | {"downloaded": False}
    assert len(walker.asked) == asked
    code, out, _ = ran(capsys, "run", "policy", "walker", "--sim", "quadruped", *SHORT)
    assert code == 0
    assert json.loads(out)["policy"] == str(path)
    assert report_of(capsys, "policy", "inspect", "walker")["policy_sha256"] == DIGEST


def test_for_people_it_says_where_and_how(capsys, walker):
    code, out, err = ran(capsys, "policy", "get", "walker")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "title a walker"
    assert f"file policy.onnx, {len(MODEL) / 1024:.1f} KiB, sha256 {DIGEST}" in lines
    assert "run edgert run policy walker --sim ROBOT.xml, with the scene of its robot" in lines
    assert lines[-1] == "expect it stands"
    code, out, _ = ran(capsys, "policy", "get", "walker")
    assert [line for line in out.splitlines() if line.endswith("policy.onnx (was there already)")] != []


def test_an_address_with_its_digest_is_fetched(capsys, server):
    address = f"{server.url}/walk.onnx#sha256={DIGEST}"
    report = report_of(capsys, "policy", "get", address)
    assert Path(report["path"]).read_bytes() == MODEL
    assert Path(report["path"]).parent.name.startswith("walk-")
    assert report["run"] == f"edgert run policy {report['path']} --sim ROBOT.xml"
    assert (report["name"], report["robot"], report["licence"]) == (None, None, None)
    assert not report_of(capsys, "policy", "get", address)["downloaded"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("walkr", "no policy 'walkr' in the catalogue: expected walker, or URL#sha256=HEX"),
        ("./walk.onnx", "no policy './walk.onnx' in the catalogue: expected walker, or URL#sha256=HEX"),
        (
            "cartpole",
            "no policy 'cartpole' in the catalogue: expected walker, or URL#sha256=HEX. "
            "It is bundled. Run: edgert run policy cartpole",
        ),
        (
            "http://h/x.onnx",
            "an address without its digest is not fetched: found no #sha256=, expected http://h/x.onnx",
        ),
        (f"file:///etc/passwd#sha256={DIGEST}", "this address cannot be fetched: found file:///etc/passwd, expected"),
    ],
)
def test_what_cannot_be_fetched_is_refused(capsys, walker, name, text):
    assert refused(capsys, "policy", "get", name).startswith(text)
    assert walker.asked == []


def test_offline_is_one_line_with_the_next_step(capsys, walker, tmp_path):
    path = tmp_path / "models/catalog.toml"
    path.write_text(path.read_text().replace(walker.url, "http://127.0.0.1:1"))
    assert refused(capsys, "policy", "get", "walker") == (
        "http://127.0.0.1:1/walk.onnx cannot be reached, or broke off: found Connection refused. "
        "Check the network and run it again: it goes on where it stopped"
    )


def test_the_list_says_what_is_here_and_what_can_be_had(capsys, walker):
    bundled, known = report_of(capsys, "policy", "list")["policies"]
    assert set(bundled) == set(known)
    assert (bundled["name"], bundled["state"]) == ("cartpole", "bundled")
    assert known == dict.fromkeys(bundled) | {
        "name": "walker",
        "state": "available",
        "robot": "quadruped",
        "licence": "Apache-2.0",
        "source": "https://example.org/walker",
    }
    line = ran(capsys, "policy", "list")[1].splitlines()[-1]
    assert line.split() == [
        "walker", "quadruped", *"––––", "not", "here", "yet,", "Apache-2.0:", "edgert", "policy", "get", "walker",
    ]  # fmt: skip
    fetched = report_of(capsys, "policy", "get", "walker")
    _, known = report_of(capsys, "policy", "list")["policies"]
    assert known == {
        "name": "walker",
        "state": "downloaded",
        "robot": "quadruped",
        "control_hz": 50.0,
        "inputs": {"obs": 50},
        "actions": 12,
        "policy_sha256": DIGEST,
        "size_bytes": len(MODEL),
        "path": fetched["path"],
        "error": None,
        "licence": "Apache-2.0",
        "source": "https://example.org/walker",
    }
    assert ran(capsys, "policy", "list")[1].splitlines()[-1].endswith(fetched["path"])


def test_a_downloaded_policy_that_was_damaged_does_not_break_the_list(capsys, walker):
    path = Path(report_of(capsys, "policy", "get", "walker")["path"])
    path.write_bytes(MODEL[:100])
    _, known = report_of(capsys, "policy", "list")["policies"]
    assert f"policy {path} is not an ONNX model, or a truncated one" in known["error"]
    assert refused(capsys, "policy", "get", "walker").startswith(f"{path} is not what was fetched: found sha256 ")


def test_names_complete(capsys, walker, tmp_path):
    context, parameter = click.Context(click.Command("x")), click.Option(["--x"])
    assert [item.value for item in complete_known(context, parameter, "wa")] == ["walker"]
    assert [item.value for item in complete_models(context, parameter, "")] == ["cartpole"]
    report_of(capsys, "policy", "get", "walker")
    assert [item.value for item in complete_models(context, parameter, "")] == ["cartpole", "walker"]
    (tmp_path / "models/catalog.toml").write_text("schema = 2")
    assert complete_known(context, parameter, "") == []
    assert [item.value for item in complete_models(context, parameter, "")] == ["cartpole"]


@pytest.mark.parametrize(
    ("name", "robot"),
    [("go1_playground", "unitree_go1"), ("g1_rl_mjlab", "unitree_g1"), ("g1_holosoma", "unitree_g1")],
)
def test_the_bundled_catalogue_leads_to_policies_that_run(capsys, server, shared, name, robot):
    """The files of the shared policies, served under the catalogue's own paths."""
    from edgert.catalog import catalog

    for file in catalog()[name].files:
        (end,) = [end for end in UPSTREAM if file.url.endswith(end)]
        server.files[file.url.removeprefix(server.url)] = (shared / "policies" / UPSTREAM[end]).read_bytes()
    report = report_of(capsys, "policy", "get", name)
    scene = str(shared / "robots" / robot / "scene.xml")
    code, out, _ = ran(capsys, "run", "policy", name, "--sim", scene, *SHORT)
    assert code == 0
    done = json.loads(out)
    assert (done["outcome"], done["policy"]) == ("completed", report["path"])
    row = next(row for row in report_of(capsys, "policy", "list")["policies"] if row["name"] == name)
    assert (row["state"], row["robot"], row["error"]) == ("downloaded", robot, None)
    assert row["policy_sha256"] == done["policy_sha256"]
