"""The arm's targets cover half of what it reaches above the table, as its task says."""

from __future__ import annotations

import mujoco
import numpy as np

from edgert.task.draws import draw_commands
from edgert.task.sampling import GoalSampling
from edgert.task.task import load_task

CELL_M = 0.05
SAMPLES = 200_000


def test_targets_are_drawn_from_half_of_the_workspace() -> None:
    task = load_task("arm_reach")
    assert isinstance(task.command, GoalSampling)
    model = mujoco.MjModel.from_xml_path(str(task.scene))
    reached = cells(reach(model, SAMPLES))
    goals = draw_commands(np.random.default_rng(1).random((SAMPLES, 5)), task.command)
    covered = cells(goals) & reached
    print(f"{len(reached)} cells of {CELL_M} m are reached above the table, {len(covered)} of them hold targets")
    assert len(covered) >= 0.5 * len(reached)
    assert len(cells(goals) - reached) <= 0.02 * len(reached)  # and none is out of reach, but for rare cells


def reach(model: mujoco.MjModel, count: int) -> np.ndarray:
    """Where the tool gets above the table, at random joint angles within the first turn."""
    data, site = mujoco.MjData(model), model.site("tool").id
    low, high = np.maximum(model.jnt_range[:, 0], -np.pi), np.minimum(model.jnt_range[:, 1], np.pi)
    points = np.empty((count, 3))
    for point, unit in zip(points, np.random.default_rng(0).random((count, model.nq)), strict=True):
        data.qpos[:] = low + unit * (high - low)
        mujoco.mj_kinematics(model, data)
        point[:] = data.site_xpos[site]
    return points[points[:, 2] > 0.0]


def cells(points: np.ndarray) -> set[tuple[int, ...]]:
    """The cells of a grid that hold a point."""
    return set(map(tuple, np.unique(np.floor(points / CELL_M).astype(int), axis=0).tolist()))
