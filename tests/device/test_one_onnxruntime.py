"""Exactly one distribution of onnxruntime: judged in fresh interpreters that see only the folders of the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import edgert

SOURCE = Path(edgert.__file__).resolve().parents[1]
PROBE = """
from edgert.device.onnxruntime import import_onnxruntime, installed_runtimes
from edgert.errors import DeviceError
print(installed_runtimes())
try:
    print(import_onnxruntime().NAME)
except DeviceError as error:
    print(error)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


def distribution(site: Path, name: str, files: tuple[str, ...] = (), version: str = "1.23.0") -> None:
    """Metadata of a wheel that installed `files`."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))


def module(site: Path, code: str = "NAME = 'the runtime'\n") -> None:
    (site / "onnxruntime").mkdir()
    (site / "onnxruntime" / "__init__.py").write_text(code)


def probe(site: Path) -> tuple[str, str]:
    """What is installed, and the module's name or the refusal."""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {[str(site), str(SOURCE)]}\n{PROBE}"]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    installed, outcome = result.stdout.splitlines()
    return installed, outcome


RUNTIME_FILES = ("onnxruntime/__init__.py", "onnxruntime/capi/onnxruntime_pybind11_state.so")


def test_the_only_runtime_is_imported(site):
    distribution(site, "onnxruntime", RUNTIME_FILES)
    module(site)
    assert probe(site) == ("('onnxruntime 1.23.0',)", "the runtime")


@pytest.mark.parametrize("name", ["onnxruntime-gpu", "onnxruntime_openvino", "onnxruntime-qnn"])
def test_the_wheel_of_a_vendor_may_be_the_only_one(site, name):
    distribution(site, name, RUNTIME_FILES)
    module(site)
    assert probe(site) == (f"('{name.replace('_', '-')} 1.23.0',)", "the runtime")


def test_two_runtimes_are_refused(site):
    distribution(site, "onnxruntime", RUNTIME_FILES)
    distribution(site, "onnxruntime-gpu", RUNTIME_FILES, "1.22.0")
    module(site, "raise SystemExit('imported although two are installed')")
    assert probe(site)[1] == (
        "more than one onnxruntime is installed, and they overwrite each other's files: "
        "found onnxruntime 1.23.0, onnxruntime-gpu 1.22.0, expected exactly one. "
        "Run: pip uninstall -y onnxruntime onnxruntime-gpu, then install the one for this chip, "
        "for a CPU: pip install onnxruntime"
    )


@pytest.mark.parametrize("name", ["onnxruntime-ep-openvino", "onnxruntime-extensions", "onnxruntime-genai"])
def test_a_provider_plug_in_or_companion_is_no_second_runtime(site, name):
    distribution(site, "onnxruntime", RUNTIME_FILES)
    distribution(site, name, (f"{name.replace('-', '_')}/__init__.py", "onnxruntime/capi/libprovider.so"))
    module(site)
    assert probe(site) == ("('onnxruntime 1.23.0',)", "the runtime")


def test_none_is_refused_with_the_command_that_installs_one(site):
    assert probe(site) == ("()", 'no onnxruntime is installed, which runs the policy. Run: pip install "edgert[cpu]"')


def test_a_plug_in_alone_is_no_runtime(site):
    distribution(site, "onnxruntime-ep-openvino", ("onnxruntime_ep_openvino/__init__.py",))
    assert probe(site)[1].startswith("no onnxruntime is installed")


def test_a_runtime_without_metadata_is_imported(site):
    module(site)
    assert probe(site) == ("()", "the runtime")


def test_a_runtime_that_cannot_be_imported_is_refused(site):
    distribution(site, "onnxruntime", RUNTIME_FILES)
    module(site, "raise ImportError('libfoo.so: cannot open shared object file')")
    assert probe(site)[1] == (
        "onnxruntime cannot be imported: found libfoo.so: cannot open shared object file. Reinstall it for this Python"
    )


def test_the_folder_that_an_uninstalled_runtime_leaves_behind_is_refused(site):
    (site / "onnxruntime" / "capi").mkdir(parents=True)
    assert probe(site)[1] == (
        "the installed onnxruntime is incomplete: found a folder without its code. "
        "Reinstall it, for a CPU: pip install --force-reinstall onnxruntime"
    )
