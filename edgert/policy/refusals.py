"""Why ONNX Runtime does not open a model, in words that say what to do."""

from __future__ import annotations

import re
from typing import Final

from edgert.errors import EdgertError, IntegrityError, UnsupportedError
from edgert.policy.model import PolicyFile

_OPSET: Final = re.compile(r"Opset (\d+) is under development.*?domain (\S+) is till opset (\d+)", re.DOTALL)
_IR: Final = re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")


def check_operators(file: PolicyFile) -> None:
    """Refuse operators that only the exporter's own runtime has.

    Raises:
        UnsupportedError: naming them.
    """
    if file.custom_operators:
        raise UnsupportedError(
            f"policy {file.path} needs custom operators",
            found=", ".join(file.custom_operators),
            expected="operators of ONNX, or of ONNX Runtime (com.microsoft)",
            hint="Export it without them",
        )


def check_memory(file: PolicyFile) -> None:
    """Refuse a network whose recurrent state begins anew at every run, and that sees no more than one tick.

    Raises:
        UnsupportedError: naming its nodes.
    """
    if file.forgetful:
        raise UnsupportedError(
            f"policy {file.path} has a memory that it loses at every control tick",
            found=f"{', '.join(file.forgetful[:3])}, whose state begins anew at every run",
            expected="its state as an input and as an output (h_in, h_out), or an observation with a history",
            hint="Export it with its states; rsl_rl's exporter does",
        )


def refused_by_runtime(file: PolicyFile, error: Exception, version: str) -> EdgertError:
    """What to raise for a model that ONNX Runtime of this version refuses with `error`."""
    text = str(error)
    for form, kind in ((_OPSET, "opset"), (_IR, "IR version")):
        found = form.search(text)
        if found:
            domain = f" of {found[2]}" if form is _OPSET else ""
            return UnsupportedError(
                f"policy {file.path} is of a newer {kind} than onnxruntime {version} supports",
                found=f"{kind} {found[1]}{domain}",
                expected=f"at most {found[found.re.groups]}",
                hint=f"Upgrade onnxruntime, or export with {kind} {found[found.re.groups]} or lower",
            )
    return IntegrityError(
        f"onnxruntime {version} refuses policy {file.path}",
        found=f"{text.removeprefix('[ONNXRuntimeError] : ')} (opset {file.opset})",
        hint="Check the export; a newer opset needs a newer onnxruntime",
    )
