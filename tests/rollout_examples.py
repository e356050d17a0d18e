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

from edgert.rollout import Column, FolderSink, MemorySink, RolloutOptions, Rollouts, RolloutSession, Sink, open_rollouts
from edgert.rollout.sink import INDEX, Tee
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
    folder.mkdir(exist_ok=True)
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


def recorded(model: str, sim: str, folder: Path, *, every_output: bool = True, **options: Any) -> Recorded:
    """Run with a `MemorySink` beside a recording in the folder; the session and the recording are closed already."""
    with open_rollouts(RolloutOptions(model=model, sim=sim, **options), every_output=every_output) as session:
        memory, sink = MemorySink((*INDEX, *session.columns())), session.folder(folder)
        result = session.run(sink=Tee((memory, sink)))
        sink.close()
    return Recorded(session=session, result=result, memory=memory, episodes=by_episode(memory))


def same_bits(first: Array, second: Array) -> None:
    """The same shape, type and bytes, whatever numbers they are."""
    assert first.dtype == second.dtype
    assert first.shape == second.shape
    assert np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()


def small_columns() -> list[Column]:
    """A few columns of all kinds."""

    def one(name: str, dtype: str, *shape: int, final: bool = False) -> Column:
        return Column(name=name, dtype=np.dtype(dtype), shape=shape, final=final)

    return [
        one("observation.obs", "f4", 3, final=True),
        one("action", "f4", 2),
        one("target", "f8", 2),
        one("state.qpos", "f8", 2, final=True),
        one("output.map", "f2", 2, 3),
        one("output.half", "f2"),
        one("output.count", "u1"),
        one("reward", "f8"),
        one("terminated", "?"),
        one("latency_ns", "i8"),
    ]


HEADER = {"control_hz": 50.0, "policy_sha256": "0" * 64, "note": "µ – \udcff"}


def write_small(sink: Sink, episodes: int = 2, steps: int = 3, seed: int = 0) -> list[dict[str, Array]]:
    """Episodes of random numbers, a block each; returns each as columns of its rows, final ones with a last more."""
    rng = np.random.default_rng(seed)
    result = []
    for number in range(episodes):
        rows = {
            column.name: (
                100.0 * rng.random((steps + column.final, *column.shape)) - 20.0 * (column.dtype.kind != "u")
            ).astype(column.dtype)
            for column in sink.columns
        }
        rows["episode"] = np.full(steps + 1, number)
        rows["step"] = np.arange(steps + 1, dtype=np.int32)
        sink.begin(number, {"world": 0, "seed": number})
        sink.write({name: values[:steps] for name, values in rows.items()})
        sink.end(number, {"outcome": "completed", "steps": steps})
        sink.write({c.name: rows[c.name][steps:] for c in sink.columns if c.final}, final=True)
        result.append(rows)
    return result


def small_recording(folder: Path, **sizes: int) -> tuple[Path, list[dict[str, Array]]]:
    """A closed recording of random numbers, and what was written."""
    sink = FolderSink(folder, small_columns(), HEADER)
    rows = write_small(sink, **sizes)
    sink.close()
    return sink.path, rows
