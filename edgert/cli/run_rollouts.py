"""`edgert run rollouts`: one policy in many simulated worlds at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgert.cli.live import LiveLine
from edgert.cli.main import EXIT_DIFFERENCE, EXIT_INTERRUPTED, EXIT_SAFETY, HELP_NAMES, say, write
from edgert.cli.running import (
    check_mujoco,
    command_option,
    contract_option,
    env_option,
    interruptible,
    json_option,
    model_argument,
    output_option,
    path_of,
    record_option,
    refuse_with_env,
    sim_option,
)

if TYPE_CHECKING:
    from edgert.rollout import RolloutOptions

_RANDOMISED = ("pushes", "friction", "mass", "gains", "delay")


def _range(name: str, unit: str, what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option(f"--{name}", type=float, nargs=2, metavar=f"LOW HIGH{unit}", help=what)


@click.command(context_settings=HELP_NAMES)
@model_argument
@sim_option
@env_option
@contract_option
@command_option
@output_option
@click.option("--num-envs", type=click.IntRange(min=1), default=64, show_default=True, help="Worlds.")
@click.option("--seconds", type=float, help="Robot time of every world.  [default: one episode]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the first world.")
@click.option("--device", default="cpu", show_default=True, help="Chip that runs the network.")
@click.option("--randomise/--no-randomise", default=True, show_default=True, help="Draw the task's randomisation.")
@click.option("--pushes", type=float, nargs=2, metavar="SPEED EVERY", help="Pushes of m/s in any direction, every s.")
@_range("friction", "", "Sliding friction of the geoms that the task randomises, or of all.")
@_range("mass", "[kg]", "Mass added to the body that the task randomises, or to the base.")
@_range("gains", "", "Factor of kp and kd of each joint.")
@_range("delay", "[s]", "Delay of the actuators.")
@click.option("--trials", is_flag=True, help="Measure the task's own trials and judge them; exit 5 if a bar is missed.")
@record_option
@json_option
def rollouts(
    as_json: bool, env: str | None, output: str | None, trials: bool, record: str | None, **values: Any
) -> int:
    """Run MODEL in many worlds at once, and report falls, returns and tracking with their confidence.

    Commands, pushes, masses, friction, gains and delays are drawn as the task says, anew for every episode; options
    replace them. World i depends on seed + i alone.

    \b
    Examples:
      edgert run rollouts quadruped --num-envs 256
      edgert run rollouts quadruped --command 0.8 0 0 --pushes 0.5 4 --friction 0.5 1.0
      edgert run rollouts quadruped --trials
      edgert run rollouts my.onnx --sim my_robot.xml --seconds 20 --record rollouts/ --json
    """  # noqa: D301  # \b is click's mark for lines to keep
    check_mujoco()
    if env is not None:
        given = {name: values[name] for name in ("sim", "contract", "command", *_RANDOMISED)}
        refuse_with_env(given | {"trials": trials, "no-randomise": not values["randomise"]})
        from edgert.cli.run_env import run_in_env

        return run_in_env(
            env,
            values["model"],
            num_envs=values["num_envs"],
            seconds=values["seconds"],
            seed=values["seed"],
            device=values["device"],
            output=output,
            record=path_of(record),
            as_json=as_json,
        )
    if output is not None:
        raise click.UsageError("--output goes with --env; a contract names the output in [action]")
    from edgert.rollout import RolloutOptions

    options = RolloutOptions(**values | {"contract": path_of(values["contract"])})
    if trials:
        if record is not None:
            raise click.UsageError("--record cannot go with --trials; record the run of one command")
        _refuse_with_trials()
        return _run_trials(options, as_json=as_json)
    return _run(options, path_of(record), as_json=as_json)


def _refuse_with_trials() -> None:
    """Refuse conditions beside those of the trials: they would count for nothing."""
    context = click.get_current_context()
    names = ("num_envs", "seconds", "command", "randomise", *_RANDOMISED)
    given = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        useless = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{useless} cannot go with --trials: the task sets the conditions")


def _run(options: RolloutOptions, record: Path | None, *, as_json: bool) -> int:
    from edgert.cli.run_tables import rollouts_table
    from edgert.rollout import open_rollouts
    from edgert.rollout.folder import check_folder

    if record is not None:
        check_folder(record)
    with open_rollouts(options, every_output=record is not None) as session, ExitStack() as resources:
        for note in session.notes:
            say(note)
        for name in session.policy.left_out:
            say(f"not recorded: output {name}")
        stop = resources.enter_context(interruptible())
        say(
            f"running {session.loaded.file.path.name} on {session.device.name} ({session.policy.provider}), physics "
            f"MuJoCo on cpu, sim {session.task.name}, {options.num_envs} worlds, "
            f"{session.steps * session.task.contract.period_s:g} s each"
        )
        folder = None
        if record is not None:
            folder = session.folder(record)
            resources.callback(folder.close)
        with LiveLine() as line:
            progress = _Progress(line, options.num_envs, session.task.contract.period_s)
            result = session.run(sink=folder, progress=progress, stop=stop)
        report = session.report(result)
        if folder is not None:
            folder.close()
            report["recording"] = str(folder.path)
            say(f"recorded {result.steps * options.num_envs} steps into {folder.path}")
    write(report, as_json, rollouts_table)
    if report["safety_stops"]:
        say(
            f"edgert: safety stop: {report['safety_stops']} episodes ended, as the policy gave no usable number or "
            "physics diverged"
        )
    if result.outcome == "interrupted":
        return EXIT_INTERRUPTED
    return EXIT_SAFETY if report["safety_stops"] else 0


def _run_trials(options: RolloutOptions, *, as_json: bool) -> int:
    from edgert.cli.run_tables import trials_table
    from edgert.rollout.trials import run_trials

    with interruptible() as stop, LiveLine() as line:
        report = run_trials(
            options,
            progress=lambda name, done, total: line.update(lambda: f"trial {name}: {done} of {total} steps"),
            stop=stop,
        )
    write(report, as_json, trials_table)
    if report["outcome"] == "interrupted":
        return EXIT_INTERRUPTED
    return 0 if report["passed"] else EXIT_DIFFERENCE


class _Progress:
    """What the live line says of a run of many worlds."""

    def __init__(self, line: LiveLine, num_envs: int, period_s: float) -> None:
        self._line, self._num_envs, self._period_s = line, num_envs, period_s
        self._started = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        self._line.update(lambda: self._text(done, total))

    def _text(self, done: int, total: int) -> str:
        wall_s = max(1e-9, time.perf_counter() - self._started)
        steps_per_s = self._num_envs * done / wall_s
        return (
            f"{self._num_envs} worlds, {done * self._period_s:.1f} of {total * self._period_s:g} s, "
            f"{steps_per_s:,.0f} steps/s, {steps_per_s * self._period_s:.0f} × real time"
        )
