"""How the joints of a contract are driven: what the one control of each joint's actuator is."""

from __future__ import annotations

from collections.abc import Mapping

from edgert.contract.spec import POSITIONS, Contract
from edgert.errors import ContractError
from edgert.sim.actuators import Drive


def drives_of(contract: Contract) -> Mapping[str, Drive]:
    """The drive of each joint of a contract; one that the policy does not act on is held at a position.

    Raises:
        ContractError: a joint that is given no position has a position gain.
    """
    kinds: dict[str, set[Drive]] = {name: set() for name in contract.joints}
    for name, kind in zip(contract.action.joints, contract.action.kinds, strict=True):
        kinds[name].add("position" if kind in POSITIONS else kind)  # type: ignore[arg-type]  # the others are drives
    for name, kp in zip(contract.joints, contract.kp, strict=True):
        if kinds[name] and "position" not in kinds[name] and kp > 0.0:
            raise ContractError(
                f"joint '{name}' is given no position, and its position gain would pull it to its default pose",
                found=f"kp {kp:g} N·m/rad and an action of kind {' and '.join(sorted(kinds[name]))}",
                expected="kp 0",
                hint=f"Set kp of '{name}' to 0 in [joints] of policy.toml",
            )
    return {name: next(iter(own), "position") if len(own) < 2 else "sum" for name, own in kinds.items()}
