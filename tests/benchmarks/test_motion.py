"""What a reference motion costs a tick of one robot, against the terms and the kinematics computed plainly."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import tracking
from support import medians_us

from edgert.contract.document import parse_contract
from edgert.contract.motion import Motion, MotionPlayer
from edgert.contract.observe import Observer, make_term_inputs
from edgert.contract.plan import ObservationPlan
from edgert.sim import BatchSim, SimBody

TERMS = ("motion_command", "motion_anchor_pos_b", "motion_anchor_ori_b")


def test_a_motion_costs_a_small_part_of_a_tick(tmp_path: Path) -> None:
    contract = parse_contract(tracking.document({"file": "walk.npz", "anchor": "torso"}, *TERMS), "test")
    tables, scene = tracking.reference(), tracking.scene(tmp_path)
    motion = Motion(
        hz=50.0,
        frames=40,
        joint_pos=tables["joint_pos"],
        joint_vel=tables["joint_vel"],
        anchor_pos=tables["torso_pos"],
        anchor_quat=tables["torso_quat"],
        anchor="torso",
        loop=True,
    )
    body = SimBody(BatchSim(scene.model), scene, ("torso",))
    body.refresh()
    player = MotionPlayer(motion, body.state)
    inputs = make_term_inputs(
        contract,
        body.state,
        command=np.zeros((1, 0)),
        last_action=np.zeros((1, 3)),
        phase_rad=np.zeros(1),
        xp=np,
        motion=player.state,
    )
    out = np.zeros((1, 15), np.float32)
    plan, terms = ObservationPlan(contract, "obs", inputs, out), Observer(contract, "obs", inputs.last_action)
    data = mujoco.MjData(scene.model)

    def played() -> None:
        player.refresh()
        player.advance()

    step, play, compiled, generic, poses = medians_us(
        lambda: mujoco.mj_step(scene.model, data), played, plan, lambda: terms(inputs), body.refresh
    )
    print(
        f"one robot: player {play:.1f} µs, poses {poses:.1f} µs, terms as a plan {compiled:.1f} µs, plainly "
        f"{generic:.1f} µs (ratio {compiled / generic:.2f}); a physics step {step:.1f} µs"
    )
    assert compiled / generic < 0.5
    assert (play + poses + compiled) / generic < 0.8
