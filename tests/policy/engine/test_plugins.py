"""Provider packages: found by their names, asked by their two functions, refused where they are broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import linear_model, save

from edgert.device import Device, find_device
from edgert.errors import DeviceError
from edgert.policy.engine import Placement, open_engine
from edgert.policy.engine.opening import providers_here
from edgert.policy.engine.plugins import Plugin, chips_of, installed_plugins, matching, provider_name, unit_of
from edgert.policy.model import read_policy

PLUGIN = Plugin(distribution="onnxruntime-ep-odd", version="2.1", module="onnxruntime_ep_odd")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path with the metadata of onnxruntime-ep-odd; the test writes its module."""
    info = tmp_path / "onnxruntime_ep_odd-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-ep-odd\nVersion: 2.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "onnxruntime_ep_odd.py"
    sys.modules.pop("onnxruntime_ep_odd", None)


GOOD = "def get_ep_name(): return 'OddExecutionProvider'\ndef get_library_path(): return '/odd.so'\n"


def chip(kind: str = "GPU", name: str = "OddExecutionProvider", **metadata: str) -> Any:
    return SimpleNamespace(
        ep_name=name, ep_metadata=metadata, device=SimpleNamespace(type=f"OrtHardwareDeviceType.{kind}")
    )


class Runtime(SimpleNamespace):
    """onnxruntime, as far as plug-ins go."""

    def __init__(self, chips: list[Any], error: str = "") -> None:
        super().__init__(__version__="1.32.0", chips=chips, error=error, registered=[])

    def get_ep_devices(self) -> list[Any]:
        return self.chips if self.registered else []

    def register_execution_provider_library(self, name: str, path: str) -> None:
        self.registered.append((name, path))
        if self.error:
            raise RuntimeError(self.error)


def test_a_package_is_found_without_importing_it(package: Path) -> None:
    package.write_text("raise SystemExit('imported')")
    assert PLUGIN in installed_plugins()


def test_its_library_is_registered_once(package: Path) -> None:
    package.write_text(GOOD)
    runtime: Any = Runtime([chip(), chip(name="CPUExecutionProvider")])
    assert provider_name(PLUGIN) == "OddExecutionProvider"
    assert chips_of(runtime, PLUGIN) == chips_of(runtime, PLUGIN) == [runtime.chips[0]]
    assert runtime.registered == [("onnxruntime-ep-odd", "/odd.so")]
    again: Any = Runtime([], "EP library is already registered under onnxruntime-ep-odd")
    assert chips_of(again, PLUGIN) == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "",
            "onnxruntime-ep-odd 2.1 is no provider package of ONNX Runtime, or a broken one: found get_ep_name: module",
        ),
        ("raise ImportError('libtbb.so')", "onnxruntime-ep-odd cannot be imported: found libtbb.so. Reinstall onnx"),
        (
            "def get_ep_name(): raise OSError('no')",
            "or a broken one: found get_ep_name: no. Reinstall onnxruntime-ep-odd",
        ),
    ],
)
def test_a_broken_package_is_refused_by_name(code: str, text: str, package: Path) -> None:
    package.write_text(code)
    with pytest.raises(DeviceError) as caught:
        provider_name(PLUGIN)
    assert text in str(caught.value)


def test_a_library_of_another_onnxruntime_is_refused(package: Path) -> None:
    package.write_text(GOOD)
    runtime: Any = Runtime([], "API version 24 is not supported")
    with pytest.raises(DeviceError) as caught:
        chips_of(runtime, PLUGIN)
    assert str(caught.value) == (
        "the provider library of onnxruntime-ep-odd 2.1 cannot be loaded: found API version 24 is not supported, "
        "expected one for onnxruntime 1.32.0. Upgrade both: pip install -U onnxruntime onnxruntime-ep-odd"
    )


def device(name: str) -> Device:
    return Device(name=name, chip="a chip", vendor="", memory_bytes=None)


def test_openvino_names_its_chips_and_never_chooses_one_itself() -> None:
    chips = [chip("CPU", ov_device="CPU", ov_meta_device="AUTO"), chip("CPU", ov_device="CPU"), chip(ov_device="GPU.1"),
             chip("NPU", ov_device="NPU")]  # fmt: skip
    found = {name: matching(chips, device(name)) for name in ("cpu", "openvino:GPU.1", "openvino:NPU", "openvino:GPU")}
    assert found == {"cpu": chips[1], "openvino:GPU.1": chips[2], "openvino:NPU": chips[3], "openvino:GPU": None}
    assert matching(chips, device("cuda:0")) is None


def test_chips_of_other_plug_ins_are_told_by_kind_and_number() -> None:
    chips = [chip("CPU"), chip("GPU"), chip("GPU"), chip("NPU")]
    assert matching(chips, device("cuda:0")) is chips[1]
    assert matching(chips, device("cuda:1")) is chips[2]
    assert matching(chips, device("npu:0")) is chips[3]
    assert matching(chips, device("cpu")) is chips[0]
    assert matching(chips, device("cuda:2")) is None
    assert matching(chips, device("cuda:first")) is None
    assert (unit_of(device("cuda:1")), unit_of(device("openvino:NPU")), unit_of(device("cpu"))) == ("1", "NPU", "0")


def test_a_broken_package_harms_nobody_who_did_not_ask_for_it(package: Path, tmp_path: Path) -> None:
    package.write_text("raise ImportError('libtbb.so')")
    file = read_policy(save(linear_model(dim=3, nact=2), tmp_path / "policy.onnx"))
    cpu = find_device("cpu")
    names = [each.name for each in providers_here(cpu)]
    assert "cpu" in names
    open_engine(file, cpu, Placement(provider="cpu")).close()
    with pytest.raises(DeviceError) as caught:
        open_engine(file, cpu, Placement(provider="OddExecutionProvider"))
    assert "for this device; onnxruntime-ep-odd cannot be imported: found libtbb.so." in str(caught.value)
