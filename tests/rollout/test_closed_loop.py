"""Closed loops over many worlds: equal to a Gymnasium environment, world by world, with restarts and safety stops."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gymnasium.vector import AutoresetMode
from onnx import helper, numpy_helper
from rollout_examples import TASKS, Recorded, breaking, changed_sim, rolled, wild
from scenes import leg_xml
from support import finished, linear_model, save
from task_examples import leg_document, write_task

from edgert.policy import OnnxPolicy, load_policy
from edgert.rollout import MemorySink, RolloutOptions, open_rollouts
from edgert.rollout.sink import INDEX
from edgert.task.env import TaskVecEnv

SHORT = {"quadruped": (1.5, 0.5), "cartpole": (1.0, 0.3), "arm_reach": (1.0, 0.3)}
"""Seconds of a run, and of an episode, with which every world restarts."""


@pytest.mark.parametrize("sim", SHORT)
def test_equals_a_vector_environment_bit_for_bit(sim: str, tmp_path: Path) -> None:
    seconds, episode_s = SHORT[sim]
    task, model = changed_sim(sim, tmp_path, {"episode_s": episode_s}), wild(sim, tmp_path)
    run = rolled(model, task, num_envs=3, seconds=seconds, seed=7)
    env = TaskVecEnv(3, sim=task, autoreset_mode=AutoresetMode.SAME_STEP)
    observation, _ = env.reset(seed=7)
    number, rows = np.arange(3), np.zeros(3, np.int64)
    with OnnxPolicy(load_policy(model), "cpu", 3) as policy:
        for step in range(run.result.steps):
            policy.obs["obs"][:] = observation
            policy.act(policy.obs, policy.out)
            state = env.worlds.sim.view("qpos").copy(), env.worlds.sim.view("qvel").copy()
            observation, reward, terminated, truncated, info = env.step(policy.action)
            for world in range(3):
                mine, at = run.episodes[number[world]], rows[world]
                for name, value in (
                    ("observation.obs", policy.obs["obs"]),
                    ("action", policy.action),
                    ("state.qpos", state[0]),
                    ("state.qvel", state[1]),
                    ("reward", reward),
                    ("terminated", terminated),
                    ("truncated", truncated & ~terminated),
                ):
                    np.testing.assert_array_equal(mine[name][at], value[world])
                assert mine["world"][at] == world
                assert mine["step"][at] == at
                rows[world] += 1
                if terminated[world] or truncated[world]:
                    last = info["final_obs"][world]
                    np.testing.assert_array_equal(mine["observation.obs"][at + 1], last)
                    assert len(mine["action"]) == rows[world]
                    if step + 1 < run.result.steps:
                        number[world], rows[world] = next_episode(run, number[world]), 0
    assert run.report["episodes"] >= 9
    env.close()


def next_episode(run: Recorded, number: int) -> int:
    """The episode that follows in the same world."""
    world = run.memory.begun[number]["world"]
    return min(each for each, info in run.memory.begun.items() if each > number and info["world"] == world)


def same_rows(first: Recorded, second: Recorded) -> None:
    """Everything but times that were measured."""
    assert first.result.episodes == second.result.episodes
    assert first.result.stretches == second.result.stretches
    assert first.memory.begun == second.memory.begun
    assert first.memory.ended == second.memory.ended
    for number, rows in first.episodes.items():
        for name, values in rows.items():
            if name != "latency_ns":
                np.testing.assert_array_equal(values, second.episodes[number][name], strict=True)


@pytest.mark.parametrize("sim", SHORT)
def test_recording_changes_nothing(sim: str, tmp_path: Path) -> None:
    model = wild(sim, tmp_path)
    run = rolled(model, sim, num_envs=3, seconds=1.2, every_output=True)
    with open_rollouts(RolloutOptions(model=model, sim=sim, num_envs=3, seconds=1.2)) as session:
        plain = session.run()
    assert plain.episodes == run.result.episodes
    assert plain.stretches == run.result.stretches
    assert len(plain.episodes) >= 3


def test_a_session_runs_again_from_the_beginning(tmp_path: Path) -> None:
    options = RolloutOptions(model=wild("quadruped", tmp_path), num_envs=2, seconds=1.0)
    with open_rollouts(options) as session:
        first, second = session.run(), session.run()
    assert first.episodes == second.episodes
    assert len(first.episodes) > 2


@pytest.mark.parametrize("sim", SHORT)
def test_threads_change_nothing(sim: str, tmp_path: Path) -> None:
    model = wild(sim, tmp_path)
    same_rows(*(rolled(model, sim, num_envs=5, seconds=1.0, nthread=nthread) for nthread in (1, 2)))


@pytest.mark.parametrize("sim", SHORT)
def test_a_world_depends_on_its_seed_alone(sim: str, tmp_path: Path) -> None:
    """As far as the network's own arithmetic allows, which may round differently in another batch."""
    model = "quadruped" if sim == "quadruped" else wild(sim, tmp_path)
    many, one = (rolled(model, sim, num_envs=n, seconds=0.6, seed=seed) for n, seed in ((3, 5), (1, 6)))
    for name in ("observation.obs", "action", "state.qpos", "reward"):
        np.testing.assert_allclose(many.episodes[1][name], one.episodes[0][name], atol=1e-3)
    first = many.episodes[1]["observation.obs"][0]
    np.testing.assert_array_equal(first, one.episodes[0]["observation.obs"][0])
    assert (first != many.episodes[0]["observation.obs"][0]).any()
    assert [many.memory.begun[i]["seed"] for i in range(3)] == [5, 6, 7]


