"""`edgert run policy` as a user types it: what it prints, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import Command, failing_later_model, finished, linear_model, quadruped_document, save

from edgert import load_task
from edgert.cli.main import run
from edgert.task.notes import meaning

KEYS = {
    "policy", "policy_sha256", "contract_sha256", "sim", "device", "physics_device", "provider", "control_hz",
    "seconds", "steps", "latency_us", "deadline_misses", "real_time_factor", "outcome", "metrics", "fell",
    "distance_m", "command", "mean_velocity",
}  # fmt: skip

COMMAND = Command("run", "policy")
ran, refused = COMMAND.ran, COMMAND.refused


def quick(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = ran(capsys, *arguments, "--no-real-time", "--json")
    assert code == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


def test_json_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    report = quick(capsys, "--seconds", "2")
    assert report.keys() >= KEYS
    assert report["latency_us"].keys() == {"p50", "p90", "p99", "p999", "max"}
    assert (report["sim"], report["device"], report["physics_device"]) == ("quadruped", "cpu", "cpu")
    assert report["provider"] == "CPUExecutionProvider"
    assert report["command"] == [0.5, 0.0, 0.0]
    assert report["steps"] == 100
    assert report["seconds"] == 2.0
    assert len(report["mean_velocity"]) == 3
    assert report["outcome"] == "completed"


def test_summary_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "--seconds", "1", "--no-real-time")
    assert code == 0
    assert "outcome" in out
    assert "completed" in out
    assert "\x1b" not in out
    assert "kp 35 N·m/rad" in err
    assert "armature 0.01 kg·m²" in err
    assert "torque limit 23.7…45 N·m" in err


def test_real_time_is_not_faster_than_the_clock(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "--seconds", "1", "--json")
    assert code == 0
    # The last tick ends when it is done, not at the end of its period: one period in 50.
    assert json.loads(out)["real_time_factor"] <= 1.0 / 0.98


def test_same_seed_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    timing = {"latency_us", "deadline_misses", "skipped_slots", "real_time_factor", "loop_cpu_percent", "disclosure"}
    first, second, other = (quick(capsys, "--seconds", "3", "--seed", seed) for seed in ("3", "3", "4"))
    assert {k: v for k, v in first.items() if k not in timing} == {k: v for k, v in second.items() if k not in timing}
    assert first["mean_velocity"] != other["mean_velocity"]


def test_a_fall_exits_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = quadruped_document()
    kick = linear_model(bias=8.0, document=document)
    code, out, err = ran(capsys, str(save(kick, tmp_path / "kick.onnx")), "--no-real-time", "--json")
    report = json.loads(out)
    assert code == 3
    assert report["outcome"] == "fell"
    assert report["fell"] is True
    assert report["steps"] < 500
    assert "edgert: fell: base tilted" in err


def test_nan_from_the_start_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = save(linear_model(bias=float("nan"), document=quadruped_document()), tmp_path / "nan.onnx")
    assert refused(capsys, str(path), "--no-real-time") == (
        f"policy {path} gives no usable action at the start: found nan for joint 'FL_hip_joint', expected finite "
        "numbers. Check the contract's scales, the export, and the normaliser in it"
    )


def test_nan_on_the_way_is_a_safety_stop(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = save(failing_later_model(quadruped_document()), tmp_path / "later.onnx")
    code, out, err = ran(capsys, str(path), "--no-real-time", "--json")
    report = json.loads(out)
    assert code == 3
    assert report["outcome"] == "safety_stop"
    assert report["reason"] == "the policy at step 11 gave or saw nan for joint 'FL_hip_joint'; nothing was sent"
    assert report["steps"] == 11
    assert "edgert: safety stop: the policy at step 11 gave or saw nan" in err


@pytest.mark.parametrize(
    ("contract", "text"),
    [
        ("[action]\nscale = 1e11", "gives no usable action at the start: found 1.79769e+308 for joint 'FL_hip_joint'"),
        ("[action]\nscale = 1e300", "key 'action.scale' is wrong: found 1e+300, expected at most 1e+12 in magnitude"),
    ],
)
def test_targets_that_overflow_are_never_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, contract: str, text: str
) -> None:
    document = quadruped_document()
    del document["action"]["clip"]
    graph = linear_model(bias=1.0, document=document).graph
    huge = helper.make_node("CastLike", ["actions32", "huge"], ["actions64"])
    graph.node[0].output[0] = "actions32"
    graph.node.extend([huge, helper.make_node("Mul", ["actions64", "huge"], ["actions"])])
    graph.initializer.append(numpy_helper.from_array(np.float64(1.7976931348623157e308), "huge"))
    graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    (tmp_path / "policy.toml").write_text(contract)
    assert text in refused(capsys, str(save(finished(graph, document), tmp_path / "huge.onnx")), "--no-real-time")


def test_a_command_that_overflows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--command is wrong: found (1e+300, 0.0, 0.0)" in refused(capsys, "--command", "1e300", "0", "0")


def test_terminal_controls_in_names_do_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "x[/b]\x1b[2J"
    folder.mkdir(parents=True)
    path = save(linear_model(document=quadruped_document()), folder / "stand\x1b[31m.onnx")
    code, out, err = ran(capsys, str(path), "--seconds", "0.1", "--no-real-time")
    assert code == 0
    assert "\x1b" not in out + err
    assert "x[/b]" in out


def test_extra_outputs_of_unknown_size_do_not_matter(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = linear_model(document=quadruped_document()).graph
    graph.node.append(helper.make_node("NonZero", ["obs"], ["where"]))
    graph.output.append(helper.make_tensor_value_info("where", TensorProto.INT64, [2, "n"]))
    path = save(finished(graph, quadruped_document()), tmp_path / "extra.onnx")
    assert quick(capsys, str(path), "--seconds", "0.2")["outcome"] == "completed"


def test_a_folder_of_a_sims_name_does_not_replace_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quadruped").mkdir()
    (tmp_path / "quadruped/task.toml").write_text("junk")
    monkeypatch.chdir(tmp_path)
    assert quick(capsys, "--seconds", "0.1")["outcome"] == "completed"
    assert "is not valid TOML" in refused(capsys, "--sim", "./quadruped")


@pytest.mark.parametrize("kind", ["model", "--sim", "--contract"])
def test_pipes_are_never_waited_for(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    pipe = tmp_path / ("pipe.toml" if kind == "--contract" else "pipe.xml")
    os.mkfifo(pipe)
    assert "is no regular file" in refused(capsys, *([] if kind == "model" else [kind]), str(pipe))


def test_the_meaning_of_the_numbers_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = ran(capsys, "--seconds", "0.1", "--no-real-time")
    terms = "base_lin_vel(body, origin, × 2) 3 + base_ang_vel(× 0.25) 3 + projected_gravity 3 + command(× 1…2) 3"
    assert f"input obs: 50 = {terms}" in err
    assert "output actions: 12 joint targets = offset + 0.25 × action" in err
    assert "starts at keyframe 'home', spread as the task resets it" in err


def scene(tmp_path: Path, body: str) -> str:
    path = tmp_path / "scene.xml"
    path.write_text(f"<mujoco><option timestep='0.005'/><worldbody>{body}</worldbody></mujoco>")
    return str(path)


ONE_JOINT = "<body><joint name='hinge' type='hinge' axis='0 1 0'/><geom size='0.1' mass='1'/></body>"
PENDULUM = {
    "schema": 1,
    "control_hz": 100,
    "joints": {"names": ["hinge"], "default_pos": [0.0], "kp": 5.0, "kd": 0.5},
    "inputs": {"obs": {"terms": ["joint_pos", "joint_vel"]}},
    "action": {"output": "actions"},
}


def pendulum(tmp_path: Path, **changes: Any) -> str:
    model = linear_model(dim=2, nact=1, bias=0.3, document=PENDULUM | changes)
    return str(save(model, tmp_path / "pendulum.onnx"))


def test_a_fixed_base_runs_without_locomotion(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = quick(capsys, pendulum(tmp_path), "--sim", scene(tmp_path, ONE_JOINT), "--seconds", "1")
    assert report["steps"] == 100
    assert "mean_velocity" not in report
    assert report["metrics"]["peak_torque_n_m"] > 0.0


def test_no_free_joint_where_one_is_needed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    inputs = {"obs": {"terms": ["joint_pos", {"name": "projected_gravity", "index": [2]}]}}
    line = refused(capsys, pendulum(tmp_path, inputs=inputs), "--sim", scene(tmp_path, ONE_JOINT))
    assert line == (
        "term 'projected_gravity' of input 'obs' needs base_quat, which scene scene.xml does not have. A floating base "
        "needs a free joint"
    )


def test_unknown_joint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = scene(tmp_path, ONE_JOINT.replace("hinge'", "elbow'", 1))
    line = refused(capsys, pendulum(tmp_path), "--sim", other)
    assert line.startswith(
        f"scene {other} lacks joints of the policy: found no hinge, expected joints named as in the contract; the "
        "scene has elbow"
    )


def test_rate_and_timestep_that_do_not_fit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = scene(tmp_path, ONE_JOINT)
    line = refused(capsys, pendulum(tmp_path, control_hz=150), "--sim", path)
    assert line.startswith(
        f"the control period of 6.66667 ms is no whole number of timesteps of scene {path}: found timestep 5 ms, "
        "expected for example 3.33333 ms"
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "cannot read scene"),
        ("<mujoco", "is not a valid MJCF model"),
        ("", "is not a valid MJCF model"),
    ],
)
def test_unusable_scene(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, text: str) -> None:
    path = tmp_path / "scene.xml"
    if content is not None:
        path.write_text(content)
    assert text in refused(capsys, "--sim", str(path))


def test_missing_mesh(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(
        "<mujoco><asset><mesh name='trunk' file='trunk.stl'/></asset>"
        f"<worldbody>{ONE_JOINT}<geom type='mesh' mesh='trunk'/></worldbody></mujoco>"
    )
    line = refused(capsys, pendulum(tmp_path), "--sim", str(path))
    assert line.startswith(f"scene {path} cannot be compiled: found Error: ")
    assert "trunk.stl" in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<keyframe><key name='home' qpos='nan'/></keyframe>", "has numbers that are not finite: found XML contains a"),
        ("<option gravity='0 0 nan'/>", "has numbers that are not finite: found XML contains a"),
        ("<keyframe><key name='home' qpos='inf'/></keyframe>", "has numbers that are not finite: found in key_qpos"),
        ("<default><joint armature='-1'/></default>", "cannot be compiled: found Inertia matrix"),
        ("<option><flag actuation='disable'/></option>", "switches actuation off"),
        ("<option actuatorgroupdisable='0'/>", "switches actuator 'hinge' off: found actuatorgroupdisable contains"),
        ("<size memory='100'/>", "cannot be compiled"),
        ("<option><flag sleep='enable'/></option>", "MuJoCo cannot run 1 worlds of this scene"),
    ],
)
def test_scenes_that_would_not_do_as_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(f"<mujoco>{text}<worldbody>{ONE_JOINT}</worldbody></mujoco>")
    monkeypatch.chdir(tmp_path)
    assert expected in refused(capsys, pendulum(tmp_path), "--sim", str(path))
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_a_fall_without_a_command_is_a_fall(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = quadruped_document()
    del document["command"], document["phase"]
    document["inputs"]["obs"]["terms"] = ["joint_pos", "joint_vel"]
    path = save(linear_model(dim=24, bias=8.0, document=document), tmp_path / "kick.onnx")
    code, out, _ = ran(capsys, str(path), "--no-real-time", "--json")
    report = json.loads(out)
    assert code == 3
    assert report["fell"] is True
    assert "command" not in report


def test_unknown_sim(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--sim", "hexapod") == (
        "unknown sim 'hexapod': expected one of arm_reach, cartpole, quadruped. A file of your own is named by its "
        "path, such as ./hexapod"
    )


def test_typo_in_the_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("controlhz = 25\n")
    line = refused(capsys, "--contract", str(path))
    assert "unknown key 'controlhz': expected one of action, command, control_hz, inputs, joints, motion" in line


def test_newer_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("schema = 2\n")
    assert refused(capsys, "--contract", str(path)) == (
        f"{path}: key 'schema' is wrong: found 2, expected at most 1. This file was written by a newer edgert: "
        "upgrade it"
    )


def test_overrides_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("[joints]\nkp = 30\n")
    code, out, err = ran(capsys, "--contract", str(path), "--seconds", "0.1", "--no-real-time", "--json")
    assert code == 0
    assert "joints.kp overridden by user (policy.toml)" in err
    assert json.loads(out)["contract_overrides"] == ["joints.kp: user (policy.toml)"]


def test_command_outside_the_trained_range_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = ran(capsys, "--command", "3", "0", "0", "--seconds", "0.1", "--no-real-time")
    assert "warning: command vx = 3 is outside the trained range -0.6 … 1.1" in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--command", "nan", "0", "0"], "--command is wrong: found (nan, 0.0, 0.0)"),
        (["--seconds", "0"], "--seconds is out of range: found 0.0, expected above 0 to 86400"),
        (["--seconds", "nan"], "--seconds is out of range"),
        (["--device", "cuda:0"], "unknown device 'cuda:0': expected cpu"),
    ],
)
def test_wrong_values(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert text in refused(capsys, *arguments)


@pytest.mark.parametrize(
    "arguments", [["--commnd"], ["--command", "1", "2"], ["--actuators", "none"], ["--seed", "-1"]]
)
def test_usage_errors_exit_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert re.search(r"\. See edgert( run policy)? --help$", refused(capsys, *arguments))


def test_command_for_a_policy_without_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = refused(capsys, pendulum(tmp_path), "--sim", scene(tmp_path, ONE_JOINT), "--command", "1", "0", "0")
    assert line.startswith("this policy takes no command")


def test_scene_actuators_are_refused_when_they_are_motors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(
        f"<mujoco><worldbody>{ONE_JOINT}</worldbody><actuator><motor name='m' joint='hinge'/></actuator></mujoco>"
    )
    line = refused(capsys, pendulum(tmp_path), "--sim", str(path), "--actuators", "scene")
    assert line == (
        f"actuator 'm' of scene {path} does not take joint positions: expected a position actuator, as the policy "
        "commands positions. Use --actuators contract to drive the joints with the contract's gains"
    )


def test_scene_actuators_keep_their_gains(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(
        f"<mujoco><worldbody>{ONE_JOINT}</worldbody>"
        "<actuator><position name='m' joint='hinge' kp='40' kv='2'/></actuator></mujoco>"
    )
    arguments = [pendulum(tmp_path), "--sim", str(path), "--seconds", "1", "--no-real-time", "--json"]
    code, own, err = ran(capsys, *arguments, "--actuators", "scene")
    assert code == 0
    assert "1 position actuators of the scene's own: kp 40 N·m/rad, kd 2 N·m·s/rad" in err
    _, contract, _ = ran(capsys, *arguments)
    assert json.loads(own)["metrics"] != json.loads(contract)["metrics"]


def program(*arguments: str, path: Path | None = None) -> subprocess.Popen[str]:
    environment = os.environ | ({"PYTHONPATH": str(path)} if path is not None else {})
    return subprocess.Popen(
        [sys.executable, "-m", "edgert", "run", "policy", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_ctrl_c_keeps_what_was_measured_and_exits_130() -> None:
    process = program("--seconds", "60", "--json")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("running "):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    report = json.loads(out)
    assert report["outcome"] == "interrupted"
    assert report["steps"] < 3000
    assert "Traceback" not in err


def distribution(folder: Path, name: str) -> None:
    """A second distribution that claims to ship the module onnxruntime."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("onnxruntime/__init__.py,,\n")


