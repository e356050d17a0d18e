"""`scene.build`: position actuators of the contract's gains on any scene, and what of the scene stays."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from scenes import JOINTS, build_leg
from support import QUADRUPED

from edgert.sim.scene import Scene, base_points, build, drive_summary, sensor_slices

CONTRACT = QUADRUPED.contract
SAMPLES = 200


def pd_forces(scene: Scene, kp: np.ndarray, kd: np.ndarray) -> None:
    """Assert that each joint feels clip(kp (target - q) - kd v) in random states, in the order of `scene.joints`."""
    model, data = scene.model, mujoco.MjData(scene.model)
    rng = np.random.default_rng(0)
    ids, dofs, qpos = list(scene.actuator_ids), list(scene.dof_adr), list(scene.qpos_adr)
    limit = np.array(scene.torque_limit)
    clipped = 0
    for _ in range(SAMPLES):
        target = rng.uniform(-2.0, 2.0, len(ids))
        data.qpos[qpos] = rng.uniform(-2.0, 2.0, len(ids))
        data.qvel[dofs] = rng.normal(size=len(ids))
        data.ctrl[ids] = target
        data.qfrc_actuator[:] = np.nan
        mujoco.mj_forward(model, data)
        wanted = kp * (target - data.qpos[qpos]) - kd * data.qvel[dofs]
        np.testing.assert_allclose(data.qfrc_actuator[dofs], np.clip(wanted, -limit, limit), rtol=1e-12, atol=1e-12)
        clipped += int(np.sum(np.abs(wanted) > limit))
    assert (clipped > 0) == bool(np.isfinite(limit).any())


def test_a_scene_without_actuators_gets_them() -> None:
    assert mujoco.MjModel.from_xml_path(str(QUADRUPED.scene)).nu == 0
    scene = build(
        QUADRUPED.scene, CONTRACT.joints, CONTRACT.action.joints, kp=CONTRACT.kp, kd=CONTRACT.kd, base="trunk"
    )
    model = scene.model
    assert model.nu == 12
    assert [model.actuator(i).name for i in scene.actuator_ids] == list(CONTRACT.joints)
    assert [model.joint(int(model.actuator_trnid[i, 0])).name for i in scene.actuator_ids] == list(CONTRACT.joints)
    assert scene.torque_limit == (23.7, 23.7, 45.0) * 4
    assert (scene.base, scene.base_qpos_adr, scene.base_dof_adr) == ("trunk", 0, 0)
    assert scene.keyframe == 0
    assert scene.qpos_adr == tuple(range(7, 19))
    assert scene.dof_adr == tuple(range(6, 18))
    pd_forces(scene, np.array(CONTRACT.kp), np.array(CONTRACT.kd))


REPLACED = {
    "motor": ("<motor {hip}/>", "<motor {knee}/>"),
    "position": ('<position {hip} kp="7" kv="2"/>', '<position {knee} dampratio="1"/>'),
    "velocity": ('<velocity {hip} kv="7"/>', "<velocity {knee}/>"),
    "intvelocity": ('<intvelocity {hip} actrange="-1 1"/>', '<intvelocity {knee} actrange="-1 1"/>'),
    "damper": ('<damper {hip} kv="3" ctrlrange="0 1"/>', '<damper {knee} kv="3" ctrlrange="0 1"/>'),
    "muscle": ('<muscle {hip} lengthrange="0 1"/>', '<muscle {knee} lengthrange="0 1"/>'),
    "general": (
        '<general {hip} dyntype="filter" dynprm="0.1" gainprm="3" biastype="affine" biasprm="1 2 3"/>',
        '<general {knee} gainprm="2"/>',
    ),
    "filtered position": ('<position {hip} timeconst="0.1"/>', '<position {knee} timeconst="0.1"/>'),
    "in parent": ('<motor name="a" jointinparent="hip"/>', "<motor {knee}/>"),
    "delayed": ('<motor {hip} delay="0.01" nsample="8"/>', "<motor {knee}/>"),
}


@pytest.mark.parametrize("kind", REPLACED)
def test_actuators_are_replaced_in_place(kind: str, tmp_path: Path) -> None:
    pair = "".join(REPLACED[kind]).format(hip='name="a" joint="hip"', knee='name="b" joint="knee"')
    scene = build_leg(tmp_path, actuators=pair)
    model = scene.model
    assert [model.actuator(i).name for i in range(model.nu)] == ["a", "b"]
    assert scene.actuator_ids == (0, 1)
    assert model.na == 0
    assert model.nhistory == 0
    assert scene.torque_limit == (np.inf, np.inf)
    pd_forces(scene, np.array([20.0, 10.0]), np.array([0.5, 0.25]))


def test_nameless_actuators_are_replaced_and_named_for_their_joint(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, actuators='<motor joint="hip"/><motor name="hip" joint="knee"/>')
    assert [scene.model.actuator(i).name for i in range(2)] == ["hip_position", "hip"]
    assert scene.actuator_ids == (0, 1)


def test_surplus_actuators_of_a_joint_go(tmp_path: Path) -> None:
    pairs = "".join(f'<position name="{j}_p" joint="{j}"/><velocity name="{j}_v" joint="{j}"/>' for j in JOINTS)
    scene = build_leg(tmp_path, actuators=pairs)
    assert [scene.model.actuator(i).name for i in range(scene.model.nu)] == ["hip_p", "knee_p"]
    pd_forces(scene, np.array([20.0, 10.0]), np.array([0.5, 0.25]))


def test_actuators_of_other_joints_stay_as_they_are(tmp_path: Path) -> None:
    scene = build_leg(
        tmp_path,
        actuators='<velocity name="v" joint="hip" kv="3"/><motor name="m" joint="knee"/>',
        options={"driven": ("knee",)},
    )
    model = scene.model
    assert [model.actuator(i).name for i in range(model.nu)] == ["v", "m"]
    assert model.actuator("v").biasprm[2] == -3.0
    assert model.actuator("m").gainprm[0] == 10.0
    assert scene.actuator_ids == (0, 1)


def test_a_joint_that_nothing_drives_has_no_actuator(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, options={"driven": ("knee",)})
    assert scene.actuator_ids == (-1, 0)
    assert scene.model.nu == 1


LIMITS = {
    "the joint's": ('<motor joint="hip"/>', 'actuatorfrcrange="-4 4"', 4.0),
    "the actuator's": ('<motor joint="hip" forcerange="-3 3"/>', "", 3.0),
    "the smaller of both": ('<motor joint="hip" forcerange="-3 3"/>', 'actuatorfrcrange="-4 4"', 3.0),
    "a motor's control": ('<motor joint="hip" ctrlrange="-5 5"/>', "", 5.0),
    "a motor's control through its gear": ('<motor joint="hip" ctrlrange="-1 1" gear="6"/>', "", 6.0),
    "a motor's control, its gear reversed": ('<motor joint="hip" ctrlrange="-1 1" gear="-6"/>', "", 6.0),
    "a motor's control through its gain": ('<general joint="hip" ctrlrange="-1 1" gainprm="7"/>', "", 7.0),
    "a force range through the gear": ('<motor joint="hip" forcerange="-2 2" gear="4"/>', "", 8.0),
    "force and control": ('<motor joint="hip" forcerange="-2 2" ctrlrange="-1 1"/>', "", 1.0),
    "not a position's control": ('<position joint="hip" ctrlrange="-1 1"/>', "", np.inf),
    "not where it is switched off": ('<motor joint="hip" forcerange="-2 2" forcelimited="false"/>', "", np.inf),
}


@pytest.mark.parametrize("case", LIMITS)
def test_torque_limits_are_carried_over(case: str, tmp_path: Path) -> None:
    actuator, hip, limit = LIMITS[case]
    scene = build_leg(tmp_path, actuators=actuator, hip=hip)
    assert scene.torque_limit == (limit, np.inf)
    assert scene.model.actuator_gear[0, 0] == 1.0
    pd_forces(scene, np.array([20.0, 10.0]), np.array([0.5, 0.25]))


def test_targets_are_not_clipped_to_the_old_control_range(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, actuators='<position joint="hip" ctrlrange="-0.1 0.1"/>')
    assert not scene.model.actuator_ctrllimited.any()


def test_sensors_of_replaced_actuators_survive(tmp_path: Path) -> None:
    scene = build_leg(
        tmp_path,
        actuators='<position name="p" joint="hip"/><velocity name="v" joint="hip"/><motor name="m" joint="knee"/>',
        sensors='<actuatorfrc name="fp" actuator="p"/><actuatorfrc name="fv" actuator="v"/>'
        '<actuatorpos name="am" actuator="m"/><jointactuatorfrc name="jh" joint="hip"/>',
    )
    model, data = scene.model, mujoco.MjData(scene.model)
    where = sensor_slices(model)
    assert set(where) == {"gyro", "fp", "fv", "am", "jh"}
    data.ctrl[:] = [0.3, 0.0]
    mujoco.mj_forward(model, data)
    for name in ("fp", "fv", "jh"):  # "v" is gone; its sensor reads what now acts on the joint
        np.testing.assert_allclose(data.sensordata[where[name]], 20.0 * 0.3)


def test_the_sensor_of_a_surplus_actuator_survives_beside_a_nameless_one(tmp_path: Path) -> None:
    scene = build_leg(
        tmp_path,
        actuators='<position joint="hip"/><velocity name="v" joint="hip"/>',
        sensors='<actuatorfrc name="f" actuator="v"/>',
    )
    assert scene.model.sensor("f").objid == scene.actuator_ids[0]


KEYS = {
    "controls": ('<motor joint="hip"/><motor joint="knee"/>', 'ctrl="1 2"', [0.0, 0.0]),
    "of a surplus actuator": ('<position joint="hip"/><velocity joint="hip"/>', 'ctrl="1 2"', [0.0, 0.0]),
    "activations": ('<intvelocity joint="hip" actrange="-1 1"/>', 'act="0.5" ctrl="1"', [0.0, 0.0]),
    "of a scene stripped of actuators": ("", 'ctrl="1 2 3"', [0.0, 0.0]),
    "fewer than actuators": ('<motor name="c" joint="pan"/><motor joint="hip"/>', 'ctrl="1"', [1.0, 0.0, 0.0]),
    "of a camera mount": (
        '<motor name="c" joint="pan"/><motor joint="hip"/><motor joint="hip"/>',
        'ctrl="1 2 3"',
        [1.0, 0.0, 0.0],
    ),
}
MOUNT = '<body><joint name="pan"/><geom size="0.1"/></body>'


@pytest.mark.parametrize("case", KEYS)
def test_keyframes_with_the_scenes_own_controls_still_compile(case: str, tmp_path: Path) -> None:
    actuators, key, expected = KEYS[case]
    scene = build_leg(tmp_path, actuators=actuators, extra=MOUNT, keys=f'<key name="other"/><key name="home" {key}/>')
    assert scene.keyframe == 1
    np.testing.assert_array_equal(scene.model.key_ctrl[1], expected)


def test_activations_of_actuators_that_stay_are_kept_in_keyframes(tmp_path: Path) -> None:
    scene = build_leg(
        tmp_path,
        actuators='<motor joint="hip"/><intvelocity joint="pan" actrange="-1 1"/>',
        extra=MOUNT,
        keys='<key name="home" act="0.5"/>',
    )
    assert scene.model.key_act.tolist() == [[0.5]]


@pytest.mark.parametrize(
    ("keys", "expected"), [("", -1), ("<key/><key/>", 0), ('<key name="a"/><key name="home"/>', 1)]
)
def test_the_keyframe_is_home_or_the_first(keys: str, expected: int, tmp_path: Path) -> None:
    assert build_leg(tmp_path, keys=keys).keyframe == expected


def test_joints_map_by_name_in_any_order() -> None:
    """The same targets by name give the same motion, whatever the order of the policy's joints."""
    names = CONTRACT.joints
    shuffled = [names[i] for i in np.random.default_rng(3).permutation(len(names))]
    motions = []
    for order in (names, shuffled):
        gains = [names.index(name) for name in order]
        scene = build(
            QUADRUPED.scene,
            order,
            order,
            kp=[20.0 + i for i in gains],
            kd=[0.5 + 0.1 * i for i in gains],
            base="trunk",
        )
        data = mujoco.MjData(scene.model)
        mujoco.mj_resetDataKeyframe(scene.model, data, scene.keyframe)
        rng = np.random.default_rng(0)
        positions = []
        for _ in range(100):
            target = dict(zip(names, rng.uniform(-1.0, 1.0, 12), strict=True))
            for name, actuator in zip(order, scene.actuator_ids, strict=True):
                data.ctrl[actuator] = target[name]
            mujoco.mj_step(scene.model, data)
            by_name = dict(zip(order, data.qpos[list(scene.qpos_adr)], strict=True))
            positions.append([*data.qpos[:7], *(by_name[name] for name in names)])
        motions.append(positions)
    np.testing.assert_array_equal(motions[0], motions[1])


