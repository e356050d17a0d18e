"""Policies with files of other trainers beside them, tick by tick against what those trainers' own code computes.

The networks are linear with random weights, so that any two numbers that change places give another action; the joints
are permuted, and the observations are histories.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import linear_model, save

from edgert.contract import RobotState
from edgert.contract.formats import Body
from edgert.device import find_device
from edgert.policy import OnnxPolicy, load_policy
from edgert.runtime.controller import Controller

ROBOT = ("front", "left", "right", "rear")
"""The joints of the scene in its order."""
ORDER = [2, 0, 3, 1]
"""The robot's index of each of the policy's joints: another order than either, and not its own inverse."""
TICKS = 8
HISTORY = 5
COMMAND = (0.5, -0.25, 0.75)
DEFAULT = np.array([0.1, 0.2, -0.3, 0.4])  # the policy's order
KP, KD = np.array([10.0, 20.0, 30.0, 40.0]), np.array([1.0, 2.0, 3.0, 4.0])  # the robot's order
SCALE = np.array([0.25, 0.5, 0.75, 1.0])  # the policy's order
RNG = np.random.default_rng(7)
BODY = [
    {
        "pos": RNG.normal(size=4),
        "vel": RNG.normal(0.0, 5.0, 4),
        "gyro": RNG.normal(size=3),
        "quat": np.array([0.8, *RNG.uniform(-0.3, 0.3, 3)]),
    }
    for _ in range(TICKS)
]
"""What the robot measures at each tick, joints in its own order."""
for _body in BODY:
    _body["quat"] /= np.linalg.norm(_body["quat"])


def gravity(quat: np.ndarray) -> np.ndarray:
    """Of Unitree's deploy scripts (`get_gravity_orientation`)."""
    w, x, y, z = quat
    return np.array([2 * (-z * x + w * y), -2 * (z * y + w * x), 1 - 2 * (w * w + z * z)])


def outcome(folder: Path, model: Path) -> Iterator[tuple[np.ndarray, dict[str, float]]]:
    """The raw action and the target of each joint at every tick, by edgert."""
    loaded = load_policy(model, body=Body(joints=ROBOT))
    contract = loaded.contract
    places = [ROBOT.index(name) for name in contract.joints]
    state = RobotState(
        joint_names=contract.joints,
        joint_pos=np.zeros((1, 4)),
        joint_vel=np.zeros((1, 4)),
        base_quat=np.zeros((1, 4)),
        base_ang_vel=np.zeros((1, 3)),
        base_lin_vel=np.zeros((1, 3)),
    )
    with OnnxPolicy(loaded, find_device("cpu")) as policy:
        body = BODY[0]
        for array, values in ((state.base_quat, body["quat"]), (state.joint_pos, body["pos"][places])):
            array[0] = values  # type: ignore[index]
        controller = Controller(policy, state, COMMAND, "a body")
        for body in BODY:
            state.joint_pos[0] = body["pos"][places]  # type: ignore[index]
            state.joint_vel[0] = body["vel"][places]  # type: ignore[index]
            state.base_quat[0] = body["quat"]  # type: ignore[index]
            state.base_ang_vel[0] = body["gyro"]  # type: ignore[index]
            assert controller.act()
            target = np.where(controller.out.kp[0] > 0.0, controller.out.q[0], controller.out.qd[0])
            yield policy.action[0].copy(), dict(zip(contract.joints, target, strict=True))


