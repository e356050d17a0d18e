"""`Session`: everything that one run of a policy on a simulated body needs, opened, run and closed.

Opening reads the policy, works out its contract, builds the scene for it and starts the network; nothing moves until
`run`. All refusals happen while opening or in the warm-up, before the first command.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from edgert.closing import Closes
from edgert.contract.motion import Motion, looped
from edgert.contract.spec import Contract
from edgert.device import Device
from edgert.errors import ContractError, EdgertError, UnsupportedError
from edgert.files import is_path
from edgert.policy import LoadedPolicy, OnnxPolicy
from edgert.policy.placing import Placed, place
from edgert.policy.where import Where, on_chips
from edgert.robot import SimRobot
from edgert.rollout.columns import columns
from edgert.rollout.folder import FolderSink
from edgert.rollout.log import finished
from edgert.rollout.options import check_command, check_seconds, check_seed
from edgert.rollout.provenance import recording_header
from edgert.rollout.sink import Column, Sink
from edgert.runtime import summary
from edgert.runtime.controller import Controller
from edgert.runtime.log import RunLog
from edgert.runtime.loop import FallRule, Trace, check_ticks, run_loop, warm_up
from edgert.runtime.tracking import TrackingError
from edgert.sim.actuators import Actuators
from edgert.sim.drives import build_for
from edgert.sim.motion import in_scene, start_of
from edgert.sim.protocol import Floats
from edgert.sim.scene import Scene, drive_summary, physics_steps
from edgert.task.commands import default_command
from edgert.task.draws import ResetDraws, spread
from edgert.task.notes import beginning, differences, following, meaning, outside, overrides
from edgert.task.place import default_sim, place_of
from edgert.task.rewards import RewardInputs
from edgert.task.suits import out_of_reach
from edgert.task.task import Task, fall_from


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Where):
    """What the user asked for."""

    model: str | Path = "quadruped"
    sim: str | Path | None = None
    contract: Path | None = None
    format: str | None = None
    """How the policy was exported, where several formats fit."""
    command: tuple[float, float, float] | None = None
    seconds: float = 10.0
    seed: int = 0
    real_time: bool = True
    actuators: Actuators = "contract"
    every_output: bool = False
    """Compute every output of the network, for recordings, not only the action."""
    motion_loop: bool | None = None
    """Begin the reference motion again after its last frame; None: as the contract says."""


@dataclass(slots=True, kw_only=True)
class Session(Closes):
    """An opened run. `notes` are what the user should know before it starts, one line each."""

    options: RunOptions
    loaded: LoadedPolicy
    device: Device
    physics_device: Device
    policy: OnnxPolicy
    placed: Placed
    robot: SimRobot
    controller: Controller
    sim_name: str
    task: Task | None
    command: tuple[float, ...]
    steps: int
    nstep: int
    fall: FallRule | None
    start: tuple[Floats, Floats]
    """Initial qpos (nq,) and qvel (nv,)."""
    motion: Motion | None = None
    """The reference of a tracking policy, at the pose of its anchor."""
    notes: list[str] = field(default_factory=list)
    _resources: ExitStack = field(default_factory=ExitStack)

    def run(
        self,
        stop: Callable[[], bool] = lambda: False,
        tick: Callable[[int, Trace], None] = lambda step, trace: None,
        sinks: Sequence[Sink] = (),
    ) -> Trace:
        """Run the loop from the initial state to its end; see `run_loop`.

        Each of the sinks, made for `columns()` or some of them, gets the run as one episode, whatever ends it. If one
        fails after the run, `Trace.unrecorded` says so.
        """
        self.robot.reset(*self.start)
        self.controller.reset()
        self.robot.begin(self.controller.rest())
        logs = [RunLog(self, sink) for sink in sinks]

        criterion = _Criterion(self.task, self.robot, self.controller, self.loaded.contract)
        player = self.controller.player
        tracking = None if player is None else TrackingError(self.robot.allocate(), player.state)

        def each(step: int, trace: Trace) -> None:
            for log in logs:
                log.tick(step, trace)
            criterion.see()
            if tracking is not None:
                tracking.see()
            tick(step, trace)

        def finish(reason: str, outcome: str = "interrupted") -> None:
            for log in logs:
                log.finish(outcome, reason)

        with finished(finish):
            trace = run_loop(
                self.robot,
                self.controller,
                steps=self.steps,
                nstep=self.nstep,
                real_time=self.options.real_time,
                fall=self.fall,
                stop=stop,
                tick=each,
            )
        criterion.see()
        trace.success = criterion.met() if trace.outcome == "completed" else None
        trace.warnings = self.robot.warnings()
        trace.tracking = {} if tracking is None else tracking.metrics()
        try:
            finish(trace.reason, trace.outcome)
        except EdgertError as error:
            trace.unrecorded = error
        return trace

    def columns(self) -> list[Column]:
        """What a recording of this run holds, besides the columns of every recording."""
        joints, model = len(self.loaded.contract.joints), self.robot.scene.model
        return columns(self.policy, model, joints, rewarded=False, judged=False)

    def folder(self, path: Path) -> FolderSink:
        """A sink that records this run into the folder `path`; close it after the run."""
        header = recording_header(
            self.header(),
            contract=self.loaded.contract,
            scene=self.robot.scene.path,
            task=self.task,
            clock="monotonic" if self.options.real_time else "simulated",
        )
        return FolderSink(path, self.columns(), header)

    def header(self) -> dict[str, Any]:
        """What was run, on what: shared by the report and by recordings."""
        contract, options = self.loaded.contract, self.options
        return {
            "policy": str(self.loaded.file.path),
            "policy_sha256": self.loaded.file.sha256,
            "contract_sha256": contract.sha256(),
            "contract_sources": list(self.loaded.sources),
            "contract_overrides": list(self.loaded.overrides),
            "sim": self.sim_name,
            "scene": str(self.robot.scene.path),
            **on_chips(self.device, self.physics_device, provider=self.policy.provider),
            "actuators": options.actuators,
            "real_time": options.real_time,
            "seed": options.seed,
            "control_hz": contract.control_hz,
            **({} if self.motion is None else {"motion": self.motion.report()}),
        }

    def report(self, trace: Trace) -> dict[str, Any]:
        """The run as one JSON object; keys are promises, see docs/json.md."""
        contract = self.loaded.contract
        simulated = trace.steps * contract.period_s
        twist = contract.command is not None and contract.command.kind == "twist"
        motion = summary.motion(trace, contract.period_s) if self.fall is not None else {}
        report: dict[str, Any] = {
            **self.header(),
            "placement": self.placed.report(),
            "seconds": simulated,
            "steps": trace.steps,
            "latency_us": summary.latency_us(trace),
            "deadline_misses": trace.deadline_misses,
            "skipped_slots": trace.skipped_slots,
            "real_time_factor": simulated / trace.wall_s if trace.wall_s > 0.0 else 0.0,
            "loop_cpu_percent": 100.0 * trace.cpu_s / trace.wall_s if trace.wall_s > 0.0 else 0.0,
            "outcome": trace.outcome,
            "reason": trace.reason,
            "notes": self.notes,
            "physics_warnings": trace.warnings,
            **({} if trace.success is None else {"success": trace.success}),
            "metrics": summary.metrics(trace, self.command if twist else (), motion.get("mean_velocity"))
            | trace.tracking,
        }
        distance = self.goal_distance()
        if distance is not None:
            report["metrics"]["goal_error_m"] = distance
        return report | motion | ({"command": list(self.command)} if self.command else {})

    def goal_distance(self) -> float | None:
        """Present distance of the end effector from the commanded position, m; None without either."""
        spec = self.loaded.contract
        sensors = [term.sensors[0] for each in spec.inputs.values() for term in each.terms if term.name == "ee_pos"]
        if spec.command is None or spec.command.kind != "position" or not sensors:
            return None
        return float(np.linalg.norm(self.robot.allocate().sensors[sensors[0]][0] - self.command))

    def close(self) -> None:
        """Damp and release everything."""
        self._resources.close()


class _Criterion:
    """For how many ticks the task's criterion of success has held."""

    def __init__(self, task: Task | None, robot: SimRobot, controller: Controller, contract: Contract) -> None:
        # The task's own joints are what its criterion counts by.
        fits = task is not None and task.contract.joints == contract.joints
        self._rule = task.success if fits and task is not None else None
        self._held = 0
        if self._rule is not None:
            self._needed = self._rule.hold_ticks(contract.control_hz)
            self._inputs = RewardInputs(
                state=robot.allocate(),
                command=controller.command,
                velocity=None,
                gravity=None,
                action=None,
                last_action=None,
                joint_error=None,
                phase_rad=None,
            )

    def see(self) -> None:
        """Look at the observed state."""
        if self._rule is not None:
            holds = bool(self._rule.function(self._inputs, self._rule.parameters, np)[0])
            self._held = self._held + 1 if holds else 0

    def met(self) -> bool | None:
        """Whether it holds, and for as long as the task asks; None without a criterion."""
        return None if self._rule is None else self._held >= self._needed


