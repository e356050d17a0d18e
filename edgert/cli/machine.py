"""The machine that a command looks at: this one, or one that was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgert.cli.main import say
from edgert.cli.running import FilePath

if TYPE_CHECKING:
    from edgert.device.machine import Machine

replay_option = click.option(
    "--replay", type=FilePath(), metavar="FILE", help="Another machine, as edgert device record wrote it."
)


def machine_of(replay: str | None) -> Machine:
    """This machine, or the recorded one; it is said where a recording was made up."""
    if replay is None:
        from edgert.device.machine import LiveMachine

        return LiveMachine()
    from edgert.device.recording import replay as replayed

    machine = replayed(Path(replay))
    if machine.synthetic:
        say(f"{replay} is synthetic: it was made up, and proves nothing about a chip")
    return machine
