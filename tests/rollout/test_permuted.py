"""The bundled policy with its joints in another order and a contract that says so: the same robot, the same motion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from rollout_examples import Recorded, changed_sim, rolled
from support import save

from edgert.policy import OnnxPolicy, load_policy
from edgert.rollout import MemorySink
from edgert.rollout.sink import INDEX
from edgert.runtime import RunOptions, open_session

MODEL = Path(__file__).resolve().parents[2] / "models/quadruped/policy.onnx"
KEY = "edgert.contract"
PER_JOINT = ("joint_pos", "joint_vel", "last_action")
ORDERS = st.permutations(range(12))
AS_IT_IS = {"reset.joint_pos_rad": 0.0, "reset.joint_vel_rad_s": 0.0}
"""Draws for each joint go by its place in the contract: without them, what is drawn is the same in any order."""


def policy() -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The bundled model without its contract, and that contract, with gains that differ from joint to joint."""
    model = onnx.load(MODEL)
    document = json.loads({entry.key: entry.value for entry in model.metadata_props}[KEY])
    del model.metadata_props[:]
    document["joints"]["kp"] = [35.0 + 0.5 * joint for joint in range(12)]
    document["joints"]["kd"] = [0.8 + 0.01 * joint for joint in range(12)]
    return model, document


def reordered(document: dict[str, Any], order: Sequence[int]) -> dict[str, Any]:
    """The contract with joint `order[i]` in place i."""
    changed = json.loads(json.dumps(document))
    for table, keys in (("joints", ("names", "default_pos", "kp", "kd")), ("action", ("joints", "scale", "offset"))):
        for key in keys:
            changed[table][key] = [document[table][key][joint] for joint in order]
    return changed


def columns(document: dict[str, Any], order: Sequence[int]) -> list[int]:
    """Which number of the old observation each number of the new one is."""
    places: list[int] = []
    for term in document["inputs"]["obs"]["terms"]:
        start = len(places)
        places += [start + joint for joint in (order if term["name"] in PER_JOINT else range(term["dim"]))]
    return places


def written(model: onnx.ModelProto, document: dict[str, Any], path: Path) -> str:
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(document)
    onnx.checker.check_model(model)
    return str(save(model, path))


def gathered(order: Sequence[int], path: Path) -> str:
    """The same network, its numbers put in order before it and after it."""
    model, document = policy()
    graph = model.graph
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = {"obs": "old_obs", "actions": "old_actions"}.get(name, name)
    graph.node.insert(0, helper.make_node("Gather", ["obs", "old_place"], ["old_obs"], axis=1))
    graph.node.append(helper.make_node("Gather", ["old_actions", "order"], ["actions"], axis=1))
    graph.initializer.append(numpy_helper.from_array(np.argsort(columns(document, order)), "old_place"))
    graph.initializer.append(numpy_helper.from_array(np.array(order), "order"))
    return written(model, reordered(document, order), path)


def rewired(order: Sequence[int], path: Path) -> str:
    """The same function, its weights put in order: sums are made in another one."""
    model, document = policy()
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    places = columns(document, order)
    changes = {name: weights[name][places] for name in ("mean", "std")}
    changes |= {"w0": weights["w0"][:, places], "w2": weights["w2"][list(order)], "b2": weights["b2"][list(order)]}
    for tensor in model.graph.initializer:
        if tensor.name in changes:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(changes[tensor.name]), tensor.name))
    return written(model, reordered(document, order), path)


def plain(path: Path) -> str:
    model, document = policy()
    return written(model, document, path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The sim, and what the policy in its own order does there: one robot, and three worlds."""
    folder = tmp_path_factory.mktemp("permuted")
    sim, model = changed_sim("quadruped", folder, AS_IT_IS), plain(folder / "plain.onnx")
    return {"folder": folder, "sim": sim, "alone": alone(model, sim), "many": many(model, sim)}


def alone(model: str, sim: str) -> np.ndarray:
    options = RunOptions(model=model, sim=sim, seed=3, seconds=1.0, command=(0.5, 0.1, 0.4), real_time=False)
    with open_session(options) as session:
        memory = MemorySink((*INDEX, *session.columns()))
        session.run(sinks=[memory])
    return memory.rows("state.qpos", final=True)


def many(model: str, sim: str) -> Recorded:
    return rolled(model, sim, num_envs=3, seed=5, seconds=0.6, randomise=False)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=ORDERS)
def test_a_gathered_order_moves_bit_for_bit_the_same(place: dict[str, Any], order: list[int]) -> None:
    model = gathered(order, place["folder"] / "gathered.onnx")
    np.testing.assert_array_equal(alone(model, place["sim"]), place["alone"])
    ours, theirs = many(model, place["sim"]), place["many"]
    assert ours.episodes.keys() == theirs.episodes.keys()
    for number, rows in ours.episodes.items():
        for name in ("state.qpos", "state.qvel"):
            np.testing.assert_array_equal(rows[name], theirs.episodes[number][name])
        for name in ("action", "target"):
            np.testing.assert_array_equal(rows[name], theirs.episodes[number][name][:, order])


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=ORDERS)
def test_permuted_weights_give_the_same_action(place: dict[str, Any], order: list[int]) -> None:
    seen = np.concatenate([rows["observation.obs"] for rows in place["many"].episodes.values()])
    _, document = policy()
    actions = []
    for model, numbers in (
        (plain(place["folder"] / "again.onnx"), seen),
        (rewired(order, place["folder"] / "rewired.onnx"), seen[:, columns(document, order)]),
    ):
        with OnnxPolicy(load_policy(model), "cpu", len(numbers)) as ours:
            ours.obs["obs"][:] = numbers
            ours.act(ours.obs, ours.out)
            actions.append(ours.action.copy())
    assert np.abs(actions[0]).max() > 0.5
    np.testing.assert_allclose(actions[1], actions[0][:, order], atol=1e-5)


def test_a_wrong_order_moves_otherwise(place: dict[str, Any]) -> None:
    """The check can fail."""
    order = [1, 0, *range(2, 12)]
    model, document = policy()
    wrong = written(model, reordered(document, order), place["folder"] / "wrong.onnx")
    assert (alone(wrong, place["sim"]) != place["alone"]).any()
