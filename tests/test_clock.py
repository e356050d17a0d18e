"""Rates on an absolute grid, driven by a clock that moves when told to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.clock import FakeClock, MonotonicClock, Rate

MS = 1_000_000
PERIOD_S, PERIOD_NS = 0.02, 20 * MS
START_NS = 123_456_789


def test_a_fake_clock_moves_when_somebody_sleeps_on_it():
    clock = FakeClock(5)
    clock.sleep_until(9)
    assert clock.now_ns() == 9


def test_a_fake_clock_never_goes_back():
    clock = FakeClock(5)
    clock.sleep_until(3)
    assert clock.now_ns() == 5


def test_a_fake_clock_moves_when_told_to():
    clock = FakeClock()
    clock.time_ns += 7
    assert clock.now_ns() == 7


def test_the_monotonic_clock_sleeps_at_least_until_the_deadline():
    clock = MonotonicClock()
    deadline_ns = clock.now_ns() + MS
    clock.sleep_until(deadline_ns)
    assert clock.now_ns() >= deadline_ns


@pytest.mark.parametrize("deadline_ns", [-1, 0])
def test_the_monotonic_clock_accepts_a_deadline_that_has_passed(deadline_ns):
    MonotonicClock().sleep_until(deadline_ns)


@given(st.lists(st.integers(0, PERIOD_NS - 1), min_size=1, max_size=200))
def test_ticks_never_drift_however_long_the_work_takes(work_ns):
    clock = FakeClock(START_NS)
    rate = Rate(PERIOD_S, clock)
    for tick, spent_ns in enumerate(work_ns, 1):
        clock.time_ns += spent_ns
        rate.wait()
        assert rate.slot_ns == clock.time_ns == START_NS + tick * PERIOD_NS
    assert rate.skipped == 0


class Sleepy(FakeClock):
    """A clock that always wakes late."""

    def __init__(self, late_ns: int) -> None:
        super().__init__(START_NS)
        self.late_ns = late_ns

    def sleep_until(self, deadline_ns: int) -> None:
        super().sleep_until(deadline_ns + self.late_ns)


def test_waking_late_does_not_move_the_grid():
    rate = Rate(PERIOD_S, Sleepy(3 * MS))
    for _ in range(100):
        rate.wait()
    assert rate.slot_ns == START_NS + 100 * PERIOD_NS
    assert rate.skipped == 0


@pytest.mark.parametrize(
    ("work_ns", "slot", "skipped"),
    [
        (PERIOD_NS - 1, 1, 0),
        (PERIOD_NS, 1, 0),
        (PERIOD_NS + 1, 1, 0),
        (2 * PERIOD_NS - 1, 1, 0),
        (2 * PERIOD_NS, 2, 1),
        (5 * PERIOD_NS + MS, 5, 4),
    ],
)
def test_an_overrun_moves_to_the_latest_slot_and_counts_those_between(work_ns, slot, skipped):
    clock = FakeClock(START_NS)
    rate = Rate(PERIOD_S, clock)
    clock.time_ns += work_ns
    rate.wait()
    assert rate.slot_ns == START_NS + slot * PERIOD_NS
    assert rate.skipped == skipped


def test_no_burst_follows_a_stall():
    clock = FakeClock(START_NS)
    rate = Rate(PERIOD_S, clock)
    clock.time_ns += 10 * PERIOD_NS + 7 * MS
    rate.wait()
    rate.wait()
    assert rate.slot_ns == clock.time_ns == START_NS + 11 * PERIOD_NS


@given(st.lists(st.integers(0, 7 * PERIOD_NS), max_size=100))
def test_every_slot_is_either_a_tick_or_skipped(work_ns):
    clock = FakeClock(START_NS)
    rate = Rate(PERIOD_S, clock)
    for spent_ns in work_ns:
        clock.time_ns += spent_ns
        rate.wait()
        assert rate.slot_ns <= clock.time_ns < rate.slot_ns + PERIOD_NS
    assert rate.slot_ns == START_NS + (len(work_ns) + rate.skipped) * PERIOD_NS


def test_a_period_is_rounded_to_nanoseconds():
    assert Rate(1.0 / 60.0, FakeClock()).period_ns == 16_666_667
