"""What a recording says about itself besides the report's header: contract, digests, versions, time."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import mujoco
import numpy as np

from edgert.contract.spec import Contract
from edgert.task.task import Task

_PACKAGES = ("edgert", "mujoco", "numpy", "onnx", "gymnasium")


def recording_header(
    header: Mapping[str, Any],
    *,
    contract: Contract | None = None,
    model: mujoco.MjModel | None = None,
    task: Task | None = None,
    clock: str = "simulated",
) -> dict[str, Any]:
    """The header of a recording: what a run says of itself, and what is needed to trust and to replay it.

    `clock` says what `t_ns` counts: "monotonic" of the host, or "simulated". The wall clock is a remark, never an
    order: an edge computer's may say 1970.
    """
    result = {**header, "clock": clock, "wall_time_ns": time.time_ns(), "versions": _versions()}
    if contract is not None:
        result["contract"] = contract.to_document()
    if model is not None:
        result["scene_sha256"] = model_sha256(model)
    if task is not None and task.sha256:
        result["task_sha256"] = task.sha256
    return result


def model_sha256(model: mujoco.MjModel) -> str:
    """Digest of a compiled model with its actuators, meshes and all: what really was simulated, by this MuJoCo."""
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
