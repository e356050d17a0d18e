"""Whether a robot suits a contract: joints, rate, sensors and gains, found out without running anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from edgert.contract.observe import check_state
from edgert.contract.senses import senses_of
from edgert.contract.spec import Contract
from edgert.errors import EdgertError
from edgert.policy.doubts import Doubt
from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.drives import build_for
from edgert.sim.scene import Scene, physics_steps
from edgert.task.notes import differences
from edgert.task.place import Place

STIFF_RAD: Final = 0.01
"""A joint that is so little off its target and already at its torque limit is a switch, no drive."""
_WARNING: Final = "warning: "


def doubts_of(contract: Contract, place: Place) -> Iterator[Doubt]:
    """Everything that speaks against running a policy of this contract in that place.

    Raises:
        IntegrityError: the scene itself cannot be used.
    """
    base = place.task.base if place.task is not None else ""
    try:
        scene = build_for(contract, place.scene, base=base)
    except EdgertError as error:
        yield Doubt("joints.names", str(error))
        return
    try:
        physics_steps(contract.control_hz, scene)
    except EdgertError as error:
        yield Doubt("control_hz", str(error))
    for name, spec in contract.inputs.items():
        try:
            own = _only(contract, name)
            with BatchSim(scene.model, 1, 1) as sim, SimBody(sim, scene, senses=senses_of(own)) as body:
                check_state(own, body.state, f"scene {scene.path}")
        except EdgertError as error:
            yield Doubt(f"inputs.{name}.terms", f"{error} ({spec.sizes()})")
    yield from _poses(contract, scene)
    yield from _gains(contract, scene)
    if place.task is not None:
        lines = differences(contract, place.task.contract, place.task.name)
        yield from (Doubt("robot", line.removeprefix(_WARNING)) for line in lines if line.startswith(_WARNING))


def out_of_reach(contract: Contract, scene: Scene) -> list[str]:
    """A warning if joints cannot take the contract's default pose, as where it is given in degrees."""
    reasons = [doubt.reason for doubt in _poses(contract, scene)]
    more = f", and {len(reasons) - 1} joints more" if len(reasons) > 1 else ""
    return [f"{_WARNING}default pose: {reasons[0]}{more}"] if reasons else []


def _only(contract: Contract, name: str) -> Contract:
    """The contract with one of its inputs."""
    return replace(contract, inputs={name: contract.inputs[name]})


def _poses(contract: Contract, scene: Scene) -> Iterator[Doubt]:
    model = scene.model
    joints = [int(model.dof_jntid[dof]) for dof in scene.dof_adr]
    for name, pose, joint in zip(contract.joints, contract.default_pos, joints, strict=True):
        low, high = model.jnt_range[joint]
        if model.jnt_limited[joint] and not low <= pose <= high:
            yield Doubt("joints.default_pos", f"{pose:g} rad of {name} is outside its range {low:g} … {high:g} rad")


def _gains(contract: Contract, scene: Scene) -> Iterator[Doubt]:
    stiff = [
        (name, kp, limit)
        for name, kp, limit in zip(contract.joints, contract.kp, scene.torque_limit, strict=True)
        if np.isfinite(limit) and kp * STIFF_RAD > limit
    ]
    if stiff:
        name, kp, limit = stiff[0]
        more = f", and {len(stiff) - 1} joints more" if len(stiff) > 1 else ""
        yield Doubt(
            "joints.kp",
            f"{kp:g} N·m/rad reaches the torque limit of {name}, {limit:g} N·m, after {limit / kp:.2g} rad{more}",
        )
