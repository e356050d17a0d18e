"""Exploy's names and metadata, read into a contract: raw quantities in, targets out."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_examples import as_json, attach, evidence
from onnx import TensorProto, helper, numpy_helper

from edgert.contract import parse_contract
from edgert.contract.exploy import EXPLOY
from edgert.contract.formats import choose_format
from edgert.errors import ContractError, EdgertError
from edgert.policy import load_policy
from edgert.runtime import RunOptions, open_session
from edgert.task.task import load_task

JOINTS = ["left_hip", "left_knee", "right_hip", "right_knee"]
DRIVEN = ["left_hip", "right_hip", "left_knee"]  # in the order of the action, not of the body
GROUP = "output.joint_targets.robot.joint_pos"
INPUTS: dict[str, Any] = {
    "ctx.step_count": (),
    "obj.robot.joints.pos": (1, 4),
    "obj.robot.joints.vel": (1, 4),
    "obj.robot.pelvis.pos_b_rt_w_in_w": (1, 3),
    "obj.robot.pelvis.w_Q_b": (1, 4),
    "obj.robot.pelvis.lin_vel_b_rt_w_in_b": (1, 3),
    "obj.robot.pelvis.ang_vel_b_rt_w_in_b": (1, 3),
    "sensor.imu.torso.ang_vel_b_rt_w_in_b": (1, 3),
    "cmd.se2_velocity.base": (1, 3),
    "memory.actions.in": (1, 3),
}
OUTPUTS: dict[str, Any] = {
    "actions": (1, 3),
    "obs": (1, 30),
    f"{GROUP}.pos": (1, 3),
    f"{GROUP}.vel": (1, 3),
    f"{GROUP}.effort": (1, 3),
    "memory.actions.out": (1, 3),
}
METADATA: dict[str, Any] = {
    "exploy_version": "0.2.1",
    "update_rate": 200.0,
    "decimation": 4,
    "sim_dt": 0.005,
    "obs_term_names": ["base_ang_vel", "joint_pos"],
    "base_names": {"robot": "pelvis"},
    "obj.robot.joints": {"joint_names": JOINTS},
    GROUP: {"type": "joint_targets", "names": DRIVEN, "stiffness": [40.0, 41.0, 50.0], "damping": [1.0, 1.1, 2.0]},
    "cmd.se2_velocity.base": {"ranges": {"lin_vel_x": [-1.5, 1.5], "lin_vel_y": [-0.5, 0.5], "ang_vel_z": [-2, 2]}},
}
POSE = {"default_pos": [0.0] * 4}


def found(metadata: dict[str, Any] | None = None, **more: Any) -> Any:
    """Evidence with inputs, outputs or metadata changed; None takes one away."""
    inputs = {key: shape for key, shape in (INPUTS | more.get("inputs", {})).items() if shape is not None}
    outputs = {key: shape for key, shape in (OUTPUTS | more.get("outputs", {})).items() if shape is not None}
    values = {key: value for key, value in (METADATA | (metadata or {})).items() if value is not None}
    return evidence(inputs, outputs, as_json(values))


def read(shown: Any) -> Any:
    document = dict(EXPLOY.read(shown).document)
    document["joints"] = {**document["joints"], **POSE}
    return parse_contract({**document, "recurrent": {"memory.actions.in": "memory.actions.out"}}, "x")


def test_every_input_is_one_quantity_and_every_output_a_target() -> None:
    contract = read(found())
    assert contract.joints == tuple(JOINTS)
    assert (contract.kp, contract.kd) == ((40.0, 50.0, 41.0, 0.0), (1.0, 2.0, 1.1, 0.0))
    terms = {name: spec.terms[0] for name, spec in contract.inputs.items()}
    assert {name: term.name for name, term in terms.items()} == {
        "ctx.step_count": "step_count",
        "obj.robot.joints.pos": "joint_angle",
        "obj.robot.joints.vel": "joint_vel",
        "obj.robot.pelvis.pos_b_rt_w_in_w": "base_pos",
        "obj.robot.pelvis.w_Q_b": "base_quat",
        "obj.robot.pelvis.lin_vel_b_rt_w_in_b": "base_lin_vel",
        "obj.robot.pelvis.ang_vel_b_rt_w_in_b": "base_ang_vel",
        "sensor.imu.torso.ang_vel_b_rt_w_in_b": "imu_ang_vel",
        "cmd.se2_velocity.base": "command",
    }
    assert terms["obj.robot.pelvis.lin_vel_b_rt_w_in_b"].point == "com"
    assert terms["obj.robot.pelvis.w_Q_b"].order == "wxyz"
    action = contract.action
    assert action.outputs == (f"{GROUP}.pos", f"{GROUP}.vel", f"{GROUP}.effort")
    assert action.joints == tuple(DRIVEN * 3)
    assert action.kinds == ("position",) * 3 + ("velocity",) * 3 + ("torque",) * 3
    assert set(action.offset) == {0.0}
    assert contract.command is not None
    assert contract.command.ranges == ((-1.5, 1.5), (-0.5, 0.5), (-2.0, 2.0))


def test_the_update_rate_is_that_of_the_physics() -> None:
    contract = read(found())
    assert contract.control_hz == 50.0
    assert contract.inputs["ctx.step_count"].terms[0].scale == (4.0,)  # the graph acts at every 4th count
    assert read(found({"update_rate": 50.0})).control_hz == 50.0
    assert read(found({"sim_dt": None})).control_hz == 50.0
    once = found({"decimation": None})
    assert EXPLOY.read(once).document["control_hz"] == 200.0
    assert EXPLOY.read(once).document["inputs"]["ctx.step_count"] == {"terms": [{"name": "step_count"}]}
    assert "control_hz" not in EXPLOY.read(found({"update_rate": None, "sim_dt": None})).document


def test_what_is_assumed_is_said() -> None:
    reading = EXPLOY.read(found({"base_names": None}))
    assert reading.notes == (
        "no base is named: 'pelvis' is taken for it, the only body that is measured",
        "its IMU 'torso' is taken for the scene's sensors imu_ang_vel and imu_quat",
        "base_lin_vel is that of the base's centre of mass, as Isaac Lab and Exploy's mjlab measure it",
        "not driven, as no output moves them: right_knee",
    )
    assert reading.reasons == {
        "joints.default_pos": "Exploy keeps it inside the network; give the pose to start from"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "field", "why"),
    [
        ({"sensor.ray_caster.scan.height": (1, 9)}, "sensor.ray_caster.scan.height", "unknown; known are obj.<robot>."),
        ({"obj.robot.left_foot.w_Q_b": (1, 4)}, "obj.robot.left_foot.w_Q_b", "unknown; known are obj.<robot>.joints"),
        ({"cmd.se3_pose.hand": (1, 7)}, "cmd.se3_pose.hand", "unknown; known are"),
        ({"memory.other.in": (1, 3)}, "memory.other.in", "unknown; known are"),
        ({"cmd.se2_velocity.second": (1, 3)}, "cmd.se2_velocity.base", "one command of base, second"),
        ({"sensor.imu.head.w_Q_b": (1, 4)}, "sensor.imu.torso.ang_vel_b_rt_w_in_b", "one IMU of head, torso"),
    ],
)
def test_an_input_that_is_unknown_or_ambiguous_is_named(inputs: dict[str, Any], field: str, why: str) -> None:
    reading = EXPLOY.read(found(inputs=inputs))
    assert reading.reasons[f'inputs."{field}".terms'].startswith(why)
    assert field not in reading.document["inputs"]


def test_groups_stand_side_by_side() -> None:
    other = "output.joint_targets.arm"
    shown = found(
        {other: {"names": ["right_knee"], "stiffness": [9.0], "damping": [0.9]}}, outputs={f"{other}.pos": (1, 1)}
    )
    contract = read(shown)
    assert contract.action.joints == (*DRIVEN * 3, "right_knee")
    assert contract.kp[JOINTS.index("right_knee")] == 9.0


def test_it_is_known_by_its_names() -> None:
    name, words = choose_format(found()) or ("", "")
    assert name == "exploy"
    assert words == (
        "metadata exploy_version, update_rate, decimation, sim_dt, "
        f"outputs {GROUP}.pos, {GROUP}.vel, {GROUP}.effort"
    )  # fmt: skip
    assert choose_format(found(outputs=dict.fromkeys(OUTPUTS))) is None


def test_joints_without_names_are_asked_for() -> None:
    reading = EXPLOY.read(found({"obj.robot.joints": None}))
    why = "metadata 'obj.robot.joints' is missing"
    assert reading.reasons['inputs."obj.robot.joints.pos".terms'] == why
    assert reading.reasons['inputs."obj.robot.joints.vel".terms'] == why


@pytest.mark.parametrize(
    "changes",
    [
        {"obj.robot.joints": JOINTS},
        {"obj.robot.joints": {"names": JOINTS}},
        {GROUP: {"joint_names": DRIVEN, "stiffness": [40.0, 41.0, 50.0], "damping": [1.0, 1.1, 2.0]}},
        {"base_names": ["pelvis"]},
        {"base_names": "pelvis"},
    ],
)
def test_names_are_read_wherever_they_are_plain(changes: dict[str, Any]) -> None:
    assert EXPLOY.read(found(changes)).document == EXPLOY.read(found()).document


def test_one_gain_is_that_of_every_joint() -> None:
    group = {"names": DRIVEN, "stiffness": 40.0, "damping": 1.0}
    assert read(found({GROUP: group})).kp == (40.0, 40.0, 40.0, 0.0)  # nothing drives the last


def test_gains_of_nothing_are_lacking() -> None:
    reading = EXPLOY.read(found({GROUP: {"names": DRIVEN, "stiffness": [0.0] * 3, "damping": [1.0] * 3}}))
    assert reading.reasons["joints.kp"] == ("stiffness is 0 for every joint: its actuators are modelled elsewhere")


@pytest.mark.parametrize(
    ("metadata", "more", "said"),
    [
        ({}, {"outputs": {"output.se2_velocity.base": (1, 3)}}, "output 'output.se2_velocity.base' is unknown"),
        (
            {"obj.box.joints": {"joint_names": ["lid"]}},
            {"inputs": {"obj.box.joints.pos": (1, 1)}},
            "policy p.onnx moves more than one robot: found obj.box.joints, obj.robot.joints",
        ),
        ({}, {"inputs": {"obj.robot.joints.pos": (1, 5)}}, "has the wrong size for a joint_angle: found 5, expected 4"),
        (
            {},
            {"outputs": {f"{GROUP}.pos": (1, 4)}},
            "another number of joints than its metadata name: found 4, expected 3",
        ),
        ({"update_rate": 100.0}, {}, "found 100 Hz beside a sim_dt of 0.005 s, expected 200 Hz, that of the physics"),
        ({"sim_dt": 0.0}, {}, "metadata 'sim_dt' of policy p.onnx is wrong: found 0, expected more than 0"),
        ({"decimation": 0}, {}, "metadata 'decimation' of policy p.onnx is wrong"),
        ({GROUP: {"names": DRIVEN, "stiffness": [1.0], "damping": [1.0] * 3}}, {}, "key 'stiffness' is wrong: found 1"),
    ],
)
def test_what_cannot_be_understood_is_refused(metadata: dict[str, Any], more: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError) as caught:
        EXPLOY.read(found(metadata, **more))
    assert said in str(caught.value)


def test_a_graph_with_everything_inside_stands_on_the_simulated_robot(tmp_path: Path) -> None:
    """Like Exploy's: it acts where the count of physics steps is a multiple of 4, and gives 1 rad more elsewhere.

    Joints are listed backwards, so that targets in another order would fold the legs.
    """
    own = load_task("quadruped").contract
    order = list(range(len(own.joints)))[::-1]
    names = [own.joints[i] for i in order]
    pose = np.array([[own.default_pos[i] for i in order]], np.float32)
    group = "output.joint_targets.dog.joint_pos"
    nodes = [
        helper.make_node("Mod", ["ctx.step_count", "four"], ["rest"]),
        helper.make_node("Cast", ["rest"], ["late"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["obj.dog.joints.pos", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "pose"], ["right"]),
        helper.make_node("Add", ["right", "late"], [f"{group}.pos"]),
        helper.make_node("Identity", ["nothing"], [f"{group}.vel"]),
        helper.make_node("Mul", ["memory.actions.in", "zero"], [f"{group}.effort"]),
        helper.make_node("Identity", ["obj.dog.joints.pos"], ["memory.actions.out"]),
    ]
    row = [1, len(names)]
    graph = helper.make_graph(
        nodes,
        "environment",
        [
            helper.make_tensor_value_info("ctx.step_count", TensorProto.INT32, []),
            helper.make_tensor_value_info("obj.dog.joints.pos", TensorProto.FLOAT, row),
            helper.make_tensor_value_info("memory.actions.in", TensorProto.FLOAT, row),
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, row)
            for name in (f"{group}.pos", f"{group}.vel", f"{group}.effort", "memory.actions.out")
        ],
        [
            numpy_helper.from_array(np.int32(4), "four"),
            numpy_helper.from_array(np.float32(0.0), "zero"),
            numpy_helper.from_array(pose, "pose"),
        ],
    )
    gains = {"stiffness": [own.kp[i] for i in order], "damping": [own.kd[i] for i in order]}
    metadata = {
        "exploy_version": "0.2.1",
        "update_rate": 200.0,
        "sim_dt": 0.005,
        "decimation": 4,
        "obj.dog.joints": {"joint_names": names},
        group: {"names": names, **gains},
    }
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    path = tmp_path / "policy.onnx"
    path.write_bytes(attach(model, as_json(metadata)).SerializeToString())
    (tmp_path / "policy.toml").write_text(f"joints.default_pos = {json.dumps(pose[0].tolist())}\n")
    assert load_policy(path).contract.recurrent == {"memory.actions.in": "memory.actions.out"}
    options = RunOptions(model=str(path), sim="quadruped", seconds=2.0, real_time=False)
    with open_session(options) as session:
        assert session.report(session.run())["outcome"] == "completed"


SOME = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)


@given(
    st.sampled_from(sorted(METADATA)), SOME | st.lists(SOME, max_size=4) | st.dictionaries(st.text(max_size=4), SOME)
)
def test_nothing_in_the_metadata_ends_in_a_traceback(key: str, value: Any) -> None:
    with suppress(EdgertError):
        read(found({key: value}))


@given(st.sampled_from(sorted(METADATA)), st.text(max_size=12), st.integers(0, 80))
def test_no_text_in_the_metadata_ends_in_a_traceback(key: str, text: str, cut: int) -> None:
    metadata = as_json(METADATA)
    for mutated in (text, metadata[key][:cut], metadata[key] + text):
        with suppress(EdgertError):
            read(evidence(INPUTS, OUTPUTS, metadata | {key: mutated}))


@given(
    st.sampled_from([*INPUTS, *OUTPUTS]), st.lists(st.integers(0, 9) | st.just("n"), max_size=3), st.text(max_size=5)
)
def test_no_shape_or_name_ends_in_a_traceback(name: str, shape: list[int | str], suffix: str) -> None:
    inputs = {key: shape if key == name else each for key, each in INPUTS.items()} | {"obj." + suffix: (1, 3)}
    outputs = {key: shape if key == name else each for key, each in OUTPUTS.items()} | {"output." + suffix: (1, 3)}
    for given_inputs, given_outputs in ((inputs, OUTPUTS), (INPUTS, outputs)):
        with suppress(EdgertError):
            read(evidence(given_inputs, given_outputs, as_json(METADATA)))
