"""What a user should know before a run starts, one line each: assumptions that would otherwise be made in silence."""

from __future__ import annotations

from collections.abc import Sequence

from edgert.contract.motion import Motion
from edgert.contract.spec import CommandSpec, Contract, ObservationTerm
from edgert.sim.scene import Scene
from edgert.task.task import Task


def meaning(contract: Contract) -> list[str]:
    """The effective contract in a line for each input and one for the action."""
    lines = []
    for name, spec in contract.inputs.items():
        terms = " + ".join(
            f"{term.name}{_placed(term)} {term.dim}{f' × {term.history}' if term.history > 1 else ''}"
            for term in spec.terms
        )
        first = ", newest first" if spec.newest == "first" else ""
        order = f", {spec.history} ticks, {spec.layout} by {spec.layout}{first}" if spec.history > 1 else ""
        lines.append(f"input {name}: {spec.dim} = {terms}{order}")
    action = contract.action
    scale = f"{min(action.scale):g}" if len(set(action.scale)) == 1 else f"{min(action.scale):g}…{max(action.scale):g}"
    start = "position + " if action.relative else ""
    kinds = "joint" if action.positions_only else "position, velocity and torque"
    outputs = " + ".join((" and ".join(action.outputs), *action.added))
    assumed = " (not given)" if contract.provenance.get("action.scale") == "default" else ""
    count = f"{len(action.joints)} {kinds} target{'s' if len(action.joints) > 1 else ''}"
    lines.append(f"output {outputs}: {count} = {start}offset + {scale}{assumed} × action")
    if contract.recurrent:
        states = ", ".join(f"{state} from {output}" for state, output in contract.recurrent.items())
        lines.append(f"memory {states}, 0 at the beginning of an episode")
    return lines


def outside(spec: CommandSpec, command: Sequence[float]) -> list[str]:
    """A warning for each component of a command that is outside the range that the policy was trained for."""
    return [
        f"warning: command {key.split('_')[0]} = {value:g} is outside the trained range {trained[0]:g} … {trained[1]:g}"
        for key, value, trained in zip(spec.keys, command, spec.ranges, strict=True)
        if trained is not None and not trained[0] <= value <= trained[1]
    ]


def overrides(loaded_overrides: Sequence[str]) -> list[str]:
    """Fields that a sidecar or the user replaced, from "field: source"."""
    return [f"{name} overridden by {source}" for name, source in (each.split(": ", 1) for each in loaded_overrides)]


def unmet(task: Task, episode_steps: int) -> list[str]:
    """A warning if episodes of so many control steps are too short to succeed."""
    rule, hz = task.success, task.contract.control_hz
    if rule is None or rule.hold_ticks(hz) <= episode_steps:
        return []
    end_s = episode_steps / hz
    return [f"warning: no episode succeeds: it ends after {end_s:g} s, and has to do so for {rule.hold_s:g} s"]


def _placed(term: ObservationTerm) -> str:
    """What a term says beyond its name, in brackets: a velocity's point, the components, the scale."""
    said = [term.frame, term.point] if term.name == "base_lin_vel" else []
    if term.index:
        said.append(f"number {', '.join(map(str, term.index))}")
    if set(term.scale) != {1.0}:
        low, high = min(term.scale), max(term.scale)
        said.append(f"× {low:g}" if low == high else f"× {low:g}…{high:g}")
    return f"({', '.join(said)})" if said else ""


def beginning(scene: Scene, task: Task | None) -> str:
    """Where the body starts."""
    model = scene.model
    if scene.keyframe < 0:
        return "the scene has no keyframe: the body starts where the scene puts it, its joints at the default pose"
    return f"starts at keyframe '{model.key(scene.keyframe).name}'{_spread(task)}"


def _spread(task: Task | None) -> str:
    return ", spread as the task resets it" if task is not None and task.reset.spread else ""


def following(motion: Motion, task: Task | None = None) -> list[str]:
    """What was done to a reference motion, how it ends, and where the body starts, spread as a task does it."""
    end = "begins again" if motion.loop else "is held at its last frame"
    return [
        *motion.notes,
        f"{motion.source} takes {motion.seconds:g} s and {end}",
        f"starts in the first frame of {motion.source}{_spread(task)}",
    ]


def differences(contract: Contract, own: Contract | None, task: str) -> list[str]:
    """Where a policy's contract differs from `own`, that of the task of that name; None where the task has none."""
    if own is None:
        return []
    ours, theirs = contract.to_document(), own.to_document()
    keys = [key for key in ("control_hz", "joints", "inputs", "action", "phase") if ours.get(key) != theirs.get(key)]
    robots = ours.get("robot"), theirs.get("robot")
    if all(robots) and robots[0] != robots[1]:
        return [f"warning: the policy is for robot '{robots[0]}', and task '{task}' has '{robots[1]}'"]
    if not keys:
        return []
    return [f"the policy's own contract counts; it differs from that of task '{task}' in {', '.join(keys)}"]
