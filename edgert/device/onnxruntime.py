"""Importing onnxruntime: exactly one distribution of it may be installed.

Two of them overwrite each other's files in silence and removing one breaks the other, so that is refused here, before
the import. Provider plug-ins (`onnxruntime-ep-*`) are no second runtime.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import Distribution, distributions
from types import ModuleType

from edgert.errors import DeviceError, importing

CPU_PROVIDER = "CPUExecutionProvider"


def installed_runtimes() -> tuple[str, ...]:
    """Names and versions of the distributions that ship the module `onnxruntime`, sorted."""
    found = {}
    for distribution in distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith("onnxruntime") and _ships_runtime(name, distribution):
            found[name] = f"{name} {distribution.version}"
    return tuple(sorted(found.values()))


def _ships_runtime(name: str, distribution: Distribution) -> bool:
    if name == "onnxruntime":
        return True
    record = distribution.read_text("RECORD") or ""
    return any(line.startswith("onnxruntime/__init__.py,") for line in record.splitlines())


def import_onnxruntime() -> ModuleType:
    """The module, after checking that one and only one distribution provides it.

    Raises:
        DeviceError: none, two or more are installed, or the import fails.
    """
    installed = installed_runtimes()
    if len(installed) > 1:
        names = " ".join(entry.split()[0] for entry in installed)
        raise DeviceError(
            "more than one onnxruntime is installed, and they overwrite each other's files",
            found=", ".join(installed),
            expected="exactly one",
            hint=f"Run: pip uninstall -y {names}, then install the one for this chip, "
            "for a CPU: pip install onnxruntime",
        )
    missing = "no onnxruntime is installed, which runs the policy"
    with importing("onnxruntime", missing=missing, install='Run: pip install "edgert[cpu]"', refusal=DeviceError):
        module = import_module("onnxruntime")
    if module.__file__ is None:  # what is left when one of two distributions was removed: a folder without code
        raise DeviceError(
            "the installed onnxruntime is incomplete",
            found="a folder without its code",
            hint="Reinstall it, for a CPU: pip install --force-reinstall onnxruntime",
        )
    return module
