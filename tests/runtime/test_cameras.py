"""Policies that see, end to end: a run, many worlds, environments, recordings and refusals."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import finished, save

from edgert.errors import EdgertError, UnsupportedError
from edgert.rollout import RolloutOptions, open_rollouts, read
from edgert.rollout.replay import replay
from edgert.runtime import RunOptions, open_session
from edgert.sim import cameras
from edgert.sim.gl import Gl
from edgert.task.env import TaskVecEnv
from edgert.view.render import open_renderer

ROWS, COLUMNS = 12, 16
SCENE = """
<mujoco>
  <visual><map znear=".01" zfar="20"/><headlight ambient=".6 .6 .6" diffuse=".4 .4 .4" specular="0 0 0"/></visual>
  <statistic extent="1" center="0 0 0"/>
  <worldbody>
    <body name="head" pos="0 0 1">
      <joint name="neck" axis="0 0 1" damping="1"/>
      <geom type="sphere" size=".05" mass="1"/>
      <camera name="front" pos=".06 0 0" xyaxes="0 -1 0 0 0 1" fovy="60"/>
    </body>
    <geom name="left" type="box" size=".05 1 2" pos="2.05 1 1" rgba="1 0 0 1"/>
    <geom name="right" type="box" size=".05 1 2" pos="1.05 -1.3 1" rgba="0 0 1 1"/>
  </worldbody>
