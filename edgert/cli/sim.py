"""`edgert sim`: the bundled sims, and what a task and a scene hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgert import assets
from edgert.cli.completion import complete_sims
from edgert.cli.main import HELP_NAMES, write
from edgert.cli.running import check_mujoco, json_option
from edgert.errors import EdgertError, one_line

if TYPE_CHECKING:
    from edgert.task.task import Task

_UNSET: tuple[Any, ...] = (None, "", [], {})
_LISTED = 200
"""Most joints, actuators, sensors or keyframes that are printed; --json has all of them."""


@click.group(context_settings=HELP_NAMES)
def sim() -> None:
    """Look at sims: those that are bundled, tasks of your own, and scenes."""


@sim.command("list", context_settings=HELP_NAMES)
@json_option
def list_sims(as_json: bool) -> None:
    """List the bundled sims."""
    check_mujoco()
    models = assets.names("models")
    write({"sims": [_row(name, name in models) for name in assets.names("sims")]}, as_json, _list_table)


def _row(name: str, has_policy: bool) -> dict[str, Any]:
    """One bundled sim; what cannot be read has its reason in `error`."""
    from edgert.task.task import load_task

    path = assets.root("sims") / name / "task.toml"
    row: dict[str, Any] = dict.fromkeys(("id", "joints", "control_hz", "episode_s", "description"))
    row = {"name": name, **row, "policy": has_policy, "path": str(path), "error": None}
    try:
        task = load_task(name)
        row |= {
            "id": task.id,
            "joints": len(task.contract.joints),
            "control_hz": task.contract.control_hz,
            "episode_s": task.episode_s,
            "description": _description(path),
        }
    except EdgertError as error:
        row["error"] = str(error)
    return row


def _description(path: Path) -> str:
    """The first comment of a task."""
    with path.open(encoding="utf-8") as file:  # of a size that reading the task has judged
        return next((one_line(line.lstrip("# ")) for line in file if line.startswith("#")), "")


def _list_table(report: dict[str, Any]) -> str:
    from edgert.cli.tables import listing, rendered

    rows = []
    for row in report["sims"]:
        policy = "yes" if row["policy"] else "no"
        if row["error"] is not None:
            rows.append((row["name"], "–", "–", "–", "–", policy, f"unusable: {row['error']}"))
            continue
        rate, episode = f"{row['control_hz']:g} Hz", f"{row['episode_s']:g} s"
        rows.append((row["name"], row["id"] or "–", str(row["joints"]), rate, episode, policy, row["description"]))
    return rendered(listing(("sim", "Gymnasium id", "joints", "rate", "episode", "policy", "what it is"), rows))


@sim.command(context_settings=HELP_NAMES)
@click.argument("sim", metavar="SIM", shell_complete=complete_sims)
@json_option
def show(sim: str, as_json: bool) -> None:
    """Print what SIM holds: a bundled sim, a folder with a task.toml, or a scene (.xml).

    The scene is shown as its file has it; `edgert run policy` gives its joints the gains of the policy.
    """
    check_mujoco()
    from edgert.sim.describe import describe_scene
    from edgert.task.describe import describe_task
    from edgert.task.task import load_task

    if Path(sim).suffix not in ("", ".toml"):
        report: dict[str, Any] = {"sim": sim, "task": None, "scene": describe_scene(Path(sim))}
        write(report, as_json, _scene)
        return
    task = load_task(sim)
    report = {"sim": task.name, "task": describe_task(task), "scene": describe_scene(task.scene)}
    write(report, as_json, lambda shown: f"{_task(task, shown)}\n\n{_scene(shown)}")


def _task(task: Task, report: dict[str, Any]) -> str:
    """A task: its single fields, its contract, then a table for every other field."""
    from edgert.cli.contract import tables
    from edgert.cli.tables import facts, listing, rendered, value_text

    facts_of = {key: value for key, value in report["task"].items() if key != "contract" and value not in _UNSET}
    single = {key: value for key, value in facts_of.items() if not isinstance(value, (dict, list))}
    timestep_s = report["scene"]["timestep_s"]
    rate = f"{task.contract.control_hz:g} Hz: {task.decimation} physics steps of {timestep_s * 1e3:g} ms"
    parts: list[Any] = [facts([*((key, value_text(value)) for key, value in single.items()), ("rate", rate)])]
    parts += ["\ncontract", *tables(task.contract, noise=task.randomise.noise)]
    for key, value in facts_of.items():
        if isinstance(value, list):
            parts += [f"\n{key}", listing(*_rows(value))]
        elif isinstance(value, dict):
            rows = [(name, value_text(content)) for name, content in value.items() if content not in _UNSET]
            parts += [f"\n{key}", facts(rows)] if rows else []
    return rendered(*parts)


def _rows(entries: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A list of objects as a table: a column for each of their keys."""
    from edgert.cli.tables import value_text

    headers = list(dict.fromkeys(name for entry in entries for name in entry))
    return headers, [[value_text(entry.get(name, "")) for name in headers] for entry in entries]


