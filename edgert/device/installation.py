"""Whether what edgert needs is installed here, by the metadata of the distributions; only onnxruntime is imported."""

from __future__ import annotations

import operator
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from itertools import zip_longest
from types import ModuleType
from typing import Final

from edgert.device.host import Check
from edgert.device.onnxruntime import import_onnxruntime, installed_runtimes
from edgert.errors import DeviceError

EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "sync": ("pyarrow", "--record"),
    "view": ("av", "--video"),
    "openvino": ("onnxruntime-ep-openvino", "--provider openvino"),
}
"""Extra to the distribution that it brings, and to what needs that."""

_COMPARE: Final[Mapping[str, Callable[[int, int], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?")
_BOUND: Final = re.compile(r"(>=|<=|==|!=|<|>)\s*(\d+(?:\.\d+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A distribution that edgert needs, in a range such as ">=4.0,<5"; `extra` is "" for what it always needs."""

    name: str
    bounds: str
    extra: str

    def admits(self, installed: str) -> bool:
        """Whether an installed version is in the range, by its release: 4.0.1rc1 and 4.0.1+cpu count as 4.0.1."""
        release = _release(installed)
        for bound in self.bounds.split(",") if self.bounds else ():
            match = _BOUND.fullmatch(bound.strip())
            if match is None:
                raise ValueError(f"edgert reads no requirement such as {bound!r}")
            if not _COMPARE[match[1]](_order(release, _release(match[2])), 0):
                return False
        return True


def _release(text: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match is not None else ()


def _order(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """-1, 0 or 1; 2.1 and 2.1.0 are the same release."""
    for a, b in zip_longest(one, other, fillvalue=0):
        if a != b:
            return 1 if a > b else -1
    return 0


def requirements() -> tuple[Requirement, ...]:
    """What the installed edgert says that it needs; nothing where its metadata is not there."""
    try:
        texts = requires("edgert") or []
    except PackageNotFoundError:
        return ()
    found = []
    for text in texts:
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            raise ValueError(f"edgert reads no requirement such as {text!r}")
        extra = re.fullmatch(r"""extra\s*==\s*["']([^"']+)["']""", match[3] or "")
        found.append(Requirement(name=match[1], bounds=match[2], extra=extra[1] if extra is not None else ""))
    return tuple(found)


def installed_version(name: str) -> str | None:
    """The version of a distribution, None where it is not installed; nothing is imported."""
    try:
        return version(name) or "unknown"  # a damaged installation has no version
    except PackageNotFoundError:
        return None


def python_version(installed: str = platform.python_version()) -> Check:
    """Whether this Python is one that edgert supports."""
    try:
        bounds = metadata("edgert")["Requires-Python"] or ""
    except (PackageNotFoundError, KeyError):
        bounds = ""
    if Requirement(name="python", bounds=bounds, extra="").admits(installed):
        return Check(name="python", status="ok", found=installed)
    return Check(name="python", status="fail", found=f"{installed}, but edgert needs {bounds}", fix="Install that one")


def packages(needed: Sequence[Requirement], version_of: Callable[[str], str | None] = installed_version) -> Check:
    """Whether each distribution that edgert always needs is there and in range."""
    always = [requirement for requirement in needed if not requirement.extra]
    if not always:
        return Check(
            name="packages",
            status="warn",
            found="edgert has no metadata here, so it does not say what it needs",
            fix="Install it: pip install -e . in a checkout",
        )
    wrong, right = [], []
    for requirement in always:
        installed = version_of(requirement.name)
        if installed is not None and requirement.admits(installed):
            right.append(f"{requirement.name} {installed}")
        else:
            wrong.append((requirement, installed))
    if not wrong:
        return Check(name="packages", status="ok", found=", ".join(right))
    return Check(
        name="packages",
        status="fail",
        found=", ".join(f"{one.name} {installed or 'missing'}, needed {one.bounds}" for one, installed in wrong),
        fix="pip install " + " ".join(f"'{one.name}{one.bounds}'" for one, _ in wrong),
    )


def runtime(load: Callable[[], ModuleType] = import_onnxruntime) -> Check:
    """Whether exactly one onnxruntime is installed and can be imported."""
    try:
        load()
    except DeviceError as error:
        found = f"{error.what}{f': {error.found}' if error.found else ''}"
        return Check(name="onnxruntime", status="fail", found=found, fix=error.hint)
    except ImportError as error:  # of something that it needs itself
        return Check(name="onnxruntime", status="fail", found=str(error), fix="pip install 'edgert[cpu]'")
    return Check(name="onnxruntime", status="ok", found=", ".join(installed_runtimes()) or "without metadata")


def extra_package(
    name: str, needed: Sequence[Requirement], version_of: Callable[[str], str | None] = installed_version
) -> Check:
    """Whether what an extra of `EXTRAS` brings is there; an absent one is ok, as it is a choice."""
    package, purpose = EXTRAS[name]
    install = f"pip install 'edgert[{name}]'"
    installed = version_of(package)
    if installed is None:
        found = f"{package} not installed, needed for {purpose}: {install}"
        return Check(name=f"extra-{name}", status="ok", found=found)
    for requirement in needed:
        if (requirement.extra, requirement.name) == (name, package) and not requirement.admits(installed):
            found = f"{package} {installed}, needed {requirement.bounds} for {purpose}"
            return Check(name=f"extra-{name}", status="warn", found=found, fix=f"{install} --upgrade")
    return Check(name=f"extra-{name}", status="ok", found=f"{package} {installed}")
