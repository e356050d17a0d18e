"""`edgert run policy` with `--record`, `--video` and `--env`, as a user types it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gym_examples import NACT, POINT, Failing, Point, blowing_up, linear, register
from rollout_examples import talkative, wild
from support import Command, failing_later_model, linear_model, quadruped_document, save

from edgert.errors import EdgertError
from edgert.rollout import Episode, read
from edgert.sim.gl import choose_gl

QUICK = ("--seconds", "0.2", "--no-real-time")

COMMAND = Command("run", "policy")
ran, refused = COMMAND.ran, COMMAND.refused


def recorded(
    capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, code: int = 0
) -> tuple[dict[str, Any], Episode]:
    """The report of a recorded run, and its one episode."""
    found, out, err = ran(capsys, *arguments, "--record", str(folder), "--json")
    assert found == code, err
    report: dict[str, Any] = json.loads(out)
    (episode,) = read(folder)
    assert report["recording"] == str(next(folder.iterdir()))
    assert f"recorded {report['steps']} steps into {report['recording']}" in err
    assert episode.steps == report["steps"]
    return report, episode


@pytest.mark.parametrize("pace", ["--real-time", "--no-real-time"])
def test_a_run_is_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path, pace: str) -> None:
    report, episode = recorded(capsys, tmp_path / "r", "--seconds", "0.2", pace, "--command", "0.3", "0", "0.1")
    assert episode.info["outcome"] == report["outcome"] == "completed"
    assert (episode.steps, len(episode.qpos)) == (10, 11)
    assert (episode["command"] == [0.3, 0.0, 0.1]).all()
    for key in ("policy", "policy_sha256", "contract_sha256", "sim", "scene", "device", "provider", "seed"):
        assert episode.header[key] == report[key]
    latency = np.sort(episode["latency_ns"]) / 1e3
    assert report["latency_us"]["max"] == pytest.approx(latency[-1], abs=0.06)


def test_recording_changes_no_figure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, _ = recorded(capsys, tmp_path / "r", "--seconds", "1", "--no-real-time")
    _, out, _ = ran(capsys, "--seconds", "1", "--no-real-time", "--json")
    plain = json.loads(out)
    for key in ("steps", "distance_m", "mean_velocity", "metrics"):
        assert report[key] == plain[key]
    assert "recording" not in plain


def test_a_fall_is_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kick = save(linear_model(bias=8.0, document=quadruped_document()), tmp_path / "kick.onnx")
    report, episode = recorded(capsys, tmp_path / "r", str(kick), "--no-real-time", code=3)
    assert (episode.info["outcome"], episode.info["reason"]) == ("fell", report["reason"])


def test_a_safety_stop_is_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    later = save(failing_later_model(quadruped_document()), tmp_path / "later.onnx")
    _, episode = recorded(capsys, tmp_path / "r", str(later), "--no-real-time", code=3)
    assert (episode.info["outcome"], episode.steps) == ("safety_stop", 11)


def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    """In real time, where nothing reaches the disk before the run is over."""
    arguments = ["run", "policy", "--seconds", "60", "--record", str(tmp_path / "r"), "--json"]
    command = [sys.executable, "-m", "edgert", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if re.match(r"\d\.\d/60 s", line):  # the live line, once a second
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    report = json.loads(out)
    (episode,) = read(tmp_path / "r")
    assert episode.info["outcome"] == report["outcome"] == "interrupted"
    assert episode.steps == report["steps"] > 0


def test_outputs_are_recorded_or_said_to_be_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = talkative("quadruped", tmp_path)
    code, _, err = ran(capsys, model, *QUICK, "--record", str(tmp_path / "r"))
    assert code == 0
    assert re.search(r"^not recorded: output where: ", err, re.MULTILINE)
    assert sorted(read(tmp_path / "r")[0].outputs) == ["half", "largest", "log_prob", "value"]
    _, _, err = ran(capsys, model, *QUICK)
    assert "not recorded" not in err


def test_runs_are_appended(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for seed in ("1", "2"):
        assert ran(capsys, *QUICK, "--seed", seed, "--record", str(tmp_path / "r"))[0] == 0
    assert [episode.info["seed"] for episode in read(tmp_path / "r")] == [1, 2]


def test_a_place_that_cannot_be_recorded_into_is_refused_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("x")
    line = refused(capsys, "nowhere.onnx", "--record", str(tmp_path))
    assert line.startswith(f"folder {tmp_path} holds other things than a recording: found mine.txt")
    line = refused(capsys, "nowhere.onnx", "--record", str(tmp_path / "mine.txt"))
    assert line == f"cannot record into {tmp_path / 'mine.txt'}: found Not a directory, expected a folder"


@pytest.fixture
def drawing() -> None:
    try:
        choose_gl()
    except EdgertError as error:
        pytest.skip(f"nothing draws here: {error}")


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("sim", ["quadruped", "arm_reach"])
def test_a_run_is_filmed(capsys: pytest.CaptureFixture[str], tmp_path: Path, sim: str) -> None:
    """A goal is drawn too."""
    av = pytest.importorskip("av")
    video = tmp_path / "walk.mp4"
    arguments = (wild(sim, tmp_path), "--sim", sim, "--seconds", "0.4", "--no-real-time")
    code, out, err = ran(capsys, *arguments, "--video", str(video), "--record", str(tmp_path / "r"), "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["video"] == str(video)
    assert re.search(rf"filmed 0\.\d s in \d+ pictures of \d+ × \d+ into {video} \(\d+ kB, ", err)
    with av.open(str(video)) as container:
        frames = sum(1 for _ in container.decode(video=0))
    assert frames >= 10
    assert read(tmp_path / "r")[0].steps == 20


@pytest.mark.usefixtures("drawing")
def test_a_video_that_cannot_be_written_is_refused_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = refused(capsys, "nowhere.onnx", "--video", str(tmp_path / "walk.avi"))
    assert line == "this kind of video cannot be written: found the ending .avi, expected .mp4 or .gif"
    assert str(tmp_path / "none") in refused(capsys, "nowhere.onnx", "--video", str(tmp_path / "none" / "walk.mp4"))


def test_an_environment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = str(linear(tmp_path, outputs=(("actions", NACT),)))
    code, out, err = ran(capsys, model, "--env", POINT, "--seconds", "3", "--record", str(tmp_path / "r"), "--json")
    assert code == 0, err
    report = json.loads(out)
    recording = read(tmp_path / "r")
    assert (report["env"], report["num_envs"], report["steps"]) == (POINT, 1, 30)
    assert sum(episode.steps for episode in recording) == 30
    assert [episode.info["outcome"] for episode in recording].count("completed") == report["episodes"] > 0
    assert f"recorded 30 steps into {report['recording']}" in err
    code, out, err = ran(capsys, model, "--env", POINT, "--seconds", "3")
    assert code == 0
    assert re.search(r"environment +edgert-test/Point-v0, 1 × 3 s, 30 steps each\n", out)
    assert re.search(r"clipped +[\d.]+ % of the action's numbers, in \d+ steps\n", out)
    assert "1 environment, 3 s as fast as possible; output actions is the action" in err


def test_an_environment_runs_for_one_episode_unless_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = ran(capsys, str(linear(tmp_path)), "--env", POINT, "--json")
    assert json.loads(out)["steps"] == 9  # its time limit


def test_a_safety_stop_in_an_environment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    env = register("Drift", lambda: Point(reach=np.inf))
    model = str(blowing_up(tmp_path, float("nan")))
    arguments = (model, "--env", env, "--seconds", "100", "--record", str(tmp_path / "r"))
    code, out, err = ran(capsys, *arguments, "--json")
    assert code == 3
    report = json.loads(out)
    assert err.splitlines()[-1] == f"edgert: safety stop: {report['reason']}"
    assert report["reason"].startswith("the policy gave nan as component 1 of its action at step ")
    (episode,) = read(tmp_path / "r")
    assert episode.info["outcome"] == "safety_stop"


def test_an_environment_that_fails_at_its_end_costs_no_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    env = register("Failing-close", Failing, kwargs={"fault": "close"})
    record = ("--record", str(tmp_path / "r"))
    code, out, err = ran(capsys, str(linear(tmp_path)), "--env", env, "--seconds", "1", *record, "--json")
    assert code == 2
    assert (json.loads(out)["outcome"], json.loads(out)["steps"]) == ("completed", 10)
    assert err.splitlines()[-1] == f"edgert: environment '{env}' fails in close: found OSError: stuck"
    assert sum(episode.steps for episode in read(tmp_path / "r")) == 10


LOUD = """
import os, sys, gymnasium, gym_examples
class Loud(gym_examples.Point):
    def step(self, action):
        print("python")
        sys.__stdout__.write("the first stdout\\n")
        os.write(1, b"the descriptor\\n")
        os.system("echo a program")
        return super().step(action)
