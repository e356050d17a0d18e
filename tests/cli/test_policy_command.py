"""`edgert policy list` and `edgert policy inspect` as a user types them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support import GO1_TOML, QUADRUPED, Command, linear_model, quadruped_document, save

from edgert import assets
from edgert.cli.main import run
from edgert.policy import load_policy

RSL_RL = "rsl_rl exports state nothing: its normaliser is inside the network, all else in the trainer's configuration"

COMMAND = Command("policy", alone=True)
ran, report_of, refused = COMMAND.ran, COMMAND.told, COMMAND.refused


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of bundled models: the real one, and three that cannot be used."""
    folder = tmp_path / "models"
    shutil.copytree(assets.root("models") / "quadruped", folder / "good")
    for name in ("cut", "empty", "mute"):
        (folder / name).mkdir()
        (folder / name / "README.md").touch()
    (folder / "cut/policy.onnx").write_bytes((folder / "good/policy.onnx").read_bytes()[:1000])
    save(linear_model(), folder / "mute/policy.onnx")
    monkeypatch.setattr(assets, "root", lambda kind: tmp_path / kind)
    return folder


def test_bundled_policies_are_listed(capsys):
    (row,) = [row for row in report_of(capsys, "list")["policies"] if row["name"] == "quadruped"]
    path = assets.root("models") / "quadruped/policy.onnx"
    assert row == {
        "name": "quadruped",
        "robot": "quadruped",
        "control_hz": 50.0,
        "inputs": {"obs": 50},
        "actions": 12,
        "policy_sha256": load_policy("quadruped").file.sha256,
        "size_bytes": path.stat().st_size,
        "path": str(path),
        "error": None,
        "state": "bundled",
        "licence": None,
        "source": None,
    }
    code, out, _ = ran(capsys, "list")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("quadruped ")]
    assert line.split() == [
        "quadruped", "quadruped", "50", "Hz", "obs", "50", "→", "12", row["policy_sha256"][:12],
        *f"{path.stat().st_size / 1024:.1f} KiB".split(), str(path),
    ]  # fmt: skip


def test_a_broken_bundled_policy_does_not_break_the_list(capsys, models):
    rows = {row["name"]: row for row in report_of(capsys, "list")["policies"]}
    assert list(rows) == ["cut", "empty", "good", "mute"]
    assert rows["good"]["error"] is None
    assert len({tuple(row) for row in rows.values()}) == 1
    assert "is not an ONNX model, or a truncated one" in rows["cut"]["error"]
    assert rows["empty"]["error"].startswith(f"cannot read policy {models / 'empty/policy.onnx'}: found No such file")
    assert "does not say what its numbers mean" in rows["mute"]["error"]
    assert rows["cut"]["inputs"] is None
    code, out, err = ran(capsys, "list")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 5
    assert f"unusable: policy {models / 'cut/policy.onnx'} is not an ONNX model" in out


def test_no_bundled_policy_is_an_empty_list(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "root", lambda kind: tmp_path)
    assert report_of(capsys, "list") == {"policies": []}
    assert ran(capsys, "list")[0] == 0


def test_a_policy_with_its_contract(capsys):
    loaded = load_policy("quadruped")
    report = report_of(capsys, "inspect", "quadruped")
    assert report["policy_sha256"] == loaded.file.sha256
    assert report["contract"] == loaded.contract.to_document()
    assert report["contract_sha256"] == loaded.contract.sha256()
    assert report["contract_sources"] == list(loaded.sources)
    assert report["contract_provenance"] == dict(loaded.contract.provenance)
    assert (report["contract_overrides"], report["contract_missing"]) == ([], None)
    code, out, err = ran(capsys, "inspect", "quadruped")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "FL_thigh_joint 0.9 35 0.8 position, rad 0.25 0.9" in lines
    assert "0 base_lin_vel 3 2 0 – m/s, frame body, point origin" in lines
    assert [line for line in lines if line.startswith("9 command 3 2, 2, 1 0 – m/s")] != []
    assert "command.vx_m_s -0.6, 1.1 m/s metadata stated" in lines
    assert "phase.hz 2 Hz metadata stated" in lines
    assert "joints.names 12: FL_hip_joint … RR_calf_joint metadata stated" in lines


