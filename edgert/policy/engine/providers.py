"""The table of inference providers: what each is called, what it is told, and where it comes from.

Options are those that keep a provider honest (its precision, above all: several compute with fewer digits than the
model unless they are told not to) and quick at batch 1. Their names are those of ONNX Runtime 1.23 and later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.errors import DeviceError
from edgert.policy.engine.protocol import Placement

IXRT: Final = "IxRT"
"""Iluvatar's engine: no provider of ONNX Runtime, but it stands in the same table."""
OPENVINO: Final = "OpenVINOExecutionProvider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a provider's options follow from.

    Attributes:
        unit: which of its chips, as the device's name says behind the colon: "0", "NPU".
        placement: what was asked for.
        shapes: of each input in one run; an axis that nobody knows is None.
        cache: makes the folder for what it builds.
    """

    unit: str
    placement: Placement
    shapes: Mapping[str, tuple[int | None, ...]]
    cache: Callable[[], Path]

    @property
    def half(self) -> bool:
        """Whether half precision was asked for."""
        return self.placement.precision == "fp16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One inference provider.

    Attributes:
        name: what users call it.
        runtime: what ONNX Runtime calls it.
        install: how one gets it, as a sentence.
        options: what it is told.
        memory: whose memory it computes in, in ONNX Runtime's words; "cpu" where buffers of the host serve as they are.
        half: whether it can be asked for fp16.
        proven: whether edgert has run on it; reports say so of the others.
    """

    name: str
    runtime: str
    install: str
    options: Callable[[Asked], dict[str, str]] = lambda asked: {}
    memory: str = "cpu"
    half: bool = False
    proven: bool = False


def _cuda(asked: Asked) -> dict[str, str]:
    # TF32 has 10 bits of mantissa where float32 has 23, and is on by default.
    return {"device_id": asked.unit, "use_tf32": "0"} | _stream(asked)


def _stream(asked: Asked) -> dict[str, str]:
    stream = asked.placement.stream
    return {} if stream is None else {"has_user_compute_stream": "1", "user_compute_stream": str(stream)}


def _tensorrt(asked: Asked) -> dict[str, str]:
    """Without caches and exact shapes every start would build its engine anew, for minutes."""
    unknown = [name for name, shape in asked.shapes.items() if None in shape]
    if unknown:
        raise DeviceError(
            "TensorRT builds engines for exact shapes, which the model does not state",
            found=", ".join(f"{name}{list(asked.shapes[name])}".replace("None", "?") for name in unknown),
            hint="Export it with fixed sizes, all but the batch, or take --provider cuda",
        )
    exact = ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in asked.shapes.items() if shape)
    cache = str(asked.cache())
    return {
        "device_id": asked.unit,
        "trt_fp16_enable": str(int(asked.half)),
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": cache,
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": cache,
        "trt_profile_min_shapes": exact,
        "trt_profile_opt_shapes": exact,
        "trt_profile_max_shapes": exact,
    } | _stream(asked)


def _cann(asked: Asked) -> dict[str, str]:
    # Its default is force_fp16.
    precision = "allow_fp32_to_fp16" if asked.half else "must_keep_origin_dtype"
    return {"device_id": asked.unit, "precision_mode": precision, "op_select_impl_mode": "high_precision"}


def _migraphx(asked: Asked) -> dict[str, str]:
    return {"device_id": asked.unit, "migraphx_fp16_enable": str(int(asked.half))}


def _openvino(asked: Asked) -> dict[str, str]:
    """Everything goes through load_config, as OpenVINO ignores other options without a word, even a misspelt one."""
    # By default it computes in bfloat16 or float16 where the chip can.
    config = {"INFERENCE_PRECISION_HINT": "f16" if asked.half else "f32", "PERFORMANCE_HINT": "LATENCY"}
    if asked.unit == "CPU":
        config |= {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}
    else:  # takes seconds to minutes to compile there; on a CPU hardly longer than to read it back
        config["CACHE_DIR"] = str(asked.cache())
    return {"load_config": json.dumps({asked.unit.partition(".")[0]: config})}


def _device_id(asked: Asked) -> dict[str, str]:
    return {"device_id": asked.unit}


_ALL: Final = (
    Provider(name="cpu", runtime=CPU_PROVIDER, install='Run: pip install "edgert[cpu]"', proven=True),
    Provider(
        name="openvino", runtime=OPENVINO, install='Run: pip install "edgert[openvino]"', options=_openvino, half=True,
        proven=True,
    ),
    Provider(
        name="cuda", runtime="CUDAExecutionProvider", options=_cuda, memory="cuda",
        install="Run: pip uninstall -y onnxruntime; pip install onnxruntime-gpu. On a Jetson take the vendor's build",
    ),
    Provider(
        name="tensorrt", runtime="TensorrtExecutionProvider", options=_tensorrt, memory="cuda", half=True,
        install="Run: pip uninstall -y onnxruntime; pip install onnxruntime-gpu tensorrt. On a Jetson: the vendor's",
    ),
    Provider(
        name="nv-tensorrt-rtx", runtime="NvTensorRTRTXExecutionProvider",
        install="Run: pip install onnxruntime-ep-nv-tensorrt-rtx",
    ),
    Provider(
        name="cann", runtime="CANNExecutionProvider", options=_cann, memory="cann", half=True,
        install="Run: pip uninstall -y onnxruntime; pip install onnxruntime-cann",
    ),
    Provider(
        name="musa", runtime="MUSAExecutionProvider", options=_device_id,
        install="Install Moore Threads' own onnxruntime",
    ),
    Provider(
        name="migraphx", runtime="MIGraphXExecutionProvider", options=_migraphx, half=True,
        install="Run: pip uninstall -y onnxruntime; pip install onnxruntime-migraphx",
    ),
    Provider(
        name="ixrt", runtime=IXRT, memory="cuda", half=True,
        install="Install the wheel ixrt of Iluvatar's CoreX SDK for this Python",
    ),
)  # fmt: skip
PROVIDERS: Final[Mapping[str, Provider]] = {each.runtime: each for each in _ALL}
"""By ONNX Runtime's name."""


def provider(name: str) -> Provider:
    """The provider of a short name or of ONNX Runtime's; one that nobody told edgert of is taken by the latter.

    A vendor's provider that is in no table gets no option at all, since those are not known; what it computes is
    compared with the CPU like that of any other.
    """
    for each in _ALL:
        if name in (each.name, each.runtime):
            return each
    return Provider(name=name, runtime=name, install="Install its vendor's onnxruntime")


def short_name(runtime: str) -> str:
    """What users call a provider."""
    return provider(runtime).name
