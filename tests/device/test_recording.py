"""A machine in a tar file: what is written tells nobody whose it is, and what is read is never trusted."""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from device.machines import FIXTURES, changed, live, put, recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from edgert.device import recording
from edgert.device.machine import Tool, Watched
from edgert.device.recording import recording_of, replay
from edgert.device.survey import survey
from edgert.errors import EdgertError

SMI = Tool(name="nvidia-smi")
PLANTED = {
    "serial": "1420921055981",
    "uuid": "072b19bd-4ccf-63cf-6435-cf462aff833d",
    "mac": "04:90:81:2c:77:b0",
    "ipv4": "172.20.9.77",
    "ipv6": "fe80::490:81ff:fe2c:77b0",
    "container": "38a198e23477edb35d5e0a5d43122fd5",
    "host": "lab-bench-7",
    "user": "jane-doe",
}


@pytest.fixture
def identified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "lab-bench-7.example")
    monkeypatch.setattr("getpass.getuser", lambda: "jane-doe")


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def archive(members: dict[str, bytes], change=lambda member: None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            change(member)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def index(**keys) -> bytes:
    return json.dumps({"schema": 1, "machine": "x", "source": "y", **keys}).encode()


def refused(path: Path) -> str:
    with pytest.raises(EdgertError) as caught:
        replay(path)
    return str(caught.value)


def test_planted_identities_are_in_no_recording(tmp_path, identified):
    cgroup = f"0::/docker/{PLANTED['container']}\n"
    put(tmp_path, "/proc/self/cgroup", cgroup)
    put(tmp_path, f"/sys/fs/cgroup/docker/{PLANTED['container']}/cpu.max", "200000 100000\n")
    put(tmp_path, "/proc/cpuinfo", f"processor: 0\nmodel name: CPU\nSerial\t\t: {PLANTED['serial']}\n")
    script = (
        f"echo 'NVIDIA H200, GPU-{PLANTED['uuid']}'; echo 'Serial Number: {PLANTED['serial']}'; "
        f"echo 'eth0 {PLANTED['mac']} {PLANTED['ipv4']} {PLANTED['ipv6']}'; "
        f"echo 'on {PLANTED['host']} by {PLANTED['user']}' >&2; exit 3"
    )
    machine = live(tmp_path, {"nvidia-smi": script})
    object.__setattr__(machine, "environment", {"LD_LIBRARY_PATH": f"/home/{PLANTED['user']}/lib"})
    watched = Watched(machine)
    survey(watched, limit_s=60.0)
    watched.tool(SMI, "-q")
    watched.variable("LD_LIBRARY_PATH")
    watched.names(f"/sys/fs/cgroup/docker/{PLANTED['container']}/*")
    data = recording_of(watched, version="1", title=f"of {PLANTED['host']}")
    assert [name for name, value in PLANTED.items() if value.encode() in data] == []
    played = replay(written(tmp_path / "m.tar", data))
    assert played.tool(SMI, "-q").text.startswith("NVIDIA H200, GPU-00000000-0000")
    assert played.tool(SMI, "-q").problem == "nvidia-smi ended with status 3: on host by host"
    assert survey(played).device("cpu").details["CPU limit"] == "2 CPUs by cgroup"


def test_a_recording_holds_no_owner_and_no_time(tmp_path):
    put(tmp_path, "/proc/cpuinfo", "processor: 0\n")
    watched = Watched(live(tmp_path, {}))
    watched.text("/proc/cpuinfo")
    with tarfile.open(fileobj=io.BytesIO(recording_of(watched, version="1"))) as tar:
        for member in tar:
            assert (member.uid, member.gid, member.mtime, member.uname, member.gname) == (0, 0, 0, "", "")


@pytest.mark.parametrize("name", ["jetson-thor", "mixed", "half-installed", "amd-7900xt"])
def test_what_is_recorded_is_found_again(tmp_path, name):
    """A recording of a replayed machine says the same of it."""
    watched = Watched(recorded(name))
    before = survey(watched)
    again = survey(replay(written(tmp_path / "m.tar", recording_of(watched, version="1"))))
    assert again.devices == before.devices
    assert [finding.no for finding in again.findings.values()] == [one.no for one in before.findings.values()]


def test_this_machine_is_recorded_and_found_again(tmp_path):
    data, found = recording.record("1")
    again = survey(replay(written(tmp_path / "m.tar", data)))
    assert [(one.name, one.chip, one.memory_bytes) for one in again.devices] == [
        (one.name, one.chip, one.memory_bytes) for one in found.devices
    ]
    assert socket.gethostname().encode() not in data or len(socket.gethostname()) < 3


def test_what_was_not_asked_is_said(tmp_path):
    machine = recorded("h200")
    assert machine.tool(SMI, "--other").problem == "nvidia-smi was not asked that when the machine was recorded"
    assert machine.tool(Tool(name="ixsmi")).problem == "ixsmi is not on PATH"
    assert machine.child("openvino").problem == "python (openvino) was not run when the machine was recorded"
    assert machine.file("/proc/none").problem == "No such file or directory"
    assert recorded("amd-7900xt").file("/sys/class/powercap/intel-rapl:0/energy_uj").problem == "Permission denied"
    assert machine.variable("PATH") == ""


def test_patterns_of_a_recording_match_files_nodes_and_their_folders():
    machine = recorded("h200")
    assert machine.names("/dev/nvidia[0-9]*") == ("/dev/nvidia0", "/dev/nvidia1")
    assert machine.names("/sys/bus/pci/devices/*") == tuple(
        f"/sys/bus/pci/devices/0000:{bus}:00.0" for bus in ("03", "17", "2a")
    )
    assert machine.names("/dev/*/nothing") == ()


def test_a_folder_and_a_tar_of_it_are_the_same_machine(tmp_path):
    folder = FIXTURES / "jetson-thor"
    members = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    packed = replay(written(tmp_path / "thor.tar", archive(members)))
    assert survey(packed).devices == survey(recorded("jetson-thor")).devices


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("root/../../etc/passwd", "holds a file that no recording has: found root/../../etc/passwd"),
        ("/root/proc/x", "holds a file that no recording has: found /root/proc/x"),
        ("other/x", "holds a file that no recording has: found other/x"),
        ("../machine.json", "holds a file that no recording has: found ../machine.json"),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(tmp_path, name, why):
    path = written(tmp_path / "m.tar", archive({"machine.json": index(), name: b"x"}))
    assert why in refused(path)
    assert sorted(os.listdir(tmp_path)) == ["m.tar"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"S"])
