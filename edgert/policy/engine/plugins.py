"""Provider packages beside ONNX Runtime (`onnxruntime-ep-*`): found by name, loaded when they are asked for.

Such a package offers `get_library_path` and `get_ep_name`; ONNX Runtime loads the library and then lists the chips that
it found. Nothing of that happens unless one of its providers is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import distributions
from types import ModuleType
from typing import Any, Final

from edgert.device.device import Device
from edgert.errors import DeviceError, importing, interrupted_by

PREFIX: Final = "onnxruntime-ep-"
OV_DEVICE: Final = "ov_device"
"""Key under which OpenVINO's plug-in tells which of its chips one is: CPU, GPU, GPU.1, NPU."""
_KINDS: Final = {"cpu": "CPU", "npu": "NPU"}
"""Kind of device to the type that ONNX Runtime gives its hardware; any other is a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """An installed provider package: its distribution with the version, and the provider's name in ONNX Runtime."""

    distribution: str
    version: str
    module: str

    def load(self) -> ModuleType:
        """Import it.

        Raises:
            DeviceError: it is broken.
        """
        hint = f"Reinstall {self.distribution}"
        with importing(self.module, what=self.distribution, install=hint, mend=hint, refusal=DeviceError):
            return import_module(self.module)


def installed_plugins() -> tuple[Plugin, ...]:
    """Every installed provider package, by name; nothing is imported."""
    found = {}
    for each in distributions():
        name = (each.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(PREFIX):
            module = name.replace("-", "_")
            found[name] = Plugin(distribution=name, version=each.version or "unknown", module=module)
    return tuple(found[name] for name in sorted(found))


def named_plugins() -> tuple[dict[str, Plugin], list[DeviceError]]:
    """The installed provider packages by their provider's name in ONNX Runtime, and why others are broken."""
    found: dict[str, Plugin] = {}
    broken: list[DeviceError] = []
    for plugin in installed_plugins():
        try:
            found[provider_name(plugin)] = plugin
        except DeviceError as error:  # of one that nobody may have asked for
            broken.append(error)
    return found, broken


def provider_name(plugin: Plugin) -> str:
    """What ONNX Runtime calls its provider.

    Raises:
        DeviceError: the package is broken.
    """
    return str(_ask(plugin, "get_ep_name"))


def chips_of(runtime: ModuleType, plugin: Plugin) -> list[Any]:
    """ONNX Runtime's devices of a plug-in, whose library is loaded if it is not yet.

    Raises:
        DeviceError: the package or its library cannot be used here.
    """
    name = provider_name(plugin)
    chips = _listed(runtime, name)
    if not chips:
        path = str(_ask(plugin, "get_library_path"))
        try:
            runtime.register_execution_provider_library(plugin.distribution, path)
        except Exception as error:  # onnxruntime has no common base class for its errors
            if "already registered" not in str(error):
                raise DeviceError(
                    f"the provider library of {plugin.distribution} {plugin.version} cannot be loaded",
                    found=error,
                    expected=f"one for onnxruntime {runtime.__version__}",
                    hint=f"Upgrade both: pip install -U onnxruntime {plugin.distribution}",
                ) from error
        chips = _listed(runtime, name)
    return chips


def _listed(runtime: ModuleType, name: str) -> list[Any]:
    return [chip for chip in runtime.get_ep_devices() if chip.ep_name == name]


def _ask(plugin: Plugin, question: str) -> Any:
    module = plugin.load()
    try:
        return getattr(module, question)()
    except Exception as error:  # a package of a vendor may fail in any way
        interrupted_by(error)
        raise DeviceError(
            f"{plugin.distribution} {plugin.version} is no provider package of ONNX Runtime, or a broken one",
            found=f"{question}: {error or type(error).__name__}",
            hint=f"Reinstall {plugin.distribution}",
        ) from error


def unit_of(device: Device) -> str:
    """Which of a provider's chips a device is, as its name says: 0 for `cuda:0`, NPU for `openvino:NPU`, else 0."""
    return device.name.partition(":")[2] or "0"


def matching(chips: Iterable[Any], device: Device) -> Any | None:
    """ONNX Runtime's device that is this one; None where the plug-in does not serve it.

    OpenVINO's plug-in names its chips itself; of any other the type of the hardware and the number have to agree.
    """
    kind, _, unit = device.name.partition(":")
    wanted = _KINDS.get(kind, "GPU")
    same_type = []
    for chip in chips:
        metadata = dict(chip.ep_metadata)
        if OV_DEVICE in metadata:
            if "ov_meta_device" in metadata:  # AUTO, HETERO: they choose by themselves
                continue
            if metadata[OV_DEVICE] == ("CPU" if kind == "cpu" else unit if kind == "openvino" else None):
                return chip
        elif str(chip.device.type).rpartition(".")[2] == wanted:
            same_type.append(chip)
    with suppress(ValueError, IndexError):
        return same_type[int(unit or 0)]
    return None
