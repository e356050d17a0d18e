"""Measuring one model on one device by one provider: `measure`. It runs in a process of its own; see `worker`.

Timed is one act on arrays of the policy's own, which are filled before: from the call until the outputs are in the
host's memory.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from edgert.bench.acting import Subject, subject
from edgert.device import Device
from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.policy.agreement import Acts, compare, fill
from edgert.policy.engine import Node, Placement
from edgert.policy.engine.opening import provider_of, provider_version
from edgert.policy.engine.protocol import Precision
from edgert.rollout.statistics import latency_us

TIMING: Final = "from calling act on the policy's own, filled arrays until the outputs are in the host's memory"
MAX_STAGE_S: Final = 10.0
"""Longest that acting without a pause takes, however many acts were asked for."""
MAX_PACED_S: Final = 600.0

Samples = npt.NDArray[np.int64]
"""Times of acts, ns."""


class Opened(Acts, Protocol):
    """A policy or a network alone."""

    provider: str
    nodes: tuple[Node, ...]

    def close(self) -> None:
        """Release it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be measured.

    Attributes:
        model: a file or the name of a policy.
        contract: a policy.toml of the user's, "" for none.
        format: that it was exported in, "" where that is clear.
        device: the chip.
        provider: by its name.
        batches: numbers of rows whose throughput is measured.
        acts: timed one after the other without a pause, at one row.
        warm_up: acts before these.
        paced_s: how long it acts at the control rate, s.
        hz: the control rate, Hz; 0: that of the policy.
        throughput_s: how long each number of rows is measured, s.
        precision, allow_cpu_nodes: see `Placement`.
        seed: of the numbers that it acts on.
    """

    model: str
    contract: str = ""
    format: str = ""
    device: Device
    provider: str
    batches: tuple[int, ...] = (1, 16, 256, 4096)
    acts: int = 5_000
    warm_up: int = 200
    paced_s: float = 2.0
    hz: float = 0.0
    throughput_s: float = 0.5
    precision: Precision = "fp32"
    allow_cpu_nodes: bool = False
    seed: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Request:
        """From JSON data that `document` made."""
        device = dict(document["device"])
        lists = {name: tuple(device[name]) for name in ("providers", "physics", "notes")}
        return cls(
            **{**document, "device": Device(**{**device, **lists}), "batches": tuple(document["batches"])},
        )


def measure(
    request: Request, caches: Path, stage: Callable[[str], None] = lambda name: None
) -> tuple[dict[str, Any], dict[str, Samples]]:
    """The figures of one provider, and the raw samples by name.

    Args:
        request: what is measured.
        caches: an empty folder for the engines that it builds.
        stage: told what is going on.

    Raises:
        EdgertError: the model cannot be opened so.
    """
    what = subject(request.model, Path(request.contract) if request.contract else None, request.format or None)
    chosen = provider_of(request.device, request.provider)
    placement = Placement(
        provider=chosen.runtime,
        allow_cpu_nodes=request.allow_cpu_nodes,
        precision=request.precision,
        caches=caches,
    )
    random = np.random.default_rng(request.seed)
    samples: dict[str, Samples] = {}
    with ExitStack() as resources:
        stage("building")
        before_bytes = _resident_bytes()
        cold_s, opened = _timed_open(what, request.device, placement)
        opened.close()
        warm_s, opened = _timed_open(what, request.device, placement)
        resources.callback(opened.close)
        memory_bytes = max(0, _resident_bytes() - before_bytes)
        stage("comparing")
        agreement = None
        if opened.provider != CPU_PROVIDER:
            with _reference(what) as reference:
                agreement = compare(opened, reference, request.precision, request.seed)
        stage("acting")
        fill(opened, random)
        first = _act(opened, 1)
        warm = np.concatenate([first, _act(opened, request.warm_up - 1)])
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        samples["latency_ns"] = _act(opened, request.acts)
        busy = _share(cpu_s, wall_s)
        stage("acting at the control rate")
        hz = request.hz or what.hz
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        samples["paced_ns"] = _paced(opened, hz, request.paced_s)
        paced_busy = _share(cpu_s, wall_s)
        shapes = {name: array.shape for name, array in (*opened.obs.items(), *opened.out.items())}
        nodes = opened.nodes
    throughput = []
    for rows in request.batches:
        opened = what.open(request.device, replace(placement, rows=rows))
        try:
            fill(opened, random)
            _act(opened, 3)
            stage(rows_stage(rows))
            samples[f"rows_{rows}_ns"] = times = _act(opened, 1 << 20, request.throughput_s)
            stage("closing")
        finally:
            opened.close()
        throughput.append(
            {
                "rows": rows,
                "rows_per_s": float(rows * len(times) / (times.sum() * 1e-9)),
                "act_us": float(np.median(times) / 1e3),
                "acts": len(times),
            }
        )
    strays = [node for node in nodes if node.provider == CPU_PROVIDER != chosen.runtime]
    return {
        "device": request.device.name,
        "device_chip": request.device.chip,
        "provider": chosen.name,
        "runtime": chosen.runtime,
        "version": provider_version(chosen),
        "run_on_hardware": chosen.proven,
        "measured": "policy" if what.loaded is not None else "network",
        "contract": what.why,
        "policy": str(what.file.path),
        "policy_sha256": what.file.sha256,
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "nodes": len(nodes),
        "cpu_nodes": [str(node) for node in strays],
        "agreement": None if agreement is None else agreement.report(),
        "build_cold_s": cold_s,
        "build_warm_s": warm_s,
        "first_act_us": float(first[0] / 1e3),
        "warm_up_us": latency_us(warm),
        "latency_us": latency_us(samples["latency_ns"]),
        "cpu_percent": busy,
        "paced_hz": hz,
        "paced_latency_us": latency_us(samples["paced_ns"]),
        "paced_cpu_percent": paced_busy,
        "memory_bytes": memory_bytes,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "throughput": throughput,
    }, samples


def rows_stage(rows: int) -> str:
    """What the stage of a number of rows is called."""
    return f"acting on {rows} rows"


def _timed_open(what: Subject, device: Device, placement: Placement) -> tuple[float, Any]:
    """How long opening takes until the first outputs are known, and what was opened."""
    begin = time.perf_counter()
    opened = what.open(device, placement)
    return time.perf_counter() - begin, opened


def _reference(what: Subject) -> Any:
    from edgert.device import find_device

    return what.open(find_device("cpu"), Placement())


def _act(opened: Acts, count: int, limit_s: float = MAX_STAGE_S) -> Samples:
    """Times of `count` acts without a pause; of fewer where the time is over, of at least one."""
    act, obs, out, clock = opened.act, opened.obs, opened.out, time.perf_counter_ns
    times = np.empty(max(1, count), np.int64)
    end = clock() + int(limit_s * 1e9)
    done = 0
    for done in range(1, len(times) + 1):
        begin = clock()
        act(obs, out)
        now = clock()
        times[done - 1] = now - begin
        if now > end:
            break
    return times[:done].copy()


def _paced(opened: Acts, hz: float, seconds: float) -> Samples:
    """Times of acts at a rate, as a control loop acts: what sleeps in between has to wake up first."""
    count = max(1, round(min(seconds, MAX_PACED_S) * hz))
    times = np.empty(count, np.int64)
    start, clock = time.perf_counter(), time.perf_counter_ns
    for tick in range(count):
        left_s = start + tick / hz - time.perf_counter()
        if left_s > 0.0:
            time.sleep(left_s)
        begin = clock()
        opened.act(opened.obs, opened.out)
        times[tick] = clock() - begin
    return times


def _share(cpu_s: float, wall_s: float) -> float:
    """CPU time of all threads of this process since then, per cent of one core."""
    wall = time.perf_counter() - wall_s
    return 100.0 * (time.process_time() - cpu_s) / wall if wall > 0.0 else 0.0


def _resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0
