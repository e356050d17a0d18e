"""Tasks that tests make from the bundled one."""

from __future__ import annotations

import copy
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from support import QUADRUPED

from edgert.task.sampling import Randomisation
from edgert.task.task import Task, parse_task

FILE = QUADRUPED.scene.parent / "task.toml"
_DOCUMENT = tomllib.loads(FILE.read_text(encoding="utf-8"))
GONE = object()
"""A value for `changed` that removes the key."""


def document() -> dict[str, Any]:
    """The bundled task's document, to be changed at will."""
    return copy.deepcopy(_DOCUMENT)


def changed(key: str, value: Any) -> dict[str, Any]:
    """The document with one dotted key set, or removed by GONE."""
    result = document()
    *above, last = key.split(".")
    table = result
    for name in above:
        table = table.setdefault(name, {})
    if value is GONE:
        del table[last]
    else:
        table[last] = value
    return result


def parse(some: dict[str, Any], folder: Path = FILE.parent) -> Task:
    """A task whose file would lie in the folder."""
    return parse_task(some, folder / "task.toml")


def only(**randomise: Any) -> Task:
    """The bundled task with nothing randomised but what is given."""
    return replace(QUADRUPED, randomise=Randomisation(**randomise))


def write_task(folder: Path, some: dict[str, Any], scene: str) -> Path:
    """Write a task of one's own, as JSON-like TOML, and its scene; returns the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_text(_toml(some), encoding="utf-8")
    (folder / some["scene"]).write_text(scene, encoding="utf-8")
    return folder


def _toml(table: dict[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {_value(value)}" for key, value in table.items()) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)


def leg_document(**changes: Any) -> dict[str, Any]:
    """A task of the scene in `scenes.leg_xml`, at 100 Hz, with changes of top-level keys."""
    result: dict[str, Any] = {
        "schema": 1,
        "scene": "scene.xml",
        "decimation": 5,
        "episode_s": 1.0,
        "contract": {
            "control_hz": 100.0,
            "joints": {"names": ["hip", "knee"], "default_pos": [0.0, 0.0], "kp": 20.0, "kd": 0.5},
            "inputs": {"obs": {"terms": ["joint_pos", "joint_vel", "last_action"]}},
            "action": {"output": "actions", "scale": 0.5},
        },
        "rewards": {"torque": {"weight": -1.0}},
    }
    return {key: value for key, value in (result | changes).items() if value is not GONE}
