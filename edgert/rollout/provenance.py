"""What a recording says about itself besides the report's header: contract, digests, versions, time."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from edgert.contract.spec import Contract
from edgert.device.onnxruntime import installed_runtimes
from edgert.sim.scene import compile_spec, load_spec
from edgert.task.task import Task

_PACKAGES = ("edgert", "mujoco", "numpy", "onnx", "gymnasium")


def recording_header(
    header: Mapping[str, Any],
    *,
    contract: Contract | None = None,
    scene: Path | None = None,
    task: Task | None = None,
    clock: str = "simulated",
) -> dict[str, Any]:
    """The header of a recording: what a run says of itself, and what is needed to trust and to replay it.

    Files are named by their full paths, as a recording is read from anywhere. `clock` says what `t_ns` counts:
    "monotonic" of the host, or "simulated". The wall clock is a remark, never an order: that of an edge computer may
    say 1970.
    """
    result = {**header, "clock": clock, "wall_time_ns": time.time_ns(), "versions": _versions()}
    result["runtime"] = ", ".join(installed_runtimes())
    result |= {name: str(Path(header[name]).resolve()) for name in ("policy", "scene") if name in header}
    if contract is not None:
        result["contract"] = contract.to_document()
    if scene is not None:
        result["scene_sha256"] = scene_sha256(scene)
    if task is not None and task.sha256:
        result["task_sha256"] = task.sha256
    return result


def scene_sha256(scene: Path) -> str:
    """Digest of a scene before any policy's gains are laid on it."""
    named = scene.resolve()  # a compiled scene holds the paths of its meshes, which begin as its own does
    return model_sha256(compile_spec(load_spec(named), named))


def model_sha256(model: mujoco.MjModel) -> str:
    """Digest of a compiled scene as its file says it, meshes and all. Another MuJoCo may compile other bytes."""
    data = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, data)
    return hashlib.sha256(data.tobytes()).hexdigest()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a package that was copied rather than installed
            continue
    return found
