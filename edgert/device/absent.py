"""Findings of platforms whose cards cannot be used: without a driver, or without an answer of their tool."""

from __future__ import annotations

from collections.abc import Sequence

from edgert.device import pci
from edgert.device.device import Device
from edgert.device.survey import Finding


def without_node(cards: list[pci.Card], node: str, *, no: str, card: str, fix: str) -> Finding:
    """No device node: there is no card either, or one whose driver is not loaded.

    Args:
        cards: those on the bus.
        node: where its nodes would be, such as "/dev/mtgpu.*".
        no: what the bus lacks where it has no card, such as "card of PCI vendor 1ed5".
        card: one of them, for people: "an Ascend card".
        fix: how to get the driver.
    """
    if not cards:
        return Finding(no=f"no {no}, no {node}")
    where = pci.said(cards)
    return Finding(
        no=f"a card at {where}, but no {node}",
        trouble=f"{card} at {where}, but its driver is not loaded: no {node}",
        fix=fix,
    )


def without_answer(
    nodes: Sequence[str], problem: str, *, what: str, fix: str, devices: tuple[Device, ...] = ()
) -> Finding:
    """Nodes are there, and the tool that names the cards does not; `devices` are those known in another way."""
    no = f"{', '.join(nodes)}, but {problem}"
    return Finding(devices=devices, no=no, trouble=f"{what}: {no}", fix=fix)
