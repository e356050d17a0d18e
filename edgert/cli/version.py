"""`edgert version`: what is installed here, by the metadata of the distributions; nothing is imported."""

from __future__ import annotations

import platform
from typing import Any

import click

from edgert import __version__
from edgert.cli.main import HELP_NAMES, write
from edgert.cli.running import json_option

_REQUIRED = ("numpy", "mujoco", "onnx", "gymnasium", "array-api-compat", "click", "rich")
_OPTIONAL = ("onnxruntime-ep-openvino", "pyarrow", "av", "torch", "warp-lang", "mujoco-warp")


@click.command(context_settings=HELP_NAMES)
@json_option
def version(as_json: bool) -> None:
    """Say which edgert, Python and packages are installed here."""
    from edgert.device.installation import installed_version
    from edgert.device.onnxruntime import installed_runtimes

    packages: dict[str, str | None] = {name: installed_version(name) for name in _REQUIRED}
    for name, _, number in (entry.partition(" ") for entry in installed_runtimes() or ("onnxruntime",)):
        packages[name] = number or None
    packages |= {name: found for name in _OPTIONAL if (found := installed_version(name)) is not None}
    report: dict[str, Any] = {
        "edgert": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
    }
    write(report, as_json, _table)


def _table(report: dict[str, Any]) -> str:
    from edgert.cli.tables import facts, rendered

    rows = [(name, report[name]) for name in ("edgert", "python", "platform")]
    return rendered(facts([*rows, *((name, found or "not installed") for name, found in report["packages"].items())]))
