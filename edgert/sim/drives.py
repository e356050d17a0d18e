"""The scene of a contract: its joints, with its gains, driven as its actions ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgert.contract.spec import POSITIONS, Contract
from edgert.sim.actuators import Actuators, Drive
from edgert.sim.scene import Scene, build


def build_for(
    contract: Contract, path: Path, *, base: str = "", actuators: Actuators = "contract", max_delay_s: float = 0.0
) -> Scene:
    """The scene at `path` for every joint of a contract; see `build` for the options and what it raises."""
    return build(
        path,
        contract.joints,
        contract.joints,
        actuators=actuators,
        kp=contract.kp,
        kd=contract.kd,
        base=base,
        max_delay_s=max_delay_s,
        drives=drives_of(contract),
    )


def drives_of(contract: Contract) -> Mapping[str, Drive]:
    """The drive of each joint of a contract; one that the policy does not act on is held at a position."""
    kinds: dict[str, set[Drive]] = {name: set() for name in contract.joints}
    for name, kind in zip(contract.action.joints, contract.action.kinds, strict=True):
        kinds[name].add("position" if kind in POSITIONS else kind)  # type: ignore[arg-type]  # the others are drives
    return {name: next(iter(own), "position") if len(own) < 2 else "sum" for name, own in kinds.items()}
