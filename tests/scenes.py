"""Small MJCF scenes that tests write for themselves: a floating body with one two-joint leg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgert.sim.scene import Scene, build

LEG = """
<mujoco model="leg">
  <compiler autolimits="true"/>
  <option timestep="{timestep}"/>
  {head}
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="torso" pos="0 0 0.6">
      {root}
      <geom name="torso" type="box" size="0.1 0.08 0.05" mass="2"/>
      <site name="imu" pos="0.02 0.01 0.03"/>
      <body name="thigh">
        <joint name="hip" axis="0 1 0" damping="0.1" armature="0.01" {hip}/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.5"/>
        <body name="shin" pos="0 0 -0.2">
          <joint name="knee" axis="0 1 0" damping="0.1" armature="0.01"/>
          <geom name="foot" type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.3"/>
        </body>
      </body>
    </body>
    {extra}
  </worldbody>
  <actuator>{actuators}</actuator>
  <sensor><gyro name="gyro" site="imu"/>{sensors}</sensor>
  <keyframe>{keys}</keyframe>
</mujoco>
"""
JOINTS = ("hip", "knee")


def leg_xml(**parts: str) -> str:
    """The scene with parts of it filled in; a free joint unless `root` says otherwise."""
    empty = dict.fromkeys(("head", "hip", "extra", "actuators", "sensors", "keys"), "")
    return LEG.format(**(empty | {"root": '<freejoint name="root"/>', "timestep": "0.002"} | parts))


def write(path: Path, text: str | None = None, **parts: str) -> Path:
    """Write a scene below the folder `path` and return the file."""
    file = path / "scene.xml"
    file.write_text(leg_xml(**parts) if text is None else text, encoding="utf-8")
    return file


def build_leg(path: Path, text: str | None = None, *, options: dict[str, Any] | None = None, **parts: str) -> Scene:
    """The scene built for both joints with kp 20, 10 and kd 0.5, 0.25, unless `options` say otherwise."""
    arguments: dict[str, Any] = {"joints": JOINTS, "driven": JOINTS, "kp": (20.0, 10.0), "kd": (0.5, 0.25)}
    arguments |= options or {}
    joints, driven = arguments.pop("joints"), arguments.pop("driven")
    return build(write(path, text, **parts), joints, driven, **arguments)
