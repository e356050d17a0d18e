"""Scenes that cannot be used are refused by an `EdgertError` that says why, and by nothing else."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenes import build_leg, leg_xml

from edgert.errors import EdgertError, IntegrityError, RobotError
from edgert.sim.scene import MAX_SCENE_BYTES, Scene, build


def refusal(kind: type[EdgertError], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert text.isprintable()
    return text


def build_file(path: Path) -> Scene:
    return build(path, ("hip",), ("hip",), kp=(1.0,), kd=(0.1,))


def test_a_missing_joint_names_those_there_are(tmp_path: Path) -> None:
    options = {"joints": ("hip", "ankle", "toe"), "driven": ("hip",), "kp": (1, 1, 1), "kd": (1, 1, 1)}
    text = refusal(RobotError, lambda: build_leg(tmp_path, options=options))
    assert "lacks joints of the policy: found no ankle, toe" in text
    assert "the scene has hip, knee" in text
    assert "Name the scene's joints in [joints] names of policy.toml" in text


def test_a_scene_without_joints_says_so(tmp_path: Path) -> None:
    text = refusal(RobotError, lambda: build_leg(tmp_path, "<mujoco/>"))
    assert "the scene has none" in text


@pytest.mark.parametrize("joint", ['<joint name="hip" type="ball"/>', '<freejoint name="hip"/>'])
def test_a_joint_with_several_degrees_of_freedom(joint: str, tmp_path: Path) -> None:
    text = f'<mujoco><worldbody><body>{joint}<geom size="0.1"/></body></worldbody></mujoco>'
    options = {"joints": ("hip",), "driven": ("hip",)}
    message = refusal(RobotError, lambda: build_leg(tmp_path, text, options=options))
    assert re.search(r"joint 'hip' of scene \S+ cannot be driven: expected a hinge or slide joint", message)


def test_a_base_that_is_not_there(tmp_path: Path) -> None:
    text = refusal(RobotError, lambda: build_leg(tmp_path, options={"base": "trunk"}))
    assert "has no body 'trunk'" in text
    assert "one of torso, thigh, shin" in text


def test_a_base_that_does_not_float(tmp_path: Path) -> None:
    text = refusal(RobotError, lambda: build_leg(tmp_path, root="", options={"base": "torso"}))
    assert text.endswith(
        "body 'torso' of scene " + str(tmp_path / "scene.xml") + " has no free joint. Add <freejoint/> to it"
    )


OTHER_FREE = '<body name="box"><freejoint/><geom size="0.1"/></body>'
ARM = '<body name="arm"><joint name="elbow"/><geom size="0.1"/></body>'
FREE_ARM = (
    '<body name="drone"><freejoint/><geom size="0.1"/><body><joint name="elbow"/><geom size="0.1"/></body></body>'
)


@pytest.mark.parametrize(
    ("extra", "options", "expected"),
    [
        (OTHER_FREE, {"base": "box"}, "joint 'hip' .* a joint below body 'box', which floats"),
        (ARM, {"joints": ("hip", "elbow")}, "joint 'elbow' .* a joint below body 'torso', which floats"),
        (ARM, {"joints": ("elbow", "hip")}, "joint 'hip' .* a joint below a fixed base"),
        (FREE_ARM, {"joints": ("hip", "elbow")}, "joint 'elbow' .* a joint below body 'torso', which floats"),
        (FREE_ARM, {"base": "drone"}, "joint 'hip' .* a joint below body 'drone', which floats"),
    ],
)
def test_joints_of_two_robots(extra: str, options: dict[str, Any], expected: str, tmp_path: Path) -> None:
    options = {"driven": options.get("joints", ("hip", "knee")), **options}
    text = refusal(RobotError, lambda: build_leg(tmp_path, extra=extra, options=options))
    assert re.search(expected, text)
    assert "is not on the same robot as the others" in text


SCENE_ACTUATORS = {
    "none": ("", "has no actuator on joint 'hip'"),
    "motor": ('<motor name="m" joint="hip"/>', "actuator 'm' of scene .* does not take joint positions"),
    "velocity": ('<velocity name="v" joint="hip"/>', "actuator 'v' of scene .* does not take joint positions"),
    "filtered": (
        '<position name="p" joint="hip" timeconst="0.1"/>',
        "actuator 'p' of scene .* does not take joint positions",
    ),
    "two": (
        '<position name="p" joint="hip"/><velocity name="v" joint="hip"/>',
        "several actuators on joint 'hip': found p, v",
    ),
    "gear": (
        '<position name="p" joint="hip" gear="2"/>',
        "actuator 'p' .* positions in rad: found gear 2, expected gear 1",
    ),
    "one joint only": ('<position name="p" joint="hip"/>', "has no actuator on joint 'knee'"),
}


@pytest.mark.parametrize("case", SCENE_ACTUATORS)
def test_scene_actuators_that_are_no_position_actuators(case: str, tmp_path: Path) -> None:
    actuators, expected = SCENE_ACTUATORS[case]
    text = refusal(RobotError, lambda: build_leg(tmp_path, actuators=actuators, options={"actuators": "scene"}))
    assert re.search(expected, text)
    assert text.endswith("Use --actuators contract to drive the joints with the contract's gains")


def test_actuators_with_several_controls(tmp_path: Path) -> None:
    ball = '<body name="b"><joint name="ball" type="ball"/><geom size="0.1"/></body>'
    text = refusal(RobotError, lambda: build_leg(tmp_path, extra=ball, actuators='<orientation joint="ball" kp="1"/>'))
    assert "has actuators that take several controls each: found 5 controls for 3 actuators" in text


def test_a_missing_file(tmp_path: Path) -> None:
    file = tmp_path / "none.xml"
    text = refusal(IntegrityError, lambda: build_file(file))
    assert text == f"cannot read scene {file}: found No such file or directory. Check the path and its permissions"


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder: expected a file in it" in refusal(IntegrityError, lambda: build_file(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    file = tmp_path / "scene.xml"
    file.write_text(leg_xml())
    file.chmod(0)
    assert "found Permission denied" in refusal(IntegrityError, lambda: build_file(file))


@pytest.mark.parametrize("name", ["a\0b.xml", "x" * 300 + ".xml"])
def test_an_impossible_path(name: str, tmp_path: Path) -> None:
    assert "cannot read scene" in refusal(IntegrityError, lambda: build_file(tmp_path / name))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "scene.xml"
    file.write_bytes(b"<mujoco/>")
    os.truncate(file, MAX_SCENE_BYTES + 1)
    text = refusal(IntegrityError, lambda: build_file(file))
    assert f"is too large: found {MAX_SCENE_BYTES + 1} bytes, expected at most {MAX_SCENE_BYTES}" in text


INVALID = {
    "empty": "",
    "text": "not a scene",
    "cut off": leg_xml()[:300],
    "binary": "".join(map(chr, range(1, 256))),
    "another root": "<html/>",
    "unknown attribute": leg_xml(head='<option gravit="1"/>'),
    "not a number": leg_xml(timestep="fast"),
    "a name twice": leg_xml(extra='<body name="torso"/>'),
    "no such include": leg_xml(head='<include file="none.xml"/>'),
    "includes itself": leg_xml(head='<include file="scene.xml"/>'),
    "nested too deep": "<mujoco><worldbody>" + "<body>" * 5000 + "</body>" * 5000 + "</worldbody></mujoco>",
    "no such plug-in": leg_xml(head='<extension><plugin plugin="none"/></extension>'),
}


@pytest.mark.parametrize("case", INVALID)
def test_files_that_are_no_mjcf(case: str, tmp_path: Path) -> None:
    text = refusal(IntegrityError, lambda: build_leg(tmp_path, INVALID[case]))
    assert f"scene {tmp_path / 'scene.xml'} is not a valid MJCF model: found " in text


INCONSISTENT = {
    "missing mesh": ({"head": '<asset><mesh name="m" file="none.stl"/></asset>'}, "none.stl"),
    "missing texture": ({"head": '<asset><texture name="t" type="2d" file="none.png"/></asset>'}, "none.png"),
    "no mass": ({"extra": '<body><joint name="j"/></body>'}, "mass and inertia of moving bodies"),
    "keyframe of another size": (
        {"keys": '<key name="home" qpos="1 2 3 4 5 6 7 8 9 10"/>'},
        "keyframe 'home': invalid qpos size",
    ),
    "unknown reference": ({"sensors": '<jointpos joint="none"/>'}, "unrecognized name 'none'"),
    "force range upside down": (
        {"actuators": '<motor joint="hip" forcerange="2 1" forcelimited="true"/>'},
        "invalid force range",
    ),
}


@pytest.mark.parametrize("case", INCONSISTENT)
def test_scenes_that_do_not_compile(case: str, tmp_path: Path) -> None:
    parts, expected = INCONSISTENT[case]
    text = refusal(IntegrityError, lambda: build_leg(tmp_path, **parts))
    assert f"scene {tmp_path / 'scene.xml'} cannot be compiled: found " in text
    assert expected in text


@pytest.mark.parametrize("timestep", ["0", "-0.001", "nan", "inf"])
def test_an_impossible_timestep(timestep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo warns of NaN in a log
    text = refusal(IntegrityError, lambda: build_leg(tmp_path, timestep=timestep))
    capfd.readouterr()
    assert "timestep" in text


TEXT = leg_xml(
    actuators='<motor name="m" joint="hip" gear="2" ctrlrange="-1 1"/><position joint="knee"/><velocity joint="knee"/>',
    sensors='<actuatorfrc actuator="m"/>',
    keys='<key name="home" ctrl="1 2 3"/>',
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TEXT)),
            st.integers(0, 12),
            st.sampled_from(["", "0", "-", "9", " ", '"', "<", "/>", "<body>", "nan", "knee", "free", "é"]),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_scene_changed_at_random_is_built_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[tuple[int, int, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = TEXT
    for at, cut, insert in changes:
        text = text[:at] + insert + text[at + cut :]
    with contextlib.suppress(IntegrityError, RobotError):
        scene = build_leg(tmp_path, text)
        assert scene.joints == ("hip", "knee")
        assert scene.model.opt.timestep > 0.0
