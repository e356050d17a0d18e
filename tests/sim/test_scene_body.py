"""`scene_body`: which joints of a scene are a robot's, for formats that know them by number alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgert.sim.scene import scene_body

SCENE = """
<mujoco>
  <worldbody>
    <body name="door"><joint name="hinge"/><geom size="1"/></body>
    <body name="base">
      <freejoint name="floating"/>
      <geom size="1"/>
      <body name="thigh"><joint name="hip" {hip}/><geom size="1"/>
        <body name="shank"><joint name="knee" type="slide" {knee}/><geom size="1"/></body>
      </body>
    </body>
  </worldbody>
  {actuators}
</mujoco>
"""


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, ("hinge", "hip", "knee")),
        ({"actuators": '<actuator><motor joint="knee"/><motor joint="hip"/></actuator>'}, ("hip", "knee")),
        ({"hip": 'actuatorfrcrange="-5 5"'}, ("hip",)),
        (
            {"hip": 'actuatorfrcrange="-5 5"', "actuators": '<actuator><motor joint="knee"/></actuator>'},
            ("hip", "knee"),
        ),
    ],
)
def test_actuated_joints_count_in_the_order_of_the_scene(
    parts: dict[str, str], expected: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(SCENE.format(**{"hip": "", "knee": "", "actuators": "", **parts}))
    assert scene_body(path).joints == expected


IMU = """
<mujoco><worldbody><body name="base"><freejoint/><geom size="1"/>{base}
  <body><joint name="hip"/><geom size="1"/><site name="imu_in_foot"/></body></body></worldbody>
  <sensor>{sensors}</sensor></mujoco>
"""


@pytest.mark.parametrize(
    ("base", "sensors", "site"),
    [
        ("", "", ""),
        ('<site name="head"/>', "", ""),
        ('<site name="my_IMU"/><site name="head"/>', "", "my_IMU"),
        ('<site name="imu_a"/><site name="imu_b"/>', "", ""),
        ('<site name="imu_a"/><site name="imu_b"/>', '<velocimeter site="imu_b"/>', "imu_b"),
        ('<site name="imu"/><site name="head"/>', '<velocimeter site="head"/><gyro site="imu"/>', "head"),
        ('<site name="imu"/>', '<velocimeter site="imu_in_foot"/>', "imu"),
    ],
)
def test_a_velocity_is_measured_where_the_base_has_its_imu(base: str, sensors: str, site: str, tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(IMU.format(base=base, sensors=sensors))
    assert scene_body(path).velocity_site == site
