"""Scripts that load a vendor's native library, each run in a process of its own.

A library that hangs or crashes harms nobody else there. Each script prints one JSON value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CHILDREN: Final[Mapping[str, str]] = {
    "onnxruntime": """
import json, onnxruntime
print(json.dumps(onnxruntime.get_available_providers()))
""",
    "openvino": """
import json
try:
    import onnxruntime, onnxruntime_ep_openvino
    onnxruntime.register_execution_provider_library("openvino", onnxruntime_ep_openvino.get_library_path())
    listed = [one.ep_metadata for one in onnxruntime.get_ep_devices()]
    names = {one["ov_device"]: one.get("FULL_DEVICE_NAME", "") for one in listed if "ov_device" in one}
except ImportError:
    import openvino
    core = openvino.Core()
    names = {name: core.get_property(name, "FULL_DEVICE_NAME") for name in core.available_devices}
print(json.dumps(names))
""",
    "nvml": """
import json, pynvml
pynvml.nvmlInit()
def ask(function, *arguments):
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None
rows = []
for index in range(pynvml.nvmlDeviceGetCount()):
    card = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, card)
    power = ask(pynvml.nvmlDeviceGetPowerUsage, card)
    use = ask(pynvml.nvmlDeviceGetUtilizationRates, card)
    arch = ask(pynvml.nvmlDeviceGetCudaComputeCapability, card)
    rows.append({
        "name": pynvml.nvmlDeviceGetName(card),
        "driver_version": ask(pynvml.nvmlSystemGetDriverVersion),
        "compute_cap": None if arch is None else "%d.%d" % arch,
        "memory.total": None if memory is None else memory.total / 2**20,
        "memory.used": None if memory is None else memory.used / 2**20,
        "power.draw": None if power is None else power / 1e3,
        "temperature.gpu": ask(pynvml.nvmlDeviceGetTemperature, card, pynvml.NVML_TEMPERATURE_GPU),
        "clocks.sm": ask(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_SM),
        "utilization.gpu": None if use is None else use.gpu,
    })
print(json.dumps(rows))
""",
}
