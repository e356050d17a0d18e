"""What the host allows a control loop: scheduling, locked memory, clock, CPU limits, disk, text encoding.

Each function judges one thing and changes nothing. `root` stands for "/", so that a test brings a tree of its own; on
a host without such files (a virtual machine, a container) what cannot be seen is said and counts as ok.
"""

from __future__ import annotations

import codecs
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from edgert.device.machine import Answer, LiveMachine

Status = Literal["ok", "warn", "fail"]

LOW_DISK_BYTES: Final = 1 << 30
"""Less free space than this is worth a warning: minutes of video, hours of recorded rows."""
FULL_DISK_BYTES: Final = 64 << 20
"""Less free space than this holds no recording."""
COARSE_CLOCK_S: Final = 1e-6
"""Latencies are told in µs: a coarser clock cannot measure them."""

_CAP_IPC_LOCK: Final = 14  # linux/capability.h
_SLOW_CLOCKS: Final = ("hpet", "acpi_pm", "jiffies", "refined-jiffies")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. `fix` is what to do about it, "" where nothing needs doing."""

    name: str
    status: Status
    found: str
    fix: str = ""


def fifo_allowed() -> bool:
    """Whether SCHED_FIFO may be set: tried in a child, since limits, capabilities and the container all have a say."""
    code = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    command = [sys.executable, "-I", "-S", "-c", code]
    try:
        done = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=10.0, check=False)  # noqa: S603  # own text
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def realtime(allowed: Callable[[], bool] = fifo_allowed) -> Check:
    """Whether this process could schedule itself by SCHED_FIFO; it does not."""
    if allowed():
        return Check(name="realtime", status="ok", found="SCHED_FIFO may be set")
    return Check(
        name="realtime",
        status="warn",
        found="SCHED_FIFO may not be set: other processes delay the loop",
        fix="LimitRTPRIO=80 in the systemd unit, or rtprio 80 in /etc/security/limits.conf (ulimit -r shows it)",
    )


def memory_lock(root: Path = Path("/"), limit_bytes: int | None = None) -> Check:
    """Whether this process could lock its memory, so that no page fault stops the loop.

    `limit_bytes` is the soft limit, by default this process's own.
    """
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] if limit_bytes is None else limit_bytes
    if _capability(root, _CAP_IPC_LOCK):
        return Check(name="memlock", status="ok", found="any memory may be locked (CAP_IPC_LOCK)")
    if limit == resource.RLIM_INFINITY:
        return Check(name="memlock", status="ok", found="any memory may be locked")
    return Check(
        name="memlock",
        status="warn",
        found=f"{size_text(limit)} may be locked, less than a policy and its libraries take",
        fix="LimitMEMLOCK=infinity in the systemd unit, or memlock unlimited in /etc/security/limits.conf (ulimit -l)",
    )


def _capability(root: Path, number: int) -> bool:
    for line in (_text(root / "proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def cpu_governor(root: Path = Path("/")) -> Check:
    """Whether the CPUs keep their clock rate, or save power while the loop sleeps."""
    found = [_text(path) for path in root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")]
    return governor_check([text.strip() for text in found if text is not None])


def governor_check(governors: Sequence[str]) -> Check:
    """Whether the governors of the CPUs keep their clock rates."""
    if not governors:
        return Check(name="cpu-governor", status="ok", found="not visible here, as in a virtual machine")
    counts = ", ".join(f"{name} on {governors.count(name)}" for name in sorted(set(governors)))
    text = f"{counts} of {len(governors)} CPUs"
    if set(governors) == {"performance"}:
        return Check(name="cpu-governor", status="ok", found=text)
    return Check(
        name="cpu-governor",
        status="warn",
        found=f"{text}: the CPU slows down between ticks",
        fix="cpupower frequency-set -g performance",
    )


def cpu_quota(root: Path = Path("/"), cpus: int | None = None) -> Check:
    """Whether a cgroup takes the CPU away for the rest of a period (0.1 s) once its share is used up."""
    available = len(os.sched_getaffinity(0)) if cpus is None else cpus
    quota = min(cpu_quotas(LiveMachine(root=root).file), default=None)
    if quota is None:
        return Check(name="cpu-quota", status="ok", found=f"none, {available} CPUs")
    text = f"{quota:g} CPUs of {available}"
    if quota >= available:
        return Check(name="cpu-quota", status="ok", found=text)
    return Check(
        name="cpu-quota",
        status="warn",
        found=f"{text}: a loop that used its share stands still until the next period",
        fix="Give it whole CPUs instead: docker --cpuset-cpus, AllowedCPUs= in the systemd unit",
    )


def cpu_quotas(read: Callable[[str], Answer]) -> list[float]:
    """CPUs that each cgroup around this process allows, of those with a limit. `read` gives the text of a file."""
    quotas = []
    for folder in cgroup_folders(read, "cpu"):
        quota = _quota(read, folder)
        quotas += [quota] if quota is not None else []
    return quotas


def cgroup_folders(read: Callable[[str], Answer], controller: str) -> list[str]:
    """The folders of the cgroups around this process that a controller may be bound in; cgroup v2 and v1."""
    folders = []
    for line in read("/proc/self/cgroup").text.splitlines():
        _, separator, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not separator or (controllers and controller not in controllers.split(",")):
            continue
        folder = f"/sys/fs/cgroup/{controllers}".rstrip("/")
        inner = [part for part in path.split("/") if part not in ("", ".", "..")]
        folders += ["/".join([folder, *inner[:depth]]) for depth in range(len(inner) + 1)]
    return folders


def _quota(read: Callable[[str], Answer], folder: str) -> float | None:
    text = read(f"{folder}/cpu.max").text
    if not text:
        text = f"{read(f'{folder}/cpu.cfs_quota_us').text} {read(f'{folder}/cpu.cfs_period_us').text}"
    try:
        quota_us, period_us = (int(part) for part in text.split())
    except ValueError:  # "max 100000", or nothing
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def clock(root: Path = Path("/"), resolution_s: float | None = None) -> Check:
    """Whether the monotonic clock is fine enough to time a loop, and cheap to read."""
    resolution = time.get_clock_info("monotonic").resolution if resolution_s is None else resolution_s
    source = (_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or "").strip()
    text = f"resolution {resolution * 1e9:g} ns" + (f", source {source}" if source else "")
    if resolution <= COARSE_CLOCK_S and source not in _SLOW_CLOCKS:
        return Check(name="clock", status="ok", found=text)
    return Check(
        name="clock",
        status="warn",
        found=f"{text}: too slow or too coarse to time a loop",
        fix="Boot with a kernel that takes the CPU's own counter (clocksource=tsc)",
    )


def disk(name: str, folder: Path) -> Check:
    """The free space of the disk that holds, or would hold, a folder; and whether it may be written."""
    try:
        folder = folder.absolute()
        place = next(path for path in (folder, *folder.parents) if os.path.exists(path))
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Check(name=name, status="warn", found=f"{folder}: {error.strerror}", fix="Check its permissions")
    text = f"{size_text(free)} free for {folder}"
    if not os.access(place, os.W_OK | os.X_OK):
        return Check(name=name, status="warn", found=f"{text}, which may not be written", fix=f"chown or chmod {place}")
    if free >= LOW_DISK_BYTES:
        return Check(name=name, status="ok", found=text)
    return Check(name=name, status="fail" if free < FULL_DISK_BYTES else "warn", found=text, fix="Free some disk space")


def text_encoding(encoding: str) -> Check:
    """Whether the locale's encoding can write what edgert prints, such as µs."""
    if codecs.lookup(encoding).name == "utf-8":
        return Check(name="locale", status="ok", found=encoding)
    return Check(
        name="locale",
        status="warn",
        found=f"{encoding}: units such as µs are printed as ?",
        fix="export LC_ALL=C.UTF-8",
    )


def size_text(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _text(path: Path) -> str | None:
    """What the kernel says in one of its files; None where there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None