def test_worlds_restart_when_they_fall(tmp_path: Path) -> None:
    run = rolled(wild("quadruped", tmp_path), "quadruped", num_envs=4, seconds=2.0)
    assert run.report["falls"] == run.report["episodes"] > 4
    assert [info["seed"] - info["world"] for info in run.memory.begun.values()] == [0] * len(run.memory.begun)
    for world in range(4):
        mine = [n for n, info in run.memory.begun.items() if info["world"] == world]
        steps = [len(run.episodes[n]["action"]) for n in mine]
        assert sum(steps) == 100  # a world is never at rest
        assert steps[:-1] == [e.steps for e in run.result.episodes if e.world == world][: len(steps) - 1]
        starts = [tuple(run.episodes[n]["state.qpos"][0]) for n in mine]
        assert len(set(starts)) == len(starts)
    outcomes = {run.memory.ended[n]["outcome"] for n in run.memory.begun}
    assert outcomes == {"fell", "interrupted"}  # the last of each world, which the end of the run cut off


def test_flags_say_how_an_episode_ended(tmp_path: Path) -> None:
    run = rolled(wild("quadruped", tmp_path), "quadruped", num_envs=3, seconds=1.0)
    for number, rows in run.episodes.items():
        fell = run.memory.ended[number]["outcome"] == "fell"
        assert rows["terminated"].tolist() == [False] * (len(rows["action"]) - 1) + [fell]
        assert not rows["truncated"].any()
    run = rolled(wild("arm_reach", tmp_path), "arm_reach", num_envs=2, seconds=4.0)
    for number, rows in run.episodes.items():
        assert rows["truncated"].tolist() == [False] * 99 + [True]
        assert not rows["terminated"].any()
        assert run.memory.ended[number]["steps"] == 100
    assert len(run.episodes) == 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e20])
def test_numbers_that_cannot_be_sent_stop_that_world_alone(bad: float, tmp_path: Path) -> None:
    """Where the goal is too far out along x the policy breaks at once."""
    model = breaking("arm_reach", tmp_path, bad, column=25, above=0.4)
    run = rolled(model, "arm_reach", num_envs=6, seconds=0.2)
    whole = rolled(wild("arm_reach", tmp_path), "arm_reach", num_envs=6, seconds=0.2)
    broken = [world for world in range(6) if whole.episodes[world]["observation.obs"][0, 25] > 0.4]
    assert 0 < len(broken) < 6
    for number, rows in run.episodes.items():
        info = run.memory.begun[number], run.memory.ended[number]
        if info[1]["outcome"] == "safety_stop":
            assert info[1]["steps"] == len(rows["action"]) == 1
            assert rows["terminated"].tolist() == [True]
            assert not np.isfinite(bad) or (rows["action"] == np.float32(bad)).all()
            before = rows["state.qpos"][0] + 0.0  # targets are relative to the joints: the robot was told to stay
            np.testing.assert_allclose(rows["target"][0], before)
        else:
            assert (rows["observation.obs"][:-1, 25] <= 0.4).all()
            assert np.isfinite(rows["action"]).all()
    for world in set(range(6)) - set(broken):
        np.testing.assert_array_equal(run.episodes[world]["state.qpos"], whole.episodes[world]["state.qpos"])
    stops = sum(info["outcome"] == "safety_stop" for info in run.memory.ended.values())
    assert run.report["safety_stops"] == stops >= len(broken)
    assert run.report["falls"] == 0
    assert {e.world for e in run.result.episodes if e.outcome == "safety_stop"} >= set(broken)
    json.dumps(run.report, allow_nan=False)


