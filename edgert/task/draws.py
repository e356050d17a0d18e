"""Random draws, one generator a world, so that world i is the same for every number of worlds and threads.

At a reset a world draws one row of uniform numbers whose columns have fixed meanings, so that the stream of a world
never depends on what another one does. Observation noise comes from a second generator, seeded by the first, in
blocks, because one small draw per world and step would cost more than the physics allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, sin
from typing import Final, cast

import numpy as np

from edgert.sim.protocol import Floats, Mask
from edgert.sim.scene import Scene
from edgert.task.sampling import CommandSampling, GoalSampling, PerJoint, ResetRanges

_NOISE_BLOCK = 32
"""Steps of observation noise drawn at once for one world."""


class ResetDraws:
    """Names for the columns of a world's row of uniform numbers in [0, 1)."""

    def __init__(self, njoint: int, nact: int) -> None:
        widths = {
            "friction": 1,
            "mass": 1,
            "kp": nact,
            "kd": nact,
            "delay": 1,
            "joint_pos": njoint,
            "joint_vel": njoint,
            "yaw": 1,
            "lin_vel": 3,
            "ang_vel": 3,
            "push": 3,
            "command": 5,
        }
        self._columns: dict[str, slice] = {}
        self.width = 0
        for name, width in widths.items():
            self._columns[name] = slice(self.width, self.width + width)
            self.width += width

    def column(self, rows: Floats, name: str) -> Floats:
        """The columns of `name`, (n, width)."""
        return rows[:, self._columns[name]]


def within(unit: Floats, bounds: tuple[float, float]) -> Floats:
    """Uniform numbers in [0, 1) spread over `bounds`."""
    return bounds[0] + unit * (bounds[1] - bounds[0])


def around(unit: Floats, half_width: float | Floats) -> Floats:
    """Uniform numbers in [0, 1) spread over plus and minus `half_width`."""
    return (2.0 * unit - 1.0) * half_width


def spread(qpos: Floats, qvel: Floats, scene: Scene, ranges: ResetRanges, draws: ResetDraws, rows: Floats) -> None:
    """Spread initial states (n, nq), (n, nv) in place around where they are, from uniform numbers (n, width)."""
    positions, velocities = (_by_joint(each, scene.joints) for each in (ranges.joint_pos_rad, ranges.joint_vel_rad_s))
    qpos[:, list(scene.qpos_adr)] += around(draws.column(rows, "joint_pos"), positions)
    qvel[:, list(scene.dof_adr)] += around(draws.column(rows, "joint_vel"), velocities)
    if scene.base is not None:
        at, dof = scene.base_qpos_adr, scene.base_dof_adr
        half_yaw = 0.5 * around(draws.column(rows, "yaw")[:, 0], ranges.yaw_rad)
        qpos[:, at + 3 : at + 7] = _turned(qpos[:, at + 3 : at + 7], half_yaw)
        qvel[:, dof : dof + 3] += around(draws.column(rows, "lin_vel"), ranges.lin_vel_m_s)
        qvel[:, dof + 3 : dof + 6] += around(draws.column(rows, "ang_vel"), ranges.ang_vel_rad_s)


def _by_joint(value: PerJoint, joints: Sequence[str]) -> float | Floats:
    return np.array([value.get(name, 0.0) for name in joints]) if isinstance(value, Mapping) else value


def _turned(quat: Floats, half_yaw: Floats) -> Floats:
    """Quaternions (n, 4) wxyz turned about the world's z axis by twice `half_yaw`."""
    c, s = np.cos(half_yaw), np.sin(half_yaw)
    w, x, y, z = quat.T
    return np.stack((c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w), axis=1)


def draw_commands(unit: Floats, sampling: CommandSampling | GoalSampling) -> Floats:
    """Commands (n, 3) from uniform numbers (n, 5): three components, then still and forward-only selectors."""
    if isinstance(sampling, GoalSampling):
        return _draw_goals(unit, sampling)
    commands = np.stack(
        (
            within(unit[:, 0], sampling.vx_m_s),
            within(unit[:, 1], sampling.vy_m_s),
            within(unit[:, 2], sampling.wz_rad_s),
        ),
        axis=1,
    )
    commands[unit[:, 4] < sampling.forward_fraction, 1:] = 0.0
    commands[unit[:, 3] < sampling.still_fraction] = 0.0
    return commands


