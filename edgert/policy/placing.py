"""`place`: a policy on the provider that was named, or on the fastest that is there, proven against the CPU.

Whatever computes on something else than ONNX Runtime's CPU provider is compared with that before it drives anything.
`auto` measures every provider of the device on this very model, prefers none by its name, and says what it measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from edgert.device import Device, find_device
from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.errors import DeviceError, EdgertError
from edgert.policy.agreement import Acts, Agreement, check, compare, fill
from edgert.policy.calibration import Candidate, entry, keep, recall
from edgert.policy.engine.opening import provider_version, providers_here
from edgert.policy.engine.protocol import Node, Placement
from edgert.policy.engine.providers import Provider, provider

AUTO: Final = "auto"
_WARM_UP: Final = 50
_ROUNDS: Final = 5
_ROUND_ACTS: Final = 200
_ROUND_S: Final = 0.1
"""Longest that one round of one provider takes, once it acts: large networks are acted on less often."""


class Placeable(Acts, Protocol):
    """What is opened on a device: a policy, or a network alone."""

    provider: str
    nodes: tuple[Node, ...]
    name: str

    def reset(self) -> None:
        """Forget what belongs to an episode."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


T = TypeVar("T", bound=Placeable)
Open = Callable[[Device, Placement], T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a policy runs, and why.

    Attributes:
        device, provider: where, and by which one.
        nodes: of its networks, each with the provider that computes it.
        agreement: with the CPU; None where it runs by the CPU's own provider.
        candidates: what `auto` chose from, the fastest first, then those that are out.
        precision: of its arithmetic.
    """

    device: Device
    provider: Provider
    nodes: tuple[Node, ...]
    agreement: Agreement | None
    candidates: tuple[Candidate, ...]
    precision: str

    @property
    def cpu_nodes(self) -> tuple[Node, ...]:
        """Nodes that the CPU computes for another provider."""
        strays = (node for node in self.nodes if node.provider == CPU_PROVIDER)
        return () if self.provider.runtime == CPU_PROVIDER else tuple(strays)

    def notes(self) -> list[str]:
        """What the user should know, one line each."""
        lines = []
        if self.candidates:
            first, *others = self.candidates
            lines.append(f"provider {first.text()}: the fastest for this model on {self.device.name}")
            lines += [f"provider {other.text()}" for other in others]
        if self.agreement is not None:
            lines.append(f"provider {self.provider.name} differs from the CPU by {self.agreement.text()}")
        if not self.provider.proven:
            lines.append(f"provider {self.provider.name}: not yet run on hardware by edgert's own tests")
        lines += [f"computed by the CPU, as --allow-cpu-nodes allows: {node}" for node in self.cpu_nodes]
        return lines

    def report(self) -> dict[str, Any]:
        """As JSON data."""
        counts = Counter(node.provider for node in self.nodes)
        return {
            "precision": self.precision,
            "nodes": [{"provider": name, "count": count} for name, count in counts.items()],
            "cpu_nodes": [str(node) for node in self.cpu_nodes],
            "agreement": None if self.agreement is None else self.agreement.report(),
            "candidates": [each.report() for each in self.candidates],
        }


def place(open_on: Open[T], device: Device, placement: Placement, sha256: str) -> tuple[T, Placed]:
    """Open a policy on a device.

    Args:
        open_on: opens it on a device, as a placement says.
        device: where.
        placement: how; the provider `auto` means the fastest one. Its rows are those of the policy's batch.
        sha256: of the policy, under which measurements are kept.

    Returns:
        The opened policy, which the caller closes, and where it is.

    Raises:
        DeviceError: no provider of the device opens it, or it computes something else than the CPU.
        EdgertError: the policy cannot be opened anywhere.
    """
    if placement.provider != AUTO:
        return _proven(open_on, device, placement, ())
    candidates = _measured(open_on, device, placement, sha256)
    for number, each in enumerate(candidates):
        if each.reason:
            continue
        try:
            others = (*candidates[:number], *candidates[number + 1 :])
            ranked = (each, *sorted(others, key=lambda other: bool(other.reason)))
            return _proven(open_on, device, replace(placement, provider=each.provider), ranked)
        except EdgertError as error:  # of one that was measured in an earlier run, before something changed
            candidates = (*candidates[:number], replace(each, reason=str(error)), *candidates[number + 1 :])
    raise DeviceError(
        f"no provider of {device.name} ({device.chip}) runs this policy",
        found="; ".join(f"{each.provider}: {each.reason}" for each in candidates),
    )


def _proven(
    open_on: Open[T], device: Device, placement: Placement, candidates: tuple[Candidate, ...]
) -> tuple[T, Placed]:
    """Open it, and compare it with the CPU unless it runs by the CPU's own provider."""
    with ExitStack() as resources:
        opened = open_on(device, placement)
        resources.callback(opened.close)
        agreement = None
        if opened.provider != CPU_PROVIDER:
            reference = open_on(find_device("cpu"), Placement(rows=placement.rows))
            resources.callback(reference.close)
            agreement = compare(opened, reference, placement.precision)
            reference.close()
            check(agreement, opened.provider, opened.name)
            _begin_anew(opened)
        resources.pop_all()
    return opened, Placed(
        device=device,
        provider=provider(opened.provider),
        nodes=opened.nodes,
        agreement=agreement,
        candidates=candidates,
        precision=placement.precision,
    )


def _begin_anew(opened: Placeable) -> None:
    """As if it had never acted."""
    opened.reset()
    for array in (*opened.obs.values(), *opened.out.values()):
        array[...] = 0


def _measured(open_on: Open[T], device: Device, placement: Placement, sha256: str) -> tuple[Candidate, ...]:
    """Every provider of the device, the fastest first, then those that are out with the reason."""
    found: dict[str, Candidate] = {}
    unknown: list[Provider] = []
    for each in providers_here(device):
        path = entry(sha256, each.runtime, provider_version(each), device, placement)
        kept = None if path is None else recall(path)
        if kept is None:
            unknown.append(each)
        else:
            found[each.name] = kept
    if unknown:
        found |= _measure(open_on, device, placement, unknown)
    for each in unknown:
        path = entry(sha256, each.runtime, provider_version(each), device, placement)
        if path is not None and not found[each.name].reason:
            keep(path, found[each.name])
    if not found:
        found["none"] = Candidate(provider="none", reason="no provider for this device is installed")
    return tuple(sorted(found.values(), key=lambda each: (bool(each.reason), each.median_us)))


def _measure(
    open_on: Open[T], device: Device, placement: Placement, providers: Sequence[Provider]
) -> dict[str, Candidate]:
    """Let providers act in turns, so that all of them see the same machine."""
    found: dict[str, Candidate] = {}
    times: dict[str, list[int]] = {}
    with ExitStack() as resources:
        reference = open_on(find_device("cpu"), Placement(rows=placement.rows))
        resources.callback(reference.close)
        acting: dict[str, T] = {}
        for each in providers:
            try:
                opened = open_on(device, replace(placement, provider=each.runtime))
            except EdgertError as error:
                found[each.name] = Candidate(provider=each.name, reason=str(error))
                continue
            resources.callback(opened.close)
            _begin_anew(reference)
            agreement = compare(opened, reference, placement.precision)
            reason = "" if agreement.good else f"it differs from the CPU by {agreement.text()}"
            found[each.name] = Candidate(provider=each.name, error=_finite(agreement), reason=reason)
            if not reason:
                acting[each.name] = opened
        random = np.random.default_rng(0)
        for opened in acting.values():
            fill(opened, random)
            _times(opened, _WARM_UP)
        for _ in range(_ROUNDS):
            for name, opened in acting.items():
                times.setdefault(name, []).extend(_times(opened, _ROUND_ACTS))
    for name, ns in times.items():
        median, p99 = np.quantile(ns, (0.5, 0.99), method="inverted_cdf") / 1e3
        found[name] = replace(found[name], median_us=float(median), p99_us=float(p99))
    return found


def _times(acts: Acts, count: int) -> list[int]:
    """How long each of `count` acts took, ns; fewer where they take long, at least one."""
    obs, out, times = acts.obs, acts.out, []
    end = time.perf_counter() + _ROUND_S
    for _ in range(count):
        begin = time.perf_counter_ns()
        acts.act(obs, out)
        times.append(time.perf_counter_ns() - begin)
        if time.perf_counter() > end:
            break
    return times


def _finite(agreement: Agreement) -> float | None:
    return agreement.error if np.isfinite(agreement.error) else None
