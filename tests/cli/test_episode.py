"""`edgert episode` on recordings that the tool itself made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Command, failing_later_model, linear_model, quadruped_document, save

from edgert.cli.episode_tables import spark
from edgert.cli.main import run
from edgert.rollout import Column, FolderSink, read

COMMAND = Command()
ran, told, refused = COMMAND.ran, COMMAND.told, COMMAND.refused


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of one robot, then one of three worlds with three episodes each."""
    folder = tmp_path_factory.mktemp("recording") / "episodes"
    one = ["run", "policy", "--seconds", "0.4", "--no-real-time", "--seed", "5", "--record", str(folder)]
    many = ["run", "rollouts", "cartpole", "--num-envs", "3", "--seconds", "0.3", "--record", str(folder)]
    assert run(one) == 0
    assert run(many) == 0
    return folder


@pytest.fixture
def fallen(tmp_path: Path) -> Path:
    """A robot that fell."""
    kick = save(linear_model(bias=8.0, document=quadruped_document()), tmp_path / "kick.onnx")
    assert run(["run", "policy", str(kick), "--no-real-time", "--record", str(tmp_path / "fallen")]) == 3
    return tmp_path / "fallen"


def test_list_names_every_episode(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, "episode", "list", recording)["episodes"]
    assert [row["episode"] for row in rows] == [0, 1, 2, 3]
    assert [row["where"] for row in rows] == ["quadruped", "cartpole", "cartpole", "cartpole"]
    assert [row["seed"] for row in rows] == [5, 0, 1, 2]
    assert [row["steps"] for row in rows] == [20, 15, 15, 15]
    assert [row["outcome"] for row in rows] == ["completed"] * 4
    assert rows[0]["return"] is None
    assert rows[1]["return"] == pytest.approx(float(read(recording)[1]["reward"].sum()))
    assert len({row["id"] for row in rows}) == 4
    code, out, _ = ran(capsys, "episode", "list", recording)
    assert code == 0
    assert len(out.splitlines()) == 5
    assert rows[3]["id"] in out


