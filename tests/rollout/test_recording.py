"""Recordings round the disk and back: every column, what is known of episodes, and what the whole says of itself."""

from __future__ import annotations

import hashlib
import platform
import resource
from importlib.metadata import version
from pathlib import Path

import mujoco
import numpy as np
import pyarrow
import pyarrow.ipc
import pytest
from rollout_examples import (
    HEADER,
    Recorded,
    changed_sim,
    recorded,
    same_bits,
    small_columns,
    small_recording,
    talkative,
    wild,
    write_small,
)

from edgert.errors import UnknownNameError, UnsupportedError
from edgert.policy import load_policy
from edgert.rollout import Column, FolderSink, MemorySink, RolloutOptions, open_rollouts, read
from edgert.rollout.folder import MAX_EVENTS
from edgert.rollout.sink import INDEX, Tee
from edgert.runtime import RunOptions, open_session

EVERYWHERE = ["episode", "step", "world", "t_ns"]
CLOSED_LOOP = ["target", "state.qpos", "state.qvel", "reward", "terminated", "truncated", "latency_ns", "action"]


def compare(run: Recorded, folder: Path) -> None:
    """Everything that went into the memory came out of the folder, bit for bit."""
    recording = read(folder)
    assert recording.torn == ()
    assert len(recording) == len(run.episodes)
    final = {column.name for column in run.memory.columns if column.final}
    for episode in recording:
        number = episode.info["episode"]
        assert episode.info == {"episode": number, **run.memory.begun[number], **run.memory.ended[number]}
        rows = run.episodes[number]
        assert episode.columns == tuple(rows)
        for name, values in rows.items():
            same_bits(episode[name], values)
        steps = episode.info["steps"]
        assert episode.steps == steps
        for name in episode.columns:
            assert len(episode[name]) == steps + (name in final)


@pytest.mark.parametrize(("sim", "seconds"), [("quadruped", 1.5), ("cartpole", 0.4), ("arm_reach", 2.5)])
def test_every_column_comes_back_bit_for_bit(sim: str, seconds: float, tmp_path: Path) -> None:
    run = recorded(wild(sim, tmp_path), sim, tmp_path / "r", num_envs=3, seconds=seconds)
    compare(run, tmp_path / "r")
    assert len(run.episodes) >= 3
    names = {column.name for column in run.memory.columns}
    command = {"command"} if sim != "cartpole" else set()
    assert names == {*EVERYWHERE, "observation.obs", *CLOSED_LOOP, *command}


def test_an_episode_names_what_it_holds(tmp_path: Path) -> None:
    run = recorded(wild("quadruped", tmp_path), "quadruped", tmp_path / "r", num_envs=1, seconds=0.2)
    episode, rows = read(tmp_path / "r")[0], run.episodes[0]
    same_bits(episode.observation["obs"], rows["observation.obs"])
    for name in ("action", "target"):
        same_bits(getattr(episode, name), rows[name])
    same_bits(episode.qpos, rows["state.qpos"])
    same_bits(episode.qvel, rows["state.qvel"])
    assert episode.outputs == {}
    assert episode.steps == 10
    assert episode.seconds == pytest.approx(0.2)
    assert episode.id == f"{episode.header['epoch']}/0"
    with pytest.raises(UnknownNameError, match=r"no column 'qpos' in the recording: expected one of episode, step"):
        episode["qpos"]


def test_other_outputs_of_the_network_become_columns(tmp_path: Path) -> None:
    run = recorded(talkative("cartpole", tmp_path), "cartpole", tmp_path / "r", num_envs=2, seconds=0.2)
    (left_out,) = run.session.policy.left_out
    assert left_out.startswith("where: ")
    compare(run, tmp_path / "r")
    for episode in read(tmp_path / "r"):
        outputs = episode.outputs
        assert sorted(outputs) == ["half", "largest", "log_prob", "value"]
        np.testing.assert_allclose(outputs["log_prob"], np.tanh(episode.action), rtol=1e-6)
        np.testing.assert_allclose(outputs["value"], episode.observation["obs"][:-1].sum(axis=1), rtol=1e-4, atol=1e-5)
        assert (outputs["half"].dtype, outputs["largest"].dtype) == (np.float16, np.int64)
        assert (outputs["largest"] == episode.observation["obs"][:-1].argmax(axis=1)).all()


