"""Task documents changed at random: `parse_task` returns a task or raises an `EdgertError`, nothing else."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_examples import document, parse

from edgert.errors import EdgertError
from edgert.task.task import Task

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", "obs", "joint_pos", "FL_foot", "FL_hip_joint", "trunk", "tilt", "..", "/", "scene.xml"])
)
KEYS = st.sampled_from(["weight", "std", "range", "schema", "name", "kp", "fall", "command", "sensors"]) | st.text(
    max_size=3
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node below `node`."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in items for place in ((*path, key), *places(value, (*path, key)))]


def parsed_or_refused(some: dict[str, Any]) -> None:
    with contextlib.suppress(EdgertError):
        task = parse(some)
        assert isinstance(task, Task)
        assert task.episode_steps >= 1


@st.composite
def mutated_documents(draw: st.DrawFn) -> dict[str, Any]:
    result = document()
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(places(result)))
        parent: Any = result
        for key in above:
            parent = parent[key]
        match draw(st.sampled_from(("replace", "delete", "add", "scale"))):
            case "delete":
                del parent[last]
            case "add" if isinstance(parent, dict):
                parent[draw(KEYS)] = draw(VALUES)
            case "scale" if isinstance(parent[last], float):
                parent[last] *= draw(st.sampled_from([0.0, -1.0, 1e30, 1e308]))
            case _:
                parent[last] = draw(VALUES)
    return result


@settings(max_examples=300, deadline=None)
@given(mutated_documents())
def test_a_document_changed_at_random_is_read_or_refused(some: dict[str, Any]) -> None:
    parsed_or_refused(some)


@pytest.mark.parametrize("place", [place for place in places(document()) if len(place) <= 3], ids=str)
@settings(max_examples=3, deadline=None)
@given(value=VALUES)
def test_any_node_may_be_anything(place: tuple[Any, ...], value: Any) -> None:
    some = document()
    parent: Any = some
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    parsed_or_refused(some)
