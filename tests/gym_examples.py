"""Small Gymnasium environments that tests register, and policies for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnx
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from onnx import TensorProto, helper, numpy_helper
from support import finished, save

DIM, NACT, DT = 3, 2, 0.1


class Point(gymnasium.Env[Any, Any]):
    """A point that wanders by actions and chance, until it is too far out.

    It goes on writing into what it gave as observation, unless `reuse` is False.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    dt = DT

    def __init__(self, reach: float = 2.0, reuse: bool = True) -> None:
        self.observation_space = Box(-np.inf, np.inf, (DIM,), np.float64)
        self.action_space = Box(np.array([-1.0, -0.25], np.float32), np.array([0.5, 1.0], np.float32))
        self.reach = reach
        self.place = np.zeros(DIM)
        self.reuse = reuse

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place[:] = self.np_random.normal(size=DIM)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action.dtype == np.float32
        assert self.action_space.contains(action)
        self.place[:2] += 0.5 * action
        self.place += 0.3 * self.np_random.normal(size=DIM)
        far = bool(np.abs(self.place).max() > self.reach)
        return self._seen(), float(self.place @ [1.0, 0.1, -0.5]), far, False, {}

    def _seen(self) -> Any:
        return self.place if self.reuse else self.place.copy()


class Failing(Point):
    """Goes wrong at step 5, in the way that is asked for."""

    def __init__(self, fault: str = "") -> None:
        super().__init__(reach=np.inf)
        self.fault, self.count = fault, 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        if self.fault == "reset":
            raise KeyError("nowhere")
        if self.fault == "no info":
            return super().reset(**options)[0]
        return super().reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        self.count += 1
        if self.count == 5:
            if self.fault == "step":
                raise RuntimeError("the\nwheels came off.")
            if self.fault == "exit":
                sys.exit(3)
            if self.fault == "shape":
                observation = observation[:2]
            if self.fault == "observation":
                observation = np.array([0.0, np.nan, 0.0])
            if self.fault == "reward":
                reward = float("inf")
        if self.fault == "warn":
            gymnasium.logger.warn("the wheels are loose")
        return observation, reward, *rest  # type: ignore[return-value]

    def close(self) -> None:
        if self.fault == "close":
            raise OSError("stuck")


def spaced(observation: Any = None, action: Any = None, **attributes: Any) -> type[Point]:
    """A kind of Point with other spaces or attributes, which nobody steps."""

    class Other(Point):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = observation or self.observation_space
            self.action_space = action or self.action_space
            for name, value in attributes.items():
                setattr(self, name, value)

    return Other


def vector(mode: AutoresetMode) -> Any:
    """A vector entry point of Points that restart in that mode."""

    def make(num_envs: int, **options: Any) -> SyncVectorEnv:
        # Gymnasium's SAME_STEP keeps the last observation of an episode, but does not copy it before the reset.
        return SyncVectorEnv([lambda: gymnasium.make(POINT, reuse=False)] * num_envs, autoreset_mode=mode)

    return make


def register(name: str, entry_point: Any, **options: Any) -> str:
    """Register an environment for tests, without Gymnasium's own checker, and return its id."""
    env_id = f"edgert-test/{name}-v0"
    if env_id not in gymnasium.registry:
        gymnasium.register(env_id, entry_point, disable_env_checker=True, **options)
    return env_id


POINT = register("Point", Point, max_episode_steps=9)
SAME_STEP = register("SameStep", Point, max_episode_steps=9, vector_entry_point=vector(AutoresetMode.SAME_STEP))
DISABLED = register("Disabled", Point, max_episode_steps=9, vector_entry_point=vector(AutoresetMode.DISABLED))


def linear(
    folder: Path,
    outputs: Sequence[tuple[str, int]] = (("actions", NACT),),
    *,
    dim: int = DIM,
    shape: Sequence[int | str] | None = None,
    gain: float = 1.0,
    number: int = TensorProto.FLOAT,
    inputs: int = 1,
) -> Path:
    """A model whose outputs are fixed random linear functions of its observation; it takes numbers of that type."""
    rng = np.random.default_rng(1)
    shape = ["batch", dim] if shape is None else shape
    nodes = [helper.make_node("Cast", ["obs"], ["x"], to=TensorProto.FLOAT)]
    weights = []
    for name, size in outputs:
        weights.append(numpy_helper.from_array((gain * rng.normal(size=(dim, size))).astype(np.float32), f"w_{name}"))
        nodes.append(helper.make_node("MatMul", ["x", f"w_{name}"], [name]))
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("obs" if i == 0 else f"in{i}", number, shape) for i in range(inputs)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [*shape[:-1], size]) for name, size in outputs],
        weights,
    )
    return save(finished(graph, None), folder / "policy.onnx")


def blowing_up(folder: Path, value: float) -> Path:
    """A model whose second action is `value` as soon as the first number of its observation is beyond 3."""
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["obs", "first"], ["x"], axis=1),
            helper.make_node("Abs", ["x"], ["distance"]),
            helper.make_node("Greater", ["distance", "limit"], ["far"]),
            helper.make_node("Where", ["far", "bad", "good"], ["second"]),
            helper.make_node("Concat", ["x", "second"], ["actions"], axis=1),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", DIM])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", NACT])],
        [
            numpy_helper.from_array(np.array([0]), "first"),
            numpy_helper.from_array(np.float32(3.0), "limit"),
            numpy_helper.from_array(np.float32(value), "bad"),
            numpy_helper.from_array(np.float32(0.0), "good"),
        ],
    )
    model: onnx.ModelProto = finished(graph, None)
    return save(model, folder / "policy.onnx")
