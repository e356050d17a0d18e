"""What `edgert policy inspect` says of facts that are missing, assumed or doubtful, and of robots that do not suit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from support import linear_model, quadruped_document, save

from edgert.cli.main import run
from edgert.policy import load_policy


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code = run(["policy", "inspect", *arguments, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    report: dict[str, Any] = json.loads(captured.out)
    return report


def of(tmp_path: Path, **changes: Any) -> str:
    """A model with the quadruped's contract, changed by dotted field; None takes a field out."""
    document = quadruped_document()
    for key, value in changes.items():
        *above, last = key.split("__")
        table = document
        for name in above:
            table = table[name]
        if value is None:
            del table[last]
        else:
            table[last] = value
    return str(save(linear_model(document=document), tmp_path / "policy.onnx"))


def reasons(report: dict[str, Any]) -> dict[str, str]:
    return {doubt["field"]: doubt["reason"] for doubt in report["doubtful"]}


def states(report: dict[str, Any]) -> dict[str, str]:
    return {field["name"]: field["state"] for field in report["fields"]}


def test_every_field_has_its_value_unit_source_and_state(capsys, tmp_path):
    path = of(tmp_path, action__kind=None, control_hz=None)
    (tmp_path / "policy.toml").write_text("[joints]\nkd = 1.5\n")
    report = inspected(capsys, path)
    fields = {field.pop("name"): field for field in report["fields"]}
    source = "sidecar (policy.toml)"
    assert fields["joints.kd"] == {
        "value": [1.5] * 12, "unit": "N·m·s/rad", "source": source, "state": "stated", "reason": "",
    }  # fmt: skip
    assert fields["joints.kp"]["source"] == "metadata"
    assert fields["control_hz"] == {
        "value": 50.0, "unit": "Hz", "source": "assumed 50 Hz", "state": "assumed", "reason": "",
    }  # fmt: skip
    assert (fields["action.kind"]["state"], fields["action.kind"]["value"]) == ("default", "position")
    assert {fields[name]["unit"] for name in ("action.scale", "action.offset", "joints.default_pos")} == {"rad"}
    assert fields["command.wz_rad_s"]["unit"] == "rad/s"
    assert "schema" not in fields
    assert set(fields) == set(report["contract_provenance"]) - {"schema"}


def test_a_sound_contract_is_doubted_only_for_what_a_robot_cannot_measure(capsys):
    report = inspected(capsys, "quadruped", "--sim", "quadruped")
    assert reasons(report) == {
        "inputs.obs.terms": "base_lin_vel is measured in simulation alone, a real robot has to estimate it; its "
        "reference point is not stated, taken as the base's origin"
    }
    assert states(report)["inputs.obs.terms"] == "doubtful"
    assert (report["missing"], report["assumed"], report["unfit"]) == ([], [], [])


