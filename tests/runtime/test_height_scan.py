"""Policies that take a scan of the ground: one robot and many worlds see the same, wherever they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import linear_model, save

from edgert.contract import parse_contract
from edgert.errors import UnsupportedError
from edgert.runtime import RunOptions, open_session
from edgert.task.task import scene_task
from edgert.task.worlds import Worlds

SCENE = """
<mujoco>
  <worldbody>
    <body name="trunk" pos="0 0 .3">
      <freejoint/>
      <geom type="box" size=".2 .2 .1" mass="5"/>
      <body name="head" pos=".2 0 .2">
        <joint name="neck" axis="0 1 0" damping=".1"/>
        <geom type="box" size=".05 .05 .05" mass=".1"/>
      </body>
    </body>
    <geom type="plane" size="1 1 .1"/>
    <geom type="box" size=".2 3 .05" pos=".7 0 .05"/>
  </worldbody>
</mujoco>
"""
SCAN = {"name": "height_scan", "size": [1.2, 0.4], "resolution": 0.2, "height_offset": 0.1, "clip": [-1.0, 1.0]}
STEP = [False] * 6 + [True]
"""Of the seven points of a row that of the front lies on the step."""


def document(*terms: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": ["neck"], "default_pos": 0.0, "kp": 2.0, "kd": 0.2},
        "inputs": {"obs": {"terms": list(terms)}},
        "action": {"scale": 0.5, "output": "actions"},
    }


def test_a_session_scans_the_ground_of_the_same_instant(tmp_path: Path) -> None:
    (tmp_path / "scene.xml").write_text(SCENE)
    contract = document(SCAN, "base_height")
    model = save(linear_model(dim=22, nact=1, document=contract), tmp_path / "policy.onnx")
    options = RunOptions(model=model, sim=tmp_path / "scene.xml", seconds=0.2, real_time=False)
    with open_session(options) as session:
        trace = session.run()
        seen = session.policy.obs["obs"][0]
    assert trace.outcome == "completed"
    height = seen[-1]
    assert 0.05 < height < 0.29, "it fell, and the scan with it"
    expected = np.where(STEP * 3, height - 0.2, height - 0.1)
    np.testing.assert_allclose(seen[:21], expected, atol=1e-6)


def test_many_worlds_scan_each_their_own_ground(tmp_path: Path) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)
    task = scene_task(path, parse_contract(document(SCAN, "base_height"), "test"), 1.0)
    with Worlds(task, 3) as worlds:
        worlds.reset()
        qpos = worlds.sim.view("qpos")
        qpos[:, 0] = 0.0, 0.4, -5.0
        qpos[2, 2] = 0.9
        seen = worlds.observe()["obs"][:, :21].reshape(3, 3, 7)
        expected = np.full((3, 3, 7), 0.2)
        expected[0, :, 6] = 0.1
        expected[1, :, 4:7] = 0.1, 0.1, 0.2
        expected[1, :, 3] = 0.2
        expected[2] = 0.8
        np.testing.assert_allclose(seen, expected, atol=1e-6)
        mask = np.array([False, True, False])
        np.testing.assert_array_equal(worlds.observe(mask)["obs"][:, :21].reshape(1, 3, 7), seen[1:2])


def test_scans_of_more_worlds_than_the_memory_holds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)
    fine = scene_task(path, parse_contract(document("base_height"), "test"), 1.0)
    wide = SCAN | {"size": [9.9, 9.9], "resolution": 0.1}
    scanned = scene_task(path, parse_contract(document("base_height", wide), "test"), 1.0)
    monkeypatch.setattr("edgert.sim.batch.os.sysconf", lambda name: 1 << 13)  # pages, and bytes of each
    Worlds(fine, 1_000).close()
    with pytest.raises(UnsupportedError) as refusal:
        Worlds(scanned, 1_000)
    assert str(refusal.value).startswith("1000 worlds do not fit into the memory of this computer: found 0.5 GiB")
