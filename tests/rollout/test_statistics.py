"""Figures of many runs, against textbook definitions and integration."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.rollout.statistics import latency_us, rate, student_t, summary


def test_summary_by_the_book() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    figures = summary(values)
    assert figures is not None
    assert figures["mean"] == pytest.approx(2.8)
    assert figures["std"] == pytest.approx(statistics.stdev(values))
    assert (figures["min"], figures["max"]) == (1.0, 5.0)
    # t(0.975, 4) = 2.776 in every table.
    assert figures["ci95"] == pytest.approx(2.776 * statistics.stdev(values) / math.sqrt(5), rel=1e-3)


def test_summary_of_few() -> None:
    assert summary([]) is None
    assert summary([2.5]) == {"mean": 2.5, "std": None, "min": 2.5, "max": 2.5, "ci95": None}
    assert summary(np.array([1, 1])) == {"mean": 1.0, "std": 0.0, "min": 1.0, "max": 1.0, "ci95": 0.0}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_summary_is_always_json(values: list[float]) -> None:
    json.dumps(summary(values), allow_nan=False)


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 10, 11, 12, 20, 50, 1000, 1_000_000])
def test_student_t_is_the_quantile(freedom: int) -> None:
    """The density, integrated from 0 to the quantile, holds 0.475 of the probability."""
    x, step = np.linspace(0.0, student_t(freedom), 400_001, retstep=True)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    density = scale * np.exp(-(freedom + 1) / 2 * np.log1p(x * x / freedom))
    area = float((density.sum() - (density[0] + density[-1]) / 2) * step)
    assert area == pytest.approx(0.475, abs=5e-7)


def test_confidence_intervals_hold_what_they_say() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(4000):
        figures = summary(rng.normal(size=4))
        assert figures is not None
        assert figures["mean"] is not None
        assert figures["ci95"] is not None
        hits += abs(figures["mean"]) <= figures["ci95"]
    assert hits / 4000 == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / 4000))


def test_latency_is_always_a_measured_sample() -> None:
    samples = np.arange(1, 1001) * 1000
    assert latency_us(samples) == {"p50": 501.0, "p90": 901.0, "p99": 991.0, "p999": 1000.0, "max": 1000.0}
    assert latency_us([7_250]) == dict.fromkeys(("p50", "p90", "p99", "p999", "max"), 7.2)
    assert latency_us([]) == dict.fromkeys(("p50", "p90", "p99", "p999", "max"))


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [  # R. G. Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_rates_have_wilsons_interval(count: int, total: int, low: float, high: float) -> None:
    figures = rate(count, total)
    assert figures is not None
    assert figures["mean"] == count / total
    assert figures["ci95"] == pytest.approx([low, high], abs=5e-5)


def test_wilsons_interval_holds_what_it_says() -> None:
    rng = np.random.default_rng(0)
    for p in (0.02, 0.3, 0.9):
        hits = []
        for count in rng.binomial(50, p, 2000).tolist():
            low, high = (rate(count, 50) or {})["ci95"]
            hits.append(low <= p <= high)
        assert 0.92 < np.mean(hits) < 0.99
