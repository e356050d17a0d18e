"""Policies against Gymnasium environments: the same as a plain loop of Gymnasium and onnxruntime, and reported."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
from gym_examples import DIM, DT, NACT, POINT, SAME_STEP, Failing, Point, blowing_up, linear, register
from onnx import TensorProto
from support import QUADRUPED, linear_model, save

from edgert.rollout.gym_env import EnvRun, EnvSession, EnvStep, run_env

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Oracle:
    """Single environments, one after the other: reset when an episode ends, `steps` transitions each."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    so_far: list[float] = field(default_factory=list)
    clipped: int = 0
    clipped_steps: int = 0
    rows: list[list[dict[str, Any]]] = field(default_factory=list)


def oracle(env_id: str, path: Path, steps: int, seed: int = 0, num_envs: int = 1, dtype: Any = np.float32) -> Oracle:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    result = Oracle()
    for i in range(num_envs):
        env = gymnasium.make(env_id)
        low, high = env.action_space.low, env.action_space.high
        observation, _ = env.reset(seed=seed + i)
        total, length, rows = 0.0, 0, []
        for _ in range(steps):
            seen = observation.astype(dtype)
            # A batch of the same size, since the network may round differently in another one.
            (actions,) = session.run(["actions"], {"obs": np.tile(seen, (num_envs, 1))})
            action = actions[i]
            outside = [bool(a < bottom or a > top) for a, bottom, top in zip(action, low, high, strict=True)]
            result.clipped += sum(outside)
            result.clipped_steps += any(outside)
            target = np.clip(action, low, high)
            observation, reward, terminated, truncated, _ = env.step(target)
            rows.append({
                "observation": seen, "action": action, "target": target, "reward": reward, "terminated": terminated,
                "truncated": truncated, "next_observation": observation.astype(dtype),
            })  # fmt: skip
            total, length = total + float(reward), length + 1
            if terminated or truncated:
                result.returns.append(total)
                result.lengths.append(length)
                total, length = 0.0, 0
                observation, _ = env.reset()
        if length:
            result.so_far.append(total)
        result.rows.append(rows)
        env.close()
    return result


def compare(report: dict[str, Any], expected: Oracle, steps: int, num_envs: int, nact: int) -> None:
    assert report["episodes"] == len(expected.returns)
    for key, values in (
        ("returns", expected.returns),
        ("episode_length", expected.lengths),
        ("return_so_far", expected.so_far),
    ):
        if not values:
            assert report[key] is None
            continue
        assert (report[key]["min"], report[key]["max"]) == (min(values), max(values))  # to the last bit
        assert report[key]["mean"] == pytest.approx(math.fsum(values) / len(values), rel=1e-12)
    assert report["clipped"] == {
        "components": expected.clipped,
        "fraction": expected.clipped / (steps * num_envs * nact),
        "steps": expected.clipped_steps,
    }
    assert (report["outcome"], report["reason"], report["steps"]) == ("completed", "", steps)


@pytest.mark.parametrize("env_id", [POINT, SAME_STEP])
@pytest.mark.parametrize("num_envs", [1, 4])
def test_equals_a_plain_loop(tmp_path: Path, env_id: str, num_envs: int) -> None:
    """Whether the next episode begins in the step that ends one or in the one after it changes nothing."""
    path = linear(tmp_path)
    report = run_env(EnvRun(env_id=env_id, model=path, num_envs=num_envs, seconds=20.0, seed=3))
    expected = oracle(POINT, path, 200, 3, num_envs)
    assert len(expected.returns) > 20 * num_envs
    assert 0 < expected.clipped < 200 * num_envs * NACT
    compare(report, expected, 200, num_envs, NACT)


@pytest.mark.parametrize(("num_envs", "seconds"), [(1, 55.0), (2, 10.0)])
def test_half_cheetah_equals_a_plain_loop(tmp_path: Path, num_envs: int, seconds: float) -> None:
    path = linear(tmp_path, [("actions", 6)], dim=17, gain=0.3)
    report = run_env(EnvRun(env_id="HalfCheetah-v5", model=path, num_envs=num_envs, seconds=seconds))
    steps = round(seconds / 0.05)
    compare(report, oracle("HalfCheetah-v5", path, steps, 0, num_envs), steps, num_envs, 6)
    assert report["control_hz"] == 20.0
    assert report["seconds"] == pytest.approx(seconds)


