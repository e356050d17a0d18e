"""`Disclosure`: what every report says of how its numbers came about, so that another can judge and repeat them.

Nothing in it is a guess: what is not known is None, with the reason where there is one.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from edgert.device.device import Device, cpu_name, cpuinfo
from edgert.device.installation import installed_version
from edgert.device.machine import LiveMachine, Machine
from edgert.device.onnxruntime import installed_runtimes
from edgert.device.probes.cpu import PLATFORM as CPU
from edgert.device.probes.cpu import power_mode
from edgert.device.survey import Finding, Survey, survey
from edgert.device.telemetry import Sampler

Kind = Literal["measured", "replayed", "simulated"]
PACKAGES: Final = (
    "numpy", "mujoco", "onnx", "gymnasium", "array-api-compat", "pyarrow", "torch", "warp-lang", "mujoco-warp",
    "onnxruntime-ep-openvino", "onnxruntime-ep-nv-tensorrt-rtx", "ixrt",
)  # fmt: skip
"""Distributions whose version may change a result, named where they are installed."""
_GIT_S: Final = 2.0
_SCHEDULERS: Final = {os.SCHED_OTHER: "SCHED_OTHER", os.SCHED_FIFO: "SCHED_FIFO", os.SCHED_RR: "SCHED_RR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A chip, and what it told of itself before and after, such as its power mode and clocks.

    Attributes:
        device: the chip, with the evidence for it.
        before, after: metric to value, None where it is not told.
        missing: metric to the reason why it is not.
    """

    device: Device
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def report(self) -> dict[str, Any]:
        """As JSON data."""
        device = self.device
        return {
            "name": device.name,
            "chip": device.chip,
            "driver": device.driver,
            "arch": device.arch,
            "memory_bytes": device.memory_bytes,
            "evidence": [f"{fact}: {source}" for fact, source in device.evidence.items()],
            "before": dict(self.before),
            "after": dict(self.after),
            "missing": [f"{metric}: {reason}" for metric, reason in self.missing.items()],
        }


@contextmanager
def telling(
    devices: Sequence[Device], machine: Machine | None = None, found: Survey | None = None
) -> Iterator[list[Told]]:
    """What chips tell before and after the block; the list is filled at its end.

    Args:
        devices: the chips.
        machine: where they are, by default this one.
        found: its survey, by default made here; for the CPU alone no platform is asked.
    """
    machine = machine or LiveMachine()
    if found is None:
        found = _cpu_alone(devices[0]) if all(device.name == "cpu" for device in devices) else survey(machine)
    names = {device.name for device in devices}
    known = [device for device in found.devices if device.name in names]
    sampler = Sampler(machine, found, known)
    before = {sample.device: sample for sample in sampler.sample()}
    told: list[Told] = []
    yield told
    for device, sample in zip(known, sampler.sample(), strict=True):
        told.append(Told(device=device, before=before[device.name].values, after=sample.values, missing=sample.missing))


def _cpu_alone(device: Device) -> Survey:
    finding = Finding(devices=(device,))
    return Survey(devices=(device,), findings={"cpu": finding}, platforms={"cpu": CPU}, chips={}, runtime="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """How numbers came about.

    Attributes:
        kind: whether they were measured here, replayed from a recording of another machine, or simulated.
        devices: the chips that computed.
        model, model_sha256: the policy; its digest covers external weights and further networks.
        scene, scene_sha256: what was simulated, "" for nothing.
        shapes: name to the shape of each input and output.
        precision: of the network's arithmetic.
        seed: of everything that was drawn.
        timing: from where to where it was timed, in words.
        warm_up: what ran before anything counted, in words.
        counts: how many samples of what.
        samples, samples_sha256: the file of the raw samples, "" for none.
        command: as it was typed; by default that of this process.
    """

    kind: Kind
    devices: Sequence[Told]
    model: str
    model_sha256: str
    scene: str = ""
    scene_sha256: str = ""
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    precision: str = "fp32"
    seed: int = 0
    timing: str = ""
    warm_up: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    samples: str = ""
    samples_sha256: str = ""
    command: str = field(default_factory=lambda: shlex.join(["edgert", *sys.argv[1:]]))

    def report(self, machine: Machine | None = None) -> dict[str, Any]:
        """As JSON data, with what this host is and what is installed on it now."""
        commit, dirty = commit_of(Path(__file__).resolve().parents[2])
        return {
            "kind": self.kind,
            "command": self.command,
            "edgert": installed_version("edgert"),
            "commit": commit,
            "dirty": dirty,
            "python": platform.python_version(),
            "packages": list(packages()),
            "host": host(machine or LiveMachine()),
            "devices": [told.report() for told in self.devices],
            "model": self.model,
            "model_sha256": self.model_sha256,
            "scene": self.scene,
            "scene_sha256": self.scene_sha256,
            "shapes": [f"{name}{list(shape)}" for name, shape in self.shapes.items()],
            "precision": self.precision,
            "seed": self.seed,
            "timing": self.timing,
            "warm_up": self.warm_up,
            "counts": [f"{count} {what}" for what, count in self.counts.items()],
            "samples": self.samples,
            "samples_sha256": self.samples_sha256,
        }


def packages(names: Iterable[str] = PACKAGES) -> tuple[str, ...]:
    """Name and version of what is installed, onnxruntime by whichever name it goes."""
    found = {name: installed_version(name) for name in names}
    return (*installed_runtimes(), *(f"{name} {version}" for name, version in found.items() if version is not None))


def host(machine: Machine) -> dict[str, Any]:
    """The computer that it ran on: CPU, kernel, governor, whether it keeps time."""
    return {
        "cpu": cpu_name(cpuinfo(machine.text("/proc/cpuinfo"))) or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "governor": power_mode(machine),
        "realtime_kernel": machine.text("/sys/kernel/realtime") == "1",
        "scheduler": _SCHEDULERS.get(os.sched_getscheduler(0), "another one"),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def commit_of(folder: Path) -> tuple[str | None, bool | None]:
    """The commit of a checkout, and whether it was changed since; None where it is none, or git does not tell."""
    if not (folder / ".git").exists():
        return None, None
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit or None, None if changed is None else bool(changed)


def _git(folder: Path, *arguments: str) -> str | None:
    # --no-optional-locks: looking must not write into a checkout that others use
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(  # noqa: S603  # own words and the folder of this package
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
