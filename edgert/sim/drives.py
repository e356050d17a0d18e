"""How the joints of a contract are driven: what the one control of each joint's actuator is."""

from __future__ import annotations

from collections.abc import Mapping

from edgert.contract.spec import POSITIONS, Contract
from edgert.sim.actuators import Drive


def drives_of(contract: Contract) -> Mapping[str, Drive]:
    """The drive of each joint of a contract; one that the policy does not act on is held at a position."""
    kinds: dict[str, set[Drive]] = {name: set() for name in contract.joints}
    for name, kind in zip(contract.action.joints, contract.action.kinds, strict=True):
        kinds[name].add("position" if kind in POSITIONS else kind)  # type: ignore[arg-type]  # the others are drives
    return {name: next(iter(own), "position") if len(own) < 2 else "sum" for name, own in kinds.items()}