def _scene(report: dict[str, Any]) -> str:
    """A scene: its sizes and options, then its joints, actuators, sensors and keyframes."""
    from edgert.cli.tables import facts, listing, rendered

    scene = report["scene"]
    single = [
        ("scene", scene["path"]),
        (
            "size",
            f"nq {scene['nq']}, nv {scene['nv']}, nu {scene['nu']}, {scene['bodies']} bodies, {scene['geoms']} geoms",
        ),
        ("mass", f"{_number(scene['mass_kg'])} kg"),
        ("gravity", f"{', '.join(_number(value) for value in scene['gravity_m_s2'])} m/s²"),
        ("timestep", f"{scene['timestep_s'] * 1e3:g} ms, integrator {scene['integrator']}"),
        ("solver", f"{scene['solver']}, {scene['iterations']} iterations, {scene['cone']} friction cone"),
    ]
    parts: list[Any] = [facts(single)]
    headers = ("joint", "type", "body", "range", "armature", "damping", "friction", "torque limit")
    parts += ["\njoints", listing(headers, map(_joint, _some(scene["joints"])))]
    if scene["actuators"]:
        headers = ("actuator", "type", "on", "gear", "kp", "kd", "ctrl range", "force range")
        parts += ["\nactuators", listing(headers, map(_actuator, _some(scene["actuators"])))]
    if scene["sensors"]:
        rows = ((entry["name"] or "–", entry["type"], str(entry["dim"])) for entry in _some(scene["sensors"]))
        parts += ["\nsensors", listing(("sensor", "type", "numbers"), rows)]
    names = ", ".join(name or "without a name" for name in _some(scene["keyframes"])) or "none"
    parts += ["", facts([("keyframes", names)])]
    hidden = [(key, len(scene[key]) - _LISTED) for key in ("joints", "actuators", "sensors", "keyframes")]
    parts += [f"{count} more {key}: see --json" for key, count in hidden if count > 0]
    return rendered(*parts)


def _some(entries: list[Any]) -> list[Any]:
    return entries[:_LISTED]


def _joint(joint: dict[str, Any]) -> tuple[str, ...]:
    angle, force = ("rad", "N·m") if joint["type"] == "hinge" else ("m", "N")
    units = (angle, "kg·m²" if joint["type"] == "hinge" else "kg", f"{force}·s/{angle}", force, force)
    keys = ("range", "armature", "damping", "friction", "torque_limit")
    cells = (_with_unit(joint[key], unit) for key, unit in zip(keys, units, strict=True))
    return joint["name"] or "–", joint["type"], joint["body"] or "–", *cells


def _actuator(actuator: dict[str, Any]) -> tuple[str, ...]:
    on = actuator["transmission"] if actuator["joint"] is None else f"joint {actuator['joint']}"
    keys = ("gear", "kp", "kd", "ctrl_range", "force_range")
    return actuator["name"] or "–", actuator["type"], on, *(_with_unit(actuator[key], "") for key in keys)


def _with_unit(value: Any, unit: str) -> str:
    if value is None:
        return "–"
    text = " … ".join(_number(bound) for bound in value) if isinstance(value, list) else _number(value)
    return f"{text} {unit}".rstrip()


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"
