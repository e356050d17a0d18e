"""Figures of many runs: means with their confidence, and quantiles of measured times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

LATENCY_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_Z: Final = 1.959963984540054
"""0.975 quantile of the normal distribution."""
_T: Final = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
"""0.975 quantile of Student's t distribution with 1 … 10 degrees of freedom."""


def summary(values: Sequence[float] | npt.NDArray[Any]) -> dict[str, float | None] | None:
    """Mean, standard deviation, extremes and confidence of the values; None without any.

    `std` is that of a sample (n - 1); `ci95` is half the width of the 95 % confidence interval of the mean, by
    Student's t. Both are None for one value, and whatever is too large for a float is None too.
    """
    if len(values) == 0:
        return None
    array, n = np.asarray(values, np.float64), len(values)
    with np.errstate(over="ignore", invalid="ignore"):
        std = float(array.std(ddof=1)) if n > 1 else math.nan
        figures = {
            "mean": float(array.mean()),
            "std": std,
            "min": float(array.min()),
            "max": float(array.max()),
            "ci95": half_width(std, n) if n > 1 else math.nan,
        }
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}


def half_width(std: float, n: int) -> float:
    """Half the width of the 95 % confidence interval of the mean of n > 1 values of that deviation (n - 1)."""
    return student_t(n - 1) * std / math.sqrt(n)


def without_intervals(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures, nested ones too, without their confidence: of samples that are all the same one it says nothing."""
    result = {name: without_intervals(each) if isinstance(each, Mapping) else each for name, each in figures.items()}
    return result | ({"ci95": None} if "ci95" in result else {})


def rate(count: int, total: int) -> dict[str, Any] | None:
    """A rate with its 95 % confidence interval by Wilson (1927), None of nothing."""
    if total == 0:
        return None
    p, z2 = count / total, _Z * _Z
    middle = (p + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z / (1 + z2 / total) * math.sqrt(p * (1 - p) / total + z2 / (4 * total * total))
    return {"mean": p, "ci95": [middle - half if count else 0.0, middle + half if count < total else 1.0]}


def student_t(freedom: int) -> float:
    """The 0.975 quantile of Student's t distribution, to 5e-6.

    From 11 degrees of freedom on by the expansion 26.7.5 of Abramowitz and Stegun, Handbook of Mathematical Functions.
    """
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def latency_us(samples_ns: Sequence[int] | npt.NDArray[Any]) -> dict[str, float | None]:
    """Quantiles and maximum of measured times, µs; None without any."""
    if len(samples_ns) == 0:
        return dict.fromkeys((*LATENCY_QUANTILES, "max"))
    samples = np.asarray(samples_ns) / 1e3
    # The next measured sample, never an interpolated one: a p999 of 500 ticks is the worst of them.
    quantiles = np.quantile(samples, list(LATENCY_QUANTILES.values()), method="higher")
    result: dict[str, float | None] = {
        name: round(float(value), 1) for name, value in zip(LATENCY_QUANTILES, quantiles, strict=True)
    }
    return result | {"max": round(float(samples.max()), 1)}