def test_links_and_devices_are_refused(tmp_path, kind):
    def change(member: tarfile.TarInfo) -> None:
        if member.name != "machine.json":
            member.type, member.linkname, member.size = kind, "/etc/passwd", 0

    data = archive({"machine.json": index(), "root/x": b""}, change)
    assert "holds a link or a device: found root/x" in refused(written(tmp_path / "m.tar", data))


def test_links_in_a_folder_are_refused(tmp_path):
    copy = changed("h200", tmp_path)
    (copy / "root/link").symlink_to("/etc/passwd")
    assert "holds a link or a device: found root/link" in refused(copy)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is no tar file: found empty file"),
        (b"not a tar" * 200, "is no tar file"),
        (b"\x1f\x8b\x08" + b"\0" * 600, "is no tar file"),
        (archive({"root/x": b""}), "no machine.json in it"),
        (archive({"machine.json": b"{"}), "is not valid JSON"),
        (archive({"machine.json": b"\xff"}), "is not UTF-8 text"),
        (archive({"machine.json": b"[]"}), "is not a JSON object"),
        (archive({"machine.json": b"{}"}), "key 'schema' is missing"),
        (archive({"machine.json": index(schema=2)}), "key 'schema' is wrong: found 2"),
        (archive({"machine.json": index(odd=1)}), "unknown key 'odd'"),
        (archive({"machine.json": index(nodes="x")}), "key 'nodes' is wrong"),
        (archive({"machine.json": index(tools=[1])}), "key 'tools' is wrong"),
        (archive({"machine.json": index(tools=[{"command": []}])}), "key 'tools[0].command' is wrong"),
        (
            archive({"machine.json": index(tools=[{"command": ["a"], "output": "root/x"}])}),
            "key 'tools[0].output' is wrong: found root/x, expected the name of a file in the recording",
        ),
        (archive({"machine.json": index(packages={"a": 1})}), "key 'packages.a' is wrong"),
        (archive({"machine.json": index(), "root/large": b"x" * ((1 << 20) + 1)}), "is too large: found root/large"),
        (archive({"machine.json": index(), "root/x": b"1"}) [:-1500], ""),
        (archive({"machine.json": index()})[:700], "is no tar file"),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_refused(tmp_path, data, why):
    path = written(tmp_path / "m.tar", data)
    if why:
        assert why in refused(path)
    else:
        assert replay(path).text("/x") == "1"


def test_a_file_twice_is_refused(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("root/x"), io.BytesIO())
    assert "holds a file twice: found root/x" in refused(written(tmp_path / "m.tar", buffer.getvalue()))


def test_too_many_and_too_large_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "MAX_MEMBERS", 3)
    data = archive({"machine.json": index(), **{f"root/{number}": b"" for number in range(3)}})
    assert "has too many files: expected at most 3" in refused(written(tmp_path / "m.tar", data))
    assert "has too many files: expected at most 3" in refused(FIXTURES / "h200")
    monkeypatch.setattr(recording, "MAX_RECORDING_BYTES", 1000)
    assert "is too large: found over 1000 bytes" in refused(tmp_path / "m.tar")


def test_pipes_and_missing_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in refused(tmp_path / "pipe")
    assert "cannot read recording" in refused(tmp_path / "none.tar")
    (tmp_path / "empty").mkdir()
    assert "no machine.json in it" in refused(tmp_path / "empty")


SMALL = archive({"machine.json": index(nodes=["/dev/kfd"], tools=[{"command": ["a"], "problem": "b"}]), "root/x": b"1"})


@given(at=st.integers(0, len(SMALL) - 1), value=st.binary(min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_damaged_tars_are_refused_or_read(tmp_path_factory, at, value):
    path = tmp_path_factory.mktemp("damaged") / "m.tar"
    path.write_bytes(SMALL[:at] + value + SMALL[at + len(value) :])
    with suppress(EdgertError):  # which is how it is refused
        assert survey(replay(path)).devices