def test_two_onnxruntimes_are_refused(tmp_path: Path) -> None:
    distribution(tmp_path, "onnxruntime-gpu")
    process = program("--seconds", "0.1", path=tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    line = err.splitlines()[-1]
    assert line.startswith("edgert: more than one onnxruntime is installed, and they overwrite each other's files")
    assert "Run: pip uninstall -y onnxruntime onnxruntime-gpu, then install the one for this chip" in line


def test_no_onnxruntime_says_what_to_install() -> None:
    code = "import sys; sys.modules['onnxruntime'] = None; from edgert.cli.main import main; main(['run', 'policy'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        'edgert: no onnxruntime is installed, which runs the policy. Run: pip install "edgert[cpu]"'
    )


def test_cpu_path_imports_neither_warp_nor_torch_nor_pyarrow() -> None:
    code = (
        "import sys; from edgert.cli.main import run; assert run(['run', 'policy', '--seconds', '0.1']) == 0; "
        "print([name for name in ('warp', 'torch', 'pyarrow', 'gymnasium') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


QUICK = ["--seconds", "0.1", "--no-real-time"]


@pytest.mark.parametrize(
    "variables", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONOPTIMIZE": "2"}, {"PYTHONWARNINGS": "error"}]
)
def test_runs_in_any_environment(variables: dict[str, str]) -> None:
    command = [sys.executable, "-m", "edgert", "run", "policy", *QUICK]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)