def expected(
    weight: np.ndarray, frame: Callable[[dict[str, Any], np.ndarray], list[np.ndarray]], layout: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The raw action and the action of the tick before, with histories filled by the first sample."""
    last, ticks = np.zeros(4), []
    for body in BODY:
        ticks.append(frame(body, last))
        window = [ticks[max(0, len(ticks) - HISTORY + i)] for i in range(HISTORY)]
        if len(ticks) < HISTORY:
            window = [ticks[0]] * (HISTORY - len(ticks)) + ticks
        terms = range(len(window[0]))
        parts = (
            [tick[i] for tick in window for i in terms] if layout == "frame" else [t[i] for i in terms for t in window]
        )
        raw = np.concatenate(parts) @ weight
        yield raw, last
        last = raw


def weights(rows: int) -> np.ndarray:
    return np.random.default_rng(3).normal(0.0, 0.3, (rows, 4))


@pytest.mark.parametrize("layout", ["term", "frame"])
def test_unitree(layout: str, tmp_path: Path) -> None:
    """`ObservationTermCfg` and `JointAction` of unitree_rl_lab's deploy code: clip, then scale; oldest first."""
    deploy = {
        "joint_ids_map": ORDER,
        "step_dt": 0.02,
        "stiffness": KP.tolist(),
        "damping": KD.tolist(),
        "default_joint_pos": DEFAULT.tolist(),
        "commands": {"base_velocity": {"ranges": {"lin_vel_x": [-1, 1], "lin_vel_y": [-1, 1], "ang_vel_z": [-1, 1]}}},
        "actions": {
            "JointPositionAction": {
                "clip": [[-0.5, 0.5]] * 4, "scale": SCALE.tolist(), "offset": DEFAULT.tolist(), "joint_ids": None,
            }
        },
        "observations": {
            **({"use_gym_history": True} if layout == "frame" else {}),
            "base_ang_vel": {"params": {}, "clip": [-0.7, 0.7], "scale": [0.2, 0.3, 0.4], "history_length": HISTORY},
            "projected_gravity": {"params": {}, "clip": None, "scale": None, "history_length": HISTORY},
            "velocity_commands": {"params": {}, "clip": None, "scale": 2.0, "history_length": HISTORY},
            "joint_pos_rel": {"params": {}, "clip": None, "scale": [1.0, 2.0, 3.0, 4.0], "history_length": HISTORY},
            "joint_vel_rel": {
                "params": {"asset_cfg": {"joint_ids": [3, 1]}}, "clip": None, "scale": 0.05, "history_length": HISTORY,
            },
            "last_action": {"params": {}, "clip": None, "scale": None, "history_length": HISTORY},
        },
    }  # fmt: skip
    (tmp_path / "deploy.yaml").write_text(json.dumps(deploy))  # JSON is YAML
    weight = weights(19 * HISTORY)
    model = save(linear_model(dim=len(weight), nact=4, weight=weight, batch=1), tmp_path / "policy.onnx")

    def frame(body: dict[str, Any], last: np.ndarray) -> list[np.ndarray]:
        pos, vel = body["pos"][ORDER] - DEFAULT, body["vel"][ORDER]
        gyro = np.clip(body["gyro"], -0.7, 0.7) * [0.2, 0.3, 0.4]
        return [gyro, gravity(body["quat"]), np.array(COMMAND) * 2, pos * [1, 2, 3, 4], vel[[3, 1]] * 0.05, last]

    for ours, (raw, _) in zip(outcome(tmp_path, model), expected(weight, frame, layout), strict=True):
        np.testing.assert_allclose(ours[0], raw, rtol=2e-4, atol=2e-4)
        targets = np.clip(raw * SCALE + DEFAULT, -0.5, 0.5)
        for place, motor in enumerate(ORDER):
            assert ours[1][ROBOT[motor]] == pytest.approx(targets[place], abs=1e-3)


@pytest.mark.parametrize("layout", ["term", "frame"])
def test_rl_sar(layout: str, tmp_path: Path) -> None:
    """`ComputeObservation`, `ObservationBuffer` and `ComputeOutput` of rl_sar: scale, then clip; wheels by velocity."""
    wheel = 2
    kp = KP[ORDER] * [1, 1, 0, 1]
    config = {
        "toy/policy": {
            "num_of_dofs": 4,
            "observations": ["ang_vel", "gravity_vec", "commands", "dof_pos", "dof_vel", "actions"],
            "observations_history": list(range(HISTORY))[::-1],
            "observations_history_priority": "time" if layout == "frame" else "term",
            "clip_obs": 1.5,
            "clip_actions_lower": [-0.8] * 4,
            "clip_actions_upper": [0.8] * 4,
            "rl_kp": kp.tolist(),
            "rl_kd": KD[ORDER].tolist(),
            "action_scale": SCALE.tolist(),
            "wheel_indices": [wheel],
            "ang_vel_scale": 0.25,
            "dof_pos_scale": 0.9,
            "dof_vel_scale": 0.05,
            "commands_scale": [2.0, 2.0, 0.25],
            "default_dof_pos": DEFAULT.tolist(),
            "joint_mapping": ORDER,
        }
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    (tmp_path / "base.yaml").write_text(json.dumps({"toy": {"dt": 0.005, "decimation": 4, "joint_names": ROBOT}}))
    weight = weights(21 * HISTORY)
    model = save(linear_model(dim=len(weight), nact=4, weight=weight, batch=1), tmp_path / "policy.onnx")

    def frame(body: dict[str, Any], last: np.ndarray) -> list[np.ndarray]:
        pos = body["pos"][ORDER] - DEFAULT
        pos[wheel] = 0.0
        vel = body["vel"][ORDER] * 0.05
        parts = [body["gyro"] * 0.25, gravity(body["quat"]), np.array(COMMAND) * [2, 2, 0.25], pos * 0.9, vel]
        return [np.clip(part, -1.5, 1.5) for part in (*parts, np.clip(last, -0.8, 0.8))]

    for ours, (raw, _) in zip(outcome(tmp_path, model), expected(weight, frame, layout), strict=True):
        np.testing.assert_allclose(ours[0], raw, rtol=2e-4, atol=2e-4)
        targets = np.clip(raw, -0.8, 0.8) * SCALE + DEFAULT * [1, 1, 0, 1]
        for place, motor in enumerate(ORDER):
            assert ours[1][ROBOT[motor]] == pytest.approx(targets[place], abs=1e-3)


def test_isaac_lab(tmp_path: Path) -> None:
    """`ObservationManager.compute_group` and `JointAction.process_actions` of Isaac Lab: clip, then scale."""
    names = [ROBOT[place] for place in ORDER]

    def term(name: str, size: int, clip: Any = None, scale: Any = None, **more: Any) -> dict[str, Any]:
        overloads = {"clip": clip, "scale": scale, "history_length": HISTORY, "flatten_history_dim": True}
        return {"name": name, "shape": [size], "overloads": overloads, "extras": {"modifiers": None}, **more}

    acted = [names[3], names[0], names[2], names[1]]
    document = {
        "actions": [
            {"name": "joint_position_action", "joint_names": acted, "scale": SCALE.tolist(), "shape": [4],
             "offset": DEFAULT[[3, 0, 2, 1]].tolist(), "clip": [[-0.4, 0.4]] * 4}
        ],
        "articulations": {
            "robot": {
                "joint_names": names, "default_joint_pos": DEFAULT.tolist(),
                "default_joint_stiffness": KP[ORDER].tolist(), "default_joint_damping": KD[ORDER].tolist(),
            }
        },
        "observations": {
            "policy": [
                term("base_ang_vel", 3, clip=[-0.7, 0.7], scale=0.25),
                term("projected_gravity", 3),
                term("generated_commands", 3, scale=[2.0, 2.0, 0.5]),
                term("joint_pos", 2, joint_names=[names[2], names[0]]),
                term("joint_pos_rel", 4, joint_names=names, joint_pos_offsets=DEFAULT.tolist()),
                term("joint_vel_rel", 4, clip=[-3, 3], scale=0.1, joint_names=names),
                term("last_action", 4),
            ]
        },
        "scene": {"dt": 0.02, "physics_dt": 0.005, "decimation": 4},
    }  # fmt: skip
    folder = tmp_path / "io_descriptors"
    folder.mkdir()
    (folder / "IO_descriptors.yaml").write_text(json.dumps(document))
    (tmp_path / "exported").mkdir()
    weight = weights(23 * HISTORY)
    model = save(linear_model(dim=len(weight), nact=4, weight=weight, batch=1), tmp_path / "exported" / "policy.onnx")

    def frame(body: dict[str, Any], last: np.ndarray) -> list[np.ndarray]:
        pos, vel = body["pos"][ORDER], body["vel"][ORDER]
        return [
            np.clip(body["gyro"], -0.7, 0.7) * 0.25, gravity(body["quat"]), np.array(COMMAND) * [2, 2, 0.5],
            pos[[2, 0]], pos - DEFAULT, np.clip(vel, -3, 3) * 0.1, last,
        ]  # fmt: skip

    for ours, (raw, _) in zip(outcome(tmp_path, model), expected(weight, frame, "term"), strict=True):
        np.testing.assert_allclose(ours[0], raw, rtol=2e-4, atol=2e-4)
        targets = np.clip(raw * SCALE + DEFAULT[[3, 0, 2, 1]], -0.4, 0.4)
        assert [ours[1][name] for name in acted] == pytest.approx(targets, abs=1e-3)
