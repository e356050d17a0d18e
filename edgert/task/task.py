"""`Task`: scene, contract, episode, rewards, terminations, resets and randomisation, read from `task.toml`.

A task is data. Unknown keys and wrong types are refused with the file, the key and the valid ones; `Worlds` runs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import pi
from pathlib import Path

from edgert import assets
from edgert.contract.document import check_schema, overlay, parse_contract
from edgert.contract.motion import Motion
from edgert.contract.spec import Contract
from edgert.errors import ContractError, some
from edgert.files import files_in, is_path
from edgert.sim.drives import build_for
from edgert.sim.motion import extent, in_scene, start_of
from edgert.sim.scene import MAX_DECIMATION, Scene, physics_steps
from edgert.tables import Table, read_toml, show
from edgert.task.rewards import REWARDS, RewardTerm
from edgert.task.sampling import (
    MAX_EPISODE_S,
    CommandSampling,
    GoalSampling,
    Randomisation,
    ResetRanges,
    read_randomisation,
    read_reset,
    read_sampling,
)
from edgert.task.success import SuccessRule, read_success
from edgert.task.trials import Trials, read_trials

FALLEN_TILT_RAD = 1.0
FALLEN_HEIGHT = 0.5
"""Without a task, a base lower than this fraction of its initial height counts as fallen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallTermination:
    """The base leans or sinks too far."""

    tilt_rad: float
    height_m: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # rewards hold arrays, which have no one answer to ==
class Task:
    """One task. `episode_steps` control steps make an episode; the control period is decimation × timestep."""

    name: str
    id: str
    scene: Path
    contract: Contract
    decimation: int
    episode_s: float
    base: str
    command: CommandSampling | GoalSampling | None
    rewards: tuple[RewardTerm, ...]
    fall: FallTermination | None
    success: SuccessRule | None
    reset: ResetRanges
    randomise: Randomisation
    trials: Trials | None = None
    sha256: str = ""
    """Digest of the task's file, "" for a task that has none."""
    trained: Contract | None = None
    """The contract of the task's own file, where another one counts."""

    @property
    def episode_steps(self) -> int:
        """Control steps of a full episode."""
        return max(1, round(self.episode_s * self.contract.control_hz))


