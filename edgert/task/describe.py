"""A task as one JSON object, field by field, so that what a task can hold shows up by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgert.contract.spec import Contract
from edgert.task.task import Task

_JOINT_KEYS = ("joint", "joints")
"""Parameters that rewards and criteria keep as positions in the contract's joints; they are shown as names."""


def describe_task(task: Task) -> dict[str, Any]:
    """Every field of a task, tables as objects, the contract as its document; functions are left out."""
    return {name: _value(value, task.contract.joints) for name, value in _fields(task)}


def _fields(value: Any) -> list[tuple[str, Any]]:
    pairs = [(entry.name, getattr(value, entry.name)) for entry in fields(value)]
    return [(name, content) for name, content in pairs if not callable(content)]


def _value(value: Any, joints: tuple[str, ...]) -> Any:
    if isinstance(value, Contract):
        return value.to_document()
    if is_dataclass(value):
        return {name: _value(content, joints) for name, content in _fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _named(str(name), content, joints) for name, content in value.items()}
    if isinstance(value, np.ndarray):
        return _value(value.tolist(), joints)
    if isinstance(value, (list, tuple)):
        return [_value(content, joints) for content in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value) if isinstance(value, Path) else repr(value)


def _named(name: str, value: Any, joints: tuple[str, ...]) -> Any:
    """A parameter, joints by their names."""
    if name in _JOINT_KEYS:
        if isinstance(value, (int, np.integer)):
            return joints[value]
        if isinstance(value, np.ndarray):
            return [joints[position] for position in value.tolist()]
    return _value(value, joints)
