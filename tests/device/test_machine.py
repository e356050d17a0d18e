"""What a probe may look at: files and tools of the computer, bounded in size and time, whatever they do."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from device.machines import live, put

from edgert.device import machine as machine_module
from edgert.device.machine import MAX_FILE_BYTES, MAX_OUTPUT_BYTES, LiveMachine, Tool, Watched, installed_packages

SMI = Tool(name="some-smi")
USUAL = "PATH=/usr/bin:/bin; "
"""For scripts that use the usual programs, which are not on the PATH of these tests."""


def test_files_are_read_below_the_root_and_stripped(tmp_path):
    put(tmp_path, "/proc/device-tree/compatible", "a,b\0c,d\0\n")
    machine = live(tmp_path, {})
    assert machine.text("/proc/device-tree/compatible") == "a,b\0c,d"
    assert machine.file("/proc/none").problem == "No such file or directory"
    assert machine.text("/proc/none") == ""


def test_what_is_no_text_file_is_said_and_never_waited_for(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    put(tmp_path, "/large", "x" * (2 * MAX_FILE_BYTES))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe MHz\n")
    machine = live(tmp_path, {})
    assert machine.file("/folder").problem in ("no regular file", "Is a directory")
    assert machine.file("/pipe").problem == "no regular file"
    assert machine.file("/na\0me").problem
    assert len(machine.text("/large")) == MAX_FILE_BYTES
    assert machine.text("/bytes") == "�� MHz"


def test_a_file_that_may_not_be_read_is_said(tmp_path):
    put(tmp_path, "/secret", "1").chmod(0)
    user = os.geteuid()
    if user == 0:  # who may read everything
        os.seteuid(65534)
    try:
        assert live_machine(tmp_path).file("/secret").problem == "Permission denied"
        assert live_machine(tmp_path).text("/secret") == ""
    finally:
        os.seteuid(user)


def live_machine(root: Path) -> LiveMachine:
    return LiveMachine(root=root, path="", environment={})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42\n", 42),
        ("-1", -1),
        ("", None),
        ("4.2", None),
        ("²", None),
        ("1_000", None),
        ("9" * 21, None),
        ("- 1", None),
    ],
)
def test_numbers_of_files(tmp_path, text, value):
    put(tmp_path, "/n", text)
    assert live(tmp_path, {}).number("/n") == value


def test_patterns_match_below_the_root_in_order(tmp_path):
    for name in ("accel10", "accel2", "accel1"):
        put(tmp_path, f"/dev/accel/{name}")
    machine = live(tmp_path, {})
    assert machine.names("/dev/accel/accel[0-9]*") == ("/dev/accel/accel1", "/dev/accel/accel10", "/dev/accel/accel2")
    assert machine.names("/dev/none*") == ()


def test_a_pattern_that_matches_too_much_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_module, "MAX_NAMES", 3)
    for number in range(9):
        put(tmp_path, f"/dev/node{number}")
    assert len(live(tmp_path, {}).names("/dev/node*")) == 3


def test_a_tool_gets_its_arguments_and_a_plain_locale(tmp_path):
    machine = live(tmp_path, {"some-smi": 'echo "$1|$2|$LC_ALL|$PATH"'})
    answer = machine.tool(SMI, "--query=a b", "-x")
    assert (answer.text, answer.problem) == (f"--query=a b|-x|C|{tmp_path / 'bin'}", "")


def test_a_tool_is_also_looked_for_in_its_own_folders_with_its_libraries(tmp_path):
    tool = Tool(name="ixsmi", folders=("/usr/local/corex/bin",), libraries=("/usr/local/corex/lib64",))
    machine = live(tmp_path, {})
    assert machine.tool(tool).problem == "ixsmi is not on PATH nor in /usr/local/corex/bin"
    put(tmp_path, "/usr/local/corex/bin/ixsmi", '#!/bin/sh\necho "$LD_LIBRARY_PATH"\n').chmod(0o755)
    assert machine.tool(tool).text == f"{tmp_path}/usr/local/corex/lib64"
    other = LiveMachine(root=tmp_path, path="/nowhere", environment={"LD_LIBRARY_PATH": "/mine"})
    assert other.tool(tool).text == f"{tmp_path}/usr/local/corex/lib64:/mine"


@pytest.mark.parametrize(
    ("script", "text", "problem"),
    [
        ("echo it broke >&2; echo half; exit 9", "half", "some-smi ended with status 9: it broke"),
        ("echo said on stdout; exit 2", "said on stdout", "some-smi ended with status 2: said on stdout"),
        (
            "echo 'Traceback (most' >&2; echo ' File' >&2; echo 'OSError: no' >&2; exit 1",
            "",
            "some-smi ended with status 1: OSError: no",
        ),
        ("exit 3", "", "some-smi ended with status 3"),
        ("kill -SEGV $$", "", "some-smi ended with status -11"),
        (b"\x7fELF nonsense", "", "some-smi cannot be run: Exec format error"),
        (f"{USUAL}sleep 60", "", "some-smi did not answer within 0.2 s"),
        ("trap '' TERM INT; while :; do :; done", "", "some-smi did not answer within 0.2 s"),
        (f"{USUAL}cat", "", ""),  # stdin is empty
        ("printf '\\377\\376 N/A'", "�� N/A", ""),
    ],
)
def test_tools_that_fail(tmp_path, script, text, problem):
    machine = live(tmp_path, {"some-smi": script}, tool_s=5.0 if "0.2 s" not in problem else 0.2)
    answer = machine.tool(SMI)
    assert (answer.text, answer.problem) == (text, problem)


def test_a_tool_that_prints_too_much_is_ended(tmp_path):
    machine = live(tmp_path, {"some-smi": f"{USUAL}head -c {10 << 20} /dev/zero; sleep 60"}, tool_s=30.0)
    answer = machine.tool(SMI)
    assert (answer.text, answer.problem) == ("", f"some-smi printed more than {MAX_OUTPUT_BYTES >> 20} MiB")


def test_what_a_tool_leaves_behind_holds_nobody_up_and_is_ended(tmp_path):
    late = tmp_path / "late"
    script = f"{USUAL}( sleep 1; touch {late} ) & echo done"
    answer = live(tmp_path, {"some-smi": script}, tool_s=30.0).tool(SMI)
    assert (answer.text, answer.problem) == ("done", "")
    time.sleep(1.3)
    assert not late.exists()


def test_a_tool_without_permission_is_none(tmp_path):
    machine = live(tmp_path, {})
    put(tmp_path, "/bin/some-smi", "#!/bin/sh\n").chmod(0o644)
    assert machine.tool(SMI).problem == "some-smi is not on PATH"


def test_after_the_deadline_no_tool_is_asked(tmp_path):
    machine = live(tmp_path, {"some-smi": f"{USUAL}touch {tmp_path / 'asked'}"}).by(time.monotonic() - 1.0)
    assert machine.tool(SMI).problem == "some-smi was not asked: the time for this platform was over"
    assert not (tmp_path / "asked").exists()


def test_a_child_imports_nothing_of_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "onnxruntime.py").write_text("def get_available_providers(): return ['a stranger']")
    monkeypatch.chdir(tmp_path)
    answer = LiveMachine(tool_s=60.0).child("onnxruntime")
    assert answer.problem == ""
    assert "CPUExecutionProvider" in answer.text
    assert "stranger" not in answer.text


def test_packages_are_known_without_being_imported():
    assert installed_packages()["onnxruntime"] == LiveMachine().packages()["onnxruntime"]
    assert list(installed_packages()) == sorted(installed_packages())
    assert all(name.startswith(machine_module.PACKAGES) for name in installed_packages())


def test_everything_that_is_looked_at_is_noted(tmp_path):
    put(tmp_path, "/proc/cpuinfo", "model name: x")
    watched = Watched(live(tmp_path, {"some-smi": "echo a; echo b"}))
    later = watched.by(time.monotonic() + 60.0)
    later.text("/proc/cpuinfo")
    later.text("/proc/none")
    later.names("/proc/cpu*")
    later.names("/dev/x*")
    later.tool(SMI, "-q")
    later.tool(Tool(name="other"))
    later.variable("LD_LIBRARY_PATH")
    assert watched.looked_at() == (
        "/proc/cpu*: 1 found",
        "/dev/x*: none",
        "/proc/cpuinfo: read",
        "/proc/none: No such file or directory",
        "some-smi -q: 2 lines",
        "other: other is not on PATH",
    )
    assert watched.variables == {"LD_LIBRARY_PATH": ""}


def test_this_computer_is_looked_at_by_default():
    machine = LiveMachine()
    assert machine.text("/proc/self/status").startswith("Name:")
    assert machine.variable("PATH") == os.environ["PATH"]
    assert Path(sys.executable).exists()
