"""Asking every platform side by side what is there: `survey`. None of them can hold up the others or raise.

A platform is an entry point of the group `edgert.devices`: a `Platform`, whose `probe` looks at a `Machine` and says
what it found, or why it found nothing. Importing this module imports no probe.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from edgert.device.chips import Chip, bundled_chips, identify, read_chips
from edgert.device.device import Device, cpu_name, cpuinfo
from edgert.device.machine import LiveMachine, Machine, Watched
from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.device.reading import Reading
from edgert.errors import DeviceError, EdgertError, UnknownNameError, one_line
from edgert.registry import Registry

PROBE_S: Final = 1.0
"""Time that the tools of one platform have to answer."""
SURVEY_S: Final = 1.5
"""Time after which a platform that still looks counts as silent."""
UNPROVEN: Final = "not yet run on hardware"
"""What is said of every platform that edgert never ran on."""

PLATFORMS: Final = Registry(
    "edgert.devices",
    "device platform",
    {
        name: f"edgert.device.probes.{name}:PLATFORM"
        for name in (
            "cpu", "nvidia", "jetson", "iluvatar", "thead", "ascend", "moore_threads", "hygon", "amd", "intel",
        )
    },
)  # fmt: skip

PLUGINS: Final[Mapping[str, str]] = {
    "OpenVINOExecutionProvider": "onnxruntime-ep-openvino",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-ep-nv-tensorrt-rtx",
    "IxRT": "ixrt",
}
"""Inference provider to the package that adds it beside any onnxruntime."""

_RUNTIME: Final = ""
"""Stands for onnxruntime, which is asked beside the platforms."""
_EVERYWHERE: Final = (CPU_PROVIDER, "AzureExecutionProvider")
"""Providers of every build, which say nothing of a chip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one platform found.

    Attributes:
        devices: what is there.
        no: why there is nothing, or not more.
        trouble: what is there and cannot be used, such as a card without its driver; "" where nothing is wrong.
        fix: what to do about the trouble.
        looked: what was looked at and what came of it, one line each; filled in by `survey`.
    """

    devices: tuple[Device, ...] = ()
    no: str = ""
    trouble: str = ""
    fix: str = ""
    looked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """How the chips of one kind are found and read.

    Attributes:
        name: its name in the registry.
        vendor: who makes them.
        prefix: how the names of its devices begin, such as "cuda".
        probe: looks at a machine; raises nothing.
        read: reads the telemetry of one device that the probe found; raises nothing.
        providers: inference providers for it, best first; "*" stands for any that only some builds have.
        install: what brings a provider: a sentence for people.
        proven: whether edgert ran on such a chip.
        chips: a table of chips of its own, as `chips.toml` is; None for the bundled one alone.
    """

    name: str
    vendor: str
    prefix: str
    probe: Callable[[Machine], Finding]
    read: Callable[[Machine, Device], Reading]
    providers: tuple[str, ...] = ()
    install: str = ""
    proven: bool = False
    chips: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a machine holds: devices in order, and the finding of each platform."""

    devices: tuple[Device, ...]
    findings: Mapping[str, Finding]
    platforms: Mapping[str, Platform]
    chips: Mapping[str, Chip]
    """Those that are known, by name."""
    runtime: str
    """Why nothing is known of inference providers, "" where they are."""

    def platform_of(self, device: Device) -> Platform:
        """The platform that found a device."""
        return next(
            self.platforms[name]
            for name, finding in self.findings.items()
            if any(one.name == device.name for one in finding.devices)
        )

    def device(self, name: str) -> Device:
        """The device of that name.

        Raises:
            UnknownNameError: there is none; the error lists those that are there, and why others are not.
        """
        for device in self.devices:
            if device.name == name:
                return device
        prefix = name.partition(":")[0]
        reasons = [
            f"{platform.vendor}: {self.findings[key].no}"
            for key, platform in self.platforms.items()
            if prefix == platform.prefix and self.findings[key].no
        ]
        raise UnknownNameError(
            f"unknown device '{name}'",
            expected=("one of " if len(self.devices) > 1 else "") + ", ".join(one.name for one in self.devices),
            hint="; ".join(reasons) or "edgert device list shows what is there",
        )


def load_platforms() -> tuple[dict[str, Platform], dict[str, Finding]]:
    """The platforms that can be loaded, built-ins first, and why the others cannot."""
    platforms, broken = {}, {}
    for name in PLATFORMS.entries():
        try:
            platform = PLATFORMS.load(name)
        except EdgertError as error:
            broken[name] = Finding(no=str(error))
            continue
        if isinstance(platform, Platform):
            platforms[name] = platform
        else:
            broken[name] = Finding(no=f"the plug-in for '{name}' is no Platform")
    return platforms, broken