def test_doubts_about_a_contract_by_itself(capsys, tmp_path):
    terms = quadruped_document()["inputs"]["obs"]["terms"]
    path = of(
        tmp_path,
        inputs__obs__terms=[{**term, "point": "com"} if term["name"] == "base_lin_vel" else term for term in terms],
        joints__kp=[0.5, *[100.0] * 11],
        joints__kd=0.0,
        action__scale=None,
        command__vx_m_s=None,
    )
    report = inspected(capsys, path)
    assert reasons(report) == {
        "inputs.obs.terms": "base_lin_vel is measured in simulation alone, a real robot has to estimate it",
        "joints.kp": "from 0.5 to 100 N·m/rad: far from each other",
        "joints.kd": "0 for every joint: nothing damps the motion but the scene",
        "action.scale": "one unit of action is 1 rad, which nobody states; most policies have 0.1 to 0.5",
        "command.vx_m_s": "the trained range is not known",
    }
    assert states(report)["command.vx_m_s"] == "doubtful"
    assert run(["policy", "inspect", path]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "joints.kp 0.5 … 100 N·m/rad metadata doubtful: from 0.5 to 100 N·m/rad: far from each other" in lines
    assert "command.vx_m_s – m/s – doubtful: the trained range is not known" in lines


SCENE = """<mujoco><option timestep="{timestep}"/><worldbody><body name="base"><freejoint/><geom size="0.1"/>
<body><joint name="hip" axis="0 1 0" range="-30 30" actuatorfrcrange="-5 5"/><geom size="0.05"/></body></body>
</worldbody></mujoco>"""


@pytest.fixture
def hip(tmp_path: Path) -> dict[str, Any]:
    return {
        "schema": 1,
        "control_hz": 50.0,
        "joints": {"names": ["hip"], "default_pos": [0.1], "kp": [20.0], "kd": [1.0]},
        "inputs": {"obs": {"terms": ["joint_pos", {"name": "foot_contact", "sensors": ["foot"]}]}},
        "action": {"output": "actions", "scale": 0.5},
    }


@pytest.mark.parametrize(
    ("change", "timestep", "field", "text"),
    [
        ({"names": ["knee"]}, 0.005, "joints.names", "lacks joints of the policy: found no knee"),
        ({}, 0.003, "control_hz", "the control period of 20 ms is no whole number of timesteps of scene"),
        ({}, 0.005, "inputs.obs.terms", "term 'foot_contact' of input 'obs' reads a sensor that scene"),
        ({"default_pos": [1.0]}, 0.005, "joints.default_pos", "1 rad of hip is outside its range -0.523599 … 0.523599"),
        ({"kp": [900.0]}, 0.005, "joints.kp", "900 N·m/rad reaches the torque limit of hip, 5 N·m, after 0.0056 rad"),
    ],
)
def test_a_robot_that_does_not_suit(capsys, tmp_path, hip, change, timestep, field, text):
    hip["joints"] |= change
    path = save(linear_model(dim=2, nact=1, document=hip), tmp_path / "policy.onnx")
    (tmp_path / "scene.xml").write_text(SCENE.format(timestep=timestep))
    report = inspected(capsys, str(path), "--sim", str(tmp_path / "scene.xml"))
    assert text in reasons(report)[field]
    assert states(report)[field] == "doubtful"


def test_a_policy_of_another_robot_is_told(capsys, tmp_path):
    assert (
        "the policy is for robot 'dog', and task 'quadruped' has 'quadruped'"
        in reasons(inspected(capsys, of(tmp_path, robot="dog"), "--sim", "quadruped"))["robot"]
    )


def test_what_run_would_refuse_is_listed(capsys, tmp_path):
    path = of(tmp_path, joints__kp=1.0, joints__kd=0.0)
    model = onnx.load_model(path)
    model.graph.input.append(helper.make_tensor_value_info("camera", TensorProto.FLOAT, [1, 3, 8]))
    model.graph.node[0].domain = "acme"
    save(model, Path(path))
    report = inspected(capsys, path)
    assert [reason.split(": found")[0] for reason in report["unfit"]] == [
        f"policy {path} needs custom operators",
        f"input 'camera' of policy {path} has 3 axes",
    ]
    assert [each["field"] for each in report["missing"]] == ["inputs.camera.terms"]
    model.graph.input.pop()
    save(model, Path(path))
    assert inspected(capsys, path)["unfit"][1].startswith(
        f"policy {path} states values that cannot be meant: found kp 1"
    )
    assert run(["policy", "inspect", path]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith(f"unfit policy {path} needs custom operators: found acme:Gemm") for line in lines)


def test_further_networks_and_a_motion_are_looked_at(capsys, tmp_path):
    encoder = linear_model(dim=2, nact=2)
    encoder.graph.output[0].name = encoder.graph.node[0].output[0] = "latent"
    save(encoder, tmp_path / "encoder.onnx")
    latent = {"name": "network_output", "of": "encoder.latent", "dim": 2}
    document = {
        "schema": 1,
        "control_hz": 50.0,
        "joints": {"names": ["hip", "knee"], "default_pos": 0.0, "kp": [20.0, 0.0], "kd": 0.5},
        "network": [{"name": "encoder", "file": "encoder.onnx", "inputs": {"obs": {"terms": ["joint_pos"]}}}],
        "inputs": {"obs": {"terms": ["base_ang_vel", latent, "motion_joint_pos"]}},
        "action": {"output": "actions", "scale": 0.5, "kind": ["position", "torque"]},
        "motion": {"file": "walk.csv", "hz": 50.0},
    }
    path = save(linear_model(dim=7, nact=2, document=document), tmp_path / "policy.onnx")
    report = inspected(capsys, str(path))
    assert report["policy_sha256"] == load_policy(path).file.sha256
    (network,) = report["networks"]
    assert (network["name"], network["path"]) == ("encoder", str(tmp_path / "encoder.onnx"))
    assert network["outputs"] == [{"name": "latent", "shape": ["batch", 2], "dtype": "float32"}]
    (reason,) = report["unfit"]
    assert reason.startswith(f"cannot read motion file {tmp_path / 'walk.csv'}")
    (tmp_path / "walk.csv").write_text("0,0,0,0,0,0,1,0.1,0.2\n" * 10)
    report = inspected(capsys, str(path))
    assert report["unfit"] == []
    assert run(["policy", "inspect", str(path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"also encoder: {tmp_path / 'encoder.onnx'}, obs[batch, 2] → latent[batch, 2]" in lines
    assert any(line.startswith("network encoder, policy ") or line.startswith("network encoder ") for line in lines)
    (tmp_path / "encoder.onnx").unlink()
    assert inspected(capsys, str(path))["unfit"][0].startswith(f"cannot read policy {tmp_path / 'encoder.onnx'}")


def test_a_contract_of_another_model_is_shown_with_what_does_not_fit(capsys, tmp_path):
    document = quadruped_document()
    document["inputs"] = {"observation": document["inputs"]["obs"]}
    path = save(linear_model(document=document), tmp_path / "policy.onnx")
    report = inspected(capsys, str(path))
    assert report["contract"] is not None
    assert report["unfit"] == [
        f"the contract's inputs are not those of policy {path}: found contract: observation, expected the model's "
        "obs[batch, 50]. Name each ONNX input as [inputs.<name>] in policy.toml, and each state with its output in "
        "[recurrent]"
    ]
    document = quadruped_document()
    document["action"]["output"] = "mean"
    save(linear_model(document=document), path)
    assert inspected(capsys, str(path))["unfit"] == [
        f"policy {path} has no output 'mean': found actions, expected the name in [action] output of the contract"
    ]


def test_what_a_term_sees_is_shown_key_by_key(capsys, tmp_path):
    scan = {"name": "height_scan", "size": [0.4, 0.2], "resolution": 0.2, "dim": 6}
    camera = {"name": "camera", "camera": "front", "image": "depth", "height": 4, "width": 11}
    path = of(tmp_path, inputs={"obs": {"terms": [scan, camera]}})
    assert run(["policy", "inspect", path]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert (
        "0 height_scan 6 1 0 – m, size 0.4, 0.2, resolution 0.2, ordering xy, height_offset 0.5, above 20, miss -100"
    ) in lines
    assert "6 camera 44 1 0 – 0 to 255, or m of depth, camera front, image depth, height 4, width 11" in lines


def test_another_robot_is_shown_as_unfit(capsys, tmp_path):
    """A deploy.yaml without names of joints takes them from the scene, and has more of them."""
    (tmp_path / "deploy.yaml").write_text(
        "joint_ids_map: [0, 1]\nstep_dt: 0.02\nstiffness: [20.0, 30.0]\ndamping: [1.0, 1.0]\n"
        "default_joint_pos: [0.1, 0.2]\n"
        "actions: {JointPositionAction: {scale: [0.5, 0.5], offset: [0.1, 0.2]}}\n"
        "observations: {joint_pos_rel: {scale: [1.0, 1.0], history_length: 1}}\n"
    )
    path = str(save(linear_model(dim=2, nact=2), tmp_path / "policy.onnx"))
    (tmp_path / "scene.xml").write_text(SCENE.format(timestep=0.005))
    report = inspected(capsys, path, "--sim", str(tmp_path / "scene.xml"))
    (reason,) = report["unfit"]
    assert "has another number of joints than the robot: found 2 in joint_ids_map, expected 1: hip" in reason
    assert states(report)["joints.kp"] == "stated"
    assert run(["policy", "inspect", path, "--sim", str(tmp_path / "scene.xml")]) == 0
    assert "unfit" in capsys.readouterr().out
