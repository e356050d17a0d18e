"""One robot under the runtime moves as one world of the task does, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from rollout_examples import Array, rolled
from scenes import JOINTS, leg_xml
from support import QUADRUPED, linear_model, save

from edgert.device import find_device
from edgert.errors import ContractError
from edgert.policy import OnnxPolicy, load_policy
from edgert.robot import SimRobot
from edgert.rollout import MemorySink
from edgert.rollout.sink import INDEX
from edgert.runtime import RunOptions, open_session
from edgert.runtime.controller import Controller
from edgert.task.worlds import Worlds, build_scene

COMMAND = (0.5, 0.0, 0.3)


def test_controller_and_worlds_agree() -> None:
    loaded = load_policy("quadruped")
    with (
        OnnxPolicy(loaded, find_device("cpu")) as ours,
        OnnxPolicy(loaded, find_device("cpu")) as theirs,
        Worlds(QUADRUPED, 1, nthread=1, randomise=False, command=COMMAND) as worlds,
        SimRobot(build_scene(QUADRUPED), QUADRUPED.contract) as robot,
    ):
        worlds.seed([np.random.default_rng(0)])
        worlds.reset()
        robot.reset(worlds.sim.view("qpos")[0], worlds.sim.view("qvel")[0])
        controller = Controller(ours, robot.allocate(), COMMAND, "robot")
        for _ in range(200):
            robot.observe(robot.allocate())
            assert controller.act()
            robot.command(controller.out)
            robot.advance(QUADRUPED.decimation)

            theirs.obs["obs"][:] = worlds.observe()["obs"]
            theirs.act(theirs.obs, theirs.out)
            worlds.step(theirs.action)
            np.testing.assert_array_equal(ours.obs["obs"], theirs.obs["obs"])
        np.testing.assert_array_equal(robot.sim.view("qpos"), worlds.sim.view("qpos"))


SENSORS = '<accelerometer name="imu_lin_acc" site="imu"/>'
HOME = '<key name="home" qpos="0 0 0.46 1 0 0 0 0.3 -0.4"/>'
SECONDS = 0.3


def alone(model: str, sim: str, **options: Any) -> dict[str, Array]:
    """The rows of `run policy`."""
    with open_session(
        RunOptions(**{"model": model, "sim": sim, "seconds": SECONDS, "real_time": False} | options)
    ) as session:
        memory = MemorySink((*INDEX, *session.columns()))
        session.run(sinks=[memory])
    return {column.name: memory.rows(column.name, final=column.final) for column in memory.columns}


def document(*terms: Any, action: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": list(JOINTS), "default_pos": [0.1, -0.2], "kp": [20.0, 10.0], "kd": [0.5, 0.25]},
        "inputs": {"obs": {"terms": list(terms)}},
        "action": {"output": "actions"} | action,
    } | changes


SUM = {"joints": ["hip", "knee", "hip", "knee"], "kind": ["position", "position", "velocity", "torque"], "scale": 0.31}
BARE = {
    "torque and acceleration": (["joint_torque", "imu_lin_acc", "joint_pos"], {"scale": 0.3, "offset": 0.07}, {}),
    "their history": ([{"name": "joint_torque", "history": 3}, "joint_vel"], {"scale": 0.3}, {}),
    "relative": (["joint_pos", "joint_vel"], {"kind": "relative_position", "scale": 0.3, "offset": [0.07, -0.013]}, {}),
    "several targets": (["joint_pos", "joint_vel", "joint_torque"], SUM, {}),
    "fixed base": (["command", "joint_pos"], {"scale": 0.3}, {"command": {"kind": "twist"}}),
}


@pytest.mark.parametrize("case", BARE)
@pytest.mark.parametrize("key", [HOME, ""])
def test_one_robot_and_every_world_have_the_same_rows(case: str, key: str, tmp_path: Path) -> None:
    terms, action, changes = BARE[case]
    parts = {"sensors": SENSORS, "keys": key, "timestep": "0.004"}
    if case == "fixed base":
        parts |= {"root": "", "keys": ""}
    (tmp_path / "scene.xml").write_text(leg_xml(**parts), encoding="utf-8")
    widths = {"imu_lin_acc": 3, "command": 3}
    dim = sum(2 * t["history"] if isinstance(t, dict) else widths.get(t, 2) for t in terms)
    nact = len(action.get("joints", JOINTS))
    weight = 0.2 * np.random.default_rng(3).normal(size=(dim, nact))
    spec = document(*terms, action=action, **changes)
    model = str(save(linear_model(dim=dim, nact=nact, weight=weight, document=spec), tmp_path / "p.onnx"))
    one = alone(model, str(tmp_path / "scene.xml"))
    run = rolled(model, str(tmp_path / "scene.xml"), num_envs=2, seconds=SECONDS)
    first = [rows for number, rows in run.episodes.items() if number < 2]
    assert len(first) == 2
    for rows in first:
        steps = len(rows["action"])
        assert steps >= 5
        for name in ("observation.obs", "action", "target", "state.qpos", "state.qvel"):
            np.testing.assert_array_equal(rows[name][:steps], one[name][:steps])


def test_what_is_felt_first_is_what_an_action_of_zeros_gives(tmp_path: Path) -> None:
    """kp (target − position) of the offset, as the robot stands at rest in its keyframe."""
    (tmp_path / "scene.xml").write_text(leg_xml(keys=HOME, timestep="0.004"), encoding="utf-8")
    spec = document("joint_torque", action={"scale": 0.3, "offset": [0.35, -0.1], "clip": [-1.0, 1.0]})
    model = str(save(linear_model(dim=2, nact=2, bias=0.5, document=spec), tmp_path / "p.onnx"))
    felt = alone(model, str(tmp_path / "scene.xml"))["observation.obs"][0]
    np.testing.assert_allclose(felt, [20.0 * (0.35 - 0.3), 10.0 * (-0.1 + 0.4)], rtol=1e-6)


def half_model(document: dict[str, Any]) -> Any:
    """float16, of two numbers: each action is the eighth power of the first."""

    def change(model: Any) -> None:
        graph = model.graph
        for value in (*graph.input, *graph.output):
            value.type.tensor_type.elem_type = 10
        del graph.node[:], graph.initializer[:]
        graph.initializer.append(numpy_helper.from_array(np.array([0, 0]), "first"))
        graph.node.append(helper.make_node("Gather", ["obs", "first"], ["a"], axis=1))
        graph.node.append(helper.make_node("Mul", ["a", "a"], ["b"]))
        graph.node.append(helper.make_node("Mul", ["b", "b"], ["c"]))
        graph.node.append(helper.make_node("Mul", ["c", "c"], ["actions"]))

    return linear_model(dim=2, nact=2, document=document, change=change)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_network_of_half_precision_is_judged_by_its_numbers_and_not_by_their_squares(tmp_path: Path) -> None:
    """300 is none to stop at, though its square is no float16; an action that grew infinite is, in every world."""
    (tmp_path / "scene.xml").write_text(leg_xml(keys=HOME, timestep="0.004"), encoding="utf-8")
    terms = [{"name": "step_count", "scale": 0.5}, {"name": "constant", "value": 300.0}]
    spec = document(*terms, action={"scale": 1e-6})
    model = str(save(half_model(spec), tmp_path / "p.onnx"))
    one = alone(model, str(tmp_path / "scene.xml"))
    assert one["observation.obs"].dtype == np.float16
    assert len(one["action"]) == 8  # 3.5 to the eighth power is 22,519, 4 to it above 65,504
    run = rolled(model, str(tmp_path / "scene.xml"), num_envs=2, seconds=SECONDS)
    assert {info["outcome"] for number, info in run.memory.ended.items() if number < 2} == {"safety_stop"}
    assert len(run.episodes[0]["action"]) == 9  # a world's row of the stop is kept
    np.testing.assert_array_equal(run.episodes[0]["observation.obs"][:8], one["observation.obs"][:8])


GROWING = {"name": "step_count", "scale": 2e4}
"""No float16 from the fourth tick on."""
ABSURD = {
    "action that only its clip makes small": ([{"name": "step_count", "scale": 1e12}], 2),
    "observation that its action does not show": ([{"name": "constant", "value": 1.0}, GROWING], 4),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("case", ABSURD)
def test_what_a_robot_stops_at_stops_a_world(case: str, tmp_path: Path) -> None:
    (tmp_path / "scene.xml").write_text(leg_xml(keys=HOME, timestep="0.004"), encoding="utf-8")
    terms, steps = ABSURD[case]
    spec = document(*terms, action={"scale": 0.1, "clip": [-1.0, 1.0]})
    model = half_model(spec) if len(terms) > 1 else linear_model(dim=1, nact=2, weight=np.ones((1, 2)), document=spec)
    path = str(save(model, tmp_path / "p.onnx"))
    assert len(alone(path, str(tmp_path / "scene.xml"))["action"]) == steps
    run = rolled(path, str(tmp_path / "scene.xml"), num_envs=2, seconds=SECONDS)
    assert [len(run.episodes[world]["action"]) for world in (0, 1)] == [steps + 1] * 2  # the stop has a row
    assert {run.memory.ended[world]["outcome"] for world in (0, 1)} == {"safety_stop"}


def test_a_policy_that_never_worked_is_refused_in_every_world(tmp_path: Path) -> None:
    (tmp_path / "scene.xml").write_text(leg_xml(keys=HOME, timestep="0.004"), encoding="utf-8")
    spec = document({"name": "constant", "value": 1.0}, action={"scale": 0.1})
    model = str(save(linear_model(dim=1, nact=2, bias=1e13, document=spec), tmp_path / "p.onnx"))
    sim = str(tmp_path / "scene.xml")
    for run in (lambda: alone(model, sim), lambda: rolled(model, sim, num_envs=2, seconds=SECONDS)):
        with pytest.raises(ContractError) as caught:
            run()
        assert str(caught.value) == (
            f"policy {model} gives no usable action at the start: found 1e+13 for joint 'hip', expected finite "
            "numbers. Check the contract's scales, the export, and the normaliser in it"
        )


def test_a_velocity_that_physics_does_not_take_stops_both(tmp_path: Path) -> None:
    """MuJoCo takes no control above 1e10; the default position of a joint without one is never a control."""
    (tmp_path / "scene.xml").write_text(leg_xml(keys=HOME, timestep="0.004"), encoding="utf-8")
    joints = {"names": list(JOINTS), "default_pos": [0.1, 1e10], "kp": [20.0, 0.0], "kd": [0.5, 1.0]}
    kinds = {"kind": ["position", "velocity"], "scale": [0.1, 1e11]}
    for weight, outcome in ((0.0, "completed"), (1.0, "safety_stop")):
        spec = document({"name": "step_count"}, action=kinds, joints=joints)
        matrix = np.array([[0.0, weight]])
        model = str(save(linear_model(dim=1, nact=2, weight=matrix, document=spec), tmp_path / "p.onnx"))
        run = rolled(model, str(tmp_path / "scene.xml"), num_envs=1, seconds=0.1)
        steps = 5 if outcome == "completed" else 2  # the first action is 0
        assert [run.memory.ended[0]["outcome"], len(run.episodes[0]["action"])] == [outcome, steps]
        assert len(alone(model, str(tmp_path / "scene.xml"), seconds=0.1)["action"]) == steps
