"""What a task draws at random, and how a task file says so: commands, first states, and what differs between worlds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi
from typing import Final

from edgert.contract.spec import Contract, Range
from edgert.tables import Table

MAX_EPISODE_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSampling:
    """How commands are drawn: uniform, zero for a fraction of draws, anew every `resample_s`."""

    vx_m_s: Range
    vy_m_s: Range
    wz_rad_s: Range
    resample_s: float
    still_fraction: float = 0.0
    forward_fraction: float = 0.0
    """Fraction of draws without sideways and turning motion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSampling:
    """How positions are drawn: uniform in volume within a part of a spherical shell, anew every `resample_s`.

    The azimuth is about z, 0 along x; the elevation is the angle above the plane through the centre.
    """

    center_m: tuple[float, float, float]
    radius_m: Range
    azimuth_rad: Range
    elevation_rad: Range
    resample_s: float


PerJoint = float | Mapping[str, float]
"""One number for every joint, or one by joint name (0 for those that are not named)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRanges:
    """Half widths of uniform draws around the scene's keyframe."""

    joint_pos_rad: PerJoint = 0.0
    joint_vel_rad_s: PerJoint = 0.0
    yaw_rad: float = 0.0
    lin_vel_m_s: float = 0.0
    ang_vel_rad_s: float = 0.0

    @property
    def spread(self) -> bool:
        """Whether anything is drawn."""
        return any(getattr(self, name) not in (0.0, {}) for name in self.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomisation:
    """What differs between worlds and episodes; a neutral default switches each off."""

    friction: Range | None = None
    friction_geoms: tuple[str, ...] = ()
    mass_add_kg: Range | None = None
    mass_body: str = ""
    kp: Range | None = None  # factor per joint
    kd: Range | None = None  # factor per joint
    delay_s: Range | None = None  # actuator delay, one for all joints of a world
    push_interval_s: float | None = None
    push_m_s: float = 0.0  # half width of each horizontal component
    push_speed_m_s: float = 0.0  # of a push in a random horizontal direction, instead
    noise: Mapping[str, float] = field(default_factory=dict)
    """Half width of uniform noise by observation term, in the term's unit before scaling."""


def read_sampling(table: Table, contract: Contract) -> CommandSampling | GoalSampling:
    """How [command] of a task file says that commands are drawn."""
    entry = table.table("command")
    if contract.command is not None and contract.command.kind == "position":
        center = entry.numbers("center_m", (0.0, 0.0, 0.0), length=3)
        goals = GoalSampling(
            center_m=(center[0], center[1], center[2]),
            radius_m=entry.range("radius_m", lo=0.0),
            azimuth_rad=entry.range("azimuth_rad", (-pi, pi)),
            elevation_rad=entry.range("elevation_rad", (-pi / 2, pi / 2), lo=-pi / 2, hi=pi / 2),
            resample_s=entry.number("resample_s", above=0.0, hi=MAX_EPISODE_S),
        )
        entry.close()
        return goals
    sampling = CommandSampling(
        vx_m_s=entry.range("vx_m_s"),
        vy_m_s=entry.range("vy_m_s"),
        wz_rad_s=entry.range("wz_rad_s"),
        resample_s=entry.number("resample_s", above=0.0, hi=MAX_EPISODE_S),
        still_fraction=entry.number("still_fraction", 0.0, lo=0.0, hi=1.0),
        forward_fraction=entry.number("forward_fraction", 0.0, lo=0.0, hi=1.0),
    )
    entry.close()
    return sampling


def read_reset(table: Table, contract: Contract) -> ResetRanges:
    """[reset] of a task file."""
    entry = table.table("reset")
    ranges = ResetRanges(
        joint_pos_rad=_per_joint(entry, "joint_pos_rad", contract),
        joint_vel_rad_s=_per_joint(entry, "joint_vel_rad_s", contract),
        **{name: entry.number(name, 0.0, lo=0.0) for name in ("yaw_rad", "lin_vel_m_s", "ang_vel_rad_s")},
    )
    entry.close()
    return ranges


def _per_joint(table: Table, name: str, contract: Contract) -> PerJoint:
    if not isinstance(table.raw(name, 0.0), Mapping):
        return table.number(name, 0.0, lo=0.0)
    entries = table.table(name)
    values = {joint: entries.number(joint, lo=0.0) for joint in contract.joints if entries.has(joint)}
    entries.close()
    return values


def read_randomisation(table: Table, contract: Contract) -> Randomisation:
    """[randomise] of a task file."""
    entry = table.table("randomise")
    values: dict[str, object] = {}
    if entry.has("friction"):
        friction = entry.table("friction")
        values |= {"friction": friction.range("range", lo=1e-5), "friction_geoms": friction.names("geoms")}
        friction.close()
    if entry.has("mass"):
        mass = entry.table("mass")
        values |= {"mass_add_kg": mass.range("add_kg"), "mass_body": mass.text("body")}
        mass.close()
    if entry.has("gains"):
        gains = entry.table("gains")
        values |= {key: gains.range(key, lo=0.0) if gains.has(key) else None for key in ("kp", "kd")}
        gains.close()
    if entry.has("action_delay"):
        delay = entry.table("action_delay")
        values["delay_s"] = delay.range("range_s", lo=0.0, hi=1.0)
        delay.close()
    if entry.has("push"):
        push = entry.table("push")
        values["push_interval_s"] = push.number("interval_s", above=0.0, hi=MAX_EPISODE_S)
        if push.has("speed_m_s"):
            if push.has("velocity_m_s"):
                push.fail("speed_m_s", found="velocity_m_s beside it", expected="one of them")
            values["push_speed_m_s"] = push.number("speed_m_s", lo=0.0)
        else:
            values["push_m_s"] = push.number("velocity_m_s", lo=0.0)
        push.close()
    if entry.has("observation_noise"):
        noise = entry.table("observation_noise")
        known = {term.name for spec in contract.inputs.values() for term in spec.terms}
        values["noise"] = {name: noise.number(name, lo=0.0) for name in sorted(known) if noise.has(name)}
        noise.close()
    entry.close()
    return Randomisation(**values)  # type: ignore[arg-type]  # each value was read by its own type above
