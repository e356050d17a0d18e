"""A small robot whose tracked body hangs on its base by joints, a reference motion for it, and ways to store that."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper
from support import finished, linear_model

from edgert.sim.scene import Scene, build

Floats = npt.NDArray[np.float64]
JOINTS = ("waist_yaw", "waist_pitch", "arm")
DEFAULT = (0.1, -0.05, 0.2)
HZ = 50.0
SCENE = """
<mujoco model="tracker">
  <compiler autolimits="true" angle="radian"/>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="box" pos="3 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
    <body name="pelvis" pos="0 0 0.1">
      <freejoint name="root"/>
      <geom type="box" size="0.25 0.25 0.1" mass="8"/>
      <body name="waist" pos="0.02 0.01 0.12" quat="0.98 0 0 0.2">
        <joint name="waist_yaw" axis="0 0 1" pos="0.01 0 0" damping="0.5" armature="0.02"/>
        <geom type="sphere" size="0.04" mass="0.3"/>
        <body name="torso" pos="0 0 0.1">
          <joint name="waist_pitch" axis="0 1 0" damping="0.5" armature="0.02"/>
          <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.05" mass="1"/>
          <body name="forearm" pos="0 0.1 0.15">
            <joint name="arm" axis="0 1 0" damping="0.2" armature="0.01"/>
            <geom type="capsule" fromto="0 0 0 0.15 0 0" size="0.02" mass="0.2"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <keyframe><key name="home" qpos="3 0 0.1 1 0 0 0  0 0 0.1 1 0 0 0  0 0 0"/></keyframe>
