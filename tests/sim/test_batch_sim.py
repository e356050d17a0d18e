"""`BatchSim` against `SequentialSim`, a plain `mj_step` loop: equal bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from scenes import leg_xml
from support import QUADRUPED

from edgert.errors import RobotError, UnsupportedError
from edgert.sim import BatchSim, SequentialSim, Sim
from edgert.task.worlds import build_scene

FIELDS = ("time", "qpos", "qvel", "act", "ctrl", "history", "qacc_warmstart", "sensordata", "qfrc_actuator")
SIZES = [(nworld, nthread) for nworld in (1, 3, 17) for nthread in (1, 2)]
HOME = 0


def quadruped() -> mujoco.MjModel:
    """Contacts, position actuators with room for a delay, sensors and a keyframe."""
    return build_scene(QUADRUPED, delay_s=0.015).model


def leg() -> mujoco.MjModel:
    """Actuators with and without activation, sensors that need accelerations, two keyframes."""
    text = leg_xml(
        actuators='<position joint="hip" kp="20" kv="1" timeconst="0.05"/><motor joint="knee" ctrlrange="-5 5"/>',
        sensors='<accelerometer site="imu"/><jointactuatorfrc joint="hip"/><touch site="imu"/>',
        keys='<key name="home" qpos="0 0 0.45 1 0 0 0 0.4 -0.8"/>'
        '<key name="up" time="3" qpos="0 0 1 0.6 0.8 0 0 0.1 0.2" act="0.3" ctrl="0.2 1"/>',
    )
    return mujoco.MjModel.from_xml_string(text)


MODELS = {"quadruped": quadruped(), "leg": leg()}


class Pair:
    """The same worlds in both; every call goes to both, `check` compares all that can be seen."""

    def __init__(self, model: mujoco.MjModel, nworld: int, nthread: int) -> None:
        self.sims: tuple[Sim, Sim] = (BatchSim(model, nworld, nthread), SequentialSim(model, nworld))
        self.nworld = nworld
        self._views = [{name: sim.view(name) for name in FIELDS} for sim in self.sims]

    def both(self, call: Callable[[Sim], Any]) -> None:
        for sim in self.sims:
            call(sim)

    def write(self, name: str, values: np.ndarray, index: Any = slice(None)) -> None:
        for views in self._views:
            views[name][index] = values

    def expand(self, name: str, values: np.ndarray, index: Any = slice(None)) -> None:
        self.both(lambda sim: sim.expand(name).__setitem__(index, values))

    def check(self) -> None:
        ours, oracle = self.sims
        for name in FIELDS:
            np.testing.assert_array_equal(self._views[0][name], self._views[1][name], err_msg=name, strict=True)
        np.testing.assert_array_equal(ours.state(), oracle.state(), strict=True)
        np.testing.assert_array_equal(ours.warnings(), oracle.warnings(), strict=True)

    def drive(self, rng: np.random.Generator, steps: int = 6, nstep: int = 4) -> None:
        """Random controls, compared after every call."""
        low, high = (-1.0, 1.0) if self.sims[0].model.nu == 2 else (-1.5, 1.5)
        for _ in range(steps):
            self.write("ctrl", rng.uniform(low, high, (self.nworld, self.sims[0].model.nu)))
            self.both(lambda sim: sim.step(nstep))
            self.check()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> mujoco.MjModel:
    return MODELS[request.param]


@pytest.mark.parametrize(("nworld", "nthread"), SIZES)
def test_trajectories_are_those_of_mj_step(model: mujoco.MjModel, nworld: int, nthread: int) -> None:
    pair = Pair(model, nworld, nthread)
    pair.both(lambda sim: sim.reset(keyframe=HOME))
    pair.both(lambda sim: sim.forward())
    pair.check()
    rng = np.random.default_rng(nworld)
    pair.drive(rng, steps=10)
    pair.drive(rng, steps=3, nstep=1)
    assert pair.sims[0].view("qvel").any()


@pytest.mark.parametrize(("nworld", "nthread"), SIZES)
def test_worlds_may_have_models_of_their_own(nworld: int, nthread: int) -> None:
    model = MODELS["quadruped"]
    pair = Pair(model, nworld, nthread)
    rng = np.random.default_rng(nworld)
    some = np.arange(nworld) % 2 == 0
    for mask in (None, some):  # all at first, then some of them anew
        index, count = (slice(None), nworld) if mask is None else (mask, int(mask.sum()))
        factor = rng.uniform(0.8, 1.2, (count, 1))
        pair.expand("geom_friction", model.geom_friction * rng.uniform(0.3, 1.5, (count, model.ngeom, 1)), index)
        pair.expand("body_mass", model.body_mass * factor, index)
        pair.expand("body_inertia", model.body_inertia * factor[..., None], index)
        pair.expand("actuator_gainprm", model.actuator_gainprm * factor[..., None], index)
        pair.expand("actuator_biasprm", model.actuator_biasprm * factor[..., None], index)
        pair.expand("actuator_delay", rng.uniform(0.0, 0.015, (count, model.nu)), index)
        pair.both(lambda sim, mask=mask: sim.set_const(mask))
        pair.both(lambda sim, mask=mask: sim.reset(mask, keyframe=HOME))
        pair.both(lambda sim, mask=mask: sim.forward(mask))
        pair.drive(rng)
    if nworld > 1:
        assert not np.array_equal(pair.sims[0].view("qpos")[0], pair.sims[0].view("qpos")[1])


def test_a_mass_without_set_const_is_another_model() -> None:
    """`set_const` is not for show: the constants that it derives change the motion."""
    model = MODELS["quadruped"]
    moved = []
    for derive in (False, True):
        sim = BatchSim(model, 1, 1)
        sim.expand("body_mass")[:] *= 1.5
        if derive:
            sim.set_const()
        sim.reset(keyframe=HOME)
        sim.forward()
        sim.step(20)
        moved.append(sim.view("qpos").copy())
    assert not np.array_equal(*moved)


def test_a_field_read_after_set_const_is_the_derived_one() -> None:
    for sim in (BatchSim(MODELS["quadruped"], 2, 1), SequentialSim(MODELS["quadruped"], 2)):
        total = sim.expand("body_subtreemass")
        mass = sim.expand("body_mass")
        mass[1] *= 2.0
        sim.set_const(np.array([False, True]))
        np.testing.assert_allclose(total[1, 0], 2.0 * total[0, 0])


@pytest.mark.parametrize("nworld", [3, 17])
def test_masked_resets_touch_no_other_world(model: mujoco.MjModel, nworld: int) -> None:
    pair = Pair(model, nworld, 2)
    rng = np.random.default_rng(0)
    pair.both(lambda sim: sim.reset(keyframe=HOME))
    pair.both(lambda sim: sim.forward())
    for _ in range(5):
        pair.drive(rng, steps=2)
        mask = rng.random(nworld) < 0.4
        before = pair.sims[0].state()
        pair.both(lambda sim, mask=mask: sim.reset(mask, keyframe=HOME))
        pair.both(lambda sim, mask=mask: sim.forward(mask))
        pair.check()
        np.testing.assert_array_equal(pair.sims[0].state()[~mask], before[~mask])


@pytest.mark.parametrize("keyframe", [-1, 0, 1])
def test_keyframes(keyframe: int) -> None:
    model = MODELS["leg"]
    pair = Pair(model, 3, 2)
    pair.drive(np.random.default_rng(0), steps=2)
    pair.both(lambda sim: sim.reset(keyframe=keyframe))
    pair.both(lambda sim: sim.forward())
    pair.check()
    expected = model.qpos0 if keyframe < 0 else model.key_qpos[keyframe]
    np.testing.assert_array_equal(pair.sims[0].view("qpos"), np.tile(expected, (3, 1)))
    pair.drive(np.random.default_rng(1), steps=2)


def test_a_reset_that_is_written_over_starts_from_what_was_written() -> None:
    pair = Pair(MODELS["quadruped"], 3, 2)
    rng = np.random.default_rng(0)
    mask = np.array([True, False, True])
    pair.both(lambda sim: sim.reset(keyframe=HOME))
    pair.both(lambda sim: sim.forward())
    pair.drive(rng, steps=2)
    pair.both(lambda sim: sim.reset(mask, keyframe=HOME))
    pair.write("qpos", MODELS["quadruped"].key_qpos[HOME] + 0.01 * rng.normal(size=(2, 19)), mask)
    pair.write("qvel", rng.normal(size=(2, 18)), mask)
    pair.both(lambda sim: sim.forward(mask))
    pair.check()
    pair.drive(rng, steps=2)


def test_state_round_trip(model: mujoco.MjModel) -> None:
    pair = Pair(model, 3, 2)
    rng = np.random.default_rng(0)
    pair.both(lambda sim: sim.reset(keyframe=HOME))
    pair.drive(rng, steps=2)
    saved = pair.sims[0].state()
    kept = saved.copy()
    controls = rng.uniform(-1.0, 1.0, (4, 3, model.nu))

    def play() -> list[np.ndarray]:
        rows = []
        for values in controls:
            pair.write("ctrl", values)
            pair.both(lambda sim: sim.step(3))
            pair.check()
            rows.append(pair.sims[0].state())
        return rows

    first = play()
    np.testing.assert_array_equal(saved, kept)  # a copy, not a view
    pair.both(lambda sim: sim.set_state(saved))
    np.testing.assert_array_equal(pair.sims[0].state(), saved)
    np.testing.assert_array_equal(np.array(play()), np.array(first))


def test_state_moves_from_one_engine_to_the_other() -> None:
    ours, oracle = BatchSim(MODELS["leg"], 2, 1), SequentialSim(MODELS["leg"], 2)
    ours.view("ctrl")[:] = [[0.3, 1.0], [-0.2, 0.5]]
    ours.step(10)
    oracle.set_state(ours.state())
    for sim in (ours, oracle):
        sim.step(5)
    np.testing.assert_array_equal(ours.state(), oracle.state())


def test_forward_computes_derived_fields_at_the_present_state() -> None:
    pair = Pair(MODELS["leg"], 2, 1)
    pair.write("qvel", np.arange(16.0).reshape(2, 8) / 10.0)
    pair.both(lambda sim: sim.forward())
    pair.check()
    gyro = pair.sims[0].view("sensordata")[:, :3]
    np.testing.assert_allclose(gyro, pair.sims[0].view("qvel")[:, 3:6])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_divergence_is_told_by_world(bad: float, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log
    pair = Pair(MODELS["leg"], 3, 2)
    pair.both(lambda sim: sim.reset(keyframe=HOME))
    pair.drive(np.random.default_rng(0), steps=1)
    pair.write("qvel", np.full(8, bad), 1)
    pair.both(lambda sim: sim.step())
    for sim in pair.sims:
        assert sim.warnings()[:, int(mujoco.mjtWarning.mjWARN_BADQVEL)].tolist() == [0, 1, 0]
        assert sim.warnings().sum() == 1
        assert sim.diverged().tolist() == [False, True, False]
        assert np.isfinite(sim.view("qpos")).all()  # MuJoCo went on from the model's defaults
    pair.check()
    pair.both(lambda sim: sim.reset(np.array([False, True, False]), keyframe=HOME))
    for sim in pair.sims:
        assert not sim.warnings().any()
        assert not sim.diverged().any()
    capfd.readouterr()


@pytest.mark.parametrize("bad", [np.nan, 2e10])
def test_controls_that_mujoco_does_not_take_are_told(bad: float, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    pair = Pair(MODELS["leg"], 2, 1)
    pair.write("ctrl", np.full(2, bad), 0)
    pair.both(lambda sim: sim.step())
    for sim in pair.sims:
        assert sim.warnings()[:, int(mujoco.mjtWarning.mjWARN_BADCTRL)].tolist() == [1, 0]
        assert sim.diverged().tolist() == [True, False]
    capfd.readouterr()


def test_warnings_are_a_copy() -> None:
    sim = BatchSim(MODELS["leg"], 1, 1)
    sim.warnings()[:] = 7
    assert not sim.warnings().any()


@pytest.mark.parametrize("nworld", [0, -1])
def test_no_world_is_refused(nworld: int) -> None:
    with pytest.raises(UnsupportedError, match=f"the number of worlds is wrong: found {nworld}, expected"):
        BatchSim(MODELS["leg"], nworld)


def test_more_threads_than_worlds_are_not_started() -> None:
    pair = Pair(MODELS["leg"], 1, 64)
    pair.drive(np.random.default_rng(0), steps=1)


def test_sims_are_context_managers() -> None:
    for make in (BatchSim, SequentialSim):
        with make(MODELS["leg"], 1) as sim:
            sim.step()
            assert sim.timestep_s == 0.002
            assert sim.nworld == 1


@pytest.mark.parametrize("nworld", [True, 1.5, "2", None, 10**9])
def test_a_number_of_worlds_that_is_none_is_refused(nworld: Any) -> None:
    with pytest.raises(UnsupportedError, match="the number of worlds is wrong"):
        BatchSim(mujoco.MjModel.from_xml_string("<mujoco/>"), nworld)


def test_more_worlds_than_memory_are_refused_before_they_are_made() -> None:
    model = build_scene(QUADRUPED, delay_s=1.0).model  # a delay line of 200 samples for each joint
    with pytest.raises(UnsupportedError, match=r"10000000 worlds do not fit into the memory .* GiB at least"):
        BatchSim(model, 10_000_000)


def test_a_closed_simulation_says_so() -> None:
    sim = BatchSim(mujoco.MjModel.from_xml_string("<mujoco/>"))
    sim.close()
    for call in (sim.step, sim.reset, sim.forward, sim.set_const):
        with pytest.raises(RobotError, match="the simulation is closed"):
            call()
