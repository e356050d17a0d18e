"""`bench_policy`: latency and throughput of a model by every provider of this node, compared with the CPU."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from edgert.bench.acting import subject
from edgert.bench.measure import TIMING, Request, rows_stage
from edgert.bench.power import Meter, Samples, add_energy
from edgert.bench.worker import run_worker
from edgert.device import Device, find_device
from edgert.device.disclosure import Disclosure, telling
from edgert.device.machine import LiveMachine
from edgert.device.survey import Survey, survey
from edgert.device.telemetry import Sampler
from edgert.errors import DeviceError, UnsupportedError
from edgert.policy.engine.opening import providers_here
from edgert.policy.engine.providers import provider
from edgert.tables import is_number
from edgert.writing import part_of, put

MAX_ACTS: Final = 10_000_000
MAX_ROWS: Final = 1 << 20

Progress = Callable[[str], None]


def bench_policy(
    request: Request,
    devices: Sequence[str] = (),
    providers: Sequence[str] = (),
    samples: Path | None = None,
    progress: Progress = lambda text: None,
) -> dict[str, Any]:
    """Measure a model.

    Args:
        request: what is measured; its device and provider are those that follow.
        devices: names; none: every chip of this node that has a provider here.
        providers: names; none: every provider of each chip.
        samples: the file for the raw samples, None to keep none.
        progress: told what is going on.

    Returns:
        The report, see docs/json.md: `runs`, one for each device and provider, and `disclosure`.

    Raises:
        EdgertError: the model cannot be used, or nothing that was asked for is here.
    """
    _check(request)
    what = subject(request.model, Path(request.contract) if request.contract else None, request.format or None)
    machine = LiveMachine()
    found = survey(machine)
    pairs = list(_pairs(found, devices, providers))
    chips = list({device.name: device for device, _ in pairs}.values())
    with telling(chips, machine, found) as told:
        runs, kept = _runs(request, pairs, progress, lambda device: Sampler(machine, found, [device]))
    path, digest = _keep(samples, kept)
    first = next((run for run in runs if not run["failed"]), {})
    disclosure = Disclosure(
        kind="measured",
        devices=told,
        model=str(what.file.path),
        model_sha256=what.file.sha256,
        shapes=first.get("shapes", {}),
        precision=request.precision,
        seed=request.seed,
        timing=TIMING,
        warm_up=f"{request.warm_up} acts after building, told apart",
        counts={
            "acts without a pause": request.acts,
            "acts at the control rate": round(request.paced_s * _hz(request, what.hz)),
        },
        samples=path,
        samples_sha256=digest,
    )
    return {
        "policy": str(what.file.path),
        "policy_sha256": what.file.sha256,
        "measured": "policy" if what.loaded is not None else "network",
        "contract": what.why,
        "runs": runs,
        "disclosure": disclosure.report(machine),
    }


def _hz(request: Request, hz: float) -> float:
    return request.hz or hz


def _check(request: Request) -> None:
    """Refuse values that cannot be meant."""
    for name, value, low, high in (
        ("--acts", request.acts, 1, MAX_ACTS),
        ("--warm-up", request.warm_up, 1, MAX_ACTS),
        *(("--rows", rows, 1, MAX_ROWS) for rows in request.batches),
        ("--paced-seconds", request.paced_s, 0.1, 600.0),
        ("--hz", request.hz or 1.0, 0.1, 10_000.0),
    ):
        if not is_number(value) or not low <= value <= high:
            raise UnsupportedError(f"{name} is out of range", found=value, expected=f"{low:g} to {high:g}")


def _pairs(found: Survey, devices: Sequence[str], providers: Sequence[str]) -> Iterator[tuple[Device, str]]:
    """Each chip with each of its providers, of those that were asked for."""
    chips = [find_device(name) for name in devices] or [each for each in found.devices if each.providers]
    wanted = {provider(name).runtime for name in providers}
    count = 0
    for device in chips:
        for each in providers_here(device):
            if not wanted or each.runtime in wanted:
                count += 1
                yield device, each.name
    if not count:
        here = (f"{device.name}: {', '.join(device.providers) or 'no provider'}" for device in found.devices)
        places = ", ".join(device.name for device in chips) or "a device"
        raise DeviceError(
            "nothing that was asked for is on this node",
            found=", ".join(here),
            expected=f"{', '.join(providers) or 'a provider'} on {places}",
            hint="edgert doctor device says what to install",
        )


def _runs(
    request: Request,
    pairs: Sequence[tuple[Device, str]],
    progress: Progress,
    sampler: Callable[[Device], Samples],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One after the other, each in a process of its own."""
    runs: list[dict[str, Any]] = []
    kept: dict[str, Any] = {}
    for number, (device, name) in enumerate(pairs, 1):
        where = f"{device.name} by {name} ({number} of {len(pairs)})"
        progress(f"{where}: starting")
        meter = Meter(
            sampler(device),
            [rows_stage(rows) for rows in request.batches],
            lambda stage, where=where: progress(f"{where}: {stage}"),  # type: ignore[misc]
        )
        with tempfile.TemporaryDirectory(prefix="edgert-bench-") as folder:
            run = run_worker(replace(request, device=device, provider=name), Path(folder), meter.stage)
            meter.stage("")
            add_energy(run.get("throughput", ()), meter, rows_stage)
            run = {"device": device.name, "device_chip": device.chip, "provider": name, "failed": "", **run}
            if not run["failed"]:
                with np.load(Path(folder) / "samples.npz", allow_pickle=False) as arrays:
                    kept |= {f"{device.name}/{name}/{key}": arrays[key] for key in arrays.files}
        runs.append(run)
    return runs, kept


def _keep(path: Path | None, samples: dict[str, Any]) -> tuple[str, str]:
    """Write the raw samples, and tell their digest."""
    if path is None or not samples:
        return "", ""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **samples)
    data = buffer.getvalue()
    try:
        with part_of(path) as part:
            part.write_bytes(data)
            put(part, path)
    except OSError as error:
        raise UnsupportedError(f"cannot write {path}", found=error.strerror or error) from error
    return str(path), hashlib.sha256(data).hexdigest()
