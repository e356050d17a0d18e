"""What the commands that run something share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgert.cli.running import interruptible


@pytest.fixture
def handlers() -> Iterator[None]:
    """Puts back what a test does to signals."""
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for kind, handler in before.items():
        signal.signal(kind, handler)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_polite_end_is_a_question_and_the_second_an_order(kind: signal.Signals, handlers: None) -> None:
    with interruptible() as asked:
        assert not asked()
        os.kill(os.getpid(), kind)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_was_set_before_is_set_after(handlers: None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGHUP])
def test_who_ignores_the_end_of_a_terminal_goes_on_ignoring_it(kind: signal.Signals, handlers: None) -> None:
    """As nohup does for what it starts."""
    signal.signal(kind, signal.SIG_IGN)
    with interruptible() as asked:
        os.kill(os.getpid(), kind)
        assert not asked()
    assert signal.getsignal(kind) is signal.SIG_IGN


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(closed: str, tmp_path: Path) -> None:
    code = "from edgert.cli import main; main.run = lambda arguments: open('r', 'wb').fileno(); main.main()"
    done = subprocess.run(["bash", "-c", f'"{sys.executable}" -c "{code}" {closed}'], cwd=tmp_path, check=False)
    assert done.returncode >= 3
