"""Small policies for the bundled tasks, tasks made from them, and their rollouts as plain arrays."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper
from support import finished, linear_model, save
from task_examples import write_task

from edgert.rollout import MemorySink, RolloutOptions, Rollouts, RolloutSession, open_rollouts
from edgert.rollout.sink import INDEX
from edgert.task.task import Task, load_task

Array = npt.NDArray[Any]
TASKS = {name: load_task(name) for name in ("quadruped", "cartpole", "arm_reach")}
_WILD = {"quadruped": 0.8, "cartpole": 0.5, "arm_reach": 0.1}
"""Size of random weights with which something happens: the robot falls within a second, the pole and the arm move."""


def contract_document(sim: str) -> dict[str, Any]:
    """The contract of a bundled task, to be changed at will."""
    return json.loads(json.dumps(TASKS[sim].contract.to_document()))


def sizes(sim: str) -> tuple[int, int]:
    """Numbers that the policy sees and gives."""
    contract = TASKS[sim].contract
    return contract.inputs["obs"].dim, len(contract.action.joints)


def random_weight(sim: str, seed: int = 0) -> Array:
    """(dim, nact), without feedback of the last action, which would blow up."""
    weight = _WILD[sim] * np.random.default_rng(seed).normal(size=sizes(sim))
    start = 0
    for term in TASKS[sim].contract.inputs["obs"].terms:
        if term.name == "last_action":
            weight[start : start + term.dim] = 0.0
        start += term.dim
    return weight


def wild(sim: str, folder: Path, **changes: Any) -> str:
    """The path of a random linear policy of a bundled task; `changes` go into its contract's document."""
    dim, nact = sizes(sim)
    model = linear_model(dim=dim, nact=nact, weight=random_weight(sim), document=contract_document(sim) | changes)
    return str(save(model, folder / f"wild_{sim}.onnx"))


def breaking(sim: str, folder: Path, bad: float, *, column: int, above: float) -> str:
    """A policy that is wild, and gives `bad` in every action once that number of its observation is too large."""
    dim, nact = sizes(sim)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["obs", "w"], ["good"]),
            helper.make_node("Gather", ["obs", "column"], ["watched"], axis=1),
            helper.make_node("Greater", ["watched", "above"], ["broken"]),
            helper.make_node("Where", ["broken", "bad", "good"], ["actions"]),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", dim])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", nact])],
        [
            numpy_helper.from_array(random_weight(sim).astype(np.float32), "w"),
            numpy_helper.from_array(np.array([column]), "column"),
            numpy_helper.from_array(np.float32(above), "above"),
            numpy_helper.from_array(np.float32(bad), "bad"),
        ],
    )
    return str(save(finished(graph, contract_document(sim)), folder / "breaking.onnx"))


def talkative(sim: str, folder: Path) -> str:
    """A wild policy with further outputs: a vector, a number a world, half precision, integers, and one of no size."""
    dim, nact = sizes(sim)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["obs", "w"], ["actions"]),
            helper.make_node("Tanh", ["actions"], ["log_prob"]),
            helper.make_node("ReduceSum", ["obs", "axis"], ["value"], keepdims=0),
            helper.make_node("Cast", ["value"], ["half"], to=TensorProto.FLOAT16),
            helper.make_node("ArgMax", ["obs"], ["largest"], axis=1, keepdims=0),
            helper.make_node("NonZero", ["obs"], ["where"]),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", dim])],
        [
            helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", nact]),
            helper.make_tensor_value_info("log_prob", TensorProto.FLOAT, ["batch", nact]),
            helper.make_tensor_value_info("value", TensorProto.FLOAT, ["batch"]),
            helper.make_tensor_value_info("half", TensorProto.FLOAT16, ["batch"]),
            helper.make_tensor_value_info("largest", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("where", TensorProto.INT64, [2, "n"]),
        ],
        [
            numpy_helper.from_array(random_weight(sim).astype(np.float32), "w"),
            numpy_helper.from_array(np.array([1]), "axis"),
        ],
    )
    return str(save(finished(graph, contract_document(sim)), folder / "talkative.onnx"))


def changed_sim(sim: str, folder: Path, changes: Mapping[str, Any]) -> str:
    """A copy of a bundled sim with dotted keys of its task set, or removed by None; returns the folder's path."""
    home = TASKS[sim].scene.parent
    document = tomllib.loads((home / "task.toml").read_text(encoding="utf-8"))
    for key, value in changes.items():
        *above, last = key.split(".")
        table = document
        for name in above:
            table = table.setdefault(name, {})
        if value is None:
            del table[last]
        else:
            table[last] = value
    return str(write_task(folder / sim, document, (home / "scene.xml").read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run and its rows. `episodes`: by number, column to rows by step; columns of final rows have one more."""

    session: RolloutSession
    result: Rollouts
    memory: MemorySink
    episodes: dict[int, dict[str, Array]]

    @property
    def task(self) -> Task:
        return self.session.task

    @property
    def report(self) -> dict[str, Any]:
        return self.session.report(self.result)


def rolled(model: str, sim: str, *, every_output: bool = False, stop: Any = None, **options: Any) -> Recorded:
    """Run with a `MemorySink`; the session is closed already."""
    with open_rollouts(RolloutOptions(model=model, sim=sim, **options), every_output=every_output) as session:
        memory = MemorySink((*INDEX, *session.columns()))
        result = session.run(sink=memory, **({} if stop is None else {"stop": stop}))
    return Recorded(session=session, result=result, memory=memory, episodes=by_episode(memory))


def by_episode(memory: MemorySink) -> dict[int, dict[str, Array]]:
    """The rows of a `MemorySink` by episode and step."""
    episodes: dict[int, dict[str, Array]] = {}
    for number in memory.begun:
        rows = {}
        for column in memory.columns:
            values = memory.rows(column.name, final=column.final)
            where = memory.rows("episode", final=column.final) == number
            order = np.argsort(memory.rows("step", final=column.final)[where])
            rows[column.name] = values[where][order]
        episodes[number] = rows
    return episodes
