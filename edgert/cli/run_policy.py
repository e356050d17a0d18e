"""`edgert run policy`: one policy on one body, in time."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgert.cli.live import LiveLine
from edgert.cli.main import EXIT_INTERRUPTED, HELP_NAMES, say, write
from edgert.cli.running import (
    EXIT_CODES,
    FilePath,
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
    from edgert.runtime import Session
    from edgert.runtime.loop import Trace


TIMING = "from the beginning of the observation to the command"


@click.command(context_settings=HELP_NAMES)
@model_argument
@sim_option
@env_option
@contract_option
@format_option
@command_option
@output_option
@click.option("--seconds", type=float, help="How long to run, in robot time.  [default: 10, or one episode of --env]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the initial state.")
@click.option(
    "--real-time/--no-real-time", default=True, show_default=True, help="Keep to the clock, or run as fast as possible."
)
@chip_options
@click.option(
    "--actuators",
    type=click.Choice(["contract", "scene"]),
    default="contract",
    show_default=True,
    help="PD actuators with the contract's gains, or those of the scene.",
)
@motion_loop_option
@record_option
@click.option("--video", type=FilePath(), metavar="FILE", help="Film the run, after it, into this .mp4 or .gif.")
@json_option
def policy(as_json: bool, env: str | None, output: str | None, **values: Any) -> int:
    """Run MODEL, an .onnx file or a bundled policy (default: quadruped), and report how it did.

    What the policy's numbers mean is read from the model's own metadata and from policy.toml beside it; --contract
    names another file. Exit code 3 means that the robot fell or was stopped for safety.

    \b
    Examples:
      edgert run policy
      edgert run policy --command 0.5 0 0.6 --seconds 20 --video walk.mp4
      edgert run policy arm_reach --command 0.4 0.3 0.5 --record episodes/
      edgert run policy my.onnx --sim my_robot.xml --contract policy.toml --json
      edgert run policy cheetah.onnx --env HalfCheetah-v5
    """  # noqa: D301  # \b is click's mark for lines to keep
    check_mujoco()
    if env is not None:
        names = (
            "sim",
            "contract",
            "format",
            "command",
            "video",
            "actuators",
            "real_time",
            "motion_loop",
            "physics_device",
        )
        refuse_beside("--env", names, "the environment decides, and runs as fast as it can")
        from edgert.cli.run_env import ENV_CHIPS, run_in_env

        return run_in_env(
            env,
            values["model"],
            num_envs=1,
            seconds=values["seconds"],
            seed=values["seed"],
            chips={name: values[name] for name in ENV_CHIPS},
            output=output,
            record=path_of(values["record"]),
            as_json=as_json,
        )
    if output is not None:
        raise click.UsageError("--output goes with --env; a contract names the output in [action]")
    return _run_on_body(as_json=as_json, **values)


def _run_on_body(*, as_json: bool, contract: str | None, record: str | None, video: str | None, **values: Any) -> int:
    from edgert.cli.tables import run_table
    from edgert.rollout.folder import check_folder
    from edgert.rollout.sink import INDEX, MemorySink
    from edgert.runtime import RunOptions, open_session

    if record is not None:
        check_folder(Path(record))
    if video is not None:
        from edgert.view import check_video

        check_video(Path(video))
    given = {name: value for name, value in values.items() if value is not None}
    options = RunOptions(contract=path_of(contract), every_output=record is not None, **given)
    with open_session(options) as session, ExitStack() as resources:
        for note in session.notes:
            say(note)
        for name in session.policy.left_out:
            say(f"not recorded: output {name}")
        pace = "in real time" if session.options.real_time else "as fast as possible"
        sinks: list[Any] = []
        folder = memory = None
        if record is not None:
            folder = resources.enter_context(session.folder(Path(record)))
            sinks.append(folder)
        if video is not None:
            wanted = [column for column in session.columns() if column.name in ("state.qpos", "command")]
            memory = MemorySink((*INDEX, *wanted))
            sinks.append(memory)
        with interruptible() as interrupted, LiveLine() as line:
            say(
                f"running {session.loaded.file.path.name} on {session.device.name} ({session.policy.provider}), "
                f"physics MuJoCo on {session.physics_device.name}, sim {session.sim_name}, "
                f"{session.options.seconds:g} s {pace}"
            )
            watch = _Watch(session)
            with disclosing(session, as_json, TIMING, {"ticks": session.steps}) as block:
                trace = session.run(
                    stop=interrupted, tick=lambda step, trace: line.update(lambda: watch.text(step, trace)), sinks=sinks
                )
        report = session.report(trace) | block
        failed = trace.unrecorded  # the run itself is worth its report, whatever became of its video
        try:
            if folder is not None and failed is None:
                folder.close()
                report["recording"] = str(folder.path)
                say(f"recorded {folder.steps} steps into {folder.path}")
            if memory is not None:
                report["video"] = _film(session, memory, Path(str(video)))
        except EdgertError as error:
            failed = failed or error
        except KeyboardInterrupt:
            report["video"] = None
    write(report, as_json, run_table)
    if failed is not None:
        raise failed
    if report["outcome"] in ("fell", "safety_stop"):
        say(f"edgert: {report['outcome'].replace('_', ' ')}: {report['reason']}")
    if video is not None and report["video"] is None:
        say("edgert: interrupted while filming")
        return EXIT_INTERRUPTED
    return EXIT_CODES[report["outcome"]]


def _film(session: Session, memory: Any, path: Path) -> str:
    from edgert.cli.film import film

    contract = session.loaded.contract
    goals = contract.command is not None and contract.command.kind == "position"
    return film(
        path,
        session.robot.scene.model,
        memory.rows("state.qpos", final=True),
        hz=contract.control_hz,
        markers=memory.rows("command", final=True) if goals else None,
    )


class _Watch:
    """What the live line says of a run, in the width of a terminal.

    Time, missed deadlines, latency p50 and p99, and what was asked against what the robot does, m/s and rad/s.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hz = session.loaded.contract.control_hz
        self._command = session.command
        self._seconds = session.options.seconds
        self._floating = session.fall is not None

    def text(self, step: int, trace: Trace) -> str:
        import numpy as np

        window = max(1, round(self._hz))
        latency = np.quantile(trace.latency_ns[max(0, trace.commands - window) : trace.commands] / 1e3, [0.5, 0.99])
        parts = [f"{step / self._hz:.1f}/{self._seconds:g} s", f"{trace.deadline_misses} missed"]
        parts.append(f"{latency[0]:.0f}/{latency[1]:.0f} µs")
        if self._command and self._floating:
            velocity = trace.velocity[max(0, trace.observations - window) : trace.observations].mean(axis=0)
            pairs = zip(("vx", "vy", "wz"), self._command, velocity, strict=True)
            shown = " ".join(f"{name} {asked:+.2f}/{does:+.2f}" for name, asked, does in pairs)
            parts.append(shown)
        elif self._command:
            asked = " ".join(f"{value:+.2f}" for value in self._command)
            distance = self._session.goal_distance()
            parts.append(f"asked {asked} m" + ("" if distance is None else f", {distance:.3f} m from it"))
        return "  ".join(parts)
