"""`edgert run`: a policy against a body."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from edgert.cli.main import EXIT_INTERRUPTED, EXIT_SAFETY, HELP_NAMES

_EXIT = {"completed": 0, "fell": EXIT_SAFETY, "safety_stop": EXIT_SAFETY, "interrupted": EXIT_INTERRUPTED}


@click.group(context_settings=HELP_NAMES)
def run() -> None:
    """Run a policy on a simulated body."""


@run.command(context_settings=HELP_NAMES)
@click.argument("model", default="quadruped")
@click.option("--sim", help="A bundled sim, a folder with a task.toml, or a scene (.xml).  [default: quadruped]")
@click.option("--contract", type=click.Path(path_type=Path), help="What the policy's numbers mean (policy.toml).")
@click.option(
    "--command", type=float, nargs=3, metavar="VX VY WZ", help="m/s, m/s, rad/s in the base frame.  [default: 0.5 0 0]"
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
def policy(as_json: bool, **values: Any) -> int:
    r"""Run MODEL, an .onnx file or a bundled policy (default: quadruped), and report how it did.

    What the policy's numbers mean is read from the model's own metadata and from policy.toml beside it; --contract
    names another file. Exit code 3 means that the robot fell or was stopped for safety.

    \b
    Examples:
      edgert run policy
      edgert run policy --command 0.5 0 0.6 --seconds 20
      edgert run policy my.onnx --sim my_robot.xml --contract policy.toml --json
    """
    from edgert.runtime import RunOptions, open_session

    _keep_physics_warnings_off_the_disk()
    with _interruptible() as interrupted, open_session(RunOptions(**values)) as session:
        for note in session.notes:
            click.echo(note, err=True)
        pace = "in real time" if session.options.real_time else "as fast as possible"
        click.echo(
            f"running {session.loaded.file.path.name} on {session.device.name} ({session.policy.provider}), physics "
            f"MuJoCo on cpu, sim {session.sim_name}, {session.options.seconds:g} s {pace}",
            err=True,
        )
        report = session.report(session.run(stop=interrupted))
    if as_json:
        import json

        click.echo(json.dumps(report, allow_nan=False))
    else:
        from edgert.cli.tables import print_run

        print_run(report)
    if report["outcome"] in ("fell", "safety_stop"):
        click.echo(f"edgert: {report['outcome'].replace('_', ' ')}: {report['reason']}", err=True)
    return _EXIT[report["outcome"]]


def _keep_physics_warnings_off_the_disk() -> None:
    """MuJoCo would write MUJOCO_LOG.TXT into the working folder; what matters of it is in the report."""
    import mujoco

    mujoco.set_mju_user_warning(lambda text: None)


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
