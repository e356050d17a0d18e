"""Two humanoid policies of other trainers, with contracts written from what their files hold and lack."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
import yaml
from metadata_examples import attach, printed

from edgert.runtime import RunOptions, open_session

HOME_BY_PART = {"hip_pitch": -0.312, "knee": 0.669, "ankle_pitch": -0.363, "shoulder_pitch": 0.2, "elbow": 0.6}


def joint_names(shared: Path) -> list[str]:
    return json.loads(metadata(shared)["dof_names"])


def metadata(shared: Path) -> dict[str, str]:
    model = onnx.load(shared / "policies/unitree_g1_holosoma/ppo_g1_29dof.onnx", load_external_data=False)
    return {entry.key: entry.value for entry in model.metadata_props}


def mjlab(shared: Path) -> tuple[str, str]:
    """Gains, pose and action come from deploy.yaml, whose lists are in motor order, here that of the joints."""
    folder = shared / "policies/unitree_g1_rl_mjlab"
    text = (folder / "deploy.yaml").read_text()

    def numbers(key: str) -> list[float]:
        found = re.search(rf"^ *{key}: *(\[[^\]]*\])", text, re.MULTILINE)
        assert found is not None
        return json.loads(found[1])

    contract = f"""
    schema = 1
    control_hz = 50
    [joints]
    names = {json.dumps(joint_names(shared))}
    default_pos = {numbers("default_joint_pos")}
    kp = {numbers("stiffness")}
    kd = {numbers("damping")}
    [inputs.obs]
    terms = ["base_ang_vel", "projected_gravity", "command", "joint_pos", "joint_vel", "last_action"]
    [action]
    scale = {numbers("scale")}
    offset = {numbers("offset")}
    [command]
    """
    return str(folder / "policy.onnx"), contract


def holosoma(shared: Path) -> tuple[str, str]:
    """Joints, gains, command ranges and the gait come from the metadata; pose, terms and scales the file lacks."""
    pose = []
    for name in joint_names(shared):
        part = next((part for part in HOME_BY_PART if part in name), "")
        roll = {"left_shoulder_roll_joint": 0.2, "right_shoulder_roll_joint": -0.2}.get(name, 0.0)
        pose.append(HOME_BY_PART.get(part, roll))
    contract = f"""
    joints.default_pos = {pose}
    action.scale = 0.25
    [inputs.actor_obs]
    terms = [
      "last_action",
      {{ name = "base_ang_vel", scale = 0.25 }},
      {{ name = "command", index = [2] }},
      {{ name = "command", index = [0, 1] }},
      "cos_phase",
      "joint_pos",
      {{ name = "joint_vel", scale = 0.05 }},
      "projected_gravity",
      "sin_phase",
    ]
    """
    return str(shared / "policies/unitree_g1_holosoma/ppo_g1_29dof.onnx"), contract


@pytest.mark.parametrize(
    ("policy", "command", "seconds", "expected"),
    [
        (mjlab, (0.5, 0.0, 0.0), 10.0, {0: (0.43, 0.05)}),
        (mjlab, (0.0, 0.0, 0.0), 10.0, {0: (0.0, 0.02), 1: (0.0, 0.02)}),
        (mjlab, (0.5, 0.0, 0.6), 20.0, {2: (0.56, 0.03)}),
        (mjlab, (0.5, 0.0, -0.6), 20.0, {2: (-0.56, 0.03)}),
        (holosoma, (0.5, 0.0, 0.0), 10.0, {0: (0.39, 0.05)}),
        (holosoma, (0.0, 0.0, 0.0), 10.0, {0: (0.0, 0.02), 1: (0.0, 0.02)}),
        (holosoma, (0.5, 0.0, 0.6), 20.0, {2: (0.585, 0.03)}),
        (holosoma, (0.5, 0.0, -0.6), 20.0, {2: (-0.585, 0.03)}),
    ],
)
def test_g1_walks(shared: Path, tmp_path: Path, policy, command, seconds, expected) -> None:
    model, contract = policy(shared)
    path = tmp_path / "policy.toml"
    path.write_text(contract)
    options = RunOptions(
        model=model,
        sim=str(shared / "robots/unitree_g1/scene.xml"),
        contract=path,
        command=command,
        seconds=seconds,
        real_time=False,
    )
    with open_session(options) as session:
        report = session.report(session.run())
    assert report["outcome"] == "completed"
    for axis, (value, tolerance) in expected.items():
        assert report["mean_velocity"][axis] == pytest.approx(value, abs=tolerance)


@pytest.mark.parametrize(
    ("command", "velocity"),
    [((0.5, 0.0, 0.0), (0.43, 0.0, 0.0)), ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), ((0.5, 0.0, 0.6), (0.42, 0.0, 0.56))],
    ids=str,
)
def test_unitrees_own_file_is_contract_enough(
    shared: Path, command: tuple[float, float, float], velocity: tuple[float, float, float]
) -> None:
    options = RunOptions(
        model=str(shared / "policies/unitree_g1_rl_mjlab/policy.onnx"),
        sim=str(shared / "robots/unitree_g1/scene.xml"),
        command=command,
        seconds=10.0,
        real_time=False,
    )
    with open_session(options) as session:
        assert session.notes[0].startswith("format unitree: deploy.yaml with joint_ids_map")
        report = session.report(session.run())
    assert report["outcome"] == "completed"
    assert report["contract_sources"] == ["deploy.yaml"]
    assert report["mean_velocity"] == pytest.approx(velocity, abs=0.05)


def test_mjlabs_metadata_are_contract_enough(shared: Path, tmp_path: Path) -> None:
    """The same network with what mjlab writes into its files, three decimals a number, and no file beside it."""
    deployed = yaml.safe_load((shared / "policies/unitree_g1_rl_mjlab/deploy.yaml").read_text())
    values = {
        "joint_names": joint_names(shared),
        "joint_stiffness": deployed["stiffness"],
        "joint_damping": deployed["damping"],
        "default_joint_pos": deployed["default_joint_pos"],
        "command_names": ["twist"],
        "observation_names": ["base_ang_vel", "projected_gravity", "command", "joint_pos", "joint_vel", "actions"],
        "observation_terms_history_length": [0] * 6,
        "action_scale": deployed["actions"]["JointPositionAction"]["scale"],
    }
    model = onnx.load(shared / "policies/unitree_g1_rl_mjlab/policy.onnx")
    path = tmp_path / "policy.onnx"
    path.write_bytes(attach(model, printed(values)).SerializeToString())
    sim = str(shared / "robots/unitree_g1/scene.xml")
    options = RunOptions(model=str(path), sim=sim, command=(0.5, 0.0, 0.6), seconds=10.0, real_time=False)
    with open_session(options) as session:
        report = session.report(session.run())
    assert report["outcome"] == "completed"
    assert report["contract_sources"] == ["metadata of mjlab"]
    assert report["mean_velocity"] == pytest.approx((0.42, 0.0, 0.56), abs=0.05)
