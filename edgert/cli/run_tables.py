"""Reports of many worlds for people: rollouts, environments and trials."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from edgert.cli.tables import facts, listing, rendered

_UNITS = {"vx_m_s": "m/s", "vy_m_s": "m/s", "wz_rad_s": "rad/s"}


def rollouts_table(report: dict[str, Any]) -> str:
    """The summary of `edgert run rollouts`."""
    rows = [
        ("outcome", report["outcome"]),
        ("worlds", f"{report['num_envs']}, {report['seconds']:g} s each at {report['control_hz']:g} Hz"),
        ("episodes", f"{report['episodes']} ended, {_figure(report['episode_length'], '.0f', ' steps')}"),
        ("falls", _rate(report["falls"], report["fall_rate"])),
    ]
    if report["cut_off"]:
        rows[-2] = (rows[-2][0], f"{rows[-2][1]}; {report['cut_off']} cut off by the end of the run")
    if report["safety_stops"]:
        rows.append(("safety stops", str(report["safety_stops"])))
    if "successes" in report:
        rows.append(("success", _rate(report["successes"], report["success_rate"])))
    rows.append(("return", _figure(report["returns"], ".2f")))
    rows += _tracking(report["tracking"])
    rows.append(("varied", _varied(report["randomise"]) or "nothing"))
    rows += _machine(report)
    return rendered(facts(rows))


def env_table(report: dict[str, Any]) -> str:
    """The summary of `--env`."""
    clipped = report["clipped"]
    rows = [
        ("outcome", report["outcome"].replace("_", " ")),
        (
            "environment",
            f"{report['env']}, {report['num_envs']} × {report['seconds']:g} s, {report['steps']} steps each",
        ),
        ("episodes", f"{report['episodes']} ended, {_figure(report['episode_length'], '.0f', ' steps')}"),
        ("return", _figure(report["returns"], ".2f")),
    ]
    if report["return_so_far"] is not None:
        rows.append(("unfinished", f"return {_figure(report['return_so_far'], '.2f')} so far"))
    rows.append(("clipped", f"{100 * clipped['fraction']:.1f} % of the action's numbers, in {clipped['steps']} steps"))
    latency = ", ".join(f"{name} {value:.0f}" for name, value in report["latency_us"].items() if value is not None)
    rows.append(("latency", f"{latency or 'no step'} µs from observation to action"))
    rows += _machine(report)
    return rendered(facts(rows))


def trials_table(report: dict[str, Any]) -> str:
    """The table of `edgert run rollouts --trials`, as model cards hold it."""
    trials = report["trials"]
    keys = [key for key in _UNITS if any(key in (row["tracking"] or {}) for row in trials)]
    goal = any("goal_error_m" in (row["tracking"] or {}) for row in trials)
    judged = any("success_rate" in row for row in trials)
    headers = ["asked" if keys else "trial"]
    headers += [f"{key.split('_')[0]} {_UNITS[key]} (worst error)" for key in keys]
    headers += ["drift m/s"] * bool(keys) + ["goal error, median and p95"] * goal + ["success"] * judged
    headers += ["falls", "return", "verdict"]
    rows = []
    for row in trials:
        tracking = row["tracking"] or {}
        cells = [row["name"]]
        cells += [_component(tracking.get(key), drawn=row["name"] == "drawn") for key in keys]
        if keys:
            cells.append(f"{tracking['drift_m_s']['worst']:.3f}" if "drift_m_s" in tracking else "")
        if goal:
            error = tracking.get("goal_error_m")
            cells.append(f"{1e3 * error['median']:.1f}, {1e3 * error['p95']:.1f} mm" if error else "")
        if judged:
            cells.append(f"{100 * row['success_rate']['mean']:.0f} %" if row["success_rate"] else "")
        cells += [f"{row['falls']} of {row['episodes']}", _figure(row["returns"], ".2f")]
        rows.append([*cells, "passed" if row["passed"] else "; ".join(row["missed"])])
    verdict = "passed" if report["passed"] else "interrupted" if report["outcome"] == "interrupted" else "not passed"
    about = [
        ("policy", f"{report['policy']} sha256 {report['policy_sha256']}"),
        ("task", f"{report['sim']}, {report['num_envs']} worlds (seeds {report['seed']} …) × {report['seconds']:g} s"),
        ("varied", _varied(report["randomise"])),
        ("ran on", f"{report['device']} ({report['device_chip']}), {report['provider']}, {report['physics']}"),
        ("verdict", verdict),
    ]
    return rendered(facts(about), Table.grid(), listing(headers, rows))


def _machine(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("speed", f"{report['steps_per_s']:,.0f} steps/s, {report['real_time_factor']:.0f} × real time"),
        ("ran on", f"{report['device']} ({report['device_chip']}), {report['provider']}"),
        ("policy", f"{report['policy']} sha256 {report['policy_sha256'][:12]}…"),
    ]


def _tracking(tracking: dict[str, Any] | None) -> list[tuple[str, str]]:
    if tracking is None:
        return []
    if "goal_error_m" in tracking:
        error = tracking["goal_error_m"]
        return [("goal error", f"median {1e3 * error['median']:.1f} mm, p95 {1e3 * error['p95']:.1f} mm")]
    rows = []
    for key, unit in _UNITS.items():
        one = tracking[key]
        ci = "" if one["ci95"] is None else f" ± {one['ci95']:.3f}"
        text = f"{one['mean']:+.3f}{ci} for {one['asked']:+.3f} {unit} asked"
        rows.append((key.split("_")[0], f"{text}, rms error {one['rmse']:.3f}, worst {one['worst']:.3f}"))
    if "drift_m_s" in tracking:
        rows.append(("drift", f"{tracking['drift_m_s']['worst']:.3f} m/s at worst when told to stand"))
    return rows


def _component(one: dict[str, Any] | None, *, drawn: bool) -> str:
    if one is None:
        return ""
    ci = "" if one["ci95"] is None or drawn else f" ± {one['ci95']:.3f}"
    shown = "" if drawn else f"{one['mean']:+.3f}{ci} "
    return f"{shown}({one['worst']:.3f})"


def _figure(figure: dict[str, Any] | None, form: str, unit: str = "") -> str:
    if figure is None:
        return "none"
    ci = "" if figure["ci95"] is None else f" ± {figure['ci95']:{form}}"
    return f"{figure['mean']:{form}}{ci}{unit}"


def _rate(count: int, rate: dict[str, Any] | None) -> str:
    if rate is None:
        return "no episode ended"
    if rate["ci95"] is None:
        return f"{count} ({100 * rate['mean']:.1f} %)"
    low, high = rate["ci95"]
    return f"{count} ({100 * rate['mean']:.1f} %, 95 % interval {100 * low:.1f} … {100 * high:.1f} %)"


def _varied(randomise: dict[str, Any]) -> str:
    return "; ".join(f"{name} {_values(value)}" for name, value in randomise.items())


def _values(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each:g}" for name, each in value.items())
    if isinstance(value, list):
        return " ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
