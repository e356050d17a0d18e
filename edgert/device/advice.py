"""What stands in the way of using the chips that are there, and what to do about it; nothing is changed.

Each check judges a surveyed machine, live or recorded. What does not concern a machine is not mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from edgert.device.device import Device
from edgert.device.host import Check, governor_check
from edgert.device.machine import Machine
from edgert.device.probes import jetson
from edgert.device.survey import UNPROVEN, Survey

WARP_CUDA: Final = 13
"""CUDA that the plain wheels of warp-lang are built for."""
DRIVERS: Final = {12: 525, 13: 580}
"""CUDA to the oldest driver that runs it: NVIDIA, CUDA compatibility, table of minor version compatibility."""
_JETPACK_CUDA: Final = ((38, 13), (36, 12))
"""First release of Linux for Tegra to the CUDA of its JetPack; JetPack 5 has 11."""
_JETSONS: Final = ("sm_72", "sm_87", "sm_101", "sm_110")


def device_checks(machine: Machine, found: Survey) -> list[Check]:
    """Every check that concerns this machine, those of drivers first."""
    return [check for checks in CHECKS for check in checks(machine, found)]


def drivers(machine: Machine, found: Survey) -> Iterator[Check]:
    """Chips that are there and cannot be used."""
    for name, finding in found.findings.items():
        if finding.trouble:
            yield Check(name=f"driver-{name}", status="warn", found=finding.trouble, fix=finding.fix)


def runtimes(machine: Machine, found: Survey) -> Iterator[Check]:
    """Exactly one onnxruntime, which lists its providers."""
    installed = machine.runtimes()
    if len(installed) > 1:
        names = " ".join(entry.split()[0] for entry in installed)
        yield Check(
            name="onnxruntime",
            status="fail",
            found=f"{', '.join(installed)}: they overwrite each other's files",
            fix=f"pip uninstall -y {names}, then install the one for this chip",
        )
    elif found.runtime:
        fix = "" if installed else 'pip install "edgert[cpu]"'
        yield Check(name="onnxruntime", status="warn", found=found.runtime, fix=fix or "See what importing it says")
    else:
        yield Check(name="onnxruntime", status="ok", found=", ".join(installed) or "without metadata")


def providers(machine: Machine, found: Survey) -> Iterator[Check]:
    """Chips without an inference provider, as CUDA with a build for the CPU."""
    for device in _first_of_each(found):
        if device.name == "cpu" or _is_jetson(device):
            continue
        platform = found.platform_of(device)
        name = f"provider-{device.name.replace(':', '-')}"
        if device.providers:
            doubt = "" if platform.proven else f"; {UNPROVEN}"
            yield Check(name=name, status="ok", found=f"{', '.join(device.providers)} for {device.chip}{doubt}")
        elif platform.providers:
            installed = ", ".join(machine.runtimes()) or "no onnxruntime"
            yield Check(
                name=name, status="warn", found=f"{installed} has no provider for {device.chip}", fix=platform.install
            )


def jetson_wheel(machine: Machine, found: Survey) -> Iterator[Check]:
    """The registry's aarch64 wheel has kernels for data-centre chips alone, and fails inside CUDA."""
    for device in found.devices:
        if not _is_jetson(device):
            continue
        version = machine.packages().get("onnxruntime-gpu")
        fix = found.platform_of(device).install
        if version is not None:
            yield Check(
                name="jetson-wheel",
                status="warn",
                found=f"onnxruntime-gpu {version}: the one of PyPI has no kernels for {device.arch}",
                fix=f"If it is that one: {fix}",
            )
        elif not device.providers:
            installed = ", ".join(machine.runtimes()) or "no onnxruntime"
            yield Check(
                name="jetson-wheel",
                status="warn",
                found=f"{installed} has no provider for {device.chip}",
                fix=f"Run: pip uninstall -y onnxruntime. {fix}",
            )