def survey(machine: Machine | None = None, *, probe_s: float = PROBE_S, limit_s: float = SURVEY_S) -> Survey:
    """Ask every platform at the same time: the tools of each for `probe_s` seconds, all together for `limit_s` at most.

    Raises:
        UnsupportedError: two platforms have one name.
    """
    machine = machine or LiveMachine()
    platforms, broken = load_platforms()
    deadline_s = time.monotonic() + probe_s
    asked = {name: Watched(machine.by(deadline_s)) for name in (*platforms, _RUNTIME)}
    questions = {name: platform.probe for name, platform in platforms.items()} | {_RUNTIME: _available}
    answers = _ask(questions, asked, limit_s)
    runtime = answers.pop(_RUNTIME, f"python (onnxruntime) did not answer within {limit_s:g} s")
    available = runtime if isinstance(runtime, list) else []
    if "did not answer" in str(runtime) and len(machine.runtimes()) == 1:
        available = [CPU_PROVIDER]  # which every build has, however long its import takes
    tables, wrong = _tables(platforms)
    host = _host(asked.get("cpu"))
    findings: dict[str, Finding] = {}
    for name, platform in platforms.items():
        finding = answers.get(name, Finding(no=f"no answer within {limit_s:g} s"))
        if not isinstance(finding, Finding):
            finding = Finding(no="its probe gave no Finding")
        finding = _without_doubles(finding, findings)
        devices = tuple(
            _completed(device, platform, available, machine.packages(), tables, host) for device in finding.devices
        )
        looked = asked[name].looked_at() if name in answers else ()
        findings[name] = replace(finding, devices=devices, looked=looked)
    return Survey(
        devices=tuple(device for finding in findings.values() for device in finding.devices),
        findings={**findings, **broken, **wrong},
        platforms=platforms,
        chips={chip.name: chip for chip in reversed(tables)},
        runtime="" if isinstance(runtime, list) else str(runtime),
    )


def _ask(
    questions: Mapping[str, Callable[[Machine], Any]], machines: Mapping[str, Machine], limit_s: float
) -> dict[str, Any]:
    """What each question gave of its machine, of those that were answered in time."""
    answers: dict[str, Any] = {}

    def ask(name: str) -> None:
        try:
            answers[name] = questions[name](machines[name])
        except Exception as error:  # a plug-in may raise anything; nothing of it ends the survey
            answers[name] = Finding(no=f"its probe broke: {one_line(f'{type(error).__name__}: {error}')}")

    until_s = time.monotonic() + limit_s
    # Daemons: what hangs in a driver ends with the program.
    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    return dict(answers)


def _tables(platforms: Mapping[str, Platform]) -> tuple[list[Chip], dict[str, Finding]]:
    """The chips that are known, and what is wrong with tables of plug-ins."""
    tables, wrong = [*bundled_chips().values()], {}
    for name, platform in platforms.items():
        if platform.chips is not None:
            try:
                tables += read_chips(platform.chips).values()
            except EdgertError as error:
                wrong[f"{name} (chips)"] = Finding(no=str(error))
    return tables, wrong


def _without_doubles(finding: Finding, before: Mapping[str, Finding]) -> Finding:
    """A finding whose devices no platform before has listed under the same names."""
    listed = {device.name: name for name, other in before.items() for device in other.devices}
    for device in finding.devices:
        if device.name in listed:
            return replace(finding, devices=(), no=f"{device.name} is listed by {listed[device.name]} already")
    return finding


def _available(machine: Machine) -> list[str] | str:
    """The inference providers of the installed onnxruntime, or why nothing is known of them."""
    runtimes = machine.runtimes()
    if len(runtimes) > 1:  # importing either would run what is left of both
        return f"more than one onnxruntime is installed: {', '.join(runtimes)}"
    answer = machine.child("onnxruntime")
    if answer.problem:
        return "no onnxruntime is installed" if not runtimes else answer.problem
    try:
        names = json.loads(answer.text)
    except (ValueError, RecursionError):
        return "onnxruntime does not list its providers"
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    return "onnxruntime does not list its providers"


def _host(cpu: Watched | None) -> str:
    """The name of the CPU, for chips that are told by what is beside them."""
    answer = cpu.files.get("/proc/cpuinfo") if cpu is not None else None
    return cpu_name(cpuinfo(answer.text)) if answer is not None else ""


def _completed(
    device: Device,
    platform: Platform,
    available: list[str],
    packages: Mapping[str, str],
    tables: list[Chip],
    host: str,
) -> Device:
    """A device with its chip in the tables, its providers and what has to be said of it."""
    chip = identify(tables, device.chip, host)
    wanted = platform.providers
    if wanted == ("*",):
        wanted = tuple(name for name in available if name not in _EVERYWHERE)
    # A plug-in needs an onnxruntime that works, and such a one lists providers.
    providers = tuple(name for name in wanted if name in available or (available and PLUGINS.get(name) in packages))
    notes = device.notes
    if not platform.proven:
        notes += (UNPROVEN,)
    if not providers:
        notes += (f"no inference provider for it is installed. {platform.install}",)
    if chip is not None and chip.notes:
        notes += (chip.notes,)
    return replace(device, model=chip.name if chip is not None else "", providers=providers, notes=notes)


def usable_device(name: str, machine: Machine | None = None) -> Device:
    """The device of that name, which an inference provider for it is installed for.

    Raises:
        UnknownNameError: there is none of that name.
        DeviceError: no inference provider for it is installed.
    """
    machine = machine or LiveMachine()
    found = survey(machine)
    device = found.device(name)
    if device.providers:
        return device
    platform = found.platform_of(device)
    installed = ", ".join(machine.runtimes())
    raise DeviceError(
        f"no inference provider for device '{name}' ({device.chip}) is installed",
        found=found.runtime or installed or "no onnxruntime",
        expected=" or ".join(name for name in platform.providers if name != "*"),
        hint=platform.install,
    )