def test_a_policy_that_balances_scores_1000(tmp_path: Path) -> None:
    gains = np.array([[0.5], [10.0], [1.0], [1.5]])
    path = save(linear_model(dim=4, nact=1, weight=gains), tmp_path / "balance.onnx")
    report = run_env(EnvRun(env_id="InvertedPendulum-v5", model=str(path), num_envs=3, seconds=80.0, seed=7))
    assert report["control_hz"] == 25.0
    assert report["episodes"] == 6
    assert report["returns"] == {"mean": 1000.0, "std": 0.0, "min": 1000.0, "max": 1000.0, "ci95": 0.0}
    assert report["episode_length"]["min"] == 1000.0
    assert report["return_so_far"] is None
    fallen = save(linear_model(dim=4, nact=1), tmp_path / "limp.onnx")
    assert run_env(EnvRun(env_id="InvertedPendulum-v5", model=fallen))["returns"]["max"] < 200.0


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_quadruped_equals_a_plain_loop(num_envs: int) -> None:
    """Also in its own vector environment, and for the bundled policy by name."""
    report = run_env(EnvRun(env_id="edgert/Quadruped-v0", model="quadruped", num_envs=num_envs, seconds=21.0))
    path = Path(report["policy"])
    assert path == ROOT / "models/quadruped/policy.onnx"
    assert report["control_hz"] == 50.0
    expected = oracle("edgert/Quadruped-v0", path, 1050, 0, num_envs)
    assert expected.lengths == [1000] * num_envs
    compare(report, expected, 1050, num_envs, 12)


@pytest.mark.parametrize(("env_id", "num_envs"), [(POINT, 1), (POINT, 4), (SAME_STEP, 4)])
def test_each_step_is_told(tmp_path: Path, env_id: str, num_envs: int) -> None:
    path = linear(tmp_path, [("value", 1), ("actions", NACT)])
    told: list[list[dict[str, Any]]] = [[] for _ in range(num_envs)]
    numbers, done = [], []

    def on_step(step: EnvStep) -> None:
        numbers.append(step.step)
        assert step.latency_ns > 0
        assert step.target.dtype == step.observation.dtype == step.next_observation.dtype == np.float32
        np.testing.assert_array_equal(step.outputs["actions"], step.action)
        assert step.outputs["value"].shape == (num_envs, 1)
        for row in np.flatnonzero(step.real):
            told[row].append({
                name: np.copy(getattr(step, name)[row])
                for name in (
                    "observation", "action", "target", "reward", "terminated", "truncated", "next_observation"
                )
            })  # fmt: skip

    run_env(
        EnvRun(env_id=env_id, model=path, num_envs=num_envs, seconds=10.0, every_output=True),
        on_step=on_step,
        progress=lambda steps, of: done.append((steps, of)),
    )
    assert numbers == list(range(len(numbers)))
    assert done[-1] == (100, 100)
    assert sorted(done) == done
    expected = oracle(POINT, path, 100, 0, num_envs)
    assert len(expected.returns) > 5
    for mine, theirs in zip(told, expected.rows, strict=True):
        assert len(mine) == 100
        for ours, plain in zip(mine, theirs, strict=True):
            for name, value in plain.items():
                np.testing.assert_array_equal(ours[name], value, err_msg=name)


def test_a_restart_is_no_step_of_the_next_step_mode(tmp_path: Path) -> None:
    real: list[np.ndarray] = []
    run_env(
        EnvRun(env_id=POINT, model=linear(tmp_path), num_envs=4, seconds=10.0), on_step=lambda s: real.append(s.real)
    )
    rows = np.array(real)
    assert (rows.sum(axis=0) == 100).all()
    assert 100 < len(rows) <= 200  # some steps of the batch only restart a row
    assert not rows[-1].all()  # rows that had fewer episodes were done before


