"""The chips of a node and the inference runtimes for them."""

from edgert.device.device import Device, find

__all__ = ["Device", "find"]