@pytest.mark.parametrize("target", [1e7, 5e10])  # what blows up, and what MuJoCo does not take as a control
def test_physics_that_diverges_is_a_safety_stop(target: float, tmp_path: Path) -> None:
    some = leg_document()
    some["contract"]["action"] |= {"scale": 1.0}
    sim = write_task(tmp_path / "leg", some, leg_xml())
    document = some["contract"] | {"schema": 1}
    path = save(linear_model(dim=6, nact=2, bias=target, document=document), tmp_path / "x.onnx")
    run = rolled(str(path), str(sim), num_envs=2, seconds=0.2)
    assert run.report["safety_stops"] == run.report["episodes"] == 40
    np.testing.assert_allclose(run.memory.rows("target"), target)
    assert np.isfinite(run.memory.rows("observation.obs")).all()
    assert np.isfinite(run.memory.rows("reward")).all()
    json.dumps(run.report, allow_nan=False)


def test_stopping_keeps_what_was_done(tmp_path: Path) -> None:
    model = wild("quadruped", tmp_path)
    asked = iter([False] * 30 + [True])
    stopped = rolled(model, "quadruped", num_envs=3, seconds=2.0, stop=lambda: next(asked))
    whole = rolled(model, "quadruped", num_envs=3, seconds=2.0)
    assert (stopped.result.outcome, stopped.result.steps) == ("interrupted", 30)
    assert stopped.report["outcome"] == "interrupted"
    done = len(stopped.result.episodes)
    assert stopped.result.episodes == whole.result.episodes[:done]
    assert done > 0
    for number, rows in stopped.episodes.items():
        for name, values in rows.items():
            if name != "latency_ns":
                np.testing.assert_array_equal(values, whole.episodes[number][name][: len(values)])
        assert len(rows["state.qpos"]) == len(rows["action"]) + 1
    assert sum(len(rows["action"]) for rows in stopped.episodes.values()) == 90
    assert [info["outcome"] for info in stopped.memory.ended.values()].count("interrupted") == 3


def test_stopping_before_the_first_step_leaves_first_observations(tmp_path: Path) -> None:
    run = rolled(wild("cartpole", tmp_path), "cartpole", num_envs=2, seconds=1.0, stop=lambda: True)
    assert run.result.steps == 0
    assert run.report["returns"] is None
    assert run.report["fall_rate"] is None
    assert [len(run.episodes[n]["observation.obs"]) for n in (0, 1)] == [1, 1]
    assert [len(run.episodes[n]["action"]) for n in (0, 1)] == [0, 0]


def test_progress_is_told_after_each_step(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with open_rollouts(RolloutOptions(model=wild("cartpole", tmp_path), sim="cartpole", seconds=0.1)) as session:
        session.run(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)]


def test_a_run_is_one_episode_of_the_task_unless_told(tmp_path: Path) -> None:
    model = wild("arm_reach", tmp_path)
    run = rolled(model, "arm_reach", num_envs=1)
    assert (run.result.steps, [e.steps for e in run.result.episodes]) == (100, [100])
    run = rolled(model, "arm_reach", num_envs=1, seconds=0.5)
    assert (run.result.steps, [(e.steps, e.outcome) for e in run.result.episodes]) == (25, [(25, "completed")])


def test_a_fixed_command_is_that_of_every_row(tmp_path: Path) -> None:
    run = rolled("quadruped", "quadruped", num_envs=2, seconds=0.2, command=(0.3, -0.1, 0.2))
    assert (run.memory.rows("command", final=True) == [0.3, -0.1, 0.2]).all()
    assert run.report["command"] == [0.3, -0.1, 0.2]
    assert "command" not in rolled("quadruped", "quadruped", num_envs=1, seconds=0.1).report


def test_time_is_counted_from_the_beginning_of_each_episode(tmp_path: Path) -> None:
    run = rolled(wild("quadruped", tmp_path), "quadruped", num_envs=2, seconds=1.0)
    assert len(run.episodes) > 2
    for rows in run.episodes.values():
        assert rows["t_ns"].tolist() == [20_000_000 * step for step in range(len(rows["t_ns"]))]
        assert rows["step"].tolist() == list(range(len(rows["step"])))
        assert (rows["latency_ns"] > 0).all()


