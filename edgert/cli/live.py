"""`LiveLine`: what is going on, in one line on stderr that is redrawn; one line a second where nobody can redraw."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from edgert.closing import Closes
from edgert.errors import one_line

REDRAWS_PER_S = 5.0
PLAIN_PER_S = 1.0


class LiveLine(Closes):
    """Shows the newest text at a bounded rate. The text is only made when it is shown.

    Args:
        clock_s: monotonic seconds.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        stream = sys.stderr
        shown = stream is not None and not stream.closed
        self._redraws = shown and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self._period_s = 1.0 / (REDRAWS_PER_S if self._redraws else PLAIN_PER_S)
        self._clock_s = clock_s
        self._next_s = clock_s() + self._period_s
        self._shown = False

    def update(self, text: Callable[[], str]) -> None:
        """Show what `text()` says, if it is time to."""
        now_s = self._clock_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._period_s
        line = one_line(text())
        if self._redraws:
            with suppress(OSError):
                width = os.get_terminal_size(sys.stderr.fileno()).columns
                line = line[: width - 1] if width > 1 else line  # a terminal of no size breaks nothing
        self._write(f"\r\x1b[K{line}" if self._redraws else f"{line}\n")
        self._shown = True

    def close(self) -> None:
        """Wipe the line, so that what follows begins on an empty one."""
        if self._redraws and self._shown:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError, ValueError):  # nobody listens, or the stream is closed
                # A stopped terminal or a full pipe must not stop a control loop: then nothing is said.
                if _takes_text(sys.stderr):
                    sys.stderr.write(text)
                    sys.stderr.flush()


def _takes_text(stream: TextIO) -> bool:
    try:
        file = stream.fileno()
    except (OSError, ValueError):  # it is no file, but something in memory
        return True
    return bool(select.select([], [file], [], 0.0)[1])


class Progress:
    """What the live line says of a run of many worlds.

    Args:
        line: where it is said.
        worlds: how many there are.
        period_s: control period, s.
        what: what is run, before the rest of the line.
    """

    def __init__(self, line: LiveLine, worlds: int, period_s: float, what: str = "") -> None:
        self._line, self._worlds, self._period_s, self._what = line, worlds, period_s, what
        self._started_s = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        """So many of the control steps are done in every world."""
        self._line.update(lambda: self._text(done, total))

    def _text(self, done: int, total: int) -> str:
        steps_per_s = self._worlds * done / max(1e-9, time.perf_counter() - self._started_s)
        return (
            f"{self._what}{self._worlds} worlds, {done * self._period_s:.1f} of {total * self._period_s:g} s, "
            f"{steps_per_s:,.0f} steps/s, {steps_per_s * self._period_s:.0f} × real time"
        )
