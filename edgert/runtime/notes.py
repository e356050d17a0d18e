"""What a user should know before a run starts, one line each: assumptions that would otherwise be made in silence."""

from __future__ import annotations

from edgert.contract.spec import Contract, ObservationTerm
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
        order = f", {spec.history} ticks, {spec.layout} by {spec.layout}" if spec.history > 1 else ""
        lines.append(f"input {name}: {spec.dim} = {terms}{order}")
    action = contract.action
    scale = f"{min(action.scale):g}" if len(set(action.scale)) == 1 else f"{min(action.scale):g}…{max(action.scale):g}"
    assumed = " (not given)" if contract.provenance.get("action.scale") == "default" else ""
    lines.append(f"output {action.output}: {len(action.joints)} joint targets = offset + {scale}{assumed} × action")
    return lines


def _placed(term: ObservationTerm) -> str:
    return f"({term.frame}, {term.point})" if term.name == "base_lin_vel" else ""


def beginning(scene: Scene, task: Task | None) -> str:
    """Where the body starts."""
    model = scene.model
    if scene.keyframe < 0:
        return "the scene has no keyframe: the body starts where the scene puts it, its joints at the default pose"
    spread_by = ", spread as the task resets it" if task is not None else ""
    return f"starts at keyframe '{model.key(scene.keyframe).name}'{spread_by}"


def differences(contract: Contract, task: Task) -> list[str]:
    """Where the policy's contract differs from the task's own, which trained another policy."""
    ours, theirs = contract.to_document(), task.contract.to_document()
    keys = [key for key in ("control_hz", "joints", "inputs", "action", "phase") if ours.get(key) != theirs.get(key)]
    if not keys:
        return []
    return [f"the policy's own contract counts; it differs from that of task '{task.name}' in {', '.join(keys)}"]
