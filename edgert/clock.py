"""Monotonic time and absolute-deadline rates. A clock is passed in, so that tests bring a fake one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the loop needs of time."""

    def now_ns(self) -> int:
        """Monotonic time, ns."""
        ...

    def sleep_until(self, deadline_ns: int) -> None:
        """Return at or soon after the deadline; at once if it has passed."""
        ...


class MonotonicClock:
    """The host's monotonic clock. `time.sleep` to an absolute deadline is as good as `clock_nanosleep` here."""

    def now_ns(self) -> int:
        """See `Clock.now_ns`."""
        return time.monotonic_ns()

    def sleep_until(self, deadline_ns: int) -> None:
        """See `Clock.sleep_until`."""
        left = deadline_ns - time.monotonic_ns()
        if left > 0:
            time.sleep(left * 1e-9)


class FakeClock:
    """A clock that moves only when told to, or when somebody sleeps on it."""

    def __init__(self, start_ns: int = 0) -> None:
        self.time_ns = start_ns

    def now_ns(self) -> int:
        """See `Clock.now_ns`."""
        return self.time_ns

    def sleep_until(self, deadline_ns: int) -> None:
        """See `Clock.sleep_until`."""
        self.time_ns = max(self.time_ns, deadline_ns)


class Rate:
    """Ticks on an absolute grid t0 + k period, so that sleeping never drifts.

    A tick that starts a whole period late, or more, moves to the latest slot that has passed: the slots between are
    skipped and counted, and no burst of ticks follows a stall.
    """

    def __init__(self, period_s: float, clock: Clock) -> None:
        self.period_ns = round(period_s * 1e9)
        self.clock = clock
        self.slot_ns = clock.now_ns()
        self.skipped = 0

    def wait(self) -> None:
        """Sleep until the next slot begins; `slot_ns` is its nominal start."""
        self.slot_ns += self.period_ns
        self.clock.sleep_until(self.slot_ns)
        behind = (self.clock.now_ns() - self.slot_ns) // self.period_ns
        if behind > 0:
            self.slot_ns += behind * self.period_ns
            self.skipped += behind