def load_task(name: str | Path, contract: Contract | None = None) -> Task:
    """The task of a bundled sim, or of a folder or `task.toml` of your own.

    With a `contract` of a policy, that counts instead of the task's own, at its own rate.

    Raises:
        UnknownNameError: no bundled sim has that name.
        ContractError: the file cannot be read, or a key is unknown, missing or wrong.
    """
    return read_task(name).task(contract)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A `task.toml` as it was read, from which tasks under several contracts can be made."""

    path: Path
    document: Mapping[str, object]
    sha256: str

    def task(self, contract: Contract | None = None) -> Task:
        """The task; see `load_task`."""
        return replace(parse_task(self.document, self.path, contract), sha256=self.sha256)


def read_task(name: str | Path) -> TaskFile:
    """The file of a task; see `load_task`."""
    if isinstance(name, str) and not is_path(name):
        path = assets.find("sims", name) / "task.toml"
    else:
        path = Path(name)
        path = path if path.suffix == ".toml" else path / "task.toml"
        scenes = "" if path.exists() else files_in(path.parent, ".xml")
        if scenes:
            raise ContractError(
                f"folder {path.parent} holds no {path.name}",
                expected="a task, or the path of a scene",
                hint=f"Name the scene itself: {scenes}",
            )
    document = read_toml(path, kind="task")
    return TaskFile(path=path, document=document, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def scene_task(path: Path, contract: Contract, episode_s: float, motion: Motion | None = None) -> Task:
    """A task made of a bare scene: the policy's contract, no rewards and nothing randomised.

    A floating base has fallen when it leans more than 1 rad or sinks below `FALLEN_HEIGHT` of its first height; see
    `fall_from` for one that follows a motion.

    Raises:
        IntegrityError, RobotError: the scene cannot be used for the contract.
    """
    scene = build_for(contract, path)
    model, fall = scene.model, None
    if scene.base is not None:
        start = model.key_qpos[scene.keyframe] if scene.keyframe >= 0 else model.qpos0
        motion = in_scene(motion, contract, scene)
        if motion is not None:
            start, _ = start_of(scene, motion, contract.default_pos)
        fall = fall_from(scene, float(start[scene.base_qpos_adr + 2]), motion)
    return Task(
        name=str(path),
        id="",
        scene=path,
        contract=contract,
        decimation=physics_steps(contract.control_hz, scene),
        episode_s=episode_s,
        base=scene.base or "",
        command=None,
        rewards=(),
        fall=fall,
        success=None,
        reset=ResetRanges(),
        randomise=Randomisation(),
    )


def fall_from(scene: Scene, start_m: float, motion: Motion | None) -> FallTermination:
    """When a base that starts at that height counts as fallen; a motion may lean and crouch by itself."""
    lean, lowest = (motion and extent(scene, motion)) or (0.0, start_m)
    rule = fall_below(min(start_m, lowest))
    return replace(rule, tilt_rad=min(pi, rule.tilt_rad + lean))


def fall_below(start_m: float) -> FallTermination:
    """When a base that starts at that height counts as fallen, where no task says so."""
    return FallTermination(tilt_rad=FALLEN_TILT_RAD, height_m=FALLEN_HEIGHT * max(0.0, start_m))


def parse_task(document: Mapping[str, object], path: Path, policy: Contract | None = None) -> Task:
    """A `Task` from a parsed document; `path` locates the scene and names errors; see `load_task`."""
    table = Table(document, str(path))
    check_schema(table)
    contract_table = table.table("contract")
    provenance: dict[str, str] = {}
    ours = overlay({}, contract_table.data, "task", provenance)
    own = parse_contract({"schema": 1, **ours}, f"{path} [contract]", provenance)
    contract = policy or own
    _check_policy(contract, own, path)
    decimation = table.integer("decimation", lo=1, hi=MAX_DECIMATION)
    scene = _scene_path(table, path)
    rewards_table = table.table("rewards")
    rewards = rewards_table.each(lambda key, entry: _reward(rewards_table, key, entry, contract))
    task = Task(
        name=path.parent.resolve().name,
        id=table.text("id", ""),
        scene=scene,
        contract=contract,
        decimation=max(1, round(decimation * own.control_hz / contract.control_hz)),
        episode_s=table.number("episode_s", above=0.0, hi=MAX_EPISODE_S),
        base=table.text("base", ""),
        command=read_sampling(table, own) if table.has("command") else None,
        rewards=tuple(rewards.values()),
        fall=_fall(table) if table.has("terminations") else None,
        success=read_success(table.table("success"), contract.joints, MAX_EPISODE_S) if table.has("success") else None,
        reset=read_reset(table, own) if table.has("reset") else ResetRanges(),
        randomise=read_randomisation(table, own) if table.has("randomise") else Randomisation(),
        trials=read_trials(table.table("trials"), own, MAX_EPISODE_S) if table.has("trials") else None,
        trained=None if policy is None else own,
    )
    table.close()
    _check_trials(task, path)
    if (own.command is None) != (task.command is None):
        raise ContractError(
            f"{path}: [command] and [contract.command] go together",
            found="only one of them",
            expected="both, or neither for a task without commands",
        )
    return task


def _check_policy(policy: Contract, own: Contract, path: Path) -> None:
    """Refuse a policy that leaves joints of the task loose, or takes other commands than the task gives."""
    name = path.parent.resolve().name
    loose = [joint for joint in own.joints if joint not in policy.joints]
    if loose:
        raise ContractError(
            f"the policy lacks joints of task '{name}'",
            found=f"no {some(loose)}",
            expected="every joint of its contract in [joints] names",
            hint="Name the policy's own robot with --sim",
        )
    if own.command is not None and (policy.command is None or policy.command.kind != own.command.kind):
        raise ContractError(
            f"task '{name}' asks for what the policy does not take",
            found=f"a policy for {'no command' if policy.command is None else policy.command.kind + ' commands'}",
            expected=f"one for {own.command.kind} commands",
        )


def _check_trials(task: Task, path: Path) -> None:
    """Refuse bars that no policy could meet, because nothing measures them."""
    trials = task.trials
    if trials is None:
        return
    twist = task.contract.command is not None and task.contract.command.kind == "twist"
    for name, is_set, needed in (
        ("min_success", trials.min_success is not None and task.success is None, "[success]"),
        ("within", bool(trials.within) and not twist, "a twist as [contract.command]"),
        ("max_drift_m_s", trials.max_drift_m_s is not None and not twist, "a twist as [contract.command]"),
    ):
        if is_set:
            raise ContractError(f"{path}: key 'trials.{name}' cannot be measured", expected=needed)


def _scene_path(table: Table, path: Path) -> Path:
    name = table.text("scene")
    folder = path.parent.resolve()
    try:
        scene = (folder / name).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL
        table.fail("scene", found=show(name), expected="the name of a file")
    if not scene.is_relative_to(folder):
        table.fail("scene", found=name, expected="a file inside the task's folder")
    return scene


def _reward(table: Table, key: str, entry: Table, contract: Contract) -> RewardTerm:
    kind = REWARDS.get(key)
    if kind is None:
        table.fail(key, found=f"unknown reward '{key}'", expected="one of " + ", ".join(sorted(REWARDS)))
    return RewardTerm(
        name=key,
        weight=entry.number("weight"),
        function=kind.function,
        parameters=kind.read(entry, contract.joints),
    )


def _fall(table: Table) -> FallTermination:
    entry = table.table("terminations")
    fall = entry.table("fall")
    result = FallTermination(
        tilt_rad=fall.number("tilt_rad", above=0.0, hi=3.2), height_m=fall.number("height_m", 0.0, lo=0.0)
    )
    fall.close()
    entry.close()
    return result


def check_rate(task: Task, scene: Scene) -> None:
    """Refuse a task whose decimation and timestep do not give the contract's control rate."""
    if physics_steps(task.contract.control_hz, scene) != task.decimation:
        hz = 1.0 / (task.decimation * float(scene.model.opt.timestep))
        raise ContractError(
            f"task '{task.name}': decimation {task.decimation} at timestep {scene.model.opt.timestep:g} s "
            "gives another control rate",
            found=f"{hz:g} Hz",
            expected=f"contract.control_hz = {task.contract.control_hz:g}",
        )