def test_show_tells_how_it_went(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told(capsys, "episode", "show", recording)
    episode = read(recording)[0]
    assert report["columns"]["observation.obs"] == [21, 50]
    assert report["columns"]["action"] == [20, 12]
    assert report["header"]["policy_sha256"] == report["policy_sha256"]
    course = {one["name"]: one for one in report["course"]}
    height = episode.qpos[:, 2]
    assert course["base height"]["low"] == pytest.approx(height.min())
    assert course["base height"]["high"] == pytest.approx(height.max())
    np.testing.assert_allclose(course["base height"]["values"], height)  # fewer rows than points: each row is one
    _, out, _ = ran(capsys, "episode", "show", recording, "1")
    assert "cartpole, seed 0, world 0" in out
    assert "reward" in out
    assert "base height" not in out


def test_show_of_a_fall_says_why(fallen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told(capsys, "episode", "show", fallen)
    assert report["outcome"] == "fell"
    assert report["reason"].startswith("base tilted")


def test_a_safety_stop_is_recorded_up_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(failing_later_model(quadruped_document()), tmp_path / "later.onnx")
    assert run(["run", "policy", str(path), "--no-real-time", "--record", str(tmp_path / "r")]) == 3
    capsys.readouterr()
    report = told(capsys, "episode", "show", tmp_path / "r")
    assert (report["outcome"], report["steps"]) == ("safety_stop", 11)
    assert told(capsys, "episode", "replay", tmp_path / "r")["same"] is True


def test_replay_gives_the_same_actions_bit_for_bit(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told(capsys, "episode", "replay", recording)
    assert report["same"] is True
    assert report["provider"] == "CPUExecutionProvider"
    assert [(row["steps"], row["same"], row["different_steps"]) for row in report["episodes"]] == [
        (20, True, 0), (15, True, 0), (15, True, 0), (15, True, 0)
    ]  # fmt: skip
    _, out, _ = ran(capsys, "episode", "replay", recording, "2")
    assert "every action is the same, bit for bit" in out


def test_replay_of_another_policy_tells_what_differs(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = save(linear_model(bias=1.0, document=quadruped_document()), tmp_path / "other.onnx")
    report = told(capsys, "episode", "replay", recording, "0", "--policy", other, code=5)
    (row,) = report["episodes"]
    assert (row["same"], row["different_steps"], row["first_difference"]) == (False, 20, 0)
    assert row["max_difference"] == pytest.approx(float(np.abs(read(recording)[0].action - 1.0).max()))
    code, out, _ = ran(capsys, "episode", "replay", recording, "0", "--policy", other)
    assert code == 5
    assert "20 steps differ, first 0" in out


def test_a_policy_that_changed_since_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(linear_model(document=quadruped_document()), tmp_path / "p.onnx")
    folder = tmp_path / "r"
    assert run(["run", "policy", str(path), "--seconds", "0.1", "--no-real-time", "--record", str(folder)]) == 0
    capsys.readouterr()
    save(linear_model(bias=0.5, document=quadruped_document()), path)
    line = refused(capsys, "episode", "replay", folder)
    assert line.startswith(f"policy {path} is not the one that was recorded: found sha256 ")
    assert line.endswith("Name the right file with --policy, or the present one to compare it")
    path.unlink()
    assert refused(capsys, "episode", "replay", folder).startswith(f"cannot read policy {path}")


def test_a_policy_of_other_sizes_is_refused(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = save(linear_model(dim=48, document=None), tmp_path / "small.onnx")
    assert refused(capsys, "episode", "replay", recording, "0", "--policy", other) == (
        f"policy {other} does not take the recorded observations: found obs of [50], expected obs['batch', 48]. "
        "Name the policy that was recorded with --policy"
    )


@pytest.mark.parametrize("command", ["list", "show", "replay"])
def test_a_folder_without_a_recording_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "episode", command, tmp_path).startswith(f"folder {tmp_path} holds no recording")
    missing = tmp_path / "missing"
    assert refused(capsys, "episode", command, missing) == (
        f"cannot read recording {missing}: found No such file or directory, expected a folder that --record wrote"
    )


@pytest.mark.parametrize(("command", "number"), [("show", "4"), ("replay", "9")])
def test_an_episode_that_is_not_there(
    command: str, number: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "episode", command, recording, number) == (
        f"recording {recording} has no episode {number}: expected 0 to 3"
    )


def test_a_video_shows_one_episode(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "episode", "replay", recording, "--video", tmp_path / "v.mp4")
    assert line == f"a video shows one episode: found 4. Name one: edgert episode replay {recording} 0 …"


def test_a_torn_recording_is_read_with_a_warning(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (first, *_) = sorted(recording.iterdir())
    torn = tmp_path / "torn"
    torn.mkdir()
    data = first.read_bytes()
    (torn / first.name).write_bytes(data[: len(data) - 200])
    code, out, err = ran(capsys, "episode", "list", torn, "--json")
    assert code == 0
    assert "warning: " in err
    assert all(row["outcome"] == "interrupted" for row in json.loads(out)["episodes"])


def test_the_states_are_filmed(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from edgert.errors import EdgertError
    from edgert.sim.gl import choose_gl

    try:
        choose_gl()
    except EdgertError as error:
        pytest.skip(str(error))
    import av

    path = tmp_path / "walk.mp4"
    report = told(capsys, "episode", "replay", recording, "0", "--video", path)
    assert report["video"] == str(path)
    with av.open(str(path)) as video:
        pictures = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    assert len(pictures) == 11  # 21 states at 50 Hz, every second one
    assert pictures[0].std() > 5.0
    assert (pictures[0] != pictures[-1]).any()


@pytest.mark.parametrize("command", ["list", "show", "replay"])
def test_without_mujoco_no_recording_is_read(recording: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgert", "episode", command, str(recording)],
        env=os.environ | {"MUJOCO_GL": "vulkan"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("edgert: MuJoCo cannot be imported: found invalid value for environment variable")


@pytest.mark.parametrize("command", ["list", "show", "replay"])
def test_an_empty_path_is_no_name_of_the_working_folder(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "episode", command, "") == (
        f"Invalid value for 'DIR': the path is empty. See edgert episode {command} --help"
    )


@pytest.mark.parametrize("option", [["--policy", "quadruped"], ["--device", "cpu"]])
def test_a_video_is_of_what_was_recorded(
    recording: Path, tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, "episode", "replay", recording, "0", "--video", tmp_path / "v.mp4", *option)
    assert line.startswith(f"{option[0]} cannot go with --video: it shows what was recorded. See ")


def test_columns_that_others_recorded_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """States without velocities, rewards whose span is no float, and not one action."""

    def one(name: str, shape: tuple[int, ...] = ()) -> Column:
        return Column(name=name, dtype=np.dtype(np.float64), shape=shape, final=True)

    columns = [Column(name="action", dtype=np.dtype("f4"), shape=(2,)), one("state.qpos", (7,)), one("reward")]
    with FolderSink(tmp_path / "r", columns, {"control_hz": 50.0}) as sink:
        rows = {column.name: np.zeros((4, *column.shape), column.dtype) for column in sink.columns if column.final}
        rows["reward"][:] = 1.5e308, -1.5e308, np.nan, 1.5e308
        sink.write(rows, final=True)
    report = told(capsys, "episode", "show", tmp_path / "r")
    assert report["steps"] == 0
    (reward,) = report["course"]
    assert reward["values"] == [1.5e308, -1.5e308, None, 1.5e308]
    code, out, err = ran(capsys, "episode", "show", tmp_path / "r")
    assert (code, err) == (0, "")
    assert "█▁ █" in out


@pytest.mark.parametrize("worlds", [0, -1, True, 2.5, "3", 10, 10**6, 10**300])
def test_replaying_believes_no_number_of_worlds(
    worlds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [Column(name="action", dtype=np.dtype("f4"), shape=(2,))]
    with FolderSink(tmp_path / "r", columns, {"control_hz": 50.0, "num_envs": worlds}) as sink:
        sink.write({column.name: np.zeros((4, *column.shape), column.dtype) for column in sink.columns})
    line = refused(capsys, "episode", "replay", tmp_path / "r")
    assert line == f"the recording tells no usable number of worlds: found {worlds}, expected 1 to 4, its rows"


def test_a_sparkline_spans_its_values() -> None:
    assert spark([0.0, 0.5, 1.0]) == "▁▅█"  # rounds to even: 3.5 of 7 is 4
    assert spark([2.0, None, 2.0]) == "▁ ▁"
    assert spark([]) == ""
    assert spark([-1.7e308, 0.0, 1.7e308]) == "▁▅█"
