"""What the host allows, judged over folders that stand for "/"."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgert.device import host


def put(root: Path, path: str, text: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_real_time_scheduling_is_what_the_trial_says():
    assert host.realtime(lambda: True).status == "ok"
    refused = host.realtime(lambda: False)
    assert refused.status == "warn"
    assert "LimitRTPRIO=80" in refused.fix


def test_trying_it_changes_nothing_here():
    before = os.sched_getscheduler(0)
    assert host.fifo_allowed() in (True, False)
    assert os.sched_getscheduler(0) == before


WITHOUT_THE_RIGHT = """
import ctypes, resource
from edgert.device.host import fifo_allowed
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
assert ctypes.CDLL(None).prctl(24, 23, 0, 0, 0) == 0  # PR_CAPBSET_DROP, CAP_SYS_NICE: what it starts has it no more
print(fifo_allowed())
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not host.fifo_allowed(), reason="only root may give up the right, and must have it before"
)
def test_the_trial_sees_that_the_right_is_gone():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_RIGHT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("capabilities", "limit", "status", "found"),
    [
        ("0000000000000000", 8 << 20, "warn", "8.0 MiB may be locked, less than a policy and its libraries take"),
        ("0000000000000000", resource.RLIM_INFINITY, "ok", "any memory may be locked"),
        ("0000000000004000", 0, "ok", "any memory may be locked (CAP_IPC_LOCK)"),
        ("ffffffffffffbfff", 0, "warn", "0 bytes may be locked, less than a policy and its libraries take"),
    ],
)
def test_locked_memory(tmp_path, capabilities, limit, status, found):
    put(tmp_path, "proc/self/status", f"Name:\tpython\nCapPrm:\tffffffffffffffff\nCapEff:\t{capabilities}\n")
    check = host.memory_lock(tmp_path, limit)
    assert (check.status, check.found) == (status, found)
    assert bool(check.fix) == (status == "warn")


def test_locked_memory_of_this_process(tmp_path):
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert host.memory_lock(tmp_path).status == ("ok" if limit == resource.RLIM_INFINITY else "warn")


def test_governors(tmp_path):
    assert host.cpu_governor(tmp_path) == host.Check(
        name="cpu-governor", status="ok", found="not visible here, as in a virtual machine"
    )
    for cpu in range(3):
        put(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "performance\n")
    assert host.cpu_governor(tmp_path).found == "performance on 3 of 3 CPUs"
    assert host.cpu_governor(tmp_path).status == "ok"
    put(tmp_path, "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "schedutil\n")
    slow = host.cpu_governor(tmp_path)
    assert slow.status == "warn"
    assert slow.found == "performance on 2, schedutil on 1 of 3 CPUs: the CPU slows down between ticks"


@pytest.mark.parametrize(
    ("files", "status", "found"),
    [
        ({}, "ok", "none, 4 CPUs"),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, "ok", "none, 4 CPUs"),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, "ok", "4 CPUs of 4"),
        (  # the tightest cgroup above counts
            {
                "proc/self/cgroup": "0::/system.slice/edgert.service\n",
                "sys/fs/cgroup/system.slice/cpu.max": "50000 100000\n",
                "sys/fs/cgroup/system.slice/edgert.service/cpu.max": "200000 100000\n",
            },
            "warn",
            "0.5 CPUs of 4",
        ),
        (  # version 1: a container sees its own cgroup as the root, and the host's path
            {
                "proc/self/cgroup": "5:memory:/docker/f00\n3:cpu,cpuacct:/docker/f00\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            "warn",
            "1.5 CPUs of 4",
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            "ok",
            "none, 4 CPUs",
        ),
    ],
)
def test_cpu_quota(tmp_path, files, status, found):
    for path, text in files.items():
        put(tmp_path, path, text)
    check = host.cpu_quota(tmp_path, 4)
    assert (check.status, check.found.partition(":")[0]) == (status, found)
    assert bool(check.fix) == (status == "warn")


@pytest.mark.parametrize(
    ("source", "resolution", "status", "found"),
    [
        ("tsc\n", 1e-9, "ok", "resolution 1 ns, source tsc"),
        (None, 1e-9, "ok", "resolution 1 ns"),
        ("acpi_pm\n", 1e-9, "warn", "resolution 1 ns, source acpi_pm: too slow or too coarse to time a loop"),
        ("tsc\n", 4e-3, "warn", "resolution 4e+06 ns, source tsc: too slow or too coarse to time a loop"),
    ],
)
def test_clock(tmp_path, source, resolution, status, found):
    if source is not None:
        put(tmp_path, "sys/devices/system/clocksource/clocksource0/current_clocksource", source)
    check = host.clock(tmp_path, resolution)
    assert (check.status, check.found) == (status, found)


@pytest.mark.parametrize(("free", "status"), [(3 << 30, "ok"), (500 << 20, "warn"), (1 << 20, "fail")])
def test_disk_of_a_folder_that_is_not_there_yet(tmp_path, monkeypatch, free, status):
    asked = []
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(path) or usage)
    check = host.disk("disk-state", tmp_path / "a/b")
    assert check.status == status
    assert check.found == f"{host.size_text(free)} free for {tmp_path}/a/b"
    assert asked == [tmp_path]


def test_a_folder_that_may_not_be_written_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK | os.X_OK))
    check = host.disk("disk-state", tmp_path / "state")
    assert check.status == "warn"
    assert check.found.endswith(f" free for {tmp_path}/state, which may not be written")
    assert check.fix == f"chown or chmod {tmp_path}"


def test_a_working_folder_that_is_gone_is_said(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    check = host.disk("disk-work", Path())
    assert (check.status, check.found) == ("warn", ".: No such file or directory")


def test_encodings():
    assert host.text_encoding("UTF-8").status == "ok"
    assert host.text_encoding("utf8").status == "ok"
    check = host.text_encoding("ANSI_X3.4-1968")
    assert (check.status, check.fix) == ("warn", "export LC_ALL=C.UTF-8")


def test_sizes():
    assert [host.size_text(count) for count in (0, 1023, 1536, 5 << 20, 3 << 29)] == [
        "0 bytes",
        "1023 bytes",
        "1.5 KiB",
        "5.0 MiB",
        "1.5 GiB",
    ]
