"""`Worlds`: resets, randomisation, commands, pushes, noise, the gait clock and terminations of a task."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from support import QUADRUPED
from task_examples import only

from edgert.sim.scene import sensor_slices
from edgert.task.draws import Generators, draw_commands
from edgert.task.sampling import CommandSampling, ResetRanges
from edgert.task.task import FallTermination, Task
from edgert.task.worlds import Worlds

CONTRACT = QUADRUPED.contract
HOME = np.array(CONTRACT.default_pos)
STILL = ResetRanges()


def started(task: Task, nworld: int = 2, seed: int = 0, **options: object) -> Worlds:
    worlds = Worlds(task, nworld, nthread=1, **options)  # type: ignore[arg-type]
    worlds.seed([np.random.default_rng(seed + i) for i in range(nworld)])
    worlds.reset()
    return worlds


def test_resets_spread_the_state_around_the_keyframe() -> None:
    ranges = QUADRUPED.reset
    worlds = started(only(), 300)
    state, key = worlds.body.state, worlds.scene.model.key_qpos[0]
    for values, half_width in (
        (state.joint_pos - HOME, ranges.joint_pos_rad),
        (state.joint_vel, ranges.joint_vel_rad_s),
        (state.base_lin_vel, ranges.lin_vel_m_s),
        (state.base_ang_vel, ranges.ang_vel_rad_s),
    ):
        assert np.abs(values).max() <= half_width
        assert np.abs(values).max() > 0.9 * half_width
        assert np.abs(values.mean(axis=0)).max() < 0.2 * half_width
    np.testing.assert_array_equal(state.base_pos, np.tile(key[:3], (300, 1)))
    yaw = 2.0 * np.arctan2(state.base_quat[:, 3], state.base_quat[:, 0])
    np.testing.assert_array_equal(state.base_quat[:, 1:3], 0.0)
    np.testing.assert_allclose(np.linalg.norm(state.base_quat, axis=1), 1.0)
    assert np.ptp(np.angle(np.exp(1j * yaw))) > 1.9 * ranges.yaw_rad


def test_a_reset_without_ranges_is_the_keyframe_itself() -> None:
    worlds = started(replace(only(), reset=STILL))
    np.testing.assert_array_equal(worlds.sim.view("qpos"), np.tile(worlds.scene.model.key_qpos[0], (2, 1)))
    assert not worlds.sim.view("qvel").any()
    np.testing.assert_array_equal(worlds.sim.view("ctrl"), np.tile(HOME, (2, 1)))


def test_a_reset_of_some_worlds_leaves_the_others_alone() -> None:
    worlds = started(QUADRUPED, 4)
    rng = np.random.default_rng(0)
    for _ in range(5):
        worlds.step(rng.normal(size=(4, 12)))
    names = ("action", "command", "phase", "steps", "velocity")
    before = worlds.sim.state(), {name: getattr(worlds, name).copy() for name in names}
    mask = np.array([False, True, False, True])
    worlds.reset(mask)
    np.testing.assert_array_equal(worlds.sim.state()[~mask], before[0][~mask])
    for name, values in before[1].items():
        np.testing.assert_array_equal(getattr(worlds, name)[~mask], values[~mask])
    assert worlds.steps.tolist() == [5, 0, 5, 0]
    assert not worlds.action[mask].any()


def test_a_reset_of_no_world_draws_nothing() -> None:
    worlds = started(QUADRUPED)
    before = worlds.sim.state()
    worlds.reset(np.zeros(2, np.bool_))
    np.testing.assert_array_equal(worlds.sim.state(), before)


def test_every_randomised_model_field_is_within_its_range() -> None:
    worlds, randomise = started(QUADRUPED, 200), QUADRUPED.randomise
    model = worlds.scene.model
    expand = worlds.sim.expand
    feet = [model.geom(name).id for name in randomise.friction_geoms]
    others = [i for i in range(model.ngeom) if i not in feet]
    friction = expand("geom_friction")
    assert randomise.friction is not None
    assert randomise.mass_add_kg is not None
    assert randomise.kp is not None
    assert randomise.kd is not None
    assert randomise.delay_s is not None
    spread = friction[:, feet, 0]
    np.testing.assert_array_equal(spread, np.repeat(spread[:, :1], 4, axis=1))  # one surface for all feet
    within(spread, randomise.friction)
    np.testing.assert_array_equal(friction[:, feet, 1:], np.tile(model.geom_friction[feet, 1:], (200, 1, 1)))
    np.testing.assert_array_equal(friction[:, others], np.tile(model.geom_friction[others], (200, 1, 1)))
    trunk = model.body("trunk").id
    mass = expand("body_mass")
    within(mass[:, trunk] - model.body_mass[trunk], randomise.mass_add_kg)
    np.testing.assert_allclose(
        expand("body_inertia")[:, trunk] / model.body_inertia[trunk],
        np.repeat(mass[:, trunk, None] / model.body_mass[trunk], 3, axis=1),
    )
    kp = expand("actuator_gainprm")[:, :, 0]
    within(kp / np.array(CONTRACT.kp), randomise.kp)
    np.testing.assert_array_equal(expand("actuator_biasprm")[:, :, 1], -kp)
    within(-expand("actuator_biasprm")[:, :, 2] / np.array(CONTRACT.kd), randomise.kd)
    delay = expand("actuator_delay")
    within(delay, randomise.delay_s)
    np.testing.assert_array_equal(delay, np.repeat(delay[:, :1], 12, axis=1))


def within(values: np.ndarray, bounds: tuple[float, float]) -> None:
    """Inside the bounds, up to rounding, and spread over most of them."""
    low, high = bounds
    margin = 1e-9 * (1.0 + abs(low) + abs(high))
    assert values.min() >= low - margin
    assert values.max() <= high + margin
    assert np.ptp(values) > 0.9 * (high - low)


def test_constants_follow_the_drawn_mass() -> None:
    worlds = started(QUADRUPED, 3)
    model = mujoco.MjModel.from_xml_path(str(QUADRUPED.scene))
    total = worlds.sim.expand("body_subtreemass")
    trunk = model.body("trunk").id
    for world in range(3):
        model.body_mass[:] = worlds.sim.expand("body_mass")[world]
        mujoco.mj_setConst(model, mujoco.MjData(model))
        assert total[world, trunk] == model.body_subtreemass[trunk]


def test_model_fields_are_drawn_anew_at_each_reset_from_the_nominal_robot() -> None:
    worlds = started(QUADRUPED, 2)
    trunk = worlds.scene.model.body("trunk").id
    seen = []
    for _ in range(50):
        worlds.reset(np.array([False, True]))
        seen.append(worlds.sim.expand("body_mass")[:, trunk].copy())
    masses = np.array(seen)
    assert len(set(masses[:, 0])) == 1
    assert len(set(masses[:, 1])) == 50
    assert QUADRUPED.randomise.mass_add_kg is not None
    low, high = QUADRUPED.randomise.mass_add_kg
    assert low <= (masses[:, 1] - worlds.scene.model.body_mass[trunk]).min()
    assert (masses[:, 1] - worlds.scene.model.body_mass[trunk]).max() <= high


def test_without_randomisation_all_robots_are_the_nominal_one() -> None:
    worlds = started(QUADRUPED, 2, randomise=False)
    same = started(only(), 2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = rng.normal(size=(2, 12))
        worlds.step(actions)
        same.step(actions)
        np.testing.assert_array_equal(worlds.sim.state(), same.sim.state())
        np.testing.assert_array_equal(worlds.observe()["obs"], same.observe()["obs"])


def test_commands_are_drawn_within_their_ranges() -> None:
    sampling = CommandSampling(
        vx_m_s=(-0.5, 1.0),
        vy_m_s=(0.1, 0.2),
        wz_rad_s=(-1.0, 0.0),
        resample_s=1.0,
        still_fraction=0.2,
        forward_fraction=0.3,
    )
    drawn = draw_commands(np.random.default_rng(0).random((20_000, 5)), sampling)
    still = ~drawn.any(axis=1)
    forward = drawn[:, 0].astype(bool) & ~drawn[:, 1:].any(axis=1)
    assert still.mean() == pytest.approx(0.2, abs=0.02)
    assert forward.mean() == pytest.approx(0.8 * 0.3, abs=0.02)
    rest = drawn[~still & ~forward]
    for column, bounds in enumerate((sampling.vx_m_s, sampling.vy_m_s, sampling.wz_rad_s)):
        within(rest[:, column], bounds)
        assert rest[:, column].mean() == pytest.approx(sum(bounds) / 2, abs=0.02)


def test_commands_are_drawn_anew_when_due() -> None:
    task = only()
    assert task.command is not None
    task = replace(task, command=replace(task.command, resample_s=0.1, still_fraction=0.0))
    worlds = started(task, 2)
    commands = []
    for _ in range(15):
        worlds.step(np.zeros((2, 12)))
        worlds.resample()
        commands.append(worlds.command.copy())
    changes = [step for step in range(1, 15) if not np.array_equal(commands[step], commands[step - 1])]
    assert changes == [4, 9, 14]  # after steps 5, 10 and 15 of 20 ms


def test_a_fixed_command_stays() -> None:
    worlds = started(QUADRUPED, 2, command=(0.3, -0.1, 0.2))
    for _ in range(400):
        worlds.steps += 1
        worlds.resample()
    np.testing.assert_array_equal(worlds.command, [[0.3, -0.1, 0.2]] * 2)


def test_pushes_come_at_their_interval() -> None:
    interval_s, half_width = 0.2, 0.5
    pushed, free = (
        replace(only(**some), reset=STILL) for some in ({"push_interval_s": interval_s, "push_m_s": half_width}, {})
    )
    ours, oracle = started(pushed, 8), started(free, 8)
    kicks: list[list[int]] = [[] for _ in range(8)]
    steps = 50
    for step in range(1, steps + 1):
        oracle.sim.set_state(ours.sim.state())
        for worlds in (ours, oracle):
            worlds.step(np.zeros((8, 12)))
        for world in range(8):
            if not np.array_equal(ours.sim.view("qpos")[world], oracle.sim.view("qpos")[world]):
                kicks[world].append(step)
    for each in kicks:
        assert 1 <= each[0] - 1 <= 10  # 0.2 s are ten steps
        assert np.diff(each).tolist() == [10] * (len(each) - 1)
        assert each[-1] > steps - 10
    assert len({each[0] for each in kicks}) > 1


def test_a_push_changes_the_horizontal_velocity_within_its_half_width() -> None:
    worlds = started(replace(only(push_interval_s=0.02, push_m_s=0.5), reset=STILL), 300)
    worlds.sim.step = lambda nstep=1: None  # type: ignore[method-assign]  # leave what the push did
    before = worlds.sim.view("qvel").copy()
    for _ in range(2):
        worlds.step(np.zeros((300, 12)))
    change = worlds.sim.view("qvel") - before
    within(change[:, :2], (-0.5, 0.5))
    assert not change[:, 2:].any()


def test_noise_is_within_its_half_widths_in_the_unit_before_scaling() -> None:
    noise = QUADRUPED.randomise.noise
    noisy, clean = started(only(noise=noise), 200), started(only(), 200)
    difference = noisy.observe()["obs"].astype(np.float64) - clean.observe()["obs"]
    start = 0
    for term in CONTRACT.inputs["obs"].terms:
        columns = difference[:, start : start + term.dim] / np.array(term.scale)
        start += term.dim
        half_width = noise.get(term.name, 0.0)
        assert np.abs(columns).max() <= half_width + 1e-6
        assert np.abs(columns).max() >= 0.95 * half_width
    assert start == CONTRACT.inputs["obs"].dim


def test_noise_differs_between_steps_and_worlds_and_lasts() -> None:
    generators = Generators(2, np.array([0.1, 0.0, 0.3]))
    generators.seed([np.random.default_rng(i) for i in range(2)])
    rows = np.array([generators.noise(None) for _ in range(100)])
    assert len(np.unique(rows[:, :, 0])) == 200
    assert not rows[:, :, 1].any()
    assert np.abs(rows[:, :, 2]).max() <= 0.3


def test_the_noise_of_a_world_is_a_stream_of_its_own() -> None:
    """Which worlds are asked, and when, changes nothing for the others."""
    together, apart = (Generators(3, np.array([1.0, 2.0])) for _ in range(2))
    for each in (together, apart):
        each.seed([np.random.default_rng(i) for i in range(3)])
    rows = np.array([together.noise(None) for _ in range(70)])
    for world in range(3):
        mask = np.arange(3) == world
        alone = [apart.noise(mask) for _ in range(70)]
        np.testing.assert_array_equal(np.concatenate(alone), rows[:, world])


def test_no_noise_is_none() -> None:
    assert Generators(2, np.zeros(5)).noise(None) is None


def test_the_first_observation_is_the_state_in_the_units_of_the_contract() -> None:
    worlds = started(only(), 3)
    model, data = worlds.scene.model, mujoco.MjData(worlds.scene.model)
    observation = worlds.observe()["obs"]
    assert observation.dtype == np.float32
    for world in range(3):
        data.qpos[:], data.qvel[:] = worlds.sim.view("qpos")[world], worlds.sim.view("qvel")[world]
        mujoco.mj_forward(model, data)
        rotation = data.body("trunk").xmat.reshape(3, 3)
        phase = worlds.phase[world]
        raw = {
            "base_lin_vel": rotation.T @ data.qvel[:3],
            "base_ang_vel": data.qvel[3:6],
            "projected_gravity": rotation.T @ [0.0, 0.0, -1.0],
            "command": worlds.command[world],
            "joint_pos": data.qpos[7:] - HOME,
            "joint_vel": data.qvel[6:],
            "last_action": np.zeros(12),
            "phase": [np.sin(phase), np.cos(phase)],
        }
        expected = [np.array(term.scale) * raw[term.name] for term in CONTRACT.inputs["obs"].terms]
        np.testing.assert_allclose(observation[world], np.concatenate(expected), atol=1e-6)


def test_actions_become_targets() -> None:
    worlds = started(only(), 2)
    actions = np.linspace(-20.0, 20.0, 24).reshape(2, 12)
    worlds.step(actions)
    ((low, high),) = set(CONTRACT.action.clip)
    expected = np.array(CONTRACT.action.offset) + np.array(CONTRACT.action.scale) * np.clip(actions, low, high)
    np.testing.assert_array_equal(worlds.sim.view("ctrl"), expected)
    np.testing.assert_array_equal(worlds.action, actions)  # the policy sees what it said, not what was clipped


def test_the_reward_is_the_sum_of_its_terms() -> None:
    worlds = started(QUADRUPED, 5)
    rng = np.random.default_rng(0)
    for _ in range(10):
        worlds.step(rng.normal(size=(5, 12)))
        np.testing.assert_allclose(worlds.reward, sum(worlds.reward_terms.values()))
    assert list(worlds.reward_terms) == [term.name for term in QUADRUPED.rewards]
    np.testing.assert_array_equal(np.array(list(worlds.reward_terms.values())), worlds.reward_table)


def test_rewards_are_weighted_by_the_second() -> None:
    worlds = started(only(), 2)
    weights = {term.name: term.weight for term in QUADRUPED.rewards}
    before = worlds.action.copy()
    actions = np.random.default_rng(0).normal(size=(2, 12))
    worlds.step(actions)
    state = worlds.body.state
    torque = np.sum(worlds.sim.view("qfrc_actuator")[:, 6:] ** 2, axis=1)
    error = worlds.command[:, 2] - state.base_ang_vel[:, 2]
    std = next(term for term in QUADRUPED.rewards if term.name == "track_ang_vel").parameters["std"]
    for name, value in (
        ("torque", torque),
        ("action_rate", np.sum((actions - before) ** 2, axis=1)),
        ("track_ang_vel", np.exp(-(error**2) / std**2)),
    ):
        np.testing.assert_allclose(worlds.reward_terms[name], 0.02 * weights[name] * value)


def test_the_clock_runs_while_the_robot_is_told_to_walk() -> None:
    assert CONTRACT.phase is not None
    turn = 2.0 * np.pi * CONTRACT.phase.hz * 0.02
    walking, standing = (started(only(), 1, command=command) for command in ((0.5, 0.0, 0.0), (0.0, 0.0, 0.0)))
    for step in range(1, 60):
        for worlds in (walking, standing):
            worlds.step(np.zeros((1, 12)))
        assert np.cos(walking.phase[0]) == pytest.approx(np.cos(step * turn), abs=1e-9)
        assert standing.phase[0] == CONTRACT.phase.still_rad


@pytest.mark.parametrize(
    ("tilt_rad", "height_m", "ends"), [(0.0, 0.3, False), (0.9, 0.3, False), (1.1, 0.3, True), (0.0, 0.1, True)]
)
def test_falls_end_the_episode(tilt_rad: float, height_m: float, ends: bool) -> None:
    worlds = started(replace(only(), reset=STILL, fall=FallTermination(tilt_rad=1.0, height_m=0.15)), 2)
    worlds.sim.step = lambda nstep=1: None  # type: ignore[method-assign]  # judge just the state that is set here
    worlds.sim.view("qpos")[1, 2:7] = [height_m, np.cos(tilt_rad / 2), np.sin(tilt_rad / 2), 0.0, 0.0]
    worlds.step(np.zeros((2, 12)))
    assert worlds.terminated.tolist() == [False, ends]


def test_a_world_that_diverged_ends_until_it_is_reset(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log
    worlds = started(QUADRUPED, 3)
    worlds.sim.view("qvel")[1] = np.nan
    for _ in range(2):
        worlds.step(np.zeros((3, 12)))
        worlds.resample()
        assert worlds.terminated.tolist() == [False, True, False]
        assert np.isfinite(worlds.observe()["obs"]).all()
        assert np.isfinite(worlds.reward).all()
    worlds.reset(worlds.terminated.copy())
    assert not worlds.terminated.any()
    worlds.step(np.zeros((3, 12)))
    assert not worlds.terminated.any()
    capfd.readouterr()


def test_velocity_is_that_of_the_base_in_its_own_frame() -> None:
    worlds = started(QUADRUPED, 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        worlds.step(rng.normal(size=(3, 12)))
    given = worlds.body_velocity()
    for world in range(3):
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, worlds.sim.view("qpos")[world, 3:7])
        local = rotation.reshape(3, 3).T @ worlds.sim.view("qvel")[world, :3]
        np.testing.assert_allclose(given[world], [*local[:2], worlds.sim.view("qvel")[world, 5]])
    given[:] = 7.0
    assert not (worlds.velocity == 7.0).any()


def test_sensors_that_rewards_read_are_there() -> None:
    worlds = started(QUADRUPED, 1)
    feet = next(term for term in QUADRUPED.rewards if term.name == "foot_clock").parameters["sensors"]
    assert set(feet) <= set(sensor_slices(worlds.scene.model))
    heights = [worlds.body.state.sensors[name][0, 2] for name in feet]
    assert 0.0 < min(heights) <= max(heights) < 0.15


def test_worlds_that_nobody_seeded_differ() -> None:
    with Worlds(QUADRUPED, 2, nthread=1) as worlds:
        worlds.reset()
        first, second = worlds.observe()["obs"]
        assert (first != second).any()