def in_another_order(order: np.ndarray, folder: Path) -> str:
    """The bundled quadruped policy, told and telling its joints in another order."""
    loaded = load_policy("quadruped")
    model = onnx.load_from_string(loaded.file.data)
    contract = loaded.contract
    document = json.loads(json.dumps(contract.to_document()))
    back = np.argsort(order)
    columns, start = [], 0
    for term in contract.inputs["obs"].terms:
        by_joint = term.name in ("joint_pos", "joint_vel", "last_action")
        columns += (start + (back if by_joint else np.arange(term.dim))).tolist()
        start += term.dim
    graph = model.graph
    for node in graph.node:
        node.input[:] = ["sorted" if name == "obs" else name for name in node.input]
        node.output[:] = ["ours" if name == "actions" else name for name in node.output]
    graph.node.insert(0, helper.make_node("Gather", ["obs", "columns"], ["sorted"], axis=1))
    graph.node.append(helper.make_node("Gather", ["ours", "order"], ["actions"], axis=1))
    graph.initializer.append(numpy_helper.from_array(np.array(columns), "columns"))
    graph.initializer.append(numpy_helper.from_array(order, "order"))
    for table, keys in (("joints", ("names", "default_pos", "kp", "kd")), ("action", ("joints", "scale", "offset"))):
        for key in keys:
            document[table][key] = [document[table][key][i] for i in order]
    for term in document["inputs"]["obs"]["terms"]:
        if term["name"] in ("joint_pos", "joint_vel", "last_action"):
            term |= {
                key: [term[key][i] for i in order] for key in ("scale", "offset") if isinstance(term.get(key), list)
            }
    del model.metadata_props[:]
    return str(save(finished(graph, document), folder / "permuted.onnx"))


def test_a_policy_with_its_joints_in_another_order_walks_the_same(tmp_path: Path) -> None:
    """Without draws, which differ by joint, it is the same walk; both walk under the task's own draws."""
    order = np.random.default_rng(0).permutation(12)
    model = in_another_order(order, tmp_path)
    sim = changed_sim("quadruped", tmp_path, {"reset": {"yaw_rad": 1.0}})
    options: dict[str, Any] = {"num_envs": 2, "seconds": 1.0, "randomise": False}
    ours, theirs = rolled("quadruped", sim, **options), rolled(model, sim, **options)
    assert theirs.task.contract.joints == tuple(ours.task.contract.joints[i] for i in order)
    for number, rows in ours.episodes.items():
        np.testing.assert_allclose(theirs.episodes[number]["state.qpos"], rows["state.qpos"], atol=2e-3)
        np.testing.assert_allclose(theirs.episodes[number]["target"], rows["target"][:, order], atol=2e-3)
        np.testing.assert_allclose(theirs.episodes[number]["reward"], rows["reward"], atol=2e-3)
    first = theirs.episodes[0]["action"][0], ours.episodes[0]["action"][0][order]
    np.testing.assert_allclose(*first, atol=1e-5)
    wandering = rolled(model, "quadruped", num_envs=8, seconds=4.0, command=(0.5, 0.0, 0.0))
    assert wandering.report["falls"] == 0
    assert wandering.report["tracking"]["vx_m_s"]["worst"] < 0.1


LEG = leg_document()["contract"] | {"schema": 1}


def leg_policy(folder: Path, bias: float = 0.0) -> str:
    return str(save(linear_model(dim=6, nact=2, bias=bias, document=LEG), folder / "leg.onnx"))


def test_a_bare_scene_has_neither_rewards_nor_randomisation(tmp_path: Path) -> None:
    scene = tmp_path / "scene.xml"
    scene.write_text(leg_xml())
    run = rolled(leg_policy(tmp_path, bias=2.0), str(scene), num_envs=2, seconds=2.0)
    report = run.report
    assert report["sim"] == report["scene"] == str(scene)
    assert report["returns"] is None
    assert report["randomise"] == {}
    assert report["tracking"] is None
    assert report["falls"] == report["episodes"] > 0  # a body on one leg
    assert report["fall_rate"] == {"mean": 1.0, "ci95": None}  # of one sample, however many worlds
    assert report["episode_length"]["ci95"] is None
    assert "reward" not in run.memory.blocks[0]
    assert run.session.notes[-1] == (
        "warning: nothing differs between the worlds: they are one sample, whatever their number; --pushes, "
        "--friction, --mass, --gains or --delay make them differ"
    )
    np.testing.assert_array_equal(run.episodes[0]["state.qpos"], run.episodes[1]["state.qpos"])
    assert run.task.episode_s == 2.0
    assert rolled(leg_policy(tmp_path), str(scene), num_envs=1).result.steps == 1000  # ten seconds


def test_a_bare_scene_with_a_fixed_base_cannot_fall(tmp_path: Path) -> None:
    scene = tmp_path / "scene.xml"
    scene.write_text(leg_xml(root=""))
    report = rolled(leg_policy(tmp_path), str(scene), num_envs=2, seconds=0.5).report
    assert (report["episodes"], report["falls"]) == (2, 0)


