"""Whether what acts on one device does what it does on the CPU: the same numbers in, the outputs compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from edgert.errors import DeviceError
from edgert.policy.engine.protocol import Arrays, Precision

TOLERANCES: Final[Mapping[Precision, float]] = {"fp32": 1e-3, "fp16": 2e-2}
"""Largest error of an output, in parts of the largest number that the CPU gives for it, but at least of 1.

float32 sums in another order differ by 1e-6 or so; half precision and bfloat16, whose steps are 1e-3 and 8e-3, stand
out.
"""
TICKS: Final = 16


class Acts(Protocol):
    """What acts: a policy, or a network alone."""

    obs: Arrays
    out: Arrays

    def act(self, obs: Arrays, out: Arrays) -> None:
        """Fill `out` from `obs`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far one is from the other.

    Attributes:
        error: see `TOLERANCES`; inf where one gives a number and the other none.
        tolerance: what is allowed.
        output: the name of the worst one.
        ticks: acts that were compared, one after the other, so that memories and histories count.
    """

    error: float
    tolerance: float
    output: str
    ticks: int = TICKS

    @property
    def good(self) -> bool:
        """Whether they agree."""
        return self.error <= self.tolerance

    def text(self) -> str:
        """For people."""
        return f"{self.error:.1e} of the outputs' scale, {self.tolerance:.0e} tolerated"

    def report(self) -> dict[str, Any]:
        """As JSON data."""
        error = self.error if np.isfinite(self.error) else None
        return {"error": error, "tolerance": self.tolerance, "output": self.output, "ticks": self.ticks}


def compare(given: Acts, expected: Acts, precision: Precision = "fp32", seed: int = 0) -> Agreement:
    """Let both act on the same normally distributed numbers, each in its own arrays; their states change."""
    random = np.random.default_rng(seed)
    worst, output = 0.0, next(iter(expected.out), "")
    for _ in range(TICKS):
        fill(expected, random)
        for name, array in expected.obs.items():
            given.obs[name][...] = array
        for each in (given, expected):
            each.act(each.obs, each.out)
        for name, wanted in expected.out.items():
            error = _error(given.out[name], wanted)
            if error > worst:
                worst, output = error, name
    return Agreement(error=worst, tolerance=TOLERANCES[precision], output=output)


def fill(acts: Acts, random: np.random.Generator) -> None:
    """Numbers that a network may be asked about; whole ones, which index tables, are small."""
    for array in acts.obs.values():
        whole = array.dtype.kind == "i"
        array[...] = random.integers(0, 4, array.shape) if whole else random.normal(size=array.shape)


def _error(given: Any, wanted: Any) -> float:
    given, wanted = np.asarray(given, np.float64), np.asarray(wanted, np.float64)
    same = (given == wanted) | (np.isnan(given) & np.isnan(wanted))
    if same.all():
        return 0.0
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(given - wanted))
    return float(difference.max()) / scale if np.isfinite(difference).all() else np.inf


def check(agreement: Agreement, provider: str, policy: str) -> None:
    """Refuse a provider that computes something else.

    Raises:
        DeviceError: with the error.
    """
    if not agreement.good:
        raise DeviceError(
            f"{provider} computes something else than the CPU for policy {policy}",
            found=f"an error of {agreement.error:.1e} of the scale of output '{agreement.output}'",
            expected=f"at most {agreement.tolerance:.0e}",
            hint="Take another provider with --provider, or allow half precision with --precision fp16",
        )
