"""The page that leads from an export to a walking robot, followed with real policies on real robots."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from edgert.cli.main import run
from edgert.sim.scene import scene_body

PAGE = (Path(__file__).resolve().parents[2] / "docs/bring-your-own.md").read_text()
TERMS = ("base_ang_vel", "projected_gravity", "command", "joint_pos", "joint_vel", "actions")


def commands() -> list[str]:
    """What the reader types, but for what goes to the network."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line for line in lines if not line.startswith("edgert")] == [lines[0]]
    return [line for line in lines[1:] if not line.startswith("edgert policy get")]


def as_mjlab_writes(folder: Path, joints: tuple[str, ...], path: Path) -> None:
    """Unitree's policy, which mjlab trained, with the metadata that mjlab itself gives to an export."""
    facts = yaml.safe_load((folder / "deploy.yaml").read_text())
    assert facts["joint_ids_map"] == list(range(len(joints)))
    model = onnx.load(folder / "policy.onnx")  # weights and all

    def listed(values: Any) -> str:
        return ",".join(f"{value:.3f}" for value in values)

    action = facts["actions"]["JointPositionAction"]
    metadata = {
        "run_path": "unitree/velocity/1",
        "joint_names": ",".join(joints),
        "joint_stiffness": listed(facts["stiffness"]),
        "joint_damping": listed(facts["damping"]),
        "default_joint_pos": listed(facts["default_joint_pos"]),
        "command_names": "twist",
        "observation_names": ",".join(TERMS),
        "observation_terms_history_length": ",".join("0" for _ in TERMS),
        "action_scale": listed(action["scale"]),
    }
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)


def test_the_page_leads_to_three_walking_robots(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenes = {f"{name}.xml": shared / f"robots/unitree_{name}/scene.xml" for name in ("g1", "go1")}
    unitree = shared / "policies/unitree_g1_rl_mjlab"
    as_mjlab_writes(unitree, scene_body(scenes["g1.xml"]).joints, tmp_path / "velocity.onnx")
    shutil.copyfile(shared / "policies/unitree_go1_playground/go1_policy.onnx", tmp_path / "go1_policy.onnx")
    monkeypatch.chdir(tmp_path)
    reports: dict[str, dict[str, Any]] = {}
    for line in commands():
        words = [str(scenes.get(word, word)) for word in shlex.split(line)[1:]]
        words = [str(unitree / "policy.onnx") if word == "g1_rl_mjlab" else word for word in words]
        if words[:2] == ["run", "policy"] and "…" not in words:
            assert run([*words, "--no-real-time", "--json"]) == 0, line
            reports[line] = json.loads(capsys.readouterr().out)
        elif "inspect" in line and "--sim" not in line:
            assert run(words) == 0
            said = capsys.readouterr().out
            assert "what its 48 numbers are, in their order" in said
            (toml,) = re.findall(r"```toml\n(schema.*?)```", PAGE, re.DOTALL)
            (tmp_path / "policy.toml").write_text(toml)
            (tmp_path / "velocity.onnx").unlink()  # whose contract that file is not
        else:
            assert run(words) == 0, line
            assert "missing:" not in capsys.readouterr().out
        if "embed" in line:
            (tmp_path / "policy.toml").unlink()
    mjlab, unitrees, go1, complete = reports.values()
    assert [report["outcome"] for report in reports.values()] == ["completed"] * 4
    assert mjlab["mean_velocity"][0] == pytest.approx(0.43, abs=0.05)
    assert (unitrees["mean_velocity"][0], unitrees["mean_velocity"][2]) == pytest.approx((0.43, 0.56), abs=0.05)
    assert go1["mean_velocity"][0] == pytest.approx(0.83, abs=0.05)
    assert complete["mean_velocity"][2] == pytest.approx(0.6, abs=0.05)
    assert complete["contract_sha256"] == go1["contract_sha256"]
