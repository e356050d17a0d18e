"""Which numbers a robot can be asked for: what one robot and many worlds stop at, in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from edgert.contract.spec import Contract
from edgert.errors import ContractError
from edgert.tables import MAX_MAGNITUDE


def usable(values: npt.NDArray[Any], limit: float) -> npt.NDArray[np.bool_]:
    """Where floats are finite and of at most `limit` in magnitude; compared in float64, as float16 ends at 65,504."""
    fits: npt.NDArray[np.bool_] = np.isfinite(values)
    if limit < np.inf:
        fits &= np.abs(values.astype(np.float64)) <= limit
    return fits


def problem(
    contract: Contract, observed: Mapping[str, npt.NDArray[Any]], action: npt.NDArray[Any], target: npt.NDArray[Any]
) -> str:
    """The first number that one robot stops at, of its observations, raw action or target; "" for none."""
    for name, spec in contract.inputs.items():
        found = _first(observed[name], np.inf) if observed[name].dtype.kind == "f" else None
        if found is not None:
            return f"{found[1]:g} in its observation of '{spec.names()[found[0]]}'"
    for values, limit in ((action, MAX_MAGNITUDE), (target, np.inf)):
        found = _first(values, limit)
        if found is not None:
            return f"{found[1]:g} for joint '{contract.action.joints[found[0]]}'"
    return ""


def _first(values: npt.NDArray[Any], limit: float) -> tuple[int, float] | None:
    bad = np.flatnonzero(~usable(values, limit))
    return (int(bad[0]), float(values[bad[0]])) if len(bad) else None


def refuse_start(name: str, found: str) -> NoReturn:
    """Refuse a policy whose first action nobody could send: it never worked."""
    raise ContractError(
        f"policy {name} gives no usable action at the start",
        found=found,
        expected="finite numbers",
        hint="Check the contract's scales, the export, and the normaliser in it",
    )
