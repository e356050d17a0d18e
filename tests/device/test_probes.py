"""Every platform on recorded machines: what it finds, by which evidence, and that nothing it is told breaks it."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from device.machines import FIXTURES, NAMES, changed, live, put, recorded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgert.device.advice import device_checks
from edgert.device.machine import Answer, LiveMachine, Machine, Tool
from edgert.device.probes import amd, ascend, cpu, hygon, jetson, moore_threads, nvidia
from edgert.device.recording import replay
from edgert.device.survey import UNPROVEN, load_platforms, survey
from edgert.device.telemetry import Sampler

MIB = 1 << 20
FOUND = {
    "jetson-thor": {"cuda:0": ("NVIDIA Jetson AGX Thor Developer Kit", "jetson-t5000", "sm_110", 128766976 << 10)},
    "jetson-orin": {"cuda:0": ("NVIDIA Jetson AGX Orin Developer Kit", "jetson-agx-orin", "sm_87", 64324608 << 10)},
    "ty1200-16gb": {
        "iluvatar:0": ("MRC-V100-0x18", "ty1200", "", 16384 * MIB),
        "openvino:GPU": ("Intel GPU 0x7d51", "", "", 30 << 30),
        "openvino:NPU": ("Intel NPU 0xad1d", "", "", 30 << 30),
    },
    "ty1200-32gb": {
        "iluvatar:0": ("MRC-V100-0x18", "ty1200", "", 32768 * MIB),
        "openvino:GPU": ("Intel(R) Arc(TM) 140T GPU (16GB) (iGPU)", "", "", 30 << 30),
        "openvino:NPU": ("Intel(R) AI Boost", "", "", 30 << 30),
    },
    "ppu-zw810e": {"ppu:0": ("PPU-ZW810E", "ppu-zw810e", "", 98304 * MIB)},
    "ascend-910b2": {
        "npu:0": ("Ascend 910B2", "ascend-910b2", "", 65536 * MIB),
        "npu:1": ("Ascend 910B2", "ascend-910b2", "", 65536 * MIB),
    },
    "ascend-310p3": {
        "npu:0": ("Ascend 310P3", "ascend-310p3", "", 44278 * MIB),
        "npu:1": ("Ascend 310P3", "ascend-310p3", "", 43693 * MIB),
    },
    "mtt-s5000": {
        "musa:0": ("MTT S5000", "mtt-s5000", "", 81920 * MIB),
        "musa:1": ("MTT S5000", "mtt-s5000", "", 81920 * MIB),
    },
    "k100-ai": {
        "dcu:0": ("Hygon K100_AI", "k100-ai", "", 65520 * MIB),
        "dcu:1": ("Hygon K100_AI", "k100-ai", "", 65520 * MIB),
    },
    "gb10": {"cuda:0": ("NVIDIA GB10", "gb10", "sm_121", 125489508 << 10)},
    "h200": {
        "cuda:0": ("NVIDIA H200", "h200", "sm_90", 143771 * MIB),
        "cuda:1": ("NVIDIA H200", "h200", "sm_90", 143771 * MIB),
    },
    "amd-7900xt": {"rocm:0": ("Radeon RX 7900 XT", "", "gfx1100", 21458059264)},
    "mixed": {
        "cuda:0": ("NVIDIA GeForce RTX 3090", "", "", 24576 * MIB),
        "musa:0": ("MTT S5000", "mtt-s5000", "", 81920 * MIB),
        "musa:1": ("MTT S5000", "mtt-s5000", "", 81920 * MIB),
        "openvino:GPU": ("Intel GPU 0x7d67", "", "", 131000000 << 10),
        "openvino:NPU": ("Intel NPU 0xad1d", "", "", 131000000 << 10),
    },
    "half-installed": {"cuda:0": ("NVIDIA H200", "h200", "", None)},
}
PROVIDERS = {
    ("jetson-thor", "cuda:0"): ("TensorrtExecutionProvider", "CUDAExecutionProvider"),
    ("gb10", "cuda:0"): ("TensorrtExecutionProvider", "CUDAExecutionProvider"),
    ("ascend-910b2", "npu:0"): ("CANNExecutionProvider",),
    ("ascend-910b2", "npu:1"): ("CANNExecutionProvider",),
    ("ty1200-32gb", "openvino:GPU"): ("OpenVINOExecutionProvider",),
    ("ty1200-32gb", "openvino:NPU"): ("OpenVINOExecutionProvider",),
}
"""Of the recorded accelerators, those for which a provider was installed."""


def devices(name: str) -> dict[str, Any]:
    return {device.name: device for device in survey(recorded(name)).devices}


def test_every_recorded_machine_is_expected_to_hold_something():
    assert sorted(FOUND) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_devices_of_a_machine(name):
    found = devices(name)
    host = found.pop("cpu")
    assert host.chip != "unnamed CPU"
    assert host.physics == ("mujoco",)
    assert {
        key: (device.chip, device.model, device.arch, device.memory_bytes) for key, device in found.items()
    } == FOUND[name]
    for key, device in found.items():
        assert device.providers == PROVIDERS.get((name, key), ())
        assert device.physics == ()
        assert UNPROVEN in device.notes
        assert device.evidence
        assert any("no inference provider" in note for note in device.notes) == (not device.providers)


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_says_where_its_texts_come_from(name):
    machine = recorded(name)
    assert machine.title
    assert machine.source.startswith("synthetic" if machine.synthetic else "composed, not recorded; ")
    assert machine.synthetic == (name == "half-installed")


@pytest.mark.parametrize("name", NAMES)
def test_each_platform_says_what_it_looked_at_and_why_it_said_no(name):
    found = survey(recorded(name))
    assert len(found.findings) == 10
    for platform, finding in found.findings.items():
        assert finding.looked
        assert finding.devices or finding.no, platform


@pytest.mark.parametrize(
    ("name", "driver"),
    [
        ("jetson-thor", "580.00"),
        ("jetson-orin", "540.4.0"),
        ("ty1200-16gb", "CoreX 4.4.0"),
        ("ppu-zw810e", "1.4.1-4a27c0"),
        ("ascend-910b2", "23.0.3"),
        ("ascend-310p3", "25.5.1"),
        ("mtt-s5000", "3.3.8-server"),
        ("h200", "570.124.06"),
        ("mixed", "470.256.02"),
        ("half-installed", "570.124.06"),
    ],
)
def test_drivers(name, driver):
    assert driver in {device.driver for device in devices(name).values()}


def test_a_jetson_is_not_listed_twice():
    found = survey(recorded("jetson-thor"))
    assert found.findings["nvidia"].no == "this is a Jetson, see that platform"
    assert [device.name for device in found.devices] == ["cpu", "cuda:0"]


def test_what_a_jetson_is():
    details = devices("jetson-thor")["cuda:0"].details
    assert details == {"SoC": "tegra264", "L4T": "38.2, JetPack 7.0", "power mode": "MAXN"}
    assert devices("jetson-orin")["cuda:0"].details == {"SoC": "tegra234", "L4T": "36.4", "power mode": "MODE_30W"}


def test_the_kinds_and_limits_of_a_cpu():
    details = devices("mixed")["cpu"].details
    assert details["processors"] == "24"
    assert details["performance cores"] == "8 processors"
    assert details["efficiency cores"] == "16 processors"
    assert details["features"] == "avx2, fma, f16c, avx_vnni"
    assert details["CPU limit"] == "4 CPUs by cgroup"
    assert details["memory limit"] == "8.0 GiB by cgroup"
    assert devices("gb10")["cpu"].details["capacities"] == "10 × 1024, 10 × 718"
    assert devices("jetson-thor")["cpu"].details["features"] == "asimd, asimdhp, asimddp, i8mm, bf16, sve"
    assert devices("jetson-thor")["cpu"].chip == "Arm Neoverse-V3AE"


def test_the_gpgpu_of_a_ty1200_is_another_beside_another_cpu(tmp_path):
    copy = changed("ty1200-16gb", tmp_path)
    put(copy, "/root/proc/cpuinfo", "processor: 0\nmodel name: Hygon C86 7390\n")
    assert survey(replay(copy)).device("iluvatar:0").model == "mrc-v100"


@pytest.mark.parametrize(
    ("folder", "vendor", "device", "kind", "platform", "trouble"),
    [
        ("0000:17:00.0", "0x10de", "0x2335", "0x030200", "nvidia", "an NVIDIA card at 0000:17:00.0, but its driver"),
        ("0000:41:00.0", "0x1e3e", "0x0003", "0x120000", "iluvatar", "an Iluvatar card at 0000:41:00.0, but its"),
        ("0000:41:00.0", "0x1ded", "0x0003", "0x120000", "thead", "a T-Head card at 0000:41:00.0, but its driver"),
        ("0000:41:00.0", "0x19e5", "0xd802", "0x120000", "ascend", "an Ascend card at 0000:41:00.0, but its driver"),
        ("0000:41:00.0", "0x1ed5", "0xd802", "0x030000", "moore_threads", "a Moore Threads card at 0000:41:00.0"),
        ("0000:41:00.0", "0x1d94", "0xd802", "0x0b4000", "hygon", "a Hygon DCU at 0000:41:00.0, but its driver"),
        ("0000:41:00.0", "0x1002", "0xd802", "0x030000", "amd", "an AMD GPU at 0000:41:00.0, but no /dev/kfd"),
        (
            "0000:41:00.0",
            "0x8086",
            "0xd802",
            "0x120000",
            "intel",
            "an Intel NPU at 0000:41:00.0, but no /dev/accel/* of",
        ),
    ],
)
def test_a_card_without_its_driver_is_trouble_and_no_device(tmp_path, folder, vendor, device, kind, platform, trouble):
    for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
        put(tmp_path, f"/sys/bus/pci/devices/{folder}/{name}", f"{text}\n")
    found = survey(live(tmp_path, {}))
    assert [one.name for one in found.devices] == ["cpu"]
    assert found.findings[platform].trouble.startswith(trouble)
    assert found.findings[platform].fix
    assert {name for name, finding in found.findings.items() if finding.trouble} == {platform}


def test_the_node_of_another_card_is_no_evidence(tmp_path):
    copy = changed("ty1200-16gb", tmp_path)
    index = json.loads((copy / "machine.json").read_text())
    index["nodes"] = [node for node in index["nodes"] if "/drm/" not in node]
    (copy / "machine.json").write_text(json.dumps(index))
    found = survey(replay(copy))
    assert [device.name for device in found.devices] == ["cpu", "iluvatar:0", "openvino:NPU"]
    assert found.findings["intel"].trouble == "an Intel GPU at 0000:00:02.0, but no /dev/dri/* of its driver"


def test_several_cards_of_one_kind_are_numbered_as_openvino_does(tmp_path):
    for number, address in enumerate(("0000:00:02.0", "0000:03:00.0")):
        folder = f"/sys/bus/pci/devices/{address}"
        for name, text in (("vendor", "0x8086"), ("class", "0x030000"), ("device", f"0x000{number}")):
            put(tmp_path, f"{folder}/{name}", text)
        put(tmp_path, f"{folder}/drm/renderD{128 + number}/dev", "226:128")
        put(tmp_path, f"/dev/dri/renderD{128 + number}")
    found = survey(live(tmp_path, {}))
    assert [device.name for device in found.devices] == ["cpu", "openvino:GPU.0", "openvino:GPU.1"]
    assert found.device("openvino:GPU.1").evidence["node"] == "/dev/dri/renderD129"


def test_network_cards_of_such_vendors_are_no_accelerators(tmp_path):
    for number, vendor in enumerate(("0x10de", "0x8086", "0x19e5", "0x1d94", "0x1ded")):
        folder = f"/sys/bus/pci/devices/0000:0{number}:00.0"
        put(tmp_path, f"{folder}/vendor", vendor)
        put(tmp_path, f"{folder}/class", "0x020000")
    found = survey(live(tmp_path, {}))
    assert [one.name for one in found.devices] == ["cpu"]
    assert not any(finding.trouble for finding in found.findings.values())


def nvidia_host(tmp_path: Path, script: str, **options: Any) -> LiveMachine:
    put(tmp_path, "/dev/nvidia0")
    return live(tmp_path, {"nvidia-smi": script}, **options)


@pytest.mark.parametrize(
    ("script", "no"),
    [
        ("PATH=/usr/bin:/bin; sleep 30", "/dev/nvidia0, but nvidia-smi did not answer within 0.2 s"),
        (
            "echo no devices were found; exit 6",
            "/dev/nvidia0, but nvidia-smi ended with status 6: no devices were found",
        ),
        ("printf '\\001\\002 garbage\\n'", "/dev/nvidia0, but nvidia-smi printed nothing that fits the question"),
        ("printf '\\377\\376,\\377\\n'", "/dev/nvidia0, but nvidia-smi printed nothing that fits the question"),
        ("while echo xxxxxxxxxxxxxxxxxxxxxxxxx; do :; done", "/dev/nvidia0, but nvidia-smi printed more than 1 MiB"),
        ("exit 126", "/dev/nvidia0, but nvidia-smi ended with status 126"),
        ("echo ',,,,,,,,,'", "/dev/nvidia0, but nvidia-smi printed nothing that fits the question"),
    ],
)
def test_hostile_tools(tmp_path, script, no):
    machine = nvidia_host(tmp_path, script, tool_s=0.2 if "0.2" in no else 30.0)
    finding = nvidia.probe(machine)
    assert (finding.devices, finding.no) == ((), no)
    assert finding.trouble == f"NVIDIA: {no}"


def test_a_tool_of_a_real_process_is_understood(tmp_path):
    row = "NVIDIA H200, 570.124.06, 143771, 4, 76.50, 31, 345, 0, 9.0, 0x0000000000000001"
    (device,) = nvidia.probe(nvidia_host(tmp_path, f"echo '{row}'")).devices
    assert (device.name, device.chip, device.arch) == ("cuda:0", "NVIDIA H200", "sm_90")


class Nvml(Machine):
    """A host whose nvidia-smi is missing, with a library that answers in a child."""

    def __init__(self, text: str) -> None:
        self._text = text

    def file(self, path: str) -> Answer:
        return Answer(problem="No such file or directory")

    def names(self, pattern: str) -> tuple[str, ...]:
        return ("/dev/nvidia0",) if pattern == "/dev/nvidia[0-9]*" else ()

    def tool(self, tool: Tool, *arguments: str) -> Answer:
        return Answer(problem=f"{tool.name} is not on PATH")

    def child(self, name: str) -> Answer:
        return Answer(text=self._text)

    def packages(self) -> dict[str, str]:
        return {"nvidia-ml-py": "13.0"}

    def runtimes(self) -> tuple[str, ...]:
        return ()

    def variable(self, name: str) -> str:
        return ""


def test_nvml_stands_in_for_nvidia_smi():
    row = {"name": "NVIDIA H200", "driver_version": "570.1", "compute_cap": "9.0", "memory.total": 143771.0}
    machine = Nvml(json.dumps([row | {"memory.used": 4.0, "power.draw": 76.5, "temperature.gpu": 31}]))
    (device,) = nvidia.probe(machine).devices
    assert (device.memory_bytes, device.arch, device.why) == (143771 * MIB, "sm_90", "NVML, /dev/nvidia*")
    assert nvidia.read(machine, device).values["power_w"] == 76.5


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '[{"name": 3}]', "[" * 5000, "null", '{"a": [}'])
def test_an_nvml_that_answers_nonsense_finds_nothing(text):
    assert nvidia.probe(Nvml(text)).devices == ()


def test_the_tables_of_npu_smi():
    older = """