def test_a_bare_scene_asks_every_world_for_the_same(tmp_path: Path) -> None:
    scene = TASKS["quadruped"].scene
    run = rolled("quadruped", str(scene), num_envs=2, seconds=3.0)
    assert "the scene draws no commands: every world is asked for 0.5, 0, 0" in run.session.notes
    assert run.report["command"] == [0.5, 0.0, 0.0]
    assert run.report["falls"] == 0
    assert run.report["tracking"]["vx_m_s"]["mean"] == pytest.approx(0.5, abs=0.1)
    told = rolled("quadruped", str(scene), num_envs=1, seconds=0.1, command=(0.1, 0.0, 0.3))
    assert told.report["command"] == [0.1, 0.0, 0.3]
    assert not [note for note in told.session.notes if "draws no commands" in note]


def test_a_goal_that_nobody_gave_is_the_middle_of_the_trained_ones(tmp_path: Path) -> None:
    scene = str(TASKS["arm_reach"].scene)
    run = rolled(wild("arm_reach", tmp_path), scene, num_envs=1, seconds=0.1)
    np.testing.assert_allclose(run.report["command"], [0.1, 0.0, 0.56])


def test_the_report_says_what_ran_on_what(tmp_path: Path) -> None:
    model = wild("cartpole", tmp_path)
    run = rolled(model, "cartpole", num_envs=3, seconds=0.5, seed=4)
    report, loaded = run.report, load_policy(model)
    assert report["policy"] == model
    assert report["policy_sha256"] == loaded.file.sha256
    assert report["contract_sha256"] == loaded.contract.sha256()
    assert (report["sim"], report["device"], report["provider"]) == ("cartpole", "cpu", "CPUExecutionProvider")
    assert (report["physics"], report["physics_device"]) == ("mujoco", "cpu")
    assert (report["num_envs"], report["seed"], report["control_hz"]) == (3, 4, 50.0)
    assert (report["steps"], report["seconds"], report["outcome"]) == (25, 0.5, "completed")
    assert report["steps_per_s"] == pytest.approx(3 * 25 / run.result.wall_s)
    assert report["real_time_factor"] == pytest.approx(3 * 0.5 / run.result.wall_s)
    noise = {"joint_pos": 0.002, "joint_vel": 0.02}
    assert report["randomise"] == {"kp": [0.9, 1.1], "kd": [0.9, 1.1], "noise": noise}
    assert report["notes"] == run.session.notes
    assert report["notes"][0].startswith("input obs: 6 = joint_pos(number 0) 1 + joint_vel(× 0.2…0.5) 2 + ")
    assert report["notes"][-2] == "starts at keyframe 'home', spread as the task resets it"
    assert report["notes"][-1].startswith("warning: no episode succeeds")


def test_overrides_of_the_contract_are_noted(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[joints]\nkp = [300.0, 0.0]\n")
    options = RolloutOptions(model=wild("cartpole", tmp_path), sim="cartpole", contract=tmp_path / "other.toml")
    with open_rollouts(options) as session:
        assert session.notes[0] == "joints.kp overridden by user (other.toml)"
        assert session.notes[-1] == (
            "the policy's own contract counts; it differs from that of task 'cartpole' in joints"
        )
        assert session.task.contract.kp == (300.0, 0.0)


@pytest.mark.parametrize(("seconds", "unmet"), [(5.0, False), (4.98, True)])
def test_episodes_too_short_to_succeed_are_noted(seconds: float, unmet: bool) -> None:
    with open_rollouts(RolloutOptions(model="cartpole", num_envs=2, seconds=seconds)) as session:
        line = f"warning: no episode succeeds: it ends after {seconds:g} s, and has to do so for 5 s"
        assert (session.notes[-1] == line) is unmet


def test_a_sink_gets_what_it_has_columns_for(tmp_path: Path) -> None:
    with open_rollouts(RolloutOptions(model="quadruped", num_envs=2, seconds=0.1)) as session:
        wanted = [c for c in session.columns() if c.name in ("observation.obs", "target", "reward")]
        wanted += [replace(c, name=c.name) for c in session.columns() if c.name in ("terminated", "truncated")]
        wanted += [c for c in session.columns() if c.name == "latency_ns"]
        sink = MemorySink((*INDEX, *wanted))
        session.run(sink=sink)
    assert sink.rows("target").shape == (10, 12)
    assert sink.rows("observation.obs", final=True).shape == (12, 50)
    assert "action" not in sink.blocks[0]