@pytest.mark.parametrize("number", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_observations_are_cast_to_what_the_network_takes(tmp_path: Path, number: int) -> None:
    path = linear(tmp_path, number=number)
    report = run_env(EnvRun(env_id=POINT, model=path, seconds=10.0))
    dtype = {TensorProto.FLOAT16: np.float16, TensorProto.DOUBLE: np.float64}[number]
    compare(report, oracle(POINT, path, 100, dtype=dtype), 100, 1, NACT)


def test_a_model_for_one_runs_one(tmp_path: Path) -> None:
    path = linear(tmp_path, shape=[1, DIM])
    compare(run_env(EnvRun(env_id=POINT, model=path, seconds=5.0)), oracle(POINT, path, 50), 50, 1, NACT)


def test_a_dynamic_size_fits(tmp_path: Path) -> None:
    path = linear(tmp_path, shape=["batch", "dim"])
    compare(run_env(EnvRun(env_id=POINT, model=path, seconds=5.0)), oracle(POINT, path, 50), 50, 1, NACT)


@pytest.mark.parametrize(
    ("outputs", "asked", "chosen"),
    [
        ([("mu", NACT)], None, "mu"),
        ([("mean", NACT), ("action", NACT), ("std", NACT)], None, "action"),
        ([("value", 1), ("mu", NACT), ("hidden", 7)], None, "mu"),
        ([("action", 1), ("actions", NACT)], None, "actions"),
        ([("action", NACT), ("mean", NACT)], "mean", "mean"),
    ],
)
def test_the_action_is_found(tmp_path: Path, outputs: list[tuple[str, int]], asked: str | None, chosen: str) -> None:
    path = linear(tmp_path, outputs)
    with EnvSession(EnvRun(env_id=POINT, model=path, output=asked)) as session:
        assert session.output == chosen
        assert set(session.network.out) == {chosen}
        seen: list[np.ndarray] = []
        report = session.run(on_step=lambda step: seen.append(step.action.copy()))
    assert report["output"] == chosen
    plain = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    observation, _ = gymnasium.make(POINT).reset(seed=0)
    (expected,) = plain.run([chosen], {"obs": observation[None].astype(np.float32)})
    np.testing.assert_allclose(seen[0], expected, rtol=1e-6)


def test_a_session_runs_again_from_the_start(tmp_path: Path) -> None:
    with EnvSession(EnvRun(env_id=POINT, model=linear(tmp_path), num_envs=2, seconds=10.0)) as session:
        assert session.steps == 100
        first, second = session.run(), session.run()
    timing = {"latency_us", "steps_per_s", "real_time_factor"}
    assert {key: first[key] for key in first.keys() - timing} == {key: second[key] for key in first.keys() - timing}


def test_the_time_step_of_frames_is_taken_where_the_environment_has_no_other(tmp_path: Path) -> None:
    class Framed(Point):
        metadata = {"render_modes": [], "render_fps": 40}  # noqa: RUF012
        dt = None  # type: ignore[assignment]

    env_id = register("Framed", Framed)
    for num_envs in (1, 2):
        report = run_env(EnvRun(env_id=env_id, model=linear(tmp_path), num_envs=num_envs, seconds=1.0))
        assert (report["control_hz"], report["steps"]) == (40.0, 40)


@pytest.mark.parametrize(("value", "word"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_an_action_that_is_no_number_stops_the_run(tmp_path: Path, num_envs: int, value: float, word: str) -> None:
    env_id = register("Endless", Point, kwargs={"reach": np.inf})
    sent: list[np.ndarray] = []
    report = run_env(
        EnvRun(env_id=env_id, model=blowing_up(tmp_path, value), num_envs=num_envs, seconds=100.0, seed=1),
        on_step=lambda step: sent.append(step.next_observation[:, 0].copy()),
    )
    step = report["steps"]
    where = f" of environment {int(np.argmax(abs(sent[-1]) > 3.0))}" if num_envs > 1 else ""
    assert report["outcome"] == "safety_stop"
    assert report["reason"] == f"the policy gave {word} as component 1 of its action at step {step}{where}"
    assert step == len(sent) > 0  # the steps before it were made, and none with it
    assert [bool((abs(row) > 3.0).any()) for row in sent] == [False] * (step - 1) + [True]
    assert json.loads(json.dumps(report, allow_nan=False))["steps"] == step


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("observation", "the environment gave nan as component 1 of its observation at step 5"),
        ("reward", "the environment gave inf as its reward at step 4"),
    ],
)
@pytest.mark.parametrize("num_envs", [1, 2])
def test_an_environment_that_gives_no_number_stops_the_run(
    tmp_path: Path, fault: str, reason: str, num_envs: int
) -> None:
    env_id = register(f"Failing-{fault}", Failing, kwargs={"fault": fault})
    report = run_env(EnvRun(env_id=env_id, model=linear(tmp_path), num_envs=num_envs))
    where = " of environment 0" if num_envs > 1 else ""
    assert (report["outcome"], report["reason"]) == ("safety_stop", reason + where)
    json.dumps(report, allow_nan=False)


def test_a_last_observation_that_is_no_number_ends_only_its_episode(tmp_path: Path) -> None:
    """Environments may end an episode because its state went wrong; nobody acts on that observation."""

    class Lost(Point):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            observation, reward, far, *rest = super().step(action)
            return (np.full(DIM, np.nan) if far else observation), reward, far, *rest  # type: ignore[return-value]

    env_id = register("Lost", Lost, max_episode_steps=9)
    for num_envs in (1, 3):
        path = linear(tmp_path)
        report = run_env(EnvRun(env_id=env_id, model=path, num_envs=num_envs, seconds=20.0))
        assert report["outcome"] == "completed"
        assert report["episodes"] == len(oracle(env_id, path, 200, 0, num_envs).returns) > 10


@pytest.mark.parametrize("num_envs", [1, 2])
def test_without_a_time_it_runs_one_longest_episode(num_envs: int, tmp_path: Path) -> None:
    dim, nact = QUADRUPED.contract.inputs["obs"].dim, len(QUADRUPED.contract.action.joints)
    stand = save(linear_model(dim=dim, nact=nact), tmp_path / "stand.onnx")
    with EnvSession(EnvRun(env_id="edgert/Quadruped-v0", model=stand, num_envs=num_envs)) as session:
        assert session.steps == QUADRUPED.episode_steps
    with EnvSession(EnvRun(env_id=POINT, model=linear(tmp_path), num_envs=num_envs)) as session:
        assert session.steps == 9  # as it was registered


def test_stopping_keeps_what_was_measured(tmp_path: Path) -> None:
    asked = iter(range(1000))
    report = run_env(EnvRun(env_id=POINT, model=linear(tmp_path), seconds=10.0), stop=lambda: next(asked) >= 17)
    assert (report["outcome"], report["reason"]) == ("interrupted", "stopped by the operator")
    assert (report["steps"], report["seconds"]) == (17, pytest.approx(17 * DT))
    first = run_env(EnvRun(env_id=POINT, model=linear(tmp_path)), stop=lambda: True)
    assert (first["steps"], first["clipped"]["fraction"], first["real_time_factor"]) == (0, 0.0, 0.0)
    assert set(first["latency_us"].values()) == {None}


def test_every_key_is_documented(tmp_path: Path) -> None:
    report = run_env(EnvRun(env_id=POINT, model=linear(tmp_path)))
    text = (ROOT / "docs/json.md").read_text()
    section = text[text.index("## `edgert run policy --env --json`") :]
    section = section[: section.index("\n## ", 1)]
    keys = [*report, *report["returns"], *report["clipped"]]
    assert [key for key in keys if f"`{key}`" not in section] == []
    assert report["latency_us"].keys() == {"p50", "p90", "p99", "p999", "max"}


def test_warnings_are_notes_each_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env_id = register("Failing-warn", Failing, kwargs={"fault": "warn"})
    assert run_env(EnvRun(env_id=env_id, model=linear(tmp_path)))["notes"] == ["the wheels are loose"]
    path = linear(tmp_path, [("actions", 6)], dim=17)
    old, physics = run_env(EnvRun(env_id="HalfCheetah-v4", model=path, num_envs=2, seconds=0.5))["notes"]
    assert old.startswith("The environment HalfCheetah-v4 is out of date. You should consider upgrading")
    assert physics.startswith("compiler attribute 'settotalmass' is deprecated")
    assert capfd.readouterr() == ("", "")
    assert [file.name for file in tmp_path.iterdir()] == ["policy.onnx"]  # and no MUJOCO_LOG.TXT
