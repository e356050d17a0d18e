"""`Where`: on which chips a run computes, as its user says, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from edgert.device import Device, find_device
from edgert.errors import UnsupportedError
from edgert.policy.engine.protocol import Placement, Precision

PHYSICS = "mujoco"
"""The physics of this version, MuJoCo C: a device that lists it can simulate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The options of every command that runs a policy.

    Attributes:
        device: runs the network, and the physics where it can; otherwise that runs on the CPU.
        policy_device: runs the network instead, None: as `device` says.
        physics_device: runs the physics instead, None: as `device` says.
        provider: inference provider by name, or `auto` for the fastest; None: the device's first one.
        allow_cpu_nodes: let the CPU compute what the provider cannot.
        precision: of the network's arithmetic, fp32 or fp16.
    """

    device: str = "cpu"
    policy_device: str | None = None
    physics_device: str | None = None
    provider: str | None = None
    allow_cpu_nodes: bool = False
    precision: Precision = "fp32"

    def devices(self) -> tuple[Device, Device]:
        """Those of the network and of the physics.

        Raises:
            UnknownNameError: there is none of that name.
            DeviceError: no inference provider for it is installed.
            UnsupportedError: it was named for physics, and cannot simulate.
        """
        policy = self.policy_on()
        name = self.physics_device or self.device
        physics = policy if name == policy.name else find_device(name)
        if PHYSICS in physics.physics:
            return policy, physics
        if self.physics_device is None:
            return policy, find_device("cpu")
        raise UnsupportedError(
            f"physics cannot run on {physics.name} ({physics.chip})",
            found=", ".join(physics.physics) or "no physics for it",
            expected=f"a device with {PHYSICS}, such as cpu",
            hint="Leave out --physics-device: the network may still run there",
        )

    def policy_on(self) -> Device:
        """That of the network; raises as `devices` does."""
        return find_device(self.policy_device or self.device)

    def placement(self, rows: int) -> Placement:
        """How the network is opened, for `rows` worlds in one batch.

        Raises:
            UnsupportedError: the precision is none.
        """
        if self.precision not in get_args(Precision):
            raise UnsupportedError(
                "--precision is wrong", found=self.precision, expected=" or ".join(get_args(Precision))
            )
        return Placement(
            provider=self.provider, allow_cpu_nodes=self.allow_cpu_nodes, precision=self.precision, rows=rows
        )


def on_chips(policy: Device, physics: Device, **more: Any) -> dict[str, Any]:
    """Where a run computed, for reports."""
    return {
        "device": policy.name,
        "device_chip": policy.chip,
        **more,
        "physics_device": physics.name,
        "physics": PHYSICS,
    }
