"""A task as a document: every field, whatever fields a task has."""

from __future__ import annotations

import json
from dataclasses import fields, make_dataclass, replace

import pytest
from support import QUADRUPED

from edgert import assets
from edgert.task.describe import describe_task
from edgert.task.task import Task, load_task


@pytest.mark.parametrize("name", assets.names("sims"))
def test_every_bundled_task_is_a_document(name):
    task = load_task(name)
    report = describe_task(task)
    assert list(report) == [entry.name for entry in fields(Task)]
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["contract"] == task.contract.to_document()
    assert "function" not in json.dumps(report)


def test_values_are_those_of_the_task():
    report = describe_task(QUADRUPED)
    assert report["name"] == "quadruped"
    assert report["scene"] == str(QUADRUPED.scene)
    assert report["fall"] == {"tilt_rad": 1.0, "height_m": 0.15}
    assert report["randomise"]["noise"]["joint_vel"] == 0.8
    assert report["randomise"]["friction"] == [0.4, 1.1]
    rewards = {entry["name"]: entry for entry in report["rewards"]}
    assert rewards["tilt"] == {"name": "tilt", "weight": -2.0, "parameters": {}}
    assert rewards["foot_clock"]["parameters"]["offsets_rad"] == pytest.approx([0.0, 3.14159265, 3.14159265, 0.0])
    assert rewards["pose"]["parameters"]["joints"] == ["FL_hip_joint", "FR_hip_joint", "RL_hip_joint", "RR_hip_joint"]


def test_fields_that_are_not_known_yet_show_up():
    more = make_dataclass("More", [("speed_m_s", float), ("joint", int), ("act", object)], frozen=True)
    longer = make_dataclass(
        "Longer",
        [("extra", object), ("nothing", object), ("endless", float)],
        bases=(Task,),
        kw_only=True,
        frozen=True,
        eq=False,
    )
    known = {entry.name: getattr(QUADRUPED, entry.name) for entry in fields(Task)}
    task = longer(**known, extra={"rule": more(1.5, 2, len)}, nothing=None, endless=float("inf"))
    report = describe_task(task)
    assert report["extra"] == {"rule": {"speed_m_s": 1.5, "joint": 2}}
    assert report["nothing"] is None
    assert report["endless"] is None
    assert describe_task(replace(QUADRUPED, fall=None))["fall"] is None
