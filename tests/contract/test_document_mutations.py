"""Documents and files changed at random: reading one returns a contract or raises an `EdgertError`, nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract_examples import TERMS_OF_EVERY_KIND, document
from hypothesis import given, settings
from hypothesis import strategies as st

from edgert.contract import Contract, parse_contract
from edgert.errors import EdgertError
from edgert.tables import read_json, read_toml

KEYS = (
    *("schema", "robot", "control_hz", "joints", "names", "default_pos", "kp", "kd", "inputs", "obs", "terms", "name"),
    *("dim", "scale", "offset", "clip", "index", "frame", "point", "sensors", "threshold", "action", "output", "kind"),
    *("command", "vx_m_s", "phase", "hz", "offsets_rad", "still_rad", "still_below", "hip"),
)
WORDS = [*TERMS_OF_EVERY_KIND, "hip", "knee", "default", "twist", "position", "world", "site:imu", "origin", ""]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(WORDS)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)

TOML = b"""# A contract with every part.
schema = 1
robot = "leg"
control_hz = 50.0
[joints]
names = ["hip", "knee"]
default_pos = [0.1, -0.2]
kp = { hip = 20.0, knee = 30 }
kd = 0.5
[[inputs.obs.terms]]
name = "base_lin_vel"
point = "site:imu"
[[inputs.obs.terms]]
name = "joint_pos"
scale = [1.0, 2e-1]
[[inputs.obs.terms]]
name = "command"
clip = [-1.0, 1.0]
index = [0x0, 2]
[action]
output = 'actions'
offset = "default"
[command]
kind = "twist"
vx_m_s = [-0.5, 1.0]
[phase]
hz = 1.5
"""


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node below `node`."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in items for place in ((*path, key), *places(value, (*path, key)))]


@st.composite
def mutated_documents(draw: st.DrawFn) -> Any:
    result = document()
    for _ in range(draw(st.integers(1, 4))):
        known = places(result)
        if not known:
            return draw(VALUES.filter(lambda value: isinstance(value, dict)))
        *above, last = draw(st.sampled_from(known))
        parent = result
        for key in above:
            parent = parent[key]
        match draw(st.sampled_from(("replace", "delete", "add"))):
            case "replace":
                parent[last] = draw(VALUES)
            case "delete":
                del parent[last]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KEYS) | st.text(max_size=4))] = draw(VALUES)
            case _:
                parent.insert(last, draw(VALUES | st.just(copy.deepcopy(parent[last]))))
    return result


def accepted(read: Callable[[], Any]) -> Any:
    """What `read` returns, or None where it refuses in one printable line; any other exception comes through."""
    refusal = None
    try:
        return read()
    except EdgertError as error:
        refusal = str(error)
    assert refusal.isprintable()
    return None


def returns_or_refuses(some: Any) -> None:
    spec = accepted(lambda: parse_contract(some, "test"))
    if spec is None:
        return
    assert isinstance(spec, Contract)
    assert parse_contract(json.loads(json.dumps(spec.to_document())), "again").sha256() == spec.sha256()


@settings(max_examples=300, deadline=None)
@given(mutated_documents())
def test_a_document_changed_at_random_is_read_or_refused(some):
    returns_or_refuses(some)


@pytest.mark.parametrize("place", places(document()), ids=str)
@settings(max_examples=4, deadline=None)
@given(value=VALUES)
def test_any_node_of_a_document_may_be_anything(place, value):
    some = document()
    parent: Any = some
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    returns_or_refuses(some)


def read_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    some = accepted(lambda: read_toml(path, kind="contract"))
    if some is not None:
        returns_or_refuses(some)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("mutations") / "policy.toml"


@st.composite
def mutated_bytes(draw: st.DrawFn) -> bytes:
    data = bytearray(TOML)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(("replace", "insert", "cut", "truncate", "repeat"))):
            case "replace" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "insert":
                signs = [b"[", b"]", b"{", b"=", b".", b'"', b"\n", b"9"]
                data[at:at] = draw(st.binary(max_size=6) | st.sampled_from(signs))
            case "cut":
                del data[at : at + draw(st.integers(1, 20))]
            case "truncate":
                del data[max(at, 1) :]
            case _:
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
    return bytes(data)


def test_the_file_itself_is_accepted(file):
    file.write_bytes(TOML)
    assert parse_contract(read_toml(file, kind="contract"), "test").inputs["obs"].dim == 7


@settings(max_examples=300, deadline=None)
@given(data=mutated_bytes())
def test_a_file_changed_at_random_is_read_or_refused(file, data):
    read_or_refused(file, data)


@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=200))
def test_a_file_of_random_bytes_is_read_or_refused(file, data):
    read_or_refused(file, data)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.text(max_size=6))
def test_metadata_changed_at_random_is_read_or_refused(at, insert):
    text = json.dumps(document())
    at %= len(text)
    some = accepted(lambda: read_json(text[:at] + insert + text[at + 1 :], where="metadata"))
    if some is not None:
        returns_or_refuses(some)