def test_sidecar_and_user_are_told_from_metadata(capsys, tmp_path):
    path = save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx")
    (tmp_path / "policy.toml").write_text("[joints]\nkp = 20.0\n")
    report = report_of(capsys, "inspect", str(path))
    assert report["contract"]["joints"]["kp"] == [20.0] * 12
    assert report["contract_provenance"]["joints.kp"] == "sidecar (policy.toml)"
    assert report["contract_overrides"] == ["joints.kp: sidecar (policy.toml)"]
    (tmp_path / "mine.toml").write_text("[joints]\nkd = 1.5\n")
    report = report_of(capsys, "inspect", str(path), "--contract", str(tmp_path / "mine.toml"))
    assert report["contract_overrides"] == ["joints.kd: user (mine.toml)"]
    _, out, _ = ran(capsys, "inspect", str(path), "--contract", str(tmp_path / "mine.toml"))
    assert ["overridden", "joints.kd:", "user", "(mine.toml)"] in [line.split() for line in out.splitlines()]


def test_every_field_of_a_term_is_shown(capsys, tmp_path):
    document = quadruped_document()
    terms = [
        {"name": "base_lin_vel", "frame": "world", "point": "site:imu", "clip": [-3.0, 3.0], "index": [0, 2]},
        {"name": "foot_contact", "sensors": ["a", "b"], "threshold": 5.0, "offset": [0.5, -0.5]},
    ]
    document["inputs"]["obs"]["terms"] = terms
    path = save(linear_model(dim=4, document=document), tmp_path / "policy.onnx")
    code, out, _ = ran(capsys, "inspect", str(path))
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "0 base_lin_vel 2 1 0 -3, 3 m/s, index 0, 2, frame world, point site:imu" in lines
    said = "1 where the force is above the threshold in N, sensors a, b, threshold 5"
    assert f"2 foot_contact 2 1 0.5, -0.5 – {said}" in lines


def test_a_model_without_a_contract_is_described_all_the_same(capsys, tmp_path):
    path = save(linear_model(), tmp_path / "policy.onnx")
    code, out, said = ran(capsys, "inspect", str(path), "--json")
    assert (code, said) == (0, "nothing says at which rate the policy runs: assumed 50 Hz (control_hz)\n")
    report = json.loads(out)
    assert report["contract"] is None
    assert report["contract_sha256"] is None
    assert report["contract_missing"].startswith(f"policy {path} does not say what its numbers mean: found no ")
    assert report["parameters"] == 50 * 12 + 12
    assert report["missing"] == [
        {"field": "joints.names", "what": "the joints in the policy's order"},
        {"field": "joints.default_pos", "what": "the default pose, rad"},
        {"field": "joints.kp", "what": "N·m/rad"},
        {"field": "joints.kd", "what": "N·m·s/rad"},
        {"field": "inputs.obs.terms", "what": f"what its 50 numbers are, in their order; {RSL_RL}"},
    ]
    assert report["assumed"] == [{"field": "control_hz", "source": "assumed 50 Hz"}]
    unscaled = "nobody states it: one unit of action is taken for 1 rad; most have 0.1 to 0.5"
    assert report["doubtful"] == [{"field": "action.scale", "reason": unscaled}]
    assert (report["unfit"], report["notes"]) == ([], [said.strip()])
    code, out, _ = ran(capsys, "inspect", str(path))
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "incomplete 5 facts are missing: write them into policy.toml beside it" in lines
    assert "action.output actions model: its only output stated" in lines
    assert "control_hz 50 Hz assumed 50 Hz assumed" in lines
    assert f"inputs.obs.terms – – missing: what its 50 numbers are, in their order; {RSL_RL}" in lines
    assert "612 parameters, 1 nodes: 1 Gemm" in out
    assert report.keys() == report_of(capsys, "inspect", "quadruped").keys()


