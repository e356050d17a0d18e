"""`edgert run`: a policy against a body."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from edgert.cli.main import EXIT_INTERRUPTED, EXIT_SAFETY, HELP_NAMES, output, say
from edgert.errors import DeviceError, interrupted_by

_EXIT = {"completed": 0, "fell": EXIT_SAFETY, "safety_stop": EXIT_SAFETY, "interrupted": EXIT_INTERRUPTED}


@click.group(context_settings=HELP_NAMES)
def run() -> None:
    """Run a policy on a simulated body."""


@run.command(context_settings=HELP_NAMES)
@click.argument("model", default="quadruped")
@click.option("--sim", help="A bundled sim, a folder with a task.toml, or a scene (.xml).  [default: quadruped]")
@click.option("--contract", metavar="FILE", help="What the policy's numbers mean (policy.toml).")
@click.option(
    "--command",
    type=float,
    nargs=3,
    metavar="VX VY WZ",
    help="m/s forward, m/s to the left, rad/s anticlockwise.  [default: 0.5 0 0]",
)
@click.option("--seconds", type=float, default=10.0, show_default=True, help="How long to run, in robot time.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the initial state.")
@click.option(
    "--real-time/--no-real-time", default=True, show_default=True, help="Keep to the clock, or run as fast as possible."
)
@click.option("--device", default="cpu", show_default=True, help="Chip that runs the network.")
@click.option(
    "--actuators",
    type=click.Choice(["contract", "scene"]),
    default="contract",
    show_default=True,
    help="PD actuators with the contract's gains, or those of the scene.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def policy(as_json: bool, contract: str | None, **values: Any) -> int:
    """Run MODEL, an .onnx file or a bundled policy (default: quadruped), and report how it did.

    What the policy's numbers mean is read from the model's own metadata and from policy.toml beside it; --contract
    names another file. Exit code 3 means that the robot fell or was stopped for safety.

    \b
    Examples:
      edgert run policy
      edgert run policy --command 0.5 0 0.6 --seconds 20
      edgert run policy my.onnx --sim my_robot.xml --contract policy.toml --json
    """  # noqa: D301  # \b is click's mark for lines to keep
    try:
        import mujoco  # noqa: F401
    except (ImportError, RuntimeError) as error:
        interrupted_by(error)
        raise DeviceError("MuJoCo cannot be imported", found=error, hint="Check the variable MUJOCO_GL") from error
    from edgert.runtime import RunOptions, open_session

    with open_session(RunOptions(contract=None if contract is None else Path(contract), **values)) as session:
        for note in session.notes:
            say(note)
        pace = "in real time" if session.options.real_time else "as fast as possible"
        say(
            f"running {session.loaded.file.path.name} on {session.device.name} ({session.policy.provider}), physics "
            f"MuJoCo on cpu, sim {session.sim_name}, {session.options.seconds:g} s {pace}"
        )
        with _interruptible() as interrupted:
            report = session.report(session.run(stop=interrupted))
    with output():
        if as_json:
            import json

            click.echo(json.dumps(report, allow_nan=False))
        else:
            from edgert.cli.tables import run_table

            click.echo(run_table(report))
    if report["outcome"] in ("fell", "safety_stop"):
        say(f"edgert: {report['outcome'].replace('_', ' ')}: {report['reason']}")
    return _EXIT[report["outcome"]]


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a question that the loop asks; the second one interrupts at once."""
    asked = False

    def ask(signum: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
