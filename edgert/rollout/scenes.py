"""The scene that a recording was made in, for looking at it again."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from edgert.errors import IntegrityError, UnsupportedError
from edgert.rollout.provenance import model_sha256
from edgert.rollout.recording import Episode
from edgert.sim.scene import compile_spec, load_spec


def recorded_model(episode: Episode) -> mujoco.MjModel:
    """The scene that an episode names, with as many coordinates as were recorded.

    Raises:
        UnsupportedError: the recording holds no states of a scene.
        IntegrityError: the scene is gone, broken, or another one.
    """
    scene = episode.header.get("scene")
    if not isinstance(scene, str) or "state.qpos" not in episode.columns:
        raise UnsupportedError(
            "the recording holds no states that could be drawn",
            found=f"an episode in {episode.header.get('env', 'another place')}",
            expected="one of a sim or a scene",
        )
    model = compile_spec(load_spec(Path(scene)), Path(scene))
    versions: Any = episode.header.get("versions")
    same_mujoco = isinstance(versions, Mapping) and versions.get("mujoco") == version("mujoco")
    digest, recorded = model_sha256(model), episode.header.get("scene_sha256")
    if model.nq != episode.qpos.shape[1] or (same_mujoco and digest != recorded):
        raise IntegrityError(
            f"scene {scene} is not the one that was recorded",
            found=f"{model.nq} coordinates, sha256 {digest[:12]}…",
            expected=f"{episode.qpos.shape[1]}, {str(recorded)[:12]}…",
            hint="Restore the scene as it was",
        )
    return model


def recorded_goals(episode: Episode) -> npt.NDArray[np.float64] | None:
    """Commanded positions (T + 1, 3), m, of a policy that takes such commands."""
    contract: Any = episode.header.get("contract")
    command: Any = contract.get("command") if isinstance(contract, Mapping) else None
    aimed = isinstance(command, Mapping) and command.get("kind") == "position" and "command" in episode.columns
    return episode["command"] if aimed else None