gymnasium.register("edgert-test/Loud-v0", Loud, disable_env_checker=True)
"""


@pytest.mark.parametrize("num_envs", ["1", "2"])
def test_what_an_environment_prints_is_no_result(tmp_path: Path, num_envs: str) -> None:
    (tmp_path / "edgert_test_loud.py").write_text(LOUD)
    command = [sys.executable, "-m", "edgert", "run", "rollouts", str(linear(tmp_path)), "--num-envs", num_envs]
    done = subprocess.run(
        [*command, "--env", "edgert_test_loud:edgert-test/Loud-v0", "--seconds", "0.2", "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(Path(__file__).parents[1])))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["steps"] == 2
    for line in ("python", "the first stdout", "the descriptor", "a program"):
        assert done.stderr.count(f"{line}\n") == 2 * int(num_envs)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--sim", "quadruped", "--video", "a.mp4"], "--sim, --video cannot go with --env: the environment decides"),
        (["--actuators", "scene"], "--actuators cannot go with --env: the environment decides"),
        (["--command", "0", "0", "0"], "--command cannot go with --env: the environment decides"),
        (["--contract", "x.toml"], "--contract cannot go with --env: the environment decides"),
    ],
)
def test_what_an_environment_decides(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert refused(capsys, "--env", POINT, *arguments).startswith(text)


def test_an_output_is_named_for_an_environment_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--output", "actions").startswith(
        "--output goes with --env; a contract names the output in [action]"
    )


@pytest.mark.parametrize("arguments", [("--record", ""), ("--video", ""), ("--contract", "")])
def test_an_empty_path_is_no_name_of_the_working_folder(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, *QUICK, *arguments) == (
        f"Invalid value for '{arguments[0]}': the path is empty. See edgert run policy --help"
    )
    assert not list(tmp_path.iterdir())


def test_a_path_with_a_nul_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgert.toml").write_text('[run.policy]\nrecord = "a\\u0000b"')
    assert refused(capsys, *QUICK) == "edgert.toml: key 'run.policy.record' is wrong: found the path holds a NUL"


def test_ctrl_c_while_filming_costs_no_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object, **options: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("edgert.cli.film.film", interrupt)
    monkeypatch.setattr("edgert.view.check_video", lambda path: None)
    code, out, err = ran(capsys, *QUICK, "--video", str(tmp_path / "v.mp4"), "--json")
    assert code == 130
    assert (json.loads(out)["outcome"], json.loads(out)["video"]) == ("completed", None)
    assert err.splitlines()[-1] == "edgert: interrupted while filming"


def test_a_video_that_fails_after_the_run_costs_no_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> str:
        raise EdgertError("the disk is full")

    monkeypatch.setattr("edgert.cli.film.film", fail)
    monkeypatch.setattr("edgert.view.check_video", lambda path: None)
    code, out, err = ran(capsys, *QUICK, "--video", str(tmp_path / "v.mp4"), "--json")
    assert code == 2
    assert json.loads(out)["outcome"] == "completed"
    assert "video" not in json.loads(out)
    assert err.splitlines()[-1] == "edgert: the disk is full"
