"""Tracking policies of other trainers run as the same network does with a contract of edgert's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracking
from metadata_examples import as_json, attach, printed
from onnx import ModelProto
from support import save
from tracking import DEFAULT, JOINTS, NETWORK_MOTION, TERMS

from edgert.errors import ContractError
from edgert.runtime import RunOptions, open_session

TABLES = tracking.reference()
MANAGERS: dict[str, Any] = {
    "joint_names": list(JOINTS),
    "joint_stiffness": [40.0] * 3,
    "joint_damping": [2.0] * 3,
    "default_joint_pos": list(DEFAULT),
    "command_names": ["motion"],
    "observation_names": [
        "command", "motion_anchor_pos_b", "motion_anchor_ori_b", "base_ang_vel", "joint_pos", "joint_vel", "actions",
    ],
    "action_scale": [0.5] * 3,
    "anchor_body_name": "torso",
    "body_names": ["pelvis", "torso"],
}  # fmt: skip
BEYONDMIMIC = MANAGERS | {"observation_history_lengths": [1] * 7}
MJLAB = MANAGERS | {"observation_terms_history_length": [0] * 7, "observation_terms_scale": [1.0] * 7}
ALPHABET = ("actions", "base_ang_vel", "dof_pos", "dof_vel", "motion_command", "motion_ref_ori_b", "motion_ref_pos_b")
OURS = ("last_action", "base_ang_vel", "joint_pos", "joint_vel", "motion_command", "motion_anchor_ori_b",
        "motion_anchor_pos_b")  # fmt: skip
HOLOSOMA: dict[str, Any] = {
    "dof_names": list(JOINTS),
    "kp": [40.0] * 3,
    "kd": [2.0] * 3,
    "command_ranges": None,
    "experiment_config": {
        "robot": {
            "init_state": {"default_joint_angles": dict(zip(JOINTS, DEFAULT, strict=True))},
            "control": {"control_type": "P", "action_scale": 0.5, "clip_actions": False},
        },
        "observation": {
            "groups": {
                "actor_obs": {"history_length": 1, "terms": {name: {"func": f"x:{name}"} for name in ALPHABET[::-1]}}
            }
        },
        "simulator": {"config": {"sim": {"fps": 200, "control_decimation": 4}}},
        "command": {"setup_terms": {"motion_command": {"params": {"motion_config": {"body_name_ref": ["torso"]}}}}},
    },
}


def end(folder: Path, model: ModelProto) -> tuple[np.ndarray, list[str]]:
    """Where everything was after 0.6 s, and what was said."""
    path = save(model, folder / "tracker.onnx")
    options = RunOptions(model=path, sim=tracking.scene_file(folder), seconds=0.6, real_time=False)
    with open_session(options) as session:
        report = session.report(session.run())
        assert report["outcome"] == "completed", report["reason"]
        return session.robot.sim.view("qpos")[0].copy(), report["notes"]


@pytest.mark.parametrize(("metadata", "name"), [(BEYONDMIMIC, "beyondmimic"), (MJLAB, "mjlab")])
def test_the_metadata_are_contract_enough(tmp_path: Path, metadata: dict[str, Any], name: str) -> None:
    tables = tracking.network_tables(TABLES)
    own = tracking.document(NETWORK_MOTION, *TERMS)
    usual, _ = end(tmp_path, tracking.tracking_model(tables, own))
    found, notes = end(tmp_path, attach(tracking.tracking_model(tables, None), printed(metadata)))
    np.testing.assert_array_equal(found, usual)
    assert any(note.startswith(f"format {name}: metadata joint_names") for note in notes)
    other = metadata | {"observation_names": metadata["observation_names"][::-1]}
    wrong, _ = end(tmp_path, attach(tracking.tracking_model(tables, None), printed(other)))
    assert np.abs(wrong - usual).max() > 1e-3


def test_holosoma_is_alphabetical_and_xyzw(tmp_path: Path) -> None:
    tables = {
        "joint_pos": TABLES["joint_pos"],
        "joint_vel": TABLES["joint_vel"],
        "ref_pos_xyz": TABLES["torso_pos"],
        "ref_quat_xyzw": TABLES["torso_quat"][:, [1, 2, 3, 0]],
    }
    outputs = {"joint_pos": "joint_pos", "joint_vel": "joint_vel"} | {
        "anchor_pos": "ref_pos_xyz",
        "anchor_quat": "ref_quat_xyzw",
    }
    motion = {"time_step": "time_step", "outputs": outputs, "anchor": "torso", "quat_order": "xyzw"}
    usual, _ = end(tmp_path, tracking.tracking_model(tables, tracking.document(motion, *OURS)))
    found, notes = end(tmp_path, attach(tracking.tracking_model(tables, None), as_json(HOLOSOMA)))
    np.testing.assert_array_equal(found, usual)
    assert "format holosoma: metadata dof_names, kp, kd, command_ranges, experiment_config" in notes
    wrong, _ = end(tmp_path, tracking.tracking_model(tables, tracking.document(motion, *TERMS)))
    assert np.abs(wrong - usual).max() > 1e-3


def test_a_missing_anchor_is_never_taken_for_the_base(tmp_path: Path) -> None:
    lacking = {key: value for key, value in BEYONDMIMIC.items() if key != "anchor_body_name"}
    model = attach(tracking.tracking_model(tracking.network_tables(TABLES), None), printed(lacking))
    with pytest.raises(ContractError) as caught:
        end(tmp_path, model)
    assert "motion.anchor (metadata 'anchor_body_name' is missing)" in str(caught.value)
    (tmp_path / "policy.toml").write_text('motion.anchor = "torso"\n')
    found, _ = end(tmp_path, model)
    (tmp_path / "policy.toml").unlink()
    usual, _ = end(
        tmp_path, attach(tracking.tracking_model(tracking.network_tables(TABLES), None), printed(BEYONDMIMIC))
    )
    np.testing.assert_array_equal(found, usual)