def warp(machine: Machine, found: Survey) -> Iterator[Check]:
    """A driver older than the installed Warp needs."""
    version = machine.packages().get("warp-lang")
    cards = [device for device in found.devices if device.name.startswith("cuda:")]
    if version is None or not cards:
        return
    tagged = re.search(r"\+cu(\d{2})", version)
    cuda = int(tagged[1]) if tagged is not None else WARP_CUDA
    release = jetson.l4t(machine)
    if release:
        has = next((cuda for first, cuda in _JETPACK_CUDA if int(release.split(".")[0]) >= first), 11)
        found_text, old = f"L4T {release} has CUDA {has}", has < cuda
    else:
        number = re.match(r"\d{1,4}", cards[0].driver)
        if number is None:
            return
        found_text, old = f"driver {cards[0].driver}", int(number[0]) < DRIVERS.get(cuda, 0)
    if old:
        wheel = ", or install the wheel of warp-lang for CUDA 12 (+cu12)" if cuda > 12 else ""
        yield Check(
            name="warp-driver",
            status="warn",
            found=f"{found_text}, but warp-lang {version} needs CUDA {cuda}, driver {DRIVERS.get(cuda, 0)} or newer",
            fix=f"Update {'JetPack' if release else 'the driver'}{wheel}",
        )
    else:
        yield Check(name="warp-driver", status="ok", found=f"{found_text}, new enough for warp-lang {version}")


def cuda_order(machine: Machine, found: Survey) -> Iterator[Check]:
    """CUDA counts cards by their speed and by variables; nvidia-smi, and so edgert, by their places."""
    cards = [device for device in found.devices if device.name.startswith("cuda:")]
    visible = machine.variable("CUDA_VISIBLE_DEVICES")
    ordered = machine.variable("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if visible and cards:
        yield Check(
            name="cuda-order",
            status="warn",
            found=f"CUDA_VISIBLE_DEVICES={visible}: CUDA counts only those, and cuda:0 is the first of them",
            fix="unset CUDA_VISIBLE_DEVICES, and choose with --device",
        )
    elif len({device.chip for device in cards}) > 1 and not ordered:
        yield Check(
            name="cuda-order",
            status="warn",
            found="cards of several kinds: CUDA counts the fastest first, nvidia-smi by place",
            fix="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        )


def openvino(machine: Machine, found: Survey) -> Iterator[Check]:
    """On a TY1200 the providers of today are those of the Intel chips."""
    if not any(device.model == "ty1200" for device in found.devices):
        return
    version = machine.packages().get("onnxruntime-ep-openvino")
    if version is not None:
        yield Check(name="openvino", status="ok", found=f"onnxruntime-ep-openvino {version}")
    else:
        yield Check(
            name="openvino",
            status="warn",
            found="a TY1200 without OpenVINO: its NPU and iGPU stand idle, and no public provider exists for its GPGPU",
            fix="pip install onnxruntime-ep-openvino",
        )


def corex(machine: Machine, found: Survey) -> Iterator[Check]:
    """CoreX finds its libraries by a variable or by the linker's configuration."""
    if not any(device.name.startswith("iluvatar:") for device in found.devices):
        return
    listed = machine.variable("LD_LIBRARY_PATH")
    configured = any("corex" in machine.text(path) for path in machine.names("/etc/ld.so.conf.d/*.conf"))
    if "corex" in listed or configured:
        yield Check(name="corex-libraries", status="ok", found=listed if "corex" in listed else "/etc/ld.so.conf.d")
        return
    yield Check(
        name="corex-libraries",
        status="warn",
        found="neither LD_LIBRARY_PATH nor /etc/ld.so.conf.d names the libraries of CoreX",
        fix="export LD_LIBRARY_PATH=/usr/local/corex/lib64:$LD_LIBRARY_PATH",
    )


def governor(machine: Machine, found: Survey) -> Iterator[Check]:
    """Clocks that fall between ticks."""
    paths = machine.names("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    yield governor_check([text for text in map(machine.text, paths) if text])


def power_mode(machine: Machine, found: Survey) -> Iterator[Check]:
    """A Jetson that is held below what it can."""
    for device in found.devices:
        mode = device.details.get("power mode")
        if not _is_jetson(device) or mode is None:
            continue
        if mode.startswith("MAXN"):
            yield Check(name="power-mode", status="ok", found=mode)
        else:
            yield Check(
                name="power-mode",
                status="warn",
                found=f"{mode}: clocks are held below what the module can",
                fix="sudo nvpmodel -m 0, then sudo jetson_clocks; see nvpmodel -p --verbose for what each mode takes",
            )


def _is_jetson(device: Device) -> bool:
    return device.name.startswith("cuda:") and device.arch in _JETSONS


def _first_of_each(found: Survey) -> Iterator[Device]:
    """The devices, of equal ones the first."""
    seen = set()
    for device in found.devices:
        kind = device.name.partition(":")[0], device.chip
        if kind not in seen:
            seen.add(kind)
            yield device


CHECKS: Final[tuple[Callable[[Machine, Survey], Iterator[Check]], ...]] = (
    drivers, runtimes, providers, jetson_wheel, warp, cuda_order, openvino, corex, governor, power_mode,
)  # fmt: skip
