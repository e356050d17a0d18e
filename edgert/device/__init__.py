"""The chips of a node and the inference runtimes for them."""

from edgert.device.device import Device, find_device

__all__ = ["Device", "find_device"]
