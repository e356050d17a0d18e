"""`scene_joints`: which joints of a scene are a robot's, for formats that know them by number alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgert.sim.scene import scene_joints

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
    assert scene_joints(path) == expected