def test_room_for_delays_is_the_delay_and_the_newest_sample(tmp_path: Path) -> None:
    for delay, samples in ((0.0, 0), (0.0019, 2), (0.002, 2), (0.0021, 3), (0.01, 6)):
        model = build_leg(tmp_path, options={"max_delay_s": delay}).model
        assert model.actuator_history[:, 0].tolist() == [samples, samples]
        assert not model.actuator_delay.any()


def test_scene_actuators_are_kept_when_asked(tmp_path: Path) -> None:
    scene = build_leg(
        tmp_path,
        actuators='<position joint="knee" kp="4" kv="0.4"/><position joint="hip" kp="3" ctrlrange="-1 1"/>',
        options={"actuators": "scene"},
    )
    assert scene.actuator_ids == (1, 0)
    assert scene.model.actuator_gainprm[:, 0].tolist() == [4.0, 3.0]
    assert scene.model.actuator_ctrllimited.tolist() == [False, True]


def test_a_fixed_base_has_no_base(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, root="")
    assert (scene.base, scene.base_qpos_adr, scene.base_dof_adr) == (None, -1, -1)
    assert base_points(scene) == {}


@pytest.mark.parametrize("base", ["", "torso", "shin"])
def test_the_base_is_the_free_body_above(base: str, tmp_path: Path) -> None:
    scene = build_leg(tmp_path, extra=MOUNT, options={"base": base})
    assert (scene.base, scene.base_qpos_adr, scene.base_dof_adr) == ("torso", 0, 0)


