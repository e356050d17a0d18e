"""Required packages, extras and the runtime, judged by what metadata says."""

from __future__ import annotations

import platform
from importlib.metadata import version
from types import ModuleType

import pytest

from edgert.device import installation
from edgert.device.installation import Requirement
from edgert.errors import DeviceError


def requirement(name: str, bounds: str, extra: str = "") -> Requirement:
    return Requirement(name=name, bounds=bounds, extra=extra)


@pytest.mark.parametrize(
    ("bounds", "admitted", "refused"),
    [
        (">=2.1", ["2.1", "2.1.0", "2.10", "3", "2.1.3+cpu", "2.2rc1"], ["2.0.9", "1.26.4", "2", "unknown"]),
        (">=4.0,<5", ["4.0", "4.9.9"], ["5", "5.0.0", "3.9"]),
        ("!=1.2,>1", ["1.3", "1.2.1"], ["1.2", "1.2.0", "1.0"]),
        ("==1.2,<=1.2", ["1.2.0"], ["1.2.1"]),
        ("", ["0.1", "unknown"], []),
    ],
)
def test_ranges(bounds, admitted, refused):
    one = requirement("numpy", bounds)
    assert [text for text in admitted if not one.admits(text)] == []
    assert [text for text in refused if one.admits(text)] == []


def test_every_requirement_of_edgert_is_understood():
    needed = installation.requirements()
    names = {one.name for one in needed if not one.extra}
    assert {"numpy", "array-api-compat", "click", "rich", "gymnasium", "mujoco", "onnx"} <= names
    assert [one.extra for one in needed if one.name == "onnxruntime"] == ["cpu", "openvino"]
    for one in needed:
        assert one.admits("9999.0") or "<" in one.bounds
    with pytest.raises(ValueError, match="no requirement such as '~=2'"):
        requirement("numpy", "~=2").admits("2.1")


def test_this_python_and_these_packages_are_ok():
    assert installation.python_version().found == platform.python_version()
    assert installation.python_version().status == "ok"
    check = installation.packages(installation.requirements())
    assert check.status == "ok", check.found
    assert f"numpy {version('numpy')}" in check.found


def test_an_old_python_fails():
    check = installation.python_version("3.9.2")
    assert (check.status, check.found) == ("fail", "3.9.2, but edgert needs >=3.11")


def test_missing_and_old_packages_fail_with_one_command():
    needed = [requirement("numpy", ">=2.1"), requirement("click", ">=8.2"), requirement("torch", ">=2.6", "train")]
    needed.append(requirement("rich", ">=14"))
    check = installation.packages(needed, {"numpy": "1.26.4", "rich": "15.0.0"}.get)
    assert check.status == "fail"
    assert check.found == "numpy 1.26.4, needed >=2.1, click missing, needed >=8.2"
    assert check.fix == "pip install 'numpy>=2.1' 'click>=8.2'"


def test_without_metadata_nothing_can_be_said():
    check = installation.packages([])
    assert check.status == "warn"
    assert check.fix == "Install it: pip install -e . in a checkout"


def test_absent_distributions_have_no_version():
    assert installation.installed_version("numpy") == version("numpy")
    assert installation.installed_version("edgert-of-another-planet") is None


def broken(error: Exception) -> ModuleType:
    raise error


def test_the_runtime_is_what_its_import_says():
    assert installation.runtime(lambda: ModuleType("onnxruntime")).status == "ok"
    two = DeviceError("more than one onnxruntime is installed", found="a 1, b 2", expected="exactly one", hint="Run: x")
    check = installation.runtime(lambda: broken(two))
    assert (check.status, check.found) == ("fail", "more than one onnxruntime is installed: a 1, b 2")
    assert check.fix == "Run: x"
    check = installation.runtime(lambda: broken(ModuleNotFoundError("No module named 'flatbuffers'")))
    assert (check.status, check.found) == ("fail", "No module named 'flatbuffers'")


def test_extras_are_a_choice():
    needed = [requirement("pyarrow", ">=18", "sync"), requirement("pyarrow", ">=99", "other")]
    absent = installation.extra_package("sync", needed, {}.get)
    assert absent.status == "ok"
    assert absent.found == "pyarrow not installed, needed for --record: pip install 'edgert[sync]'"
    present = installation.extra_package("sync", needed, {"pyarrow": "26.0"}.get)
    assert (present.status, present.found, present.fix) == ("ok", "pyarrow 26.0", "")
    old = installation.extra_package("sync", needed, {"pyarrow": "17.0"}.get)
    assert (old.status, old.found) == ("warn", "pyarrow 17.0, needed >=18 for --record")
    assert old.fix == "pip install 'edgert[sync]' --upgrade"
