"""What the beginning of a stream must say: judged alike by who writes one and by who reads it.

So nothing is recorded for hours that could not be read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from edgert.policy.onnx_model import MAX_WIDTH
from edgert.rollout.sink import INDEX
from edgert.tables import is_number

MIN_HZ: Final = 1e-3
MAX_HZ: Final = 1e6
LAYOUT: Final = "epoch, control_hz, and columns of numbers: episode, step, world, t_ns, action …"
"""What is expected, in words."""
_SCALARS: Final = ("reward", "terminated", "truncated", "latency_ns")
_VECTORS: Final = ("action", "target", "target_velocity", "target_torque", "state.qpos", "state.qvel")


def faults(arrow: Any, schema: Any, header: Mapping[str, Any]) -> list[str]:
    """What is missing or wrong in the columns of a stream and in its header, in words."""
    types = dict(zip(schema.names, schema.types, strict=True))
    wrong = [c.name for c in INDEX if types.get(c.name) != arrow.from_numpy_dtype(c.dtype)]
    wrong += [name for name, kind in types.items() if not _usable(arrow, kind)]
    wrong += [name for name, kind in types.items() if name not in wrong and not _fits(arrow, name, kind)]
    if len(types) < len(schema):
        wrong.append("a name more than once")
    hz: Any = header.get("control_hz")
    if not is_number(hz) or not MIN_HZ <= hz <= MAX_HZ:
        wrong.append("no control_hz")
    if not isinstance(header.get("epoch"), str):
        wrong.append("no epoch")
    if "action" not in types:
        wrong.append("no action")
    return wrong


def _usable(arrow: Any, kind: Any) -> bool:
    if isinstance(kind, arrow.FixedShapeTensorType):
        in_order = kind.permutation in (None, list(range(len(kind.shape))))
        return in_order and 0 < math.prod(kind.shape) <= MAX_WIDTH and _is_number(arrow, kind.value_type)
    return _is_number(arrow, kind)


def _fits(arrow: Any, name: str, kind: Any) -> bool:
    """Whether a column has the shape that those of its name have; what is not known may have any."""
    shape = tuple(kind.shape) if isinstance(kind, arrow.FixedShapeTensorType) else ()
    if name == "command":
        return shape == (3,)
    if name in _SCALARS:
        return shape == ()
    return len(shape) == 1 or not (name in _VECTORS or name.startswith("observation."))


def _is_number(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