| NPU   Name           | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| 0     910A           | OK            | 0.0         40                0    / 0             |
| 0                    | 0000:C1:00.0  | 0           882  / 15169      0    / 32768         |
| 0     310B1          | OK            | 9.2          53                15    / 15          |
| 0     0              | NA            | 0            3841 / 11577                          |
| 1     Ascend910      | Alarm         | -            34                      0    / 0      |
| 1     1              | 0000:9F:00.0  | 7            0    / 0                2874 / 65536  |
"""
    first, second, third = ascend.chips_of(older)
    assert (first.name, first.memory_used, first.memory_total) == ("Ascend 910A", 0, 32768)
    assert (second.memory_used, second.memory_total, second.power_w) == (3841, 11577, 9.2)
    assert (third.name, third.health, third.power_w, third.utilization_percent) == ("Ascend910", "Alarm", None, 7.0)


def test_a_health_that_is_not_ok_is_said():
    assert "npu-smi says that its health is Warning" in devices("ascend-910b2")["npu:1"].notes


def test_processes_are_no_chips():
    assert len(ascend.chips_of((FIXTURES / "ascend-910b2/tools/npu-smi.txt").read_text())) == 2


def test_json_that_is_none():
    broken = (FIXTURES / "k100-ai/tools/hy-smi.txt").read_text()
    with pytest.raises(ValueError, match="Expecting ',' delimiter"):
        json.loads(broken)
    first, second = hygon.cards_of(broken)
    assert first["Average Graphics Package Power (W)"] == "91.0"
    assert first["Average GFX Core Power (W)"] == "20.0"
    assert hygon.memory(second, "Total Used") == 3 * MIB


def test_valid_json_and_older_keys_are_read_too():
    text = json.dumps(
        {"card1": {"DCU use (%)": 7, "VRAM Total Memory (B)": "34359738368"}, "card0": {"Card series": "Z100"}}
    )
    first, second = hygon.cards_of(text)
    assert first == {"Card series": "Z100"}
    assert hygon.memory(second, "Total") == 32 << 30
    assert second["DCU use (%)"] == "7"


def test_both_tools_of_amd():
    listed = [{"gpu": 1, "asic": {"market_name": "AMD Instinct MI300X"}}, {"gpu": 0, "asic": {"market_name": "N/A"}}]
    for document in (listed, {"gpu_data": listed}):
        assert amd._of_amd_smi(document) == {1: "AMD Instinct MI300X"}
    assert amd._json("WARNING: not in group render\n" + json.dumps(listed)) == listed
    assert amd._of_rocm_smi({"card0": {"Card series": "Radeon"}, "system": {"Driver version": "6"}}) == {0: "Radeon"}


def test_a_card_that_knows_its_own_name_needs_no_tool(tmp_path):
    copy = changed("amd-7900xt", tmp_path, tools=[])
    put(copy, "/root/sys/bus/pci/devices/0000:03:00.0/product_name", "AMD Instinct MI210\n")
    device = survey(replay(copy)).device("rocm:0")
    assert (device.chip, device.evidence["chip"]) == ("AMD Instinct MI210", "amdgpu")


def test_a_card_without_any_name_is_called_by_its_number(tmp_path):
    device = survey(replay(changed("amd-7900xt", tmp_path, tools=[]))).device("rocm:0")
    assert (device.chip, device.arch, "chip" in device.evidence) == ("AMD GPU 0x744c", "gfx1100", False)


def test_tables_of_mthreads_gmi():
    text = (FIXTURES / "mtt-s5000/tools/mthreads-gmi.txt").read_text()
    assert moore_threads.cards_of(text) == [
        {"name": "MTT S5000", "use": 0, "used": 0, "total": 81920, "heat": 47.0},
        {"name": "MTT S5000", "use": 75, "used": 64889, "total": 81920, "heat": 51.0},
    ]


@pytest.mark.parametrize(
    ("listed", "count"), [("0-5", 6), ("0,2,4-7", 6), ("", 0), ("x", 0), ("7-3", 0), ("3", 1), ("0-5,junk", 6)]
)
def test_lists_of_processors(listed, count):
    assert cpu.count_of(listed) == count


def test_the_load_of_an_orin_is_per_mille():
    machine = recorded("jetson-orin")
    reading = jetson.read(machine, survey(machine).device("cuda:0"))
    assert reading.values["utilization_percent"] == pytest.approx(12.0)
    assert reading.values["power_w"] == pytest.approx(19.952 * (0.258 + 0.164) + 5.0 * 1.1)
    assert reading.values["clock_mhz"] == pytest.approx(1300.5)
    assert reading.values["temperature_c"] == pytest.approx(47.625)
    assert reading.values["power_mode"] == "MODE_30W"
    assert reading.missing["throttle"] == "nvidia-smi says [N/A]"


class Told(Machine):
    """A recorded machine whose files and tools say something else, as `say` makes it of what they said."""

    def __init__(self, machine: Machine, say: Any) -> None:
        self._machine, self._say = machine, say

    def _said(self, answer: Answer) -> Answer:
        return dataclasses.replace(answer, text=self._say(answer.text))

    def file(self, path: str) -> Answer:
        return self._said(self._machine.file(path))

    def names(self, pattern: str) -> tuple[str, ...]:
        return self._machine.names(pattern)

    def tool(self, tool: Tool, *arguments: str) -> Answer:
        return self._said(self._machine.tool(tool, *arguments))

    def child(self, name: str) -> Answer:
        return self._said(self._machine.child(name))

    def packages(self) -> Any:
        return self._machine.packages()

    def runtimes(self) -> tuple[str, ...]:
        return self._machine.runtimes()

    def variable(self, name: str) -> str:
        return self._say(self._machine.variable(name))


def ask_everything(machine: Machine) -> None:
    """Probe, read and check without the net of `survey`, which would hide what a probe raises."""
    platforms, broken = load_platforms()
    assert not broken
    for platform in platforms.values():
        for device in platform.probe(machine).devices:
            for fixed in (device, dataclasses.replace(device, memory_bytes=None)):
                assert platform.read(machine, fixed).values is not None
    found = survey(machine)
    assert "broke" not in "".join(finding.no for finding in found.findings.values())
    json.dumps([dataclasses.asdict(device) for device in found.devices], allow_nan=False)
    sampler = Sampler(machine, found, found.devices)
    for sample in (*sampler.sample(), *sampler.sample()):
        json.dumps([dict(sample.values), dict(sample.missing)], allow_nan=False)
    assert all(check.found for check in device_checks(machine, found))


ODD = st.one_of(
    st.text(max_size=300),
    st.sampled_from(["", "\0", "-", "N/A", "9" * 400, "[" * 3000, "{" * 3000, "1e999", "NaN", "\ud800", "|" * 999]),
    st.from_regex(r"(\| [0-9]{1,3}  [A-Z0-9]{1,6} \| OK \| [0-9./ ]{1,20} \|\n){1,4}", fullmatch=True),
    st.from_regex(r'\{("card[0-9]": \{"[A-Za-z ()%]{1,20}": "?[0-9.%a-zA-Z]{0,9}"? ?,?){1,4}\}\}', fullmatch=True),
    st.from_regex(r"([A-Za-z0-9 /.\[\]-]{0,12},){5,9}[0-9x.]{0,9}\n", fullmatch=True),
)


@pytest.mark.parametrize("name", NAMES)
@given(text=ODD)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_files_and_tools_say_breaks_anything(name, text):
    ask_everything(Told(recorded(name), lambda said: text))


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_texts_that_are_damaged_here_and_there_break_nothing(name, seed):
    chance = random.Random(seed)

    def damaged(text: str) -> str:
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(text) + 1)
            kind = chance.randrange(4)
            piece = chance.choice(["|", ",", '"', "\n", "-", "9" * 30, "\0", "/", "{", "}", " ", "N/A", "\u0663", "²"])
            text = (text[:at], text[:at] + piece + text[at:], text[:at] + text[at + 7 :], text[at:])[kind]
        return text

    ask_everything(Told(recorded(name), damaged))
