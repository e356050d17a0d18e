"""`--env`: a policy against any Gymnasium environment, for `run policy` and `run rollouts`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgert.cli.live import LiveLine, Progress
from edgert.cli.main import say, write
from edgert.cli.running import EXIT_CODES, interruptible, quiet_stdout
from edgert.errors import EdgertError

if TYPE_CHECKING:
    from edgert.rollout.gym_env import EnvRun


ENV_CHIPS = ("device", "policy_device", "provider", "allow_cpu_nodes", "precision")
"""Options that count for the network alone: an environment decides where it computes."""


def run_in_env(
    env_id: str,
    model: str,
    *,
    num_envs: int,
    seconds: float | None,
    seed: int,
    chips: dict[str, Any],
    output: str | None,
    record: Path | None,
    as_json: bool,
) -> int:
    """Run the policy in the environment, print the report, and return the exit code."""
    from edgert.cli.run_tables import env_table
    from edgert.rollout.folder import check_folder
    from edgert.rollout.gym_env import EnvRun

    if record is not None:
        check_folder(record)
    options = EnvRun(
        env_id=env_id,
        model=model,
        num_envs=num_envs,
        seconds=seconds,
        seed=seed,
        output=output,
        every_output=record is not None,
        **chips,
    )
    report: dict[str, Any] = {}
    failed: EdgertError | None = None
    try:
        _run(options, record, report)
    except EdgertError as error:
        if not report:
            raise
        failed = error  # of closing: the run itself is worth its report
    write(report, as_json, env_table)
    if failed is not None:
        raise failed
    if report["outcome"] == "safety_stop":
        say(f"edgert: safety stop: {report['reason']}")
    return EXIT_CODES[report["outcome"]]


def _run(options: EnvRun, record: Path | None, report: dict[str, Any]) -> None:
    """Run, and fill the report as soon as the run is over."""
    from edgert.rollout.gym_env import EnvSession
    from edgert.rollout.gym_log import EnvLog, env_folder
    from edgert.rollout.log import RAN_OUT, finished

    num_envs = options.num_envs
    with quiet_stdout(), EnvSession(options) as session, ExitStack() as resources:
        known = len(session.notes)
        for note in session.notes:
            say(note)
        stop = resources.enter_context(interruptible())
        run_s = session.steps * session.worlds.period_s
        say(
            f"running {session.file.path.name} on {session.device.name} ({session.network.provider}) in "
            f"{options.env_id}, {num_envs} environment{'s' * (num_envs > 1)}, {run_s:g} s as fast as possible; output "
            f"{session.output} is the action"
        )
        folder = log = None
        if record is not None:
            folder = resources.enter_context(env_folder(session, record))
            log = EnvLog(session, folder)
        with LiveLine() as line, finished(log.finish if log is not None else lambda reason: None):
            progress = Progress(line, num_envs, session.worlds.period_s)
            report |= session.run(progress=progress, on_step=log.step if log is not None else None, stop=stop)
        for note in report["notes"][known:]:
            say(note)
        if log is not None and folder is not None:
            log.finish(report["reason"] or RAN_OUT)
            folder.close()
            report["recording"] = str(folder.path)
            say(f"recorded {folder.steps} steps into {folder.path}")
