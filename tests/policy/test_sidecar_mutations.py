"""Files of other trainers, damaged byte by byte or made to harm: refused in words or read, never a traceback."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import linear_model, save

from edgert.contract.formats import Body
from edgert.errors import ContractError, EdgertError
from edgert.policy import load_policy

JOINTS = ("hip", "knee")
DEPLOY: dict[str, Any] = {
    "joint_ids_map": [1, 0],
    "step_dt": 0.02,
    "stiffness": [20.0, 30.0],
    "damping": [1.0, 2.0],
    "default_joint_pos": [0.1, 0.2],
    "actions": {"JointPositionAction": {"clip": [[-1.0, 1.0], [-2.0, 2.0]], "scale": [0.5, 0.6], "joint_ids": None}},
    "observations": {"joint_pos_rel": {"params": {}, "clip": [-9.0, 9.0], "scale": [1.0, 2.0], "history_length": 2}},
}
DESCRIPTORS: dict[str, Any] = {
    "actions": [{"name": "joint_position_action", "joint_names": ["hip", "knee"], "offset": 0.0, "scale": 0.5}],
    "articulations": {
        "robot": {
            "joint_names": ["hip", "knee"], "default_joint_pos": [0.1, 0.2], "default_joint_stiffness": [20.0, 30.0],
            "default_joint_damping": [1.0, 2.0],
        }
    },
    "observations": {"policy": [{"name": "joint_pos_rel", "shape": [2], "overloads": {"history_length": 2}}]},
    "scene": {"dt": 0.02},
}  # fmt: skip
SAR: dict[str, Any] = {
    "toy/one": {
        "num_of_dofs": 2, "observations": ["dof_pos"], "observations_history": [1, 0], "rl_kp": [20.0, 30.0],
        "observations_history_priority": "term", "rl_kd": [1.0, 2.0], "action_scale": 0.5, "dof_pos_scale": 1.0,
        "default_dof_pos": [0.1, 0.2], "joint_mapping": [1, 0], "dt": 0.005, "decimation": 4,
    }
}  # fmt: skip
KINFER: dict[str, Any] = {"joint_names": ["hip", "knee"], "carry_size": 1}
FILES = {
    "deploy.yaml": DEPLOY,
    "IO_descriptors.yaml": DESCRIPTORS,
    "config.yaml": SAR,
    "metadata.json": KINFER,
    "manifest.json": {"format": "policy_package", "model": {"artifacts": {"onnx": "policy.onnx"}}},
}
READ = ("deploy.yaml", "IO_descriptors.yaml", "config.yaml")
"""Those that need no contract of the user's."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "exported"
    folder.mkdir()
    save(linear_model(dim=4, nact=2, batch=1), folder / "policy.onnx")
    return folder


def load(folder: Path, name: str, text: str | bytes) -> Any:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        return load_policy(folder / "policy.onnx", body=Body(joints=JOINTS))
    finally:
        path.unlink()


@pytest.mark.parametrize("name", READ)
def test_whole_files_make_a_contract(folder: Path, name: str) -> None:
    contract = load(folder, name, json.dumps(FILES[name])).contract
    assert sorted(contract.joints) == ["hip", "knee"]
    assert contract.inputs["obs"].dim == 4


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_ends_in_a_traceback(folder: Path, name: str, data: st.DataObject) -> None:
    text = bytearray(json.dumps(FILES[name]).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        if not text:
            break
    with suppress(EdgertError):
        load(folder, name, bytes(text))


SOME = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = st.recursive(SOME, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inside in items for place in places(inside, (*path, key)))]


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_ends_in_a_traceback(folder: Path, name: str, data: st.DataObject) -> None:
    document = copy.deepcopy(FILES[name])
    *above, last = data.draw(st.sampled_from(places(document)[1:]))
    table: Any = document
    for key in above:
        table = table[key]
    table[last] = data.draw(VALUES)
    with suppress(EdgertError):
        load(folder, name, json.dumps(document))


LAUGHS = "a0: &a0 [0]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("joint_ids_map: &a [*a]\n", "an alias of what holds it in line 1"),
        (LAUGHS, "more than can be meant in line 6"),
        ("stiffness: !!python/object/apply:os.system ['true']\n", "could not determine a constructor for the tag"),
        ("stiffness: [1]\nstiffness: [2]\n", "the key stiffness more than once"),
        ("[" * 3000, "cannot be read as safe YAML"),
    ],
)
def test_harmful_files_are_refused(folder: Path, text: str, found: str) -> None:
    with pytest.raises(ContractError) as caught:
        load(folder, "deploy.yaml", text)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("stiffness", [float("nan"), 1.0], "key 'stiffness' is wrong"),
        ("stiffness", [1e300, 1.0], "key 'stiffness' is wrong: found 1e+300, expected at most 1e+12 in magnitude"),
        ("stiffness", "many", "key 'stiffness' is wrong: found text 'many', expected a list of finite numbers"),
        ("step_dt", 0, "key 'step_dt' is wrong: found 0, expected more than 0"),
    ],
)
def test_numbers_that_are_none_are_refused(folder: Path, key: str, value: Any, text: str) -> None:
    with pytest.raises(ContractError) as caught:
        load(
            folder,
            "deploy.yaml",
            json.dumps(DEPLOY | {key: value}).replace("NaN", ".nan").replace("1e+300", "1.0e+300"),
        )
    assert text in str(caught.value)


def test_the_file_of_another_robot_is_refused(folder: Path) -> None:
    (folder / "deploy.yaml").write_text(json.dumps(DEPLOY))
    with pytest.raises(ContractError) as caught:
        load_policy(folder / "policy.onnx", body=Body(joints=("a", "b", "c")))
    (folder / "deploy.yaml").unlink()
    assert "has another number of joints than the robot: found 2 in joint_ids_map, expected 3: a, b, c" in str(
        caught.value
    )