def test_broken_models_are_refused_in_one_line(capsys, tmp_path):
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    assert "is not an ONNX model, or a truncated one" in refused(capsys, "inspect", str(tmp_path / "junk.onnx"))
    os.mkfifo(tmp_path / "pipe.onnx")
    assert "is no regular file" in refused(capsys, "inspect", str(tmp_path / "pipe.onnx"))
    path = save(linear_model(document=quadruped_document() | {"joints": 3}), tmp_path / "policy.onnx")
    assert "key 'joints' is wrong" in refused(capsys, "inspect", str(path))
    assert refused(capsys, "inspect", "nothing").startswith("no policy 'nothing': expected an .onnx file, or ")
    assert "cannot read contract file" in refused(capsys, "inspect", "quadruped", "--contract", str(tmp_path / "none"))


def test_nothing_in_a_file_works_on_the_terminal(capsys, tmp_path):
    model = linear_model(document=quadruped_document())
    model.producer_name = "\x1b[31m[bold]loud[/bold]"
    model.graph.node[0].op_type = "Gemm[/]\x07"
    entry = model.metadata_props.add()
    entry.key, entry.value = "\x1b]0;title\x07", "x"
    path = save(model, tmp_path / "policy.onnx")
    code, out, _ = ran(capsys, "inspect", str(path))
    assert code == 0
    assert all(character.isprintable() or character == "\n" for character in out)
    assert "\\x1b[31m[bold]loud[/bold]" in out
    assert "1 Gemm[/]\\x07" in out
    assert "\\x1b]0;title\\x07 (1 characters)" in out


def test_columns_stay_whole_in_a_narrow_terminal(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    _, out, _ = ran(capsys, "list")
    assert str(assets.root("models") / "quadruped/policy.onnx") in out


def test_real_policies_of_others(capsys, shared, tmp_path):
    path = shared / "policies/unitree_go1_playground/go1_policy.onnx"
    code, out, _ = ran(capsys, "inspect", str(path), "--json")
    assert (code, json.loads(out)["contract"]) == (0, None)
    (tmp_path / "go1.toml").write_text(GO1_TOML)
    report = report_of(capsys, "inspect", str(path), "--contract", str(tmp_path / "go1.toml"))
    assert report["contract"]["robot"] == "unitree_go1"
    assert report["contract_provenance"]["action.output"] == "model: its only output"
    assert report["inputs"] == [{"name": "obs", "shape": [1, 48], "dtype": "float32"}]


def test_the_task_and_its_policy_agree(capsys):
    assert report_of(capsys, "inspect", "quadruped")["contract"]["joints"]["names"] == list(QUADRUPED.contract.joints)


def test_a_joint_with_two_targets_shows_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = quadruped_document()
    wheel, knee, hip = document["joints"]["names"][:3]
    document["joints"]["kp"] = [0.0, *document["joints"]["kp"][1:]]
    document["action"] |= {
        "joints": [knee, knee, wheel],
        "kind": ["position", "torque", "velocity"],
        "scale": [0.5, 2.0, 10.0],
        "offset": [0.1, 0.0, 0.0],
        "clip": [-1.0, 1.0],
    }
    document["inputs"]["obs"]["terms"][6] = "last_action"
    path = save(linear_model(document=document, nact=3, dim=41), tmp_path / "policy.onnx")
    assert run(["policy", "inspect", str(path)]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"{knee} 0.9 35 0.8 position, rad 0.5 0.1" in shown
    assert f"{knee} 0.9 35 0.8 torque, N·m 2 0" in shown
    assert f"{wheel} 0 0 0.8 velocity, rad/s 10 0" in shown
    assert f"{hip} -1.8 35 0.8 held at the default – –" in shown