def test_plain_arrow_sees_tensors_and_a_last_row_without_action(tmp_path: Path) -> None:
    """What somebody reads who has pyarrow and nothing of edgert."""
    run = recorded(talkative("quadruped", tmp_path), "quadruped", tmp_path / "r", num_envs=2, seconds=0.6)
    (file,) = (tmp_path / "r").iterdir()
    with pyarrow.ipc.open_stream(file.read_bytes()) as reader:
        table = reader.read_all()
    tensor = pyarrow.fixed_shape_tensor
    types = {name: table.schema.field(name).type for name in table.schema.names}
    assert types == {
        "episode": pyarrow.int64(),
        "step": pyarrow.int32(),
        "world": pyarrow.int32(),
        "t_ns": pyarrow.int64(),
        "observation.obs": tensor(pyarrow.float32(), [50]),
        "action": tensor(pyarrow.float32(), [12]),
        "target": tensor(pyarrow.float64(), [12]),
        "command": tensor(pyarrow.float64(), [3]),
        "state.qpos": tensor(pyarrow.float64(), [19]),
        "state.qvel": tensor(pyarrow.float64(), [18]),
        "output.log_prob": tensor(pyarrow.float32(), [12]),
        "output.value": pyarrow.float32(),
        "output.half": pyarrow.float16(),
        "output.largest": pyarrow.int64(),
        "reward": pyarrow.float64(),
        "terminated": pyarrow.bool_(),
        "truncated": pyarrow.bool_(),
        "latency_ns": pyarrow.int64(),
    }
    assert len(table) == sum(len(rows["step"]) for rows in run.episodes.values())
    seen = {*EVERYWHERE, "observation.obs", "command", "state.qpos", "state.qvel"}
    for number, rows in run.episodes.items():
        mine = table.filter(pyarrow.compute.equal(table["episode"], number)).sort_by("step")
        steps = len(rows["action"])
        assert len(mine) == steps + 1
        for name in table.schema.names:
            valid = mine[name].is_valid().to_pylist()
            assert valid == [True] * steps + [name in seen]
        observation = mine["observation.obs"].combine_chunks().to_numpy_ndarray()
        same_bits(observation, rows["observation.obs"])


def test_an_array_of_two_axes_keeps_them(tmp_path: Path) -> None:
    _, written = small_recording(tmp_path / "r", episodes=3)
    for episode, rows in zip(read(tmp_path / "r"), written, strict=True):
        assert episode["output.map"].shape == (3, 2, 3)
        for name, values in rows.items():
            same_bits(episode[name], values)


def test_the_header_says_what_ran(tmp_path: Path) -> None:
    task = changed_sim("cartpole", tmp_path, {"episode_s": 0.2})
    model = wild("cartpole", tmp_path)
    run = recorded(model, task, tmp_path / "r", num_envs=2, seconds=0.4, seed=11)
    header = read(tmp_path / "r")[0].header
    loaded = load_policy(model)
    assert header["policy"] == model
    assert header["policy_sha256"] == loaded.file.sha256
    assert header["contract"] == loaded.contract.to_document()
    assert header["contract_sha256"] == loaded.contract.sha256()
    assert header["task_sha256"] == hashlib.sha256((Path(task) / "task.toml").read_bytes()).hexdigest()
    compiled = tmp_path / "compiled.mjb"
    mujoco.mj_saveModel(mujoco.MjModel.from_xml_path(str(run.task.scene)), str(compiled), None)
    assert header["scene_sha256"] == hashlib.sha256(compiled.read_bytes()).hexdigest()
    assert (header["device"], header["provider"]) == ("cpu", "CPUExecutionProvider")
    assert (header["physics"], header["physics_device"], header["clock"]) == ("mujoco", "cpu", "simulated")
    assert (header["seed"], header["num_envs"], header["control_hz"], header["sim"]) == (11, 2, 50.0, "cartpole")
    assert header["randomise"] == run.report["randomise"]
    assert header["schema"] == 1
    assert header["versions"]["python"] == platform.python_version()
    for name in ("mujoco", "numpy", "onnx", "edgert"):
        assert header["versions"][name] == version(name)
    assert header["wall_time_ns"] > 1_600_000_000_000_000_000
    assert [e.info["seed"] for e in read(tmp_path / "r")] == [11, 12, 11, 12]


