"""The live line: redrawn on a terminal, a line a second where there is none, and never a reason to fail."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from edgert.cli.live import LiveLine


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Terminal:
    """A terminal of 40 columns as stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        attributes = termios.tcgetattr(slave)
        attributes[1] &= ~termios.OPOST  # what is written is what is read
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self._patch = monkeypatch
        monkeypatch.setenv("TERM", "xterm")

    def line(self, clock: Clock) -> LiveLine:
        """A line on it; within the test, as pytest puts its own stderr in place before each."""
        self._patch.setattr(sys, "stderr", self.stream)
        return LiveLine(clock)

    def shown(self) -> str:
        """What was written since it was asked last: all that comes before a mark, as terminals take their time."""
        self.stream.write("\0")
        self.stream.flush()
        data = b""
        while not data.endswith(b"\0"):
            data += os.read(self.master, 10_000)
        return data[:-1].decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal(monkeypatch)
    yield made
    made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_terminal_is_redrawn_five_times_a_second(terminal: Terminal, clock: Clock) -> None:
    with terminal.line(clock) as line:
        for tick in range(11):
            clock.now_s = 100.0 + 0.125 * tick
            line.update(lambda tick=tick: f"tick {tick}")
        assert terminal.shown() == "".join(f"\r\x1b[Ktick {tick}" for tick in (2, 4, 6, 8, 10))
    assert terminal.shown() == "\r\x1b[K"  # wiped


def test_a_terminal_on_which_nothing_was_drawn_is_left_alone(terminal: Terminal, clock: Clock) -> None:
    with terminal.line(clock) as line:
        line.update(lambda: "too early")
    assert terminal.shown() == ""


def test_a_line_is_no_longer_than_the_terminal(terminal: Terminal, clock: Clock) -> None:
    line = terminal.line(clock)
    clock.now_s += 1.0
    line.update(lambda: "0123456789" * 10)
    assert terminal.shown() == "\r\x1b[K" + ("0123456789" * 4)[:39]


def test_names_in_the_line_cannot_draw(terminal: Terminal, clock: Clock) -> None:
    line = terminal.line(clock)
    clock.now_s += 1.0
    line.update(lambda: "a\x1b[2Jb\nc\rd")
    assert terminal.shown() == "\r\x1b[Ka\\x1b[2Jb c d"


def test_colours_are_not_used_at_all(terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal.line(clock) as line:
        clock.now_s += 1.0
        line.update(lambda: "working")
    assert terminal.shown() == "\r\x1b[Kworking\r\x1b[K"


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_lines(
    terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    with terminal.line(clock) as line:
        for tick in range(25):
            clock.now_s = 100.0 + 0.125 * tick
            line.update(lambda tick=tick: f"tick {tick}")
    assert terminal.shown() == "tick 8\ntick 16\ntick 24\n"


def test_a_file_gets_a_line_a_second(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    made = []

    def text(tick: int) -> str:
        made.append(tick)
        return f"tick {tick}"

    with LiveLine(clock) as line:
        for tick in range(35):
            clock.now_s = 100.0 + 0.125 * tick
            line.update(lambda tick=tick: text(tick))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "tick 8\ntick 16\ntick 24\ntick 32\n"
    assert made == [8, 16, 24, 32]  # what is not shown is not made


def test_a_clock_that_jumps_shows_one_line(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    line = LiveLine(clock)
    clock.now_s += 60.0
    for _ in range(5):
        line.update(lambda: "late")
    assert capsys.readouterr().err == "late\n"


class Gone(io.StringIO):
    """A stream whose reader went away."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, Gone(), closed()])
def test_nobody_need_listen(stream: TextIO | None, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    made = []
    with LiveLine(clock) as line:
        clock.now_s += 2.0
        line.update(lambda: made.append(1) or "text")  # type: ignore[func-returns-value]
    assert made == [1]


def test_a_closed_stderr_does_not_end_a_run() -> None:
    command = [sys.executable, "-m", "edgert", "run", "rollouts", "--num-envs", "64", "--seconds", "6", "--json"]
    done = subprocess.run(
        ["bash", "-c", '"$@" 2>&-', "bash", *command], stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith('{"policy": ')
