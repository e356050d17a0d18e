"""`--env`: a policy against any Gymnasium environment, for `run policy` and `run rollouts`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from edgert.cli.live import LiveLine
from edgert.cli.main import say, write
from edgert.cli.running import EXIT_CODES, interruptible, quiet_stdout


def run_in_env(
    env_id: str,
    model: str,
    *,
    num_envs: int,
    seconds: float | None,
    seed: int,
    device: str,
    output: str | None,
    record: Path | None,
    as_json: bool,
) -> int:
    """Run the policy in the environment, print the report, and return the exit code."""
    from edgert.cli.run_tables import env_table
    from edgert.rollout.folder import check_folder
    from edgert.rollout.gym_env import EnvRun, EnvSession
    from edgert.rollout.gym_log import EnvLog, env_folder

    if record is not None:
        check_folder(record)
    options = EnvRun(
        env_id=env_id,
        model=model,
        num_envs=num_envs,
        seconds=seconds,
        seed=seed,
        device=device,
        output=output,
        every_output=record is not None,
    )
    with quiet_stdout(), EnvSession(options) as session, ExitStack() as resources:
        known = len(session.notes)
        for note in session.notes:
            say(note)
        stop = resources.enter_context(interruptible())
        run_s = session.steps * session.worlds.period_s
        say(
            f"running {session.file.path.name} on {session.device.name} ({session.network.provider}) in {env_id}, "
            f"{num_envs} environment{'s' * (num_envs > 1)}, {run_s:g} s as fast as possible; output {session.output} "
            "is the action"
        )
        folder = log = None
        if record is not None:
            folder = env_folder(session, record)
            resources.callback(folder.close)
            log = EnvLog(session, folder)
        started = time.perf_counter()
        with LiveLine() as line:

            def progress(done: int, total: int) -> None:
                line.update(lambda: f"{done} of {total} steps, {_speed(num_envs * done, started)}")

            report = session.run(progress=progress, on_step=log.step if log is not None else None, stop=stop)
        if log is not None and folder is not None:
            log.finish()
            folder.close()
            report["recording"] = str(folder.path)
            say(f"recorded {report['steps'] * num_envs} steps into {folder.path}")
        for note in report["notes"][known:]:
            say(note)
    write(report, as_json, env_table)
    if report["outcome"] == "safety_stop":
        say(f"edgert: safety stop: {report['reason']}")
    return EXIT_CODES[report["outcome"]]


def _speed(steps: int, started: float) -> str:
    return f"{steps / max(1e-9, time.perf_counter() - started):,.0f} steps/s"