def test_another_scene_has_another_digest(tmp_path: Path) -> None:
    sim, model, digests = changed_sim("arm_reach", tmp_path, {}), wild("arm_reach", tmp_path), set()
    scene = Path(sim) / "scene.xml"
    for mass in ("3.761", "3.762"):
        scene.write_text(scene.read_text().replace('mass="3.761"', f'mass="{mass}"'))
        recorded(model, sim, tmp_path / mass, num_envs=1, seconds=0.02)
        digests.add(read(tmp_path / mass)[0].header["scene_sha256"])
    assert len(digests) == 2


def test_several_runs_share_a_folder(tmp_path: Path) -> None:
    for seed in (0, 10, 20):
        recorded(wild("arm_reach", tmp_path), "arm_reach", tmp_path / "r", num_envs=2, seconds=0.1, seed=seed)
    recording = read(tmp_path / "r")
    assert [episode.info["seed"] for episode in recording] == [0, 1, 10, 11, 20, 21]
    assert [episode.index for episode in recording] == list(range(6))
    assert len({episode.id for episode in recording}) == 6
    assert len({episode.header["epoch"] for episode in recording}) == 3
    names = sorted(file.name for file in (tmp_path / "r").iterdir())
    assert [name[:7] for name in names] == ["000001-", "000002-", "000003-"]


def test_runs_of_different_kinds_share_a_folder(tmp_path: Path) -> None:
    recorded(wild("cartpole", tmp_path), "cartpole", tmp_path / "r", num_envs=1, seconds=0.1)
    options = RunOptions(model="quadruped", seconds=0.1, real_time=False)
    with open_session(options) as session, session.folder(tmp_path / "r") as sink:
        session.run(sinks=[sink])
    first, second = read(tmp_path / "r")
    assert ("reward" in first.columns, "reward" in second.columns) == (True, False)
    assert (first.action.shape, second.action.shape) == ((5, 1), (5, 12))


def test_a_recording_is_a_sequence(tmp_path: Path) -> None:
    small_recording(tmp_path / "r", episodes=3)
    recording = read(str(tmp_path / "r"))
    assert len(recording) == 3
    assert [episode.index for episode in recording[1:]] == [1, 2]
    assert recording[-1].index == 2
    assert recording[np.int64(1)].index == 1  # type: ignore[call-overload]
    with pytest.raises(IndexError, match="has 3 episodes, no number 3"):
        recording[3]
    with pytest.raises(IndexError, match="has 3 episodes, no number -4"):
        recording[-4]


