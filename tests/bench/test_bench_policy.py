"""Measuring a policy: in this process, in one of its own, and what is said where that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import linear_model, quadruped_document, save

from edgert.bench import worker
from edgert.bench.acting import subject
from edgert.bench.measure import Request, measure
from edgert.bench.policy import bench_policy
from edgert.bench.worker import run_worker
from edgert.device import Device, find_device
from edgert.errors import ContractError, DeviceError, UnsupportedError
from edgert.policy.engine import Placement

CPU = find_device("cpu")


def asked(model: Path | str, **changes: Any) -> Request:
    quick = {"acts": 50, "warm_up": 5, "paced_s": 0.1, "throughput_s": 0.02, "batches": (1, 8)}
    return Request(**{"model": str(model), "device": CPU, "provider": "cpu", **quick, **changes})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(linear_model(weight=np.eye(50, 12), document=quadruped_document()), tmp_path / "policy.onnx")


def test_every_figure_is_of_the_samples_that_are_kept(model: Path, tmp_path: Path) -> None:
    stages: list[str] = []
    figures, samples = measure(asked(model, hz=200.0), tmp_path / "engines", stages.append)
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    assert {name: len(times) for name, times in samples.items() if not name.startswith("rows")} == {
        "latency_ns": 50, "paced_ns": 20
    }  # fmt: skip
    latency = np.sort(samples["latency_ns"]) / 1e3
    assert figures["latency_us"]["max"] == pytest.approx(latency[-1], abs=0.1)
    assert figures["latency_us"]["p50"] == pytest.approx(latency[25], abs=0.1)
    assert 0.0 < figures["latency_us"]["p50"] <= figures["latency_us"]["p99"] <= figures["latency_us"]["max"]
    for rows, each in zip((1, 8), figures["throughput"], strict=True):
        times = samples[f"rows_{rows}_ns"]
        assert (each["rows"], each["acts"]) == (rows, len(times))
        assert each["rows_per_s"] == pytest.approx(rows * len(times) / (times.sum() * 1e-9))
    assert (figures["provider"], figures["nodes"], figures["agreement"]) == ("cpu", 1, None)
    assert figures["shapes"] == {"obs": [1, 50], "actions": [1, 12]}
    assert (figures["measured"], figures["contract"], figures["paced_hz"]) == ("policy", "", 200.0)
    assert figures["build_warm_s"] > 0.0
    assert figures["build_cold_s"] > 0.0
    assert figures["first_act_us"] > 0.0
    assert figures["peak_memory_bytes"] > figures["memory_bytes"] >= 0
    assert stages == [
        "building", "comparing", "acting", "acting at the control rate", "acting on 1 rows", "closing",
        "acting on 8 rows", "closing",
    ]  # fmt: skip


def test_without_a_contract_the_network_alone_is_measured(tmp_path: Path) -> None:
    path = save(linear_model(dim=7, nact=3), tmp_path / "bare.onnx")
    what = subject(str(path), None, None)
    assert what.loaded is None
    assert "does not say what its" in what.why
    assert what.hz == 50.0
    with what.open(CPU, Placement(rows=4)) as network:
        assert {name: array.shape for name, array in network.obs.items()} == {"obs": (4, 7)}
    figures, _ = measure(asked(path), tmp_path / "engines")
    assert (figures["measured"], figures["contract"]) == ("network", what.why)


def test_sizes_that_only_a_contract_knows_are_refused_without_it(tmp_path: Path) -> None:
    def change(model: Any) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "size"

    path = save(linear_model(dim=7, nact=3, change=change), tmp_path / "open.onnx")
    text = r"leaves the size of an input open, and its contract is not known: found obs\['batch', 'size'\]"
    with pytest.raises(ContractError, match=text):
        measure(asked(path), tmp_path / "engines")


def test_a_contract_that_was_named_has_to_fit(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="cannot read contract file"):
        subject(str(model), tmp_path / "none.toml", None)


def test_a_request_survives_the_way_to_its_process() -> None:
    chip = Device(
        name="cuda:0", chip="GB10", vendor="NVIDIA", memory_bytes=None, providers=("a", "b"), notes=("careful",),
        details={"PCI": "1"}, evidence={"chip": "nvidia-smi"},
    )  # fmt: skip
    request = asked("quadruped", device=chip, precision="fp16", seed=3)
    assert Request.of(json.loads(json.dumps(request.document()))) == request


def test_a_process_of_its_own_gives_the_same_kind_of_figures(model: Path, tmp_path: Path) -> None:
    stages: list[str] = []
    figures = run_worker(asked(model), tmp_path, stages.append)
    assert figures["policy_sha256"] == subject(str(model), None, None).file.sha256
    assert stages[0] == "building"
    with np.load(tmp_path / "samples.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == {"latency_ns", "paced_ns", "rows_1_ns", "rows_8_ns"}
        assert arrays["latency_ns"].dtype == np.int64


def test_a_refusal_comes_back_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"nothing")
    assert run_worker(asked(path), tmp_path, lambda name: None)["failed"].startswith(f"policy {path} is not an ONNX")


def test_a_process_that_dies_or_hangs_is_told(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run_worker(asked(model), tmp_path, lambda name: None, limit_s=0.05)["failed"]
    assert text.startswith("its process ended with status -9")
    monkeypatch.setattr(worker.sys, "executable", "/bin/false")
    text = run_worker(asked(model), tmp_path, lambda name: None)["failed"]
    assert text == "its process ended with status 1: it said nothing"


def test_the_report_has_a_run_for_each_provider_and_says_how(model: Path, tmp_path: Path) -> None:
    said: list[str] = []
    out = tmp_path / "samples.npz"
    report = bench_policy(asked(model), ["cpu"], ["cpu"], out, said.append)
    (run,) = report["runs"]
    assert (run["device"], run["provider"], run["failed"]) == ("cpu", "cpu", "")
    block = report["disclosure"]
    assert (block["kind"], block["model_sha256"]) == ("measured", report["policy_sha256"])
    assert block["shapes"] == ["obs[1, 50]", "actions[1, 12]"]
    assert block["counts"] == ["50 acts without a pause", "5 acts at the control rate"]
    assert [device["name"] for device in block["devices"]] == ["cpu"]
    assert block["devices"][0]["before"].keys() == block["devices"][0]["after"].keys()
    assert block["devices"][0]["evidence"]
    with np.load(out, allow_pickle=False) as arrays:
        assert "cpu/cpu/latency_ns" in arrays.files
    assert block["samples"] == str(out)
    assert said[0] == "cpu by cpu (1 of 1): starting"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"acts": 0}, "--acts is out of range: found 0, expected 1 to 1e\\+07"),
        ({"batches": (1, 1 << 21)}, "--rows is out of range: found 2097152"),
        ({"paced_s": 0.0}, "--paced-seconds is out of range"),
        ({"hz": 1e6}, "--hz is out of range"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(changes: dict[str, Any], text: str, model: Path) -> None:
    with pytest.raises(UnsupportedError, match=text):
        bench_policy(asked(model, **changes))


def test_what_is_not_here_is_refused(model: Path) -> None:
    with pytest.raises(DeviceError) as caught:
        bench_policy(asked(model), ["cpu"], ["cann"])
    assert str(caught.value).startswith("nothing that was asked for is on this node: found cpu: CPUExecutionProvider")
    assert "expected cann on cpu. edgert doctor device says what to install" in str(caught.value)
