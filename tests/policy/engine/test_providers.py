"""What each provider is told, and that none of them may compute with fewer digits than were asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.device.survey import load_platforms
from edgert.errors import DeviceError
from edgert.policy.engine import Placement
from edgert.policy.engine.protocol import Precision
from edgert.policy.engine.providers import IXRT, PROVIDERS, Asked, provider, short_name

SHAPES: dict[str, tuple[int | None, ...]] = {"obs": (3, 48), "h_in": (1, 3, 64), "scalar": ()}


def asked(precision: Precision = "fp32", unit: str = "1", **changes: Any) -> Asked:
    placement = Placement(precision=precision, rows=3, stream=changes.pop("stream", None))
    whole = Asked(unit=unit, placement=placement, shapes=SHAPES, cache=lambda: Path("/cache"))
    return replace(whole, **changes)


def told(name: str, one: Asked) -> dict[str, str]:
    options = provider(name).options(one)
    assert all(isinstance(value, str) for value in options.values()), "onnxruntime takes text"
    return options


def test_cuda_computes_in_float32_and_may_share_a_stream() -> None:
    assert told("cuda", asked()) == {"device_id": "1", "use_tf32": "0"}
    shared = told("cuda", asked(stream=1234))
    assert (shared["has_user_compute_stream"], shared["user_compute_stream"]) == ("1", "1234")


def test_tensorrt_keeps_its_engines_and_builds_them_for_exact_shapes() -> None:
    options = told("tensorrt", asked())
    assert options["trt_engine_cache_enable"] == options["trt_timing_cache_enable"] == "1"
    assert options["trt_engine_cache_path"] == options["trt_timing_cache_path"] == "/cache"
    shapes = {options[f"trt_profile_{which}_shapes"] for which in ("min", "opt", "max")}
    assert shapes == {"obs:3x48,h_in:1x3x64"}
    assert (options["trt_fp16_enable"], told("tensorrt", asked("fp16"))["trt_fp16_enable"]) == ("0", "1")
    with pytest.raises(DeviceError) as caught:
        told("tensorrt", asked(shapes={"obs": (3, None)}))
    assert str(caught.value) == (
        "TensorRT builds engines for exact shapes, which the model does not state: found obs[3, ?]. "
        "Export it with fixed sizes, all but the batch, or take --provider cuda"
    )


def test_cann_keeps_the_types_of_the_model() -> None:
    options = told("cann", asked())
    assert (options["precision_mode"], options["op_select_impl_mode"]) == ("must_keep_origin_dtype", "high_precision")
    assert told("cann", asked("fp16"))["precision_mode"] == "allow_fp32_to_fp16"


def test_openvino_is_told_by_the_one_option_that_it_judges() -> None:
    options = told("openvino", asked(unit="CPU"))
    assert options.keys() == {"load_config"}
    assert json.loads(options["load_config"]) == {
        "CPU": {
            "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": "1",
            "NUM_STREAMS": "1",
        }
    }  # fmt: skip
    config = json.loads(told("openvino", asked("fp16", unit="GPU.1"))["load_config"])
    assert config == {"GPU": {"INFERENCE_PRECISION_HINT": "f16", "PERFORMANCE_HINT": "LATENCY", "CACHE_DIR": "/cache"}}


def test_others_are_told_which_chip() -> None:
    assert told("migraphx", asked()) == {"device_id": "1", "migraphx_fp16_enable": "0"}
    assert told("musa", asked()) == {"device_id": "1"}


def test_names_of_users_and_of_onnxruntime_mean_the_same() -> None:
    for runtime, each in PROVIDERS.items():
        assert provider(each.name) is provider(runtime) is each
        assert short_name(runtime) == each.name
    assert provider("TpuExecutionProvider").runtime == "TpuExecutionProvider"
    assert provider("TpuExecutionProvider").options(asked()) == {}
    assert not provider("TpuExecutionProvider").proven


def test_only_what_was_run_here_counts_as_proven() -> None:
    assert {each.name for each in PROVIDERS.values() if each.proven} == {"cpu", "openvino"}


def test_every_provider_of_a_platform_is_in_the_table() -> None:
    platforms, broken = load_platforms()
    assert broken == {}
    named = {name for platform in platforms.values() for name in platform.providers} - {"*", "ROCMExecutionProvider"}
    assert named <= set(PROVIDERS)
    assert {CPU_PROVIDER, IXRT} <= named
