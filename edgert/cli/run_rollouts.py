"""`edgert run rollouts`: one policy in many simulated worlds at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgert.cli.live import LiveLine, Progress
from edgert.cli.main import EXIT_DIFFERENCE, EXIT_INTERRUPTED, EXIT_SAFETY, HELP_NAMES, say, write
from edgert.cli.running import (
    Numbers,
    check_mujoco,
    chip_options,
    command_option,
    contract_option,
    disclosing,
    env_option,
    format_option,
    interruptible,
    json_option,
    model_argument,
    motion_loop_option,
    output_option,
    path_of,
    record_option,
    refuse_beside,
    sim_option,
)
from edgert.errors import EdgertError

if TYPE_CHECKING:
    from edgert.rollout import RolloutOptions

_RANDOMISED = ("pushes", "friction", "mass", "gains", "delay")


TIMING = "of all worlds together, from the first step to the last: network, physics, rewards and recording"


def _range(name: str, what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option(f"--{name}", type=Numbers(), nargs=2, metavar="LOW HIGH", help=what)


@click.command(context_settings=HELP_NAMES)
@model_argument
@sim_option
@env_option
@contract_option
@format_option
@command_option
@output_option
@click.option("--num-envs", type=click.IntRange(min=1), default=64, show_default=True, help="Worlds.")
@click.option("--seconds", type=float, help="Robot time of every world.  [default: one episode]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the first world.")
@chip_options
@click.option("--randomise/--no-randomise", default=True, show_default=True, help="Draw the task's randomisation.")
@click.option(
    "--pushes", type=Numbers(), nargs=2, metavar="SPEED EVERY", help="Pushes of m/s in any direction, every s."
)
@_range("friction", "Sliding friction of the geoms that the task randomises, or of all.")
@_range("mass", "Mass in kg added to the body that the task randomises, or to the base.")
@_range("gains", "Factor of kp and kd of each joint.")
@_range("delay", "Delay of the actuators in s.")
@motion_loop_option
@click.option("--trials", is_flag=True, help="Measure the task's own trials and judge them; exit 5 if a bar is missed.")
@record_option
@json_option
def rollouts(
    as_json: bool, env: str | None, output: str | None, trials: bool, record: str | None, **values: Any
) -> int:
    """Run MODEL in many worlds at once, and report falls, returns and tracking with their confidence.

    Commands, pushes, masses, friction, gains and delays are drawn as the task says, anew for every episode; options
    replace them. World i depends on seed + i alone. Falls are counted and exit 0; exit code 3 means safety stops.

    \b
    Examples:
      edgert run rollouts quadruped --num-envs 256
      edgert run rollouts quadruped --command 0.8 0 0 --pushes 0.5 4 --friction 0.5 1.0
      edgert run rollouts quadruped --trials
      edgert run rollouts my.onnx --sim my_robot.xml --seconds 20 --record rollouts/ --json
    """  # noqa: D301  # \b is click's mark for lines to keep
    check_mujoco()
    if env is not None:
        names = (
            "sim",
            "contract",
            "format",
            "command",
            "randomise",
            "trials",
            "motion_loop",
            "physics_device",
            *_RANDOMISED,
        )
        refuse_beside("--env", names, "the environment decides")
        from edgert.cli.run_env import ENV_CHIPS, run_in_env

        return run_in_env(
            env,
            values["model"],
            num_envs=values["num_envs"],
            seconds=values["seconds"],
            seed=values["seed"],
            chips={name: values[name] for name in ENV_CHIPS},
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
        conditions = ("num_envs", "seconds", "command", "randomise", "motion_loop", *_RANDOMISED)
        refuse_beside("--trials", conditions, "the task sets the conditions")
        return _run_trials(options, as_json=as_json)
    return _run(options, path_of(record), as_json=as_json)


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
            f"MuJoCo on {session.physics_device.name}, sim {session.task.name}, {options.num_envs} worlds, "
            f"{session.steps * session.task.contract.period_s:g} s each"
        )
        folder = None
        if record is not None:
            folder = resources.enter_context(session.folder(record))
        with LiveLine() as line, disclosing(session, as_json, TIMING, {"steps of each world": session.steps}) as block:
            progress = Progress(line, options.num_envs, session.task.contract.period_s)
            result = session.run(sink=folder, progress=progress, stop=stop)
        report, failed = session.report(result) | block, None
        if folder is not None:
            try:
                folder.close()
                report["recording"] = str(folder.path)
                say(f"recorded {folder.steps} steps into {folder.path}")
            except EdgertError as error:
                failed = error  # the run itself is worth its report
    write(report, as_json, rollouts_table)
    if failed is not None:
        raise failed
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
            say=say,
            progress=lambda name, worlds, period_s: Progress(line, worlds, period_s, f"trial {name}: "),
            stop=stop,
        )
    write(report, as_json, trials_table)
    if report["outcome"] == "interrupted":
        return EXIT_INTERRUPTED
    return 0 if report["passed"] else EXIT_DIFFERENCE