</mujoco>
"""
"""A head before two walls: a red one to its left, 2 m away, and a blue one farther to its right, 1 m away."""
CAMERA = {"name": "camera", "camera": "front", "image": "rgb", "height": ROWS, "width": COLUMNS, "scale": 1 / 255}
DEPTH = CAMERA | {"image": "depth", "clip": [0.0, 3.0], "scale": 1.0}
TURN = 0.4
"""rad that the head turns to the left where all is red, and to the right where all is blue."""


def document(**terms: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": ["neck"], "default_pos": 0.0, "kp": 20.0, "kd": 1.0},
        "inputs": {"obs": {"terms": ["joint_pos"]}} | {name: {"terms": [term]} for name, term in terms.items()},
        "action": {"output": "actions"},
    }


def towards_red(contract: dict[str, Any] | None, batch: Any = "n") -> onnx.ModelProto:
    """As rsl_rl exports its CNN models: "obs" and an image by its group's name; action = 0.4 (mean red - mean blue)."""
    kernel = np.zeros((1, 3, 1, 1), np.float32)
    kernel[0, :, 0, 0] = 1.0, 0.0, -1.0
    nodes = [
        helper.make_node("Conv", ["camera", "kernel"], ["redder"]),
        helper.make_node("GlobalAveragePool", ["redder"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["seen"]),
        helper.make_node("Concat", ["obs", "seen"], ["both"], axis=1),
        helper.make_node("Gemm", ["both", "head"], ["actions"]),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [
            helper.make_tensor_value_info("obs", TensorProto.FLOAT, [batch, 1]),
            helper.make_tensor_value_info("camera", TensorProto.FLOAT, [batch, 3, ROWS, COLUMNS]),
        ],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, 1])],
        [numpy_helper.from_array(kernel, "kernel"), numpy_helper.from_array(np.float32([[0.0], [TURN]]), "head")],
    )
    return finished(graph, contract)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The model and the scene."""
    scene = tmp_path / "scene.xml"
    scene.write_text(SCENE)
    return save(towards_red(document(camera=CAMERA)), tmp_path / "policy.onnx"), scene


def options(files: tuple[Path, Path], **changes: Any) -> RunOptions:
    return RunOptions(**{"model": files[0], "sim": files[1], "seconds": 1.0, "real_time": False, **changes})


def test_a_head_turns_to_the_colour_that_it_seeks(gl: Gl, files: tuple[Path, Path]) -> None:
    """The more it turns to the red wall, the redder is the picture."""
    with open_session(options(files, seconds=3.0)) as session:
        first = session.policy.obs["camera"][0].reshape(3, ROWS, COLUMNS).copy()
        trace = session.run()
        angle = float(session.policy.obs["obs"][0, 0])
        last = session.policy.obs["camera"][0].reshape(3, ROWS, COLUMNS)
        notes = session.notes
    assert trace.outcome == "completed"
    assert first[0, ROWS // 2, 1] > 0.8, "red is at the left"
    assert first[2, ROWS // 2, -2] > 0.8, "blue is at the right"
    assert 0.0 <= first.min() < first.max() <= 1.0
    seen = float(last[0].mean() - last[2].mean())
    assert angle > 0.1
    assert angle == pytest.approx(TURN * seen, abs=0.02), "the head rests where the picture of that instant sends it"
    assert sum(note.startswith(f"cameras 'front' (rgb, {COLUMNS} × {ROWS}) are drawn by {gl}: ") for note in notes) == 1


def test_a_run_can_be_repeated_and_recorded_and_replayed(gl: Gl, files: tuple[Path, Path], tmp_path: Path) -> None:
    with open_session(options(files, seconds=0.2)) as session:
        session.run()
        with open_renderer(session.robot.scene.model, gl, width=32, height=24) as renderer:
            renderer.draw(np.zeros(1))  # as a video of the run would
        before = session.policy.obs["camera"].copy()
        with session.folder(tmp_path / "run") as sink:
            session.run(sinks=[sink])
    (episode,) = read(tmp_path / "run")
    assert episode.observation["camera"].shape == (11, 3 * ROWS * COLUMNS)
    (result,) = replay([episode])
    assert (result.steps, result.same) == (10, True)
    np.testing.assert_array_equal(episode.observation["camera"][-1:], before)


def test_many_worlds_see_what_one_would(gl: Gl, files: tuple[Path, Path]) -> None:
    with open_session(options(files)) as session:
        session.run()
        alone = session.policy.obs["camera"][0].copy()
    with open_rollouts(RolloutOptions(model=files[0], sim=files[1], num_envs=3, seconds=1.0)) as rollouts:
        assert any("are drawn by" in note and note.endswith("for each world") for note in rollouts.notes)
        rollouts.run()
        for seen in rollouts.worlds.observe()["camera"]:
            np.testing.assert_allclose(seen, alone, atol=1 / 255)


def test_an_environment_hands_out_pictures(gl: Gl, files: tuple[Path, Path]) -> None:
    with closing(TaskVecEnv(2, sim=str(files[1]), policy=str(files[0]))) as env:
        observation, _ = env.reset(seed=0)
        pictures = observation["camera"].reshape(2, 3, ROWS, COLUMNS)
        assert (pictures[:, 0, ROWS // 2, 1] > 0.8).all()


def test_depth_is_clipped_and_goes_into_an_input_of_one_channel(gl: Gl, files: tuple[Path, Path]) -> None:
    contract = document(depth=DEPTH)
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["depth"], ["mean"]),
            helper.make_node("Flatten", ["mean"], ["seen"]),
            helper.make_node("Sub", ["seen", "seen"], ["zero"]),
            helper.make_node("Add", ["obs", "zero"], ["actions"]),
        ],
        "policy",
        [
            helper.make_tensor_value_info("obs", TensorProto.FLOAT, [1, 1]),
            helper.make_tensor_value_info("depth", TensorProto.FLOAT, [1, 1, ROWS, COLUMNS]),
        ],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, 1])],
    )
    save(finished(graph, contract), files[0])
    with open_session(options(files)) as session:
        depth = session.policy.obs["depth"].reshape(ROWS, COLUMNS)
        np.testing.assert_allclose(depth[:, : COLUMNS // 2 - 1], 2.0 - 0.06, rtol=1e-4)
        np.testing.assert_allclose(depth[:, -3:], 1.0 - 0.06, rtol=1e-4)


def test_where_nothing_draws_the_run_is_refused_in_one_line(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing() -> Gl:
        raise UnsupportedError("no OpenGL library is installed that draws", hint="Install libegl1")

    monkeypatch.setattr(cameras, "choose_gl", nothing)
    with pytest.raises(EdgertError) as refusal:
        open_session(options(files))
    assert str(refusal.value) == (
        "the policy sees through camera 'front', and no OpenGL library is installed that draws. Install libegl1"
    )
