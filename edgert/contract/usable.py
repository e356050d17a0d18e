"""Which numbers a robot can be asked for: what one robot and many worlds stop at, in the same way."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def usable(values: npt.NDArray[Any], limit: float) -> npt.NDArray[np.bool_]:
    """Where floats are finite and of at most `limit` in magnitude; compared in float64, as float16 ends at 65,504."""
    fits: npt.NDArray[np.bool_] = np.isfinite(values)
    if limit < np.inf:
        fits &= np.abs(values.astype(np.float64)) <= limit
    return fits
