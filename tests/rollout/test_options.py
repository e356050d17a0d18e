"""What a user asks of many worlds reaches their models, or is refused in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollout_examples import TASKS, changed_sim, rolled, wild
from scenes import leg_xml
from support import linear_model, save
from task_examples import leg_document, write_task

from edgert.errors import EdgertError
from edgert.rollout import RolloutOptions, RolloutSession, open_rollouts
from edgert.rollout.options import described, overridden
from edgert.runtime import RunOptions, open_session
from edgert.task.sampling import Randomisation

QUADRUPED = TASKS["quadruped"]


def opened(**options: Any) -> RolloutSession:
    """A session whose worlds have begun an episode, not randomised but for what is asked for."""
    session = open_rollouts(RolloutOptions(**{"num_envs": 200, "seconds": 0.02, "randomise": False} | options))
    session.run()
    return session


def spread(values: np.ndarray, low: float, high: float) -> None:
    """Inside the bounds, and over most of them."""
    margin = 1e-9 * (1.0 + abs(low) + abs(high))
    assert low - margin <= values.min()
    assert values.max() <= high + margin
    assert np.ptp(values) > 0.9 * (high - low)


def test_a_policy_and_a_sim_may_be_paths(tmp_path: Path) -> None:
    """A path is no name of bundled data, whatever it is called."""
    model, sim = Path(wild("cartpole", tmp_path)), Path(changed_sim("cartpole", tmp_path, {}))
    assert rolled(model, sim, num_envs=2, seconds=0.1).result.steps == 5
    with open_session(RunOptions(model=model, sim=sim, seconds=0.1, real_time=False)) as session:
        assert session.run().steps == 5
    with pytest.raises(EdgertError, match=r"policy quadruped( is a folder)?"):
        open_rollouts(RolloutOptions(model=Path("quadruped")))


def test_friction_is_that_of_the_geoms_that_the_task_randomises() -> None:
    with opened(friction=(0.2, 0.3)) as session:
        model, friction = session.worlds.scene.model, session.worlds.sim.expand("geom_friction")[:, :, 0]
        feet = [model.geom(name).id for name in QUADRUPED.randomise.friction_geoms]
        spread(friction[:, feet], 0.2, 0.3)
        rest = [i for i in range(model.ngeom) if i not in feet]
        np.testing.assert_array_equal(friction[:, rest], np.tile(model.geom_friction[rest, 0], (200, 1)))


def test_friction_is_that_of_every_geom_where_the_task_names_none(tmp_path: Path) -> None:
    with opened(model=wild("cartpole", tmp_path), sim="cartpole", friction=(0.2, 0.3)) as session:
        friction = session.worlds.sim.expand("geom_friction")[:, :, 0]
        spread(friction, 0.2, 0.3)
        np.testing.assert_array_equal(friction, np.tile(friction[:, :1], (1, friction.shape[1])))


def test_mass_is_added_to_the_body_that_the_task_randomises() -> None:
    with opened(mass=(1.0, 3.0)) as session:
        model, mass = session.worlds.scene.model, session.worlds.sim.expand("body_mass")
        trunk = model.body("trunk").id
        spread(mass[:, trunk] - model.body_mass[trunk], 1.0, 3.0)
        rest = [i for i in range(model.nbody) if i != trunk]
        np.testing.assert_array_equal(mass[:, rest], np.tile(model.body_mass[rest], (200, 1)))


def test_mass_is_added_to_the_base_where_the_task_names_no_body(tmp_path: Path) -> None:
    sim = changed_sim("quadruped", tmp_path, {"randomise.mass": None})
    for named in (sim, str(QUADRUPED.scene)):
        with opened(sim=named, mass=(1.0, 3.0)) as session:
            trunk = session.worlds.scene.model.body("trunk").id
            added = session.worlds.sim.expand("body_mass")[:, trunk] - session.worlds.scene.model.body_mass[trunk]
            spread(added, 1.0, 3.0)


def test_gains_are_factors_of_kp_and_kd_of_each_joint() -> None:
    with opened(gains=(0.5, 0.6)) as session:
        kp = session.worlds.sim.expand("actuator_gainprm")[:, :, 0]
        bias = session.worlds.sim.expand("actuator_biasprm")
        np.testing.assert_array_equal(bias[:, :, 1], -kp)
        factors = kp / np.array(QUADRUPED.contract.kp), -bias[:, :, 2] / np.array(QUADRUPED.contract.kd)
        for each in factors:
            spread(each, 0.5, 0.6)
            assert (each.std(axis=1) > 0.0).all()  # each joint has its own
        assert (factors[0] != factors[1]).all()


def test_delay_is_that_of_every_actuator_of_a_world() -> None:
    with opened(delay=(0.02, 0.03)) as session:
        delay = session.worlds.sim.expand("actuator_delay")
        spread(delay, 0.02, 0.03)
        np.testing.assert_array_equal(delay, np.tile(delay[:, :1], (1, 12)))


def test_a_delay_delays() -> None:
    """With 40 ms, two control steps, the joints begin to follow two steps later."""
    runs = [
        rolled("quadruped", "quadruped", num_envs=1, seconds=0.2, randomise=False, command=(0.5, 0.0, 0.0), delay=delay)
        for delay in (None, (0.04, 0.04))
    ]
    first, late = (run.episodes[0] for run in runs)
    np.testing.assert_array_equal(first["target"][0], late["target"][0])
    held = rolled("quadruped", "quadruped", num_envs=1, seconds=0.2, randomise=False, delay=(0.2, 0.2)).episodes[0]
    np.testing.assert_array_equal(late["state.qpos"][:3], held["state.qpos"][:3])
    assert (late["state.qpos"][3] != held["state.qpos"][3]).any()
    assert (first["state.qpos"][1] != held["state.qpos"][1]).any()


def kicks(pushes: tuple[float, float], steps: int, num_envs: int) -> list[np.ndarray]:
    """Changes of qvel (n, nv) by pushes alone, of each step; no other force acts."""
    options = RolloutOptions(num_envs=num_envs, seconds=1.0, randomise=False, pushes=pushes)
    with open_rollouts(options) as session:
        worlds = session.worlds
        worlds.seed([np.random.default_rng(i) for i in range(num_envs)])
        worlds.reset()
        worlds.sim.step = lambda nstep=1: None  # type: ignore[method-assign]  # leave what the push did
        changes = []
        for _ in range(steps):
            before = worlds.sim.view("qvel").copy()
            worlds.step(np.zeros((num_envs, 12)))
            changes.append(worlds.sim.view("qvel") - before)
    return changes


def test_a_push_has_its_speed_in_any_direction() -> None:
    """Also where the task pushes by component: the override replaces that."""
    changes = np.concatenate(kicks((0.8, 0.1), 6, 1000))
    pushed = changes[np.linalg.norm(changes[:, :2], axis=1) > 1e-9]
    assert len(pushed) >= 1000
    np.testing.assert_allclose(np.linalg.norm(pushed[:, :2], axis=1), 0.8, atol=1e-12)
    assert not pushed[:, 2:].any()
    angles = np.arctan2(pushed[:, 1], pushed[:, 0])
    counts, _ = np.histogram(angles, bins=8, range=(-np.pi, np.pi))
    expected = len(pushed) / 8
    assert ((counts - expected) ** 2 / expected).sum() < 24.3  # chi square of 7 degrees of freedom, 0.001
    assert np.abs(pushed[:, :2].mean(axis=0)).max() < 0.8 * 4.0 / np.sqrt(2 * len(pushed))


def test_pushes_are_their_interval_apart() -> None:
    changes = np.array(kicks((0.8, 0.1), 30, 20))
    pushed = np.linalg.norm(changes[:, :, :2], axis=2) > 0.0
    for world in range(20):
        steps = np.flatnonzero(pushed[:, world])
        assert steps[0] <= 5
        assert np.diff(steps).tolist() == [5] * (len(steps) - 1)


def test_pushes_of_no_speed_are_none() -> None:
    changes = np.array(kicks((0.0, 0.1), 12, 5))
    assert not changes.any()


def test_options_replace_the_tasks_own_and_leave_the_rest() -> None:
    options = RolloutOptions(pushes=(0.5, 3.0), gains=(0.9, 1.0))
    ours = overridden(options, QUADRUPED)
    changes = {"push_interval_s": 3.0, "push_m_s": 0.0, "push_speed_m_s": 0.5, "kp": (0.9, 1.0), "kd": (0.9, 1.0)}
    assert ours == replace(QUADRUPED.randomise, **changes)
    assert overridden(RolloutOptions(), QUADRUPED) == QUADRUPED.randomise
    assert overridden(RolloutOptions(randomise=False), QUADRUPED) == Randomisation()
    assert overridden(replace(options, randomise=False), QUADRUPED) == Randomisation(**changes)  # type: ignore[arg-type]


def test_what_is_randomised_is_described_without_what_is_not() -> None:
    assert described(Randomisation()) == {}
    described_all = described(QUADRUPED.randomise)
    assert described_all["friction"] == [0.4, 1.1]
    assert described_all["noise"] == dict(QUADRUPED.randomise.noise)
    assert "push_speed_m_s" not in described_all


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_envs": 0}, "the number of worlds is wrong: found 0, expected a whole number, 1 to 1000000"),
        ({"num_envs": True}, "the number of worlds is wrong: found True"),
        ({"num_envs": 2.0}, "the number of worlds is wrong: found 2.0"),
        ({"num_envs": 10**7}, "the number of worlds is wrong: found 10000000"),
        ({"seconds": 0.0}, "--seconds is out of range: found 0.0, expected above 0 to 86400"),
        ({"seconds": float("nan")}, "--seconds is out of range: found nan"),
        ({"seconds": 1e9}, "--seconds is out of range"),
        ({"seconds": "1"}, "--seconds is out of range: found 1"),
        ({"seed": -1}, "--seed is wrong: found -1, expected a whole number, 0 or more"),
        ({"seed": 1.5}, "--seed is wrong: found 1.5"),
        ({"command": (1.0, 2.0)}, "--command is wrong: found (1.0, 2.0), expected three finite numbers"),
        ({"command": (1.0, float("inf"), 0.0)}, "--command is wrong"),
        ({"command": (1e13, 0.0, 0.0)}, "--command is wrong"),
        ({"command": 3.0}, "--command is wrong: found 3.0"),
        (
            {"friction": (0.0, 1.0)},
            "--friction is wrong: found (0.0, 1.0), expected LOW HIGH with 1e-05 <= LOW <= HIGH <= 100",
        ),
        ({"friction": (1.0, 0.5)}, "--friction is wrong: found (1.0, 0.5)"),
        ({"mass": (float("nan"), 1.0)}, "--mass is wrong"),
        (
            {"gains": (-0.1, 1.0)},
            "--gains is wrong: found (-0.1, 1.0), expected LOW HIGH with 0 <= LOW <= HIGH <= 1000",
        ),
        ({"delay": (0.0, 2.0)}, "--delay is wrong: found (0.0, 2.0), expected LOW HIGH with 0 <= LOW <= HIGH <= 1"),
        (
            {"pushes": (-1.0, 4.0)},
            "--pushes is wrong: found (-1.0, 4.0), expected a speed of 0 to 100 m/s, and seconds, above 0 to 86400",
        ),
        ({"pushes": (1.0, 0.0)}, "--pushes is wrong: found (1.0, 0.0)"),
        ({"device": "cuda:9"}, "unknown device 'cuda:9': expected"),
        ({"model": "hexapod"}, "no policy 'hexapod': expected an .onnx file, or"),
        ({"sim": "hexapod"}, "unknown sim 'hexapod': expected one of arm_reach, cartpole, quadruped"),
        ({"sim": "nowhere/"}, "cannot read task file nowhere/task.toml: found No such file or directory"),
        ({"sim": "nowhere.xml"}, "cannot read scene nowhere.xml: found No such file or directory"),
        ({"mass": (-8.0, -7.0)}, "task 'quadruped' would leave body 'trunk' without mass: found 6.921 kg and add_kg"),
        (
            {"sim": "cartpole"},
            "the policy lacks joints of task 'cartpole': found no slider, hinge, expected every joint of its contract "
            "in [joints] names. Name the policy's own robot with --sim",
        ),
    ],
)
def test_refusals(options: dict[str, Any], text: str) -> None:
    with pytest.raises(EdgertError) as caught:
        open_rollouts(RolloutOptions(**options))
    assert text in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_command_for_a_policy_that_takes_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EdgertError, match=r"task 'cartpole' takes no command: found .*Leave it out"):
        open_rollouts(
            RolloutOptions(model=wild("cartpole", tmp_path), sim="cartpole", command=(1.0, 0.0, 0.0), seconds=1.0)
        )


def test_pushes_need_a_floating_base(tmp_path: Path) -> None:
    with pytest.raises(EdgertError, match=r"task 'cartpole' needs a floating base, which scene .* does not have"):
        open_rollouts(RolloutOptions(model=wild("cartpole", tmp_path), sim="cartpole", pushes=(0.5, 1.0)))


def test_mass_needs_a_body(tmp_path: Path) -> None:
    with pytest.raises(EdgertError) as caught:
        open_rollouts(RolloutOptions(model=wild("cartpole", tmp_path), sim="cartpole", mass=(0.1, 0.2)))
    assert str(caught.value) == (
        "--mass needs a body, which task 'cartpole' does not name. Set base, or [randomise.mass] body, in task.toml"
    )


def test_a_goal_needs_a_default_in_a_bare_scene(tmp_path: Path) -> None:
    model = wild("arm_reach", tmp_path, command={"kind": "position"})
    options = RolloutOptions(model=model, sim=str(TASKS["arm_reach"].scene))
    with pytest.raises(EdgertError, match=r"aims at a position, and none is given\. Name one: --command X Y Z, in m"):
        open_rollouts(options)
    with open_rollouts(replace(options, command=(0.3, 0.2, 0.4))) as session:
        assert session.command == (0.3, 0.2, 0.4)


@pytest.mark.parametrize("command", [None, {"kind": "position"}])
def test_a_policy_for_other_commands_than_the_tasks_is_refused(command: Any, tmp_path: Path) -> None:
    contract = leg_document()["contract"]
    task = leg_document(
        contract=contract | {"command": {"kind": "twist"}},
        command={"vx_m_s": [0.0, 1.0], "vy_m_s": [0.0, 0.0], "wz_rad_s": [0.0, 0.0], "resample_s": 1.0},
    )
    sim = write_task(tmp_path / "leg", task, leg_xml())
    document = contract | {"schema": 1} | ({} if command is None else {"command": command})
    model = save(linear_model(dim=6, nact=2, document=document), tmp_path / "x.onnx")
    found = "no command" if command is None else "position commands"
    with pytest.raises(EdgertError) as caught:
        open_rollouts(RolloutOptions(model=str(model), sim=str(sim)))
    assert str(caught.value) == (
        f"task 'leg' asks for what the policy does not take: found a policy for {found}, expected one for twist "
        "commands"
    )


def test_the_sim_is_that_of_the_policys_name_else_the_quadruped(tmp_path: Path) -> None:
    with open_rollouts(RolloutOptions(model="quadruped", num_envs=1)) as session:
        assert session.task.name == "quadruped"
    with pytest.raises(EdgertError, match="the policy lacks joints of task 'quadruped': found no FL_hip_joint"):
        open_rollouts(RolloutOptions(model=wild("cartpole", tmp_path), num_envs=1))


def test_a_bare_scene_spreads_nothing_and_says_so() -> None:
    with open_rollouts(RolloutOptions(model="quadruped", sim=str(QUADRUPED.scene), num_envs=1)) as session:
        assert "starts at keyframe 'home'" in session.notes
    with open_rollouts(RolloutOptions(model="quadruped", num_envs=1)) as session:
        assert "starts at keyframe 'home', spread as the task resets it" in session.notes