def test_a_reader_that_went_away_is_no_error() -> None:
    done = shell(f"{sys.executable} -m edgert run policy {' '.join(QUICK)} | true; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_a_closed_stdout_is_no_error() -> None:
    assert shell(f"{sys.executable} -m edgert run policy {' '.join(QUICK)} >&-").returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", ["--help", "run policy --help"])
def test_help_onto_a_full_disk_is_one_line(arguments: str) -> None:
    done = shell(f"{sys.executable} -m edgert {arguments} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "edgert: the result cannot be written: No space left on device"


@pytest.mark.parametrize("name", ["x" * 300 + ".onnx", "a/" * 3000 + "policy.onnx"])
def test_paths_that_the_system_refuses(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert "File name too long" in refused(capsys, name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    done = shell(f"{sys.executable} -m edgert run policy {' '.join(QUICK)} --json > /dev/full")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "edgert: the result cannot be written: found No space left on device"


def test_a_round_timestep_is_proposed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = scene(tmp_path, ONE_JOINT).replace("scene.xml", "coarse.xml")
    Path(path).write_text(Path(scene(tmp_path, ONE_JOINT)).read_text().replace("0.005", "0.004"))
    assert "found timestep 4 ms, expected for example 2 ms" in refused(capsys, pendulum(tmp_path), "--sim", path)


def test_the_folder_of_a_scene_is_refused_with_its_scene(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = scene(tmp_path, ONE_JOINT)
    assert refused(capsys, pendulum(tmp_path), "--sim", str(tmp_path)) == (
        f"folder {tmp_path} holds no task.toml: expected a task, or the path of a scene. Name the scene itself: {path}"
    )


def test_a_pose_in_degrees_is_warned_of(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    limited = ONE_JOINT.replace("name='hinge'", "name='hinge' range='-90 90'")
    assert limited != ONE_JOINT
    joints = PENDULUM["joints"] | {"default_pos": [45.0]}
    arguments = [pendulum(tmp_path, joints=joints), "--sim", scene(tmp_path, limited), "--seconds", "0.1"]
    _, _, err = ran(capsys, *arguments, "--no-real-time")
    assert "warning: default pose: 45 rad of hinge is outside its range -1.5708 … 1.5708 rad\n" in err
    assert run(["run", "rollouts", *arguments, "--num-envs", "2"]) == 0
    assert "warning: default pose: 45 rad of hinge" in capsys.readouterr().err


def test_a_memory_is_said() -> None:
    contract = replace(load_task("quadruped").contract, recurrent={"h_in": "h_out", "c_in": "c_out"})
    assert meaning(contract)[-1] == "memory h_in from h_out, c_in from c_out, 0 at the beginning of an episode"