def test_blocks_of_many_episodes_are_sorted_out(tmp_path: Path) -> None:
    """Rows of two worlds alternate, and one episode spans blocks."""
    sink = FolderSink(tmp_path / "r", [Column(name="action", dtype=np.dtype("f4"), shape=(2,))], HEADER)
    for step in range(4):
        episode = np.array([0, 1 + step // 2])
        rows = {
            "episode": episode,
            "step": np.array([step, step % 2], np.int32),
            "world": np.array([0, 1], np.int32),
            "t_ns": np.zeros(2, np.int64),
            "action": np.array([[step, 0], [step, 1]], np.float32),
        }
        sink.write(rows)
    sink.close()
    recording = read(tmp_path / "r")
    assert [episode.info["episode"] for episode in recording] == [0, 1, 2]
    assert [episode.action[:, 0].tolist() for episode in recording] == [[0, 1, 2, 3], [0, 1], [2, 3]]
    assert {episode.info["outcome"] for episode in recording} == {"interrupted"}
    assert recording[0].info["reason"] == "the recording ends here"


def test_a_run_that_made_no_step_has_its_first_observations(tmp_path: Path) -> None:
    model = wild("cartpole", tmp_path)
    options = RolloutOptions(model=model, sim="cartpole", num_envs=2, seconds=1.0)
    with open_rollouts(options) as session, session.folder(tmp_path / "r") as sink:
        session.run(sink=sink, stop=lambda: True)
    for episode in read(tmp_path / "r"):
        assert (episode.steps, episode.observation["obs"].shape, episode.action.shape) == (0, (1, 6), (0, 1))
        assert episode.info["outcome"] == "interrupted"


def test_a_recording_without_a_row_is_empty(tmp_path: Path) -> None:
    FolderSink(tmp_path / "r", small_columns(), HEADER).close()
    recording = read(tmp_path / "r")
    assert len(recording) == 0
    assert recording.torn == ()


def test_more_episodes_than_one_batch_tells_of(tmp_path: Path) -> None:
    """Tens of thousands of worlds begin at once, and end at once."""
    count = 30_000
    assert count > 2 * MAX_EVENTS
    sink = FolderSink(tmp_path / "r", [Column(name="action", dtype=np.dtype("f4"), shape=(1,))], HEADER)
    rows = {column.name: np.zeros((count, *column.shape), column.dtype) for column in sink.columns}
    rows["episode"] = np.arange(count)
    for number in range(count):
        sink.begin(number, {"world": number, "seed": number + 7})
    sink.write(rows)
    for number in range(count):
        sink.end(number, {"outcome": "completed", "steps": 1, "return": number / 7.0})
    rows["step"] += 1
    sink.write({name: rows[name] for name in EVERYWHERE}, final=True)
    sink.close()
    recording = read(tmp_path / "r")
    assert len(recording) == count
    for number in (0, MAX_EVENTS, count - 1):
        assert recording[number].info == {
            "episode": number,
            "world": number,
            "seed": number + 7,
            "outcome": "completed",
            "steps": 1,
            "return": number / 7.0,
        }


def test_rows_are_acknowledged_when_they_are_durable(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "r", small_columns(), HEADER)
    write_small(sink)
    assert sink.acknowledged == 0
    sink.close()
    assert sink.acknowledged == 8
    sink.close()  # again does nothing
    assert len(read(tmp_path / "r")) == 2


def test_names_that_are_no_text_are_kept_readable(tmp_path: Path) -> None:
    small_recording(tmp_path / "r")
    assert read(tmp_path / "r")[0].header["note"] == "µ – ?"


def test_a_header_that_nobody_could_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        FolderSink(tmp_path / "r", small_columns(), HEADER | {"note": "x" * 2_000_000})
    assert "what the recording says of its run is too long: found 2000" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_several_sinks_get_the_same(tmp_path: Path) -> None:
    memory = MemorySink((*INDEX, *small_columns()))
    folder = FolderSink(tmp_path / "r", small_columns(), HEADER)
    tee = Tee((memory, folder))
    written = write_small(tee)
    assert tee.acknowledged == 0
    tee.close()
    for number, rows in enumerate(written):
        same_bits(read(tmp_path / "r")[number]["output.map"], rows["output.map"])
    same_bits(memory.rows("output.map"), np.concatenate([rows["output.map"] for rows in written]))
    assert memory.begun == {0: {"world": 0, "seed": 0}, 1: {"world": 0, "seed": 1}}
    assert memory.ended[1] == {"outcome": "completed", "steps": 3}


def test_a_memory_sink_keeps_copies() -> None:
    memory = MemorySink((*INDEX, *small_columns()))
    rows = {column.name: np.ones((2, *column.shape), column.dtype) for column in memory.columns}
    memory.write(rows)
    rows["reward"][:] = 7.0
    assert memory.rows("reward").tolist() == [1.0, 1.0]
    assert MemorySink(INDEX).rows("episode").shape == (0,)


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    """Reading keeps no file open."""
    for seed in range(60):
        small_recording(tmp_path / "r", seed=seed)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        recording = read(tmp_path / "r")
        assert len([episode.action for episode in recording]) == 120
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
