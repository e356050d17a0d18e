"""The columns that a closed loop records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.contract.spec import ActionKind
from edgert.policy import OnnxPolicy
from edgert.rollout.sink import Column


def beside(kinds: Sequence[ActionKind]) -> list[ActionKind]:
    """The kinds of an action whose targets are recorded beside the positions."""
    others: tuple[ActionKind, ...] = ("velocity", "torque")
    return [kind for kind in others if kind in kinds]


def columns(policy: OnnxPolicy, model: Any, njoint: int, *, rewarded: bool, judged: bool) -> list[Column]:
    """The columns of a recorded closed loop; `rewarded`: with a reward, `judged`: with flags of how it ended."""

    def one(name: str, array: npt.NDArray[Any], *, final: bool = False) -> Column:
        return Column(name=name, dtype=array.dtype, shape=array.shape[1:], final=final)

    real = np.dtype(np.float64)
    action = policy.contract.action
    plain = action.outputs[0] if len(action.outputs) == 1 and not action.added else ""
    result = [one(f"observation.{name}", array, final=True) for name, array in policy.obs.items()]
    result.append(one("action", policy.action))
    result.append(Column(name="target", dtype=real, shape=(njoint,)))
    result += [Column(name=f"target_{kind}", dtype=real, shape=(njoint,)) for kind in beside(action.kinds)]
    if policy.contract.command is not None:
        result.append(Column(name="command", dtype=real, shape=(3,), final=True))
    result.append(Column(name="state.qpos", dtype=real, shape=(model.nq,), final=True))
    result.append(Column(name="state.qvel", dtype=real, shape=(model.nv,), final=True))
    result += [one(f"output.{name}", array) for name, array in policy.out.items() if name != plain]
    if rewarded:
        result.append(Column(name="reward", dtype=real))
    if judged:
        flag = np.dtype(np.bool_)
        result += [Column(name=name, dtype=flag) for name in ("terminated", "truncated")]
    result.append(Column(name="latency_ns", dtype=np.dtype(np.int64)))
    return result