</mujoco>
"""


def scene_file(folder: Path) -> Path:
    """The scene, written below `folder`."""
    path = folder / "tracker.xml"
    path.write_text(SCENE, encoding="utf-8")
    return path


def scene(folder: Path) -> Scene:
    """The scene, built for its joints."""
    return build(scene_file(folder), JOINTS, JOINTS, kp=(40.0,) * 3, kd=(2.0,) * 3, base="pelvis")


def reference(frames: int = 40, hz: float = HZ) -> dict[str, Floats]:
    """A smooth motion: joints that sway, and the base and torso poses that go with them, wxyz.

    The base slides and turns; the torso's pose is MuJoCo's own.
    """
    times = np.arange(frames) / hz
    joint_pos = np.stack([0.3 * np.sin(2.0 * times + i) + 0.1 * i for i in range(3)], axis=1)
    joint_vel = np.stack([0.6 * np.cos(2.0 * times + i) for i in range(3)], axis=1)
    base_pos = np.stack([0.5 + 0.2 * times, 0.1 * np.sin(times), 0.1 + 0.0 * times], axis=1)
    half = 0.5 * (0.4 + 0.3 * times)
    base_quat = np.stack([np.cos(half), 0.0 * half, 0.0 * half, np.sin(half)], axis=1)
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    torso_pos, torso_quat = np.zeros((frames, 3)), np.zeros((frames, 4))
    for frame in range(frames):
        data.joint("root").qpos[:] = [*base_pos[frame], *base_quat[frame]]
        for i, name in enumerate(JOINTS):
            data.joint(name).qpos[0] = joint_pos[frame, i]
        mujoco.mj_forward(model, data)
        torso_pos[frame], torso_quat[frame] = data.body("torso").xpos, data.body("torso").xquat
    return {
        "joint_pos": joint_pos,
        "joint_vel": joint_vel,
        "base_pos": base_pos,
        "base_quat": base_quat,
        "torso_pos": torso_pos,
        "torso_quat": torso_quat,
    }


TERMS = (
    "motion_command",
    "motion_anchor_pos_b",
    "motion_anchor_ori_b",
    "base_ang_vel",
    "joint_pos",
    "joint_vel",
    "last_action",
)
WIDTH = 6 + 3 + 6 + 3 + 3 + 3 + 3


def document(motion: dict[str, Any], *terms: Any, **changes: Any) -> dict[str, Any]:
    """A contract for the robot with a `[motion]`."""
    return {
        "schema": 1,
        "control_hz": HZ,
        "joints": {"names": list(JOINTS), "default_pos": list(DEFAULT), "kp": 40.0, "kd": 2.0},
        "inputs": {"obs": {"terms": list(terms or TERMS)}},
        "action": {"output": "actions", "scale": 0.5},
        "motion": motion,
    } | changes


NETWORK_MOTION: dict[str, Any] = {
    "time_step": "time_step",
    "outputs": {
        "joint_pos": "joint_pos",
        "joint_vel": "joint_vel",
        "body_pos": "body_pos_w",
        "body_quat": "body_quat_w",
    },
    "bodies": ["pelvis", "torso"],
    "anchor": "torso",
}


def actor_weight(width: int = WIDTH) -> npt.NDArray[np.float32]:
    """(width, 3): another small number for each place, so that a wrong order gives a wrong action."""
    return (0.02 * np.random.default_rng(7).normal(size=(width, 3))).astype(np.float32)


def tracking_model(
    tables: dict[str, Floats],
    contract: dict[str, Any] | None,
    *,
    kind: int = TensorProto.FLOAT,
    shape: tuple[Any, ...] = (1, 1),
    width: int = WIDTH,
    clamp: bool = True,
    batch: Any = 1,
) -> ModelProto:
    """actions = obs W, beside tables (frames, …) that are gathered at `time_step`, as trackers export them.

    Args:
        tables: by the name of the output.
        contract: in the metadata.
        kind: ONNX type of time_step.
        shape: of time_step.
        width: of the observation.
        clamp: hold the last frame.
        batch: rows of the observation.
    """
    frames = len(next(iter(tables.values())))
    nodes = [
        helper.make_node("Gemm", ["obs", "w"], ["actions"]),
        helper.make_node("Cast", ["time_step"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["whole", "flat"], ["step"]),
        helper.make_node("Min", ["step", "end"], ["frame"])
        if clamp
        else helper.make_node("Identity", ["step"], ["frame"]),
    ]
    weights = [
        numpy_helper.from_array(actor_weight(width), "w"),
        numpy_helper.from_array(np.array([-1], np.int64), "flat"),
        numpy_helper.from_array(np.array([frames - 1], np.int64), "end"),
    ]
    outputs = [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, 3])]
    for name, table in tables.items():
        weights.append(numpy_helper.from_array(table.astype(np.float32), f"table_{name}"))
        nodes.append(helper.make_node("Gather", [f"table_{name}", "frame"], [name], axis=0))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, *table.shape[1:]]))
    inputs = [
        helper.make_tensor_value_info("obs", TensorProto.FLOAT, [batch, width]),
        helper.make_tensor_value_info("time_step", kind, list(shape)),
    ]
    return finished(helper.make_graph(nodes, "tracker", inputs, outputs, weights), contract)


def linear(contract: dict[str, Any], width: int = WIDTH, batch: Any = "batch") -> ModelProto:
    """The actor alone: actions = obs W."""
    return linear_model(dim=width, nact=3, weight=actor_weight(width), document=contract, batch=batch)


def network_tables(given: dict[str, Floats]) -> dict[str, Floats]:
    """The outputs of a BeyondMimic export: joints, and the poses of two bodies."""
    return {
        "joint_pos": given["joint_pos"],
        "joint_vel": given["joint_vel"],
        "body_pos_w": np.stack([given["base_pos"], given["torso_pos"]], axis=1),
        "body_quat_w": np.stack([given["base_quat"], given["torso_quat"]], axis=1),
    }


def npz(**arrays: Any) -> bytes:
    """The bytes of an NPZ file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def csv(given: dict[str, Floats], header: str = "") -> str:
    """A retargeted motion as rows: root position, root quaternion xyzw, joints."""
    rows = np.concatenate([given["base_pos"], given["base_quat"][:, [1, 2, 3, 0]], given["joint_pos"]], axis=1)
    text = "\n".join(",".join(f"{value:.9f}" for value in row) for row in rows) + "\n"
    return f"{header}\n{text}" if header else text