def test_points_of_the_base_are_offsets_in_its_frame(tmp_path: Path) -> None:
    scene = build_leg(tmp_path)
    points = base_points(scene)
    assert set(points) == {"com", "site:imu"}
    np.testing.assert_array_equal(points["site:imu"], [0.02, 0.01, 0.03])
    np.testing.assert_array_equal(points["com"], scene.model.body("torso").ipos)


def test_a_nameless_free_body_is_a_base_too(tmp_path: Path) -> None:
    text = (
        '<mujoco><worldbody><body><freejoint/><geom size="0.1"/><site name="s" pos="1 2 3"/>'
        '<body><joint name="hip"/><geom size="0.1"/></body></body></worldbody></mujoco>'
    )
    scene = build_leg(tmp_path, text, options={"joints": ("hip",), "driven": ("hip",)})
    assert scene.base == ""
    np.testing.assert_array_equal(base_points(scene)["site:s"], [1.0, 2.0, 3.0])


def test_the_drive_is_told_in_one_line(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, hip='actuatorfrcrange="-4 4" frictionloss="0.2"')
    assert drive_summary(scene, "contract") == (
        "2 position actuators with the contract's gains, in place of any of the scene's: kp 10…20 N·m/rad, "
        "kd 0.25…0.5 N·m·s/rad; from the scene: armature 0.01 kg·m², damping 0.1 N·m·s/rad, "
        "friction 0…0.2 N·m, torque limit 4 N·m … none"
    )
