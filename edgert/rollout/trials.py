"""A task's trials: its bars measured under its conditions, one row for each command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgert.errors import UnsupportedError
from edgert.rollout.closed_loop import open_rollouts
from edgert.rollout.options import RolloutOptions
from edgert.task.place import place_of
from edgert.task.trials import Trials

Progress = Callable[[int, int], None]
"""Called with (control steps done, in all)."""


def run_trials(
    options: RolloutOptions,
    *,
    progress: Callable[[str, int, float], Progress] = lambda name, worlds, period_s: lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run every trial of the task that `options` name, under the conditions of the trials.

    Args:
        options: model, sim, contract, seed, device and nthread count, and nothing else.
        progress: called with (name of a trial, worlds, control period in s) when it begins; gives what is called on
            its way.
        say: called with what the user should know before the first trial, a line each.
        stop: True ends the run as interrupted.

    Returns:
        One JSON object: what was run, `trials` (each a report with `name`, `missed` and `passed`), `passed`.

    Raises:
        EdgertError: the policy or the task cannot be used, or the task has no trials.
    """
    place = place_of(options.sim, options.model)
    loaded = place.load(options.model, options.contract, options.format)
    task = place.under(loaded.contract, None)
    trials = task.trials
    if trials is None:
        raise UnsupportedError(f"task '{task.name}' has no trials", hint="Add [trials] to its task.toml")
    rows: list[dict[str, Any]] = []
    header: dict[str, Any] = {}
    for command in (*trials.commands, None):
        name = _name(command, drawn=task.command is not None)
        row_options = replace(
            options,
            num_envs=trials.num_envs,
            seconds=trials.seconds,
            command=command,
            pushes=trials.pushes,
            friction=trials.friction,
            gains=trials.gains,
            mass=None,
            delay=None,
            randomise=True,
        )
        with open_rollouts(row_options) as session:
            if not header:
                for note in session.notes:
                    say(note)
                say(f"{len(trials.commands) + 1} trials of {trials.num_envs} worlds on {session.device.name}")
            told = progress(name, trials.num_envs, task.contract.period_s)
            result = session.run(progress=told, stop=stop)
            report = session.report(result)
            if result.outcome == "completed" or not header:
                header = session.header() | {"seconds": report["seconds"], "notes": session.notes}
        if result.outcome == "interrupted":
            break
        missed = judged(trials, report, still=command is not None and not any(command))
        mine = {key: value for key, value in report.items() if key not in header}
        rows.append({"name": name, "passed": not missed, "missed": missed, **mine})
    complete = len(rows) == len(trials.commands) + 1
    return {
        **header,
        "outcome": "completed" if complete else "interrupted",
        "trials": rows,
        "passed": complete and all(row["passed"] for row in rows),
    }


def judged(trials: Trials, report: dict[str, Any], *, still: bool = False) -> list[str]:
    """The bars that a trial missed, each in words; a bar without a measurement is missed.

    `still`: the command was zero, so that a drift must have been measured; drawn commands may hold no zero.
    """
    missed = []
    if trials.max_falls is not None and report["falls"] + report["safety_stops"] > trials.max_falls:
        missed.append(f"{report['falls'] + report['safety_stops']} falls, at most {trials.max_falls}")
    if trials.min_success is not None:
        rate = report.get("success_rate")
        if rate is None or rate["mean"] < trials.min_success:
            missed.append(f"success {_shown(rate and rate['mean'])}, at least {trials.min_success:g}")
    tracking = report["tracking"] or {}
    for key, bar in trials.within.items():
        worst = tracking.get(key, {}).get("worst")
        if worst is None or not worst <= bar:
            missed.append(f"{key} error {_shown(worst)}, at most {bar:g}")
    drift = tracking.get("drift_m_s", {}).get("worst")
    limit = trials.max_drift_m_s
    if limit is not None and (still if drift is None else not drift <= limit):
        missed.append(f"drift {_shown(drift)} m/s, at most {limit:g}")
    return missed


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _name(command: tuple[float, ...] | None, *, drawn: bool) -> str:
    if command is None:
        return "drawn" if drawn else "all"
    return ", ".join(f"{value:g}" for value in command)