def open_session(options: RunOptions) -> Session:
    """Open a run, or refuse it with the reason.

    Raises:
        EdgertError: the policy, contract, scene, device or command cannot be used or do not fit together.
    """
    _check(options)
    device, physics_device = options.devices()
    chosen = place_of(options.sim, options.model)
    task = chosen.task
    loaded = chosen.load(options.model, options.contract, options.format)
    contract = loaded.contract
    base = task.base if task is not None else ""
    scene = build_for(contract, chosen.scene, base=base, actuators=options.actuators)
    nstep = physics_steps(contract.control_hz, scene)
    steps = max(1, round(options.seconds * contract.control_hz))
    check_ticks(steps)
    notes = [
        *loaded.notes,
        *overrides(loaded.overrides),
        *meaning(contract),
        drive_summary(scene, options.actuators),
        *scene.held.notes(),
        *out_of_reach(contract, scene),
    ]
    if options.sim is None and is_path(options.model):
        notes.append(f"no --sim is given: it runs in the bundled sim '{default_sim(options.model)}'")
    if task is not None:
        notes += differences(contract, task.contract, task.name)
    command = _command(options, contract, task, notes)
    with ExitStack() as resources:
        policy, placed = place(
            lambda on, placement: OnnxPolicy(loaded, on, every_output=options.every_output, placement=placement),
            device,
            options.placement(rows=1),
            loaded.file.sha256,
        )
        resources.callback(policy.close)
        notes += placed.notes()
        robot = resources.enter_context(SimRobot(scene, contract, gains_from_scene=options.actuators == "scene"))
        motion = in_scene(looped(policy.motion, options.motion_loop), contract, scene)
        start = _start(robot, scene, task, options.seed, motion, contract.default_pos)
        notes += [beginning(scene, task)] if motion is None else following(motion)
        controller = Controller(policy, robot.allocate(), command, robot.name, motion)
        robot.begin(controller.rest())
        warm_up(robot, controller, robot.allocate())
        return Session(
            options=options,
            loaded=loaded,
            device=device,
            physics_device=physics_device,
            policy=policy,
            placed=placed,
            robot=robot,
            controller=controller,
            sim_name=task.name if task is not None else str(chosen.scene),
            task=task,
            command=command,
            steps=steps,
            nstep=nstep,
            fall=_fall_rule(task, scene, robot, motion),
            start=start,
            motion=motion,
            notes=[*notes, *robot.body.notes(contract.period_s if options.real_time else math.inf)],
            _resources=resources.pop_all(),
        )


