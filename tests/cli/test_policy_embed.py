"""`edgert policy embed` as a user types it, and the same contract before and after in inspect and run."""

from __future__ import annotations

from pathlib import Path

from support import GO1_TOML, Command, linear_model, quadruped_document, save

from edgert.cli.main import run

ran = Command().told


def test_embed_inspect_and_run_agree(capsys, tmp_path):
    document = quadruped_document()
    del document["control_hz"]
    path = save(linear_model(document=document), tmp_path / "policy.onnx")
    (tmp_path / "mine.toml").write_text("[joints]\nkd = 1.5\n")
    out = str(tmp_path / "ours.onnx")
    given = ("--contract", str(tmp_path / "mine.toml"))
    report = ran(capsys, "policy", "embed", str(path), *given, "-o", out)
    assert report == {
        "path": out,
        "written": True,
        "copied": [],
        "contract_sha256": ran(capsys, "policy", "inspect", str(path), *given)["contract_sha256"],
        "policy_sha256": ran(capsys, "policy", "inspect", out)["policy_sha256"],
        "contract_sources": [f"metadata 'edgert.contract' of {path}", str(tmp_path / "mine.toml")],
        "assumed": [{"field": "control_hz", "source": "assumed 50 Hz"}],
        "notes": ["nothing says at which rate the policy runs: assumed 50 Hz (control_hz)"],
    }
    seen = ran(capsys, "policy", "inspect", out)
    assert seen["contract_sha256"] == report["contract_sha256"]
    assert seen["assumed"] == [{"field": "control_hz", "source": "metadata, from assumed 50 Hz"}]
    states = {field["name"]: field["state"] for field in seen["fields"]}
    assert (states["control_hz"], states["joints.kd"]) == ("assumed", "stated")
    went = ran(capsys, "run", "policy", out, "--no-real-time", "--seconds", "0.1")
    assert went["contract_sha256"] == report["contract_sha256"]
    assert went["policy_sha256"] == report["policy_sha256"]
    assert "control_hz was assumed when the contract was embedded: 50 Hz" in went["notes"]


def test_what_is_printed_and_refused(capsys, tmp_path):
    path = str(save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx"))
    out = str(tmp_path / "ours.onnx")
    assert run(["policy", "embed", path, "-o", out]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"policy    {out}\nsha256    ")
    assert run(["policy", "embed", path, "-o", out]) == 0
    assert f"policy    {out} (was there already, the same)" in capsys.readouterr().out
    Path(out).write_bytes(b"x")
    assert run(["policy", "embed", path, "-o", out]) == 2
    assert "is there already: expected a new file" in capsys.readouterr().err
    assert run(["policy", "embed", path, "-o", out, "--overwrite"]) == 0
    save(linear_model(), Path(path))
    capsys.readouterr()
    assert run(["policy", "embed", path, "-o", str(tmp_path / "none.onnx")]) == 2
    assert "does not say what its numbers mean" in capsys.readouterr().err
    assert not (tmp_path / "none.onnx").exists()


def test_a_contract_beside_the_copy_is_told(capsys, tmp_path):
    path = str(save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx"))
    folder = tmp_path / "ours"
    folder.mkdir()
    (folder / "policy.toml").write_text("control_hz = 25\n")
    assert run(["policy", "embed", path, "-o", str(folder / "a.onnx")]) == 0
    assert "policy.toml beside" in capsys.readouterr().err
    (folder / "policy.toml").write_text("control_hz = [\n")
    assert run(["policy", "embed", path, "-o", str(folder / "b.onnx")]) == 0
    assert "was written, but what lies beside it does not fit: contract file" in capsys.readouterr().err


def test_a_policy_of_others_keeps_its_contract(capsys, shared, tmp_path):
    (tmp_path / "go1.toml").write_text(GO1_TOML)
    out = str(tmp_path / "go1.onnx")
    theirs = str(shared / "policies/unitree_go1_playground/go1_policy.onnx")
    report = ran(capsys, "policy", "embed", theirs, "--contract", str(tmp_path / "go1.toml"), "-o", out)
    again = ran(capsys, "policy", "inspect", out, "--sim", str(shared / "robots/unitree_go1/scene.xml"))
    assert again["contract_sha256"] == report["contract_sha256"]
    assert again["contract"]["robot"] == "unitree_go1"
    assert [doubt["field"] for doubt in again["doubtful"] if doubt["field"] == "joints.names"] == []


def test_weights_beside_a_policy_of_others_go_with_it(capsys, shared, tmp_path):
    theirs = shared / "policies/unitree_g1_rl_mjlab/policy.onnx"
    scene = str(shared / "robots/unitree_g1/scene.xml")
    report = ran(capsys, "policy", "embed", str(theirs), "--sim", scene, "-o", str(tmp_path / "walk.onnx"))
    assert report["copied"] == [str(tmp_path / "policy.onnx.data")]
    went = ran(capsys, "run", "policy", report["path"], "--sim", scene, "--no-real-time", "--seconds", "1")
    assert (went["outcome"], went["contract_sha256"]) == ("completed", report["contract_sha256"])
