"""`RolloutOptions`: what a user asks of many worlds, judged, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from edgert.contract.spec import Range
from edgert.errors import ContractError, RobotError, UnsupportedError
from edgert.policy.where import Where
from edgert.sim.batch import check_count
from edgert.tables import MAX_MAGNITUDE, is_number
from edgert.task.commands import asked
from edgert.task.sampling import Randomisation
from edgert.task.task import Task
from edgert.task.trials import FRICTION, GAINS, MAX_PUSH_M_S

MAX_WORLDS: Final = 1_000_000
MAX_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions(Where):
    """What to run; on which chips, `Where` says.

    Attributes:
        model: an .onnx file or the name of a bundled policy.
        sim: a bundled sim, a folder with a task.toml, or a scene (.xml); None: the sim of the bundled policy's name.
        contract: a policy.toml of your own.
        format: that the policy was exported in, where several fit; see docs/formats.md.
        num_envs: worlds.
        seconds: robot time of every world, s; None: one episode of the task.
        seed: of the first world; world i has seed + i.
        command: the same for all, three numbers; None: drawn as the task says.
        randomise: draw the task's randomisation in each episode.
        pushes: (m/s, s): kicks of that speed in a random horizontal direction, that far apart.
        friction: sliding friction of the geoms that the task randomises, or of all.
        mass: kg added to the body that the task randomises, or to the base.
        gains: factors of kp and kd of each joint.
        delay: of the actuators, s.
        nthread: physics threads, 0: one per CPU.
        motion_loop: begin a reference motion again after its last frame, or hold that; None: as the contract says.
    """

    model: str | Path = "quadruped"
    sim: str | Path | None = None
    contract: Path | None = None
    format: str | None = None
    num_envs: int = 64
    seconds: float | None = None
    seed: int = 0
    command: tuple[float, float, float] | None = None
    randomise: bool = True
    pushes: tuple[float, float] | None = None
    friction: Range | None = None
    mass: Range | None = None
    gains: Range | None = None
    delay: Range | None = None
    nthread: int = 0
    motion_loop: bool | None = None


def check_options(options: RolloutOptions) -> None:
    """Refuse values that cannot be meant, whoever set them."""
    check_count("worlds", options.num_envs, 1, MAX_WORLDS)
    if options.seconds is not None:
        check_seconds(options.seconds)
    check_seed(options.seed)
    check_command(options.command)
    limits = {"friction": FRICTION, "mass": (-1e6, 1e6), "gains": GAINS, "delay": (0.0, 1.0)}
    for name, (low, high) in limits.items():
        value = getattr(options, name)
        if value is not None and not (_numbers(value, 2) and low <= value[0] <= value[1] <= high):
            raise UnsupportedError(
                f"--{name} is wrong", found=value, expected=f"LOW HIGH with {low:g} <= LOW <= HIGH <= {high:g}"
            )
    pushes = options.pushes
    if pushes is not None and not (
        _numbers(pushes, 2) and 0.0 <= pushes[0] <= MAX_PUSH_M_S and 0.0 < pushes[1] <= MAX_SECONDS
    ):
        raise UnsupportedError(
            "--pushes is wrong",
            found=pushes,
            expected=f"a speed of 0 to {MAX_PUSH_M_S:g} m/s, and seconds, above 0 to {MAX_SECONDS:g}",
        )


def check_seconds(seconds: float) -> None:
    """Refuse a length of a run that cannot be meant."""
    if not is_number(seconds) or not 0.0 < seconds <= MAX_SECONDS:
        raise UnsupportedError("--seconds is out of range", found=seconds, expected=f"above 0 to {MAX_SECONDS:g}")


def check_seed(seed: int) -> None:
    """Refuse a seed that is none."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UnsupportedError("--seed is wrong", found=seed, expected="a whole number, 0 or more")


def check_command(command: tuple[float, float, float] | None) -> None:
    """Refuse a command that is none; None: nobody named one."""
    if command is not None and not _numbers(command, 3):
        raise ContractError(
            "--command is wrong",
            found=command,
            expected="three finite numbers: vx, vy in m/s, wz in rad/s; or x, y, z in m",
        )


def overridden(options: RolloutOptions, task: Task) -> Randomisation:
    """The task's randomisation with what the user set in its place."""
    base = task.randomise if options.randomise else Randomisation()
    changes: dict[str, Any] = {}
    if options.pushes is not None:
        speed, interval = options.pushes
        changes |= {"push_interval_s": interval if speed > 0.0 else None, "push_m_s": 0.0, "push_speed_m_s": speed}
    if options.friction is not None:
        changes |= {"friction": options.friction, "friction_geoms": task.randomise.friction_geoms}
    if options.mass is not None:
        body = task.randomise.mass_body or task.base
        if not body:
            raise RobotError(
                f"--mass needs a body, which task '{task.name}' does not name",
                hint="Set base, or [randomise.mass] body, in task.toml",
            )
        changes |= {"mass_add_kg": options.mass, "mass_body": body}
    if options.gains is not None:
        changes |= {"kp": options.gains, "kd": options.gains}
    if options.delay is not None:
        changes["delay_s"] = options.delay
    return replace(base, **changes)


def all_alike(task: Task, command: tuple[float, ...] | None) -> bool:
    """Whether every world does the same: nothing is drawn at a reset, nor on the way."""
    drawn = task.command is not None and command is None
    return not drawn and not task.reset.spread and not described(task.randomise)


def described(randomise: Randomisation) -> dict[str, Any]:
    """What is randomised, as JSON data; what is not is left out."""
    result: dict[str, Any] = {}
    for name in randomise.__dataclass_fields__:
        value = getattr(randomise, name)
        if value not in (None, 0.0, "", ()) and value != {}:
            result[name] = (
                dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
            )
    return result


def command_of(options: RolloutOptions, task: Task, notes: list[str]) -> tuple[float, ...] | None:
    """What every world is asked for; None where the task draws commands, or takes none. An assumption is noted."""
    command = asked(task, options.command)
    if command is None:
        return None
    if options.command is None:
        shown = ", ".join(f"{value:g}" for value in command)
        notes.append(f"the scene draws no commands: every world is asked for {shown}")
    return tuple(command)


def _numbers(values: Any, length: int) -> bool:
    return (
        isinstance(values, (tuple, list))
        and len(values) == length
        and all(is_number(value) and abs(value) <= MAX_MAGNITUDE for value in values)
    )