def _check(options: RunOptions) -> None:
    """Refuse values that cannot be meant, whoever set them."""
    check_seconds(options.seconds)
    check_seed(options.seed)
    check_command(options.command)
    if options.actuators not in get_args(Actuators):
        raise UnsupportedError("--actuators is wrong", found=options.actuators, expected=", ".join(get_args(Actuators)))


def _command(options: RunOptions, contract: Contract, task: Task | None, notes: list[str]) -> tuple[float, ...]:
    spec = contract.command
    if spec is None:
        if options.command is not None:
            raise ContractError(
                "this policy takes no command", found=f"--command {options.command}", hint="Leave it out"
            )
        return ()
    command = default_command(spec, task) if options.command is None else options.command
    notes += outside(spec, command)
    return command


def _start(
    robot: SimRobot, scene: Scene, task: Task | None, seed: int, motion: Motion | None, default_pos: Sequence[float]
) -> tuple[Floats, Floats]:
    """The initial state: in a motion's first frame; else as the task resets it, or exactly where the scene starts."""
    qpos, qvel = robot.sim.view("qpos").copy(), robot.sim.view("qvel").copy()
    if motion is not None:
        start = start_of(scene, motion, default_pos)
        robot.reset(*start)
        return start
    if task is not None:
        draws = ResetDraws(len(scene.joints), 0)
        rows = np.random.default_rng(seed).random((1, draws.width))
        spread(qpos, qvel, scene, task.reset, draws, rows)
    robot.reset(qpos[0], qvel[0])
    return qpos[0], qvel[0]


def _fall_rule(task: Task | None, scene: Scene, robot: SimRobot, motion: Motion | None) -> FallRule | None:
    """The task's rule, or that of the height at which the base starts."""
    if scene.base is None:
        return None
    if task is not None and task.fall is not None:
        return FallRule(tilt_rad=task.fall.tilt_rad, height_m=task.fall.height_m)
    height = float(robot.sim.view("qpos")[0, scene.base_qpos_adr + 2])
    rule = fall_from(scene, height, motion)
    return FallRule(tilt_rad=rule.tilt_rad, height_m=rule.height_m)
