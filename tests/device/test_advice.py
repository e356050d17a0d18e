"""What stands in the way of each recorded machine's chips, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from device.machines import NAMES, changed, live, put, recorded

from edgert.device.advice import device_checks
from edgert.device.host import Check
from edgert.device.machine import Machine
from edgert.device.recording import replay
from edgert.device.survey import survey


def checks(machine: Machine) -> dict[str, Check]:
    found = device_checks(machine, survey(machine))
    assert len({check.name for check in found}) == len(found)
    return {check.name: check for check in found}


WRONG = {
    "jetson-thor": {"cpu-governor", "jetson-wheel"},
    "jetson-orin": {"cpu-governor", "jetson-wheel", "power-mode", "warp-driver"},
    "ty1200-16gb": {
        "cpu-governor", "openvino", "corex-libraries", "provider-openvino-GPU", "provider-openvino-NPU",
        "provider-iluvatar-0",
    },
    "ty1200-32gb": {"cpu-governor", "provider-iluvatar-0"},
    "ppu-zw810e": set(),
    "ascend-910b2": set(),
    "ascend-310p3": {"provider-npu-0"},
    "mtt-s5000": {"provider-musa-0"},
    "k100-ai": {"provider-dcu-0"},
    "gb10": set(),
    "h200": {"provider-cuda-0", "warp-driver"},
    "amd-7900xt": {"provider-rocm-0"},
    "mixed": {
        "onnxruntime", "provider-cuda-0", "provider-musa-0", "provider-openvino-GPU", "provider-openvino-NPU",
    },
    "half-installed": {"driver-nvidia", "driver-iluvatar", "driver-ascend", "onnxruntime", "provider-cuda-0"},
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_is_wrong_with_a_machine(name):
    found = checks(recorded(name))
    assert {check.name for check in found.values() if check.status != "ok"} == WRONG[name]
    for check in found.values():
        assert bool(check.fix) == (check.status != "ok")
    assert {check.name for check in found.values() if check.status == "fail"} == (
        {"onnxruntime"} if name == "mixed" else set()
    )


@pytest.mark.parametrize(
    ("name", "check", "found", "fix"),
    [
        (
            "jetson-thor", "jetson-wheel",
            "onnxruntime-gpu 1.23.2: the one of PyPI has no kernels for sm_110",
            "If it is that one: Take onnxruntime-gpu from NVIDIA's index for Jetson, or build it: PyPI's has no "
            "kernels for it",
        ),
        (
            "jetson-orin", "warp-driver",
            "L4T 36.4 has CUDA 12, but warp-lang 1.19.0 needs CUDA 13, driver 580 or newer",
            "Update JetPack, or install the wheel of warp-lang for CUDA 12 (+cu12)",
        ),
        (
            "jetson-orin", "power-mode", "MODE_30W: clocks are held below what the module can",
            "sudo nvpmodel -m 0, then sudo jetson_clocks; see nvpmodel -p --verbose for what each mode takes",
        ),
        (
            "h200", "warp-driver",
            "driver 570.124.06, but warp-lang 1.19.0 needs CUDA 13, driver 580 or newer",
            "Update the driver, or install the wheel of warp-lang for CUDA 12 (+cu12)",
        ),
        (
            "h200", "provider-cuda-0", "onnxruntime 1.23.2 has no provider for NVIDIA H200",
            "Run: pip uninstall -y onnxruntime, then pip install onnxruntime-gpu",
        ),
        (
            "ty1200-16gb", "openvino",
            "a TY1200 without OpenVINO: its NPU and iGPU stand idle, and no public provider exists for its GPGPU",
            "pip install onnxruntime-ep-openvino",
        ),
        (
            "ty1200-16gb", "corex-libraries",
            "neither LD_LIBRARY_PATH nor /etc/ld.so.conf.d names the libraries of CoreX",
            "export LD_LIBRARY_PATH=/usr/local/corex/lib64:$LD_LIBRARY_PATH",
        ),
        (
            "ty1200-16gb", "cpu-governor", "powersave on 14 of 14 CPUs: the CPU slows down between ticks",
            "cpupower frequency-set -g performance",
        ),
        (
            "mixed", "onnxruntime",
            "onnxruntime 1.23.2, onnxruntime-gpu 1.23.2: they overwrite each other's files",
            "pip uninstall -y onnxruntime onnxruntime-gpu, then install the one for this chip",
        ),
        (
            "half-installed", "driver-nvidia",
            "NVIDIA: /dev/nvidia0, but nvidia-smi ended with status 18: Failed to initialize NVML: Driver/library "
            "version mismatch",
            "Reinstall the NVIDIA driver, or reboot after it was updated; see what nvidia-smi prints",
        ),
        ("half-installed", "onnxruntime", "no onnxruntime is installed", 'pip install "edgert[cpu]"'),
        ("ty1200-32gb", "openvino", "onnxruntime-ep-openvino 1.4.0", ""),
        ("ty1200-32gb", "corex-libraries", "/etc/ld.so.conf.d", ""),
        ("jetson-thor", "power-mode", "MAXN", ""),
        ("jetson-thor", "warp-driver", "L4T 38.2 has CUDA 13, new enough for warp-lang 1.19.0", ""),
        ("gb10", "warp-driver", "driver 580.126.09, new enough for warp-lang 1.19.0", ""),
        (
            "gb10", "provider-cuda-0",
            "TensorrtExecutionProvider, CUDAExecutionProvider for NVIDIA GB10; not yet run on hardware", "",
        ),
    ],
)  # fmt: skip
def test_what_a_check_says(name, check, found, fix):
    one = checks(recorded(name))[check]
    assert (one.found, one.fix) == (found, fix)


def test_the_wheel_of_warp_for_an_older_cuda_fits_an_older_driver(tmp_path: Path) -> None:
    copy = changed("h200", tmp_path, packages={"warp-lang": "1.19.0+cu12"})
    assert checks(replay(copy))["warp-driver"].status == "ok"
    copy = changed("jetson-orin", tmp_path, packages={"warp-lang": "1.19.0+cu12"})
    put(copy, "/root/etc/nv_tegra_release", "# R35 (release), REVISION: 4.1, GCID: 1")
    check = checks(replay(copy))["warp-driver"]
    assert check.found.startswith("L4T 35.4 has CUDA 11, but warp-lang 1.19.0+cu12 needs CUDA 12")
    assert check.fix == "Update JetPack"
    copy = changed("h200", tmp_path / "none", packages={})
    assert "warp-driver" not in checks(replay(copy))


def test_cards_that_cuda_counts_otherwise(tmp_path: Path) -> None:
    copy = changed("h200", tmp_path, variables={"CUDA_VISIBLE_DEVICES": "1"})
    check = checks(replay(copy))["cuda-order"]
    assert check.found == "CUDA_VISIBLE_DEVICES=1: CUDA counts only those, and cuda:0 is the first of them"
    rows = (copy / "tools/nvidia-smi.txt").read_text().replace("NVIDIA H200", "NVIDIA L4", 1)
    for number, (variables, warned) in enumerate((({}, True), ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, False))):
        copy = changed("h200", tmp_path / str(number), variables=variables)
        (copy / "tools/nvidia-smi.txt").write_text(rows)
        found = checks(replay(copy))
        assert ("cuda-order" in found) == warned
        if warned:
            assert found["cuda-order"].fix == "export CUDA_DEVICE_ORDER=PCI_BUS_ID"


def test_libraries_of_corex_by_the_variable(tmp_path: Path) -> None:
    copy = changed("ty1200-16gb", tmp_path, variables={"LD_LIBRARY_PATH": "/usr/local/corex/lib64"})
    assert checks(replay(copy))["corex-libraries"].status == "ok"


def test_a_computer_without_chips_hears_of_nothing_else(tmp_path: Path) -> None:
    put(tmp_path, "/proc/cpuinfo", "processor: 0\nmodel name: CPU\n")
    assert set(checks(live(tmp_path, {}))) == {"onnxruntime", "cpu-governor"}