def _draw_goals(unit: Floats, sampling: GoalSampling) -> Floats:
    """Positions (n, 3), uniform in volume: the cube of the radius and the sine of the elevation are uniform."""
    low, high = sampling.radius_m
    radius = np.cbrt(within(unit[:, 0], (low**3, high**3)))
    azimuth = within(unit[:, 1], sampling.azimuth_rad)
    z = within(unit[:, 2], (sin(sampling.elevation_rad[0]), sin(sampling.elevation_rad[1])))
    flat = np.sqrt(1.0 - z * z)
    outward = np.stack((flat * np.cos(azimuth), flat * np.sin(azimuth), z), axis=1)
    return cast(Floats, sampling.center_m + radius[:, None] * outward)


def middle_goal(sampling: GoalSampling) -> tuple[float, float, float]:
    """The position in the middle of those that are drawn, m."""
    radius, azimuth, elevation = (
        0.5 * (low + high) for low, high in (sampling.radius_m, sampling.azimuth_rad, sampling.elevation_rad)
    )
    x, y, z = sampling.center_m
    flat = radius * cos(elevation)
    return round(x + flat * cos(azimuth), 3), round(y + flat * sin(azimuth), 3), round(z + radius * sin(elevation), 3)


GENERATOR_BYTES: Final = 3_000
"""What the two generators of a world take."""


def draw_bytes(noise: Floats) -> int:
    """What the draws of a world take, with noise of half widths `noise` (dim,)."""
    return GENERATOR_BYTES + (noise.nbytes * _NOISE_BLOCK if np.any(noise > 0.0) else 0)


class Generators:
    """The generators of all worlds and their stores of observation noise, half widths `noise` (dim,)."""

    def __init__(self, nworld: int, noise: Floats) -> None:
        # From entropy until the worlds are seeded.
        self._events = [np.random.default_rng() for _ in range(nworld)]
        self._noise = [np.random.Generator(np.random.SFC64()) for _ in range(nworld)]
        self._half_width = noise
        self._noisy = bool(np.any(noise > 0.0))
        self._block = np.zeros((nworld, _NOISE_BLOCK, len(noise) if self._noisy else 0))
        self._cursor = np.full(nworld, _NOISE_BLOCK)
        self._all = np.arange(nworld)

    def seed(self, generators: Sequence[np.random.Generator | None]) -> None:
        """Give worlds new generators; None keeps a world's own."""
        for world, generator in enumerate(generators):
            if generator is not None:
                self._events[world] = generator
                self._noise[world] = np.random.Generator(np.random.SFC64(int(generator.integers(2**62))))
                self._cursor[world] = _NOISE_BLOCK

    def rows(self, worlds: Sequence[int], width: int) -> Floats:
        """One row of uniform numbers for each of the worlds, (n, width)."""
        result = np.empty((len(worlds), width))
        for row, world in zip(result, worlds, strict=True):
            self._events[world].random(out=row)
        return result

    def noise(self, mask: Mask | None) -> Floats | None:
        """The next noise of the worlds of the mask, (n, dim); None where there is no noise at all."""
        if not self._noisy:
            return None
        worlds = self._all if mask is None else np.flatnonzero(mask)
        cursor = self._cursor[worlds]
        for world in worlds[cursor == _NOISE_BLOCK].tolist():
            self._refill(world)
        cursor[cursor == _NOISE_BLOCK] = 0
        self._cursor[worlds] = cursor + 1
        return cast(Floats, self._block[worlds, cursor])

    def _refill(self, world: int) -> None:
        """Draw the next block of a world; `around` in place, as this is the bulk of all random numbers."""
        block = self._block[world]
        self._noise[world].random(out=block)
        block *= 2.0
        block -= 1.0
        block *= self._half_width
