"""A policy in closed loop with many worlds of a task: episodes, returns, falls, tracking, and rows for a recorder.

World i depends on its seed alone, whatever the number of worlds and threads. An episode ends when the robot falls,
when physics diverges, or at the task's time limit or that of the run; then the world begins another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.contract.motion import looped
from edgert.contract.usable import problem, refuse_start, usable
from edgert.device import Device
from edgert.errors import UnsupportedError
from edgert.policy import LoadedPolicy, OnnxPolicy
from edgert.policy.engine.protocol import Arrays
from edgert.policy.load_motion import load_motion
from edgert.policy.placing import Placed, place
from edgert.policy.where import on_chips
from edgert.rollout.columns import columns
from edgert.rollout.folder import FolderSink
from edgert.rollout.log import RAN_OUT, STOPPED, EpisodeLog, finished
from edgert.rollout.options import (
    RolloutOptions,
    all_alike,
    check_options,
    command_of,
    described,
    overridden,
)
from edgert.rollout.provenance import recording_header
from edgert.rollout.sink import Column, Sink
from edgert.rollout.statistics import without_intervals
from edgert.rollout.tally import EpisodeResult, Stretch, Tally, outcomes, tracking
from edgert.sim.protocol import Mask
from edgert.sim.scene import drive_summary
from edgert.tables import MAX_MAGNITUDE
from edgert.task.notes import beginning, differences, following, meaning, outside, overrides, unmet
from edgert.task.place import place_of
from edgert.task.suits import out_of_reach
from edgert.task.task import Task
from edgert.task.worlds import Worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """What a run showed."""

    episodes: list[EpisodeResult]
    stretches: list[Stretch]
    cut_off: int
    """Episodes that had not ended when the run did."""
    steps: int
    """Control steps of every world."""
    wall_s: float
    outcome: str
    """completed or interrupted."""


@dataclass(slots=True, kw_only=True)
class RolloutSession(Closes):
    """An opened run. `notes` are what the user should know before it starts."""

    options: RolloutOptions
    loaded: LoadedPolicy
    device: Device
    physics_device: Device
    task: Task
    policy: OnnxPolicy
    placed: Placed
    worlds: Worlds
    command: tuple[float, ...] | None
    """What every world is asked for; None where commands are drawn, or none is taken."""
    steps: int
    episode_steps: int
    notes: list[str]
    _resources: ExitStack = field(default_factory=ExitStack)

    def columns(self) -> list[Column]:
        """What a recording of this run holds, besides `INDEX`."""
        joints, model = len(self.task.contract.joints), self.worlds.scene.model
        return columns(self.policy, model, joints, rewarded=bool(self.task.rewards), judged=True)

    @np.errstate(over="ignore", invalid="ignore")  # judged number by number, and not by a warning of NumPy
    def run(
        self,
        *,
        sink: Sink | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Rollouts:
        """Run every world for the same number of control steps.

        Args:
            sink: gets every row and episode; made for `INDEX` and `columns()`.
            progress: called with (control steps done, in all).
            stop: asked before each step; True ends the run as interrupted.
        """
        started = time.perf_counter()
        loop = _Loop(self, sink)
        outcome, done = "completed", 0
        with finished(loop.close):
            while done < self.steps:
                if stop():
                    outcome = "interrupted"
                    break
                loop.step(last=done + 1 == self.steps)
                done += 1
                progress(done, self.steps)
            loop.close(STOPPED if outcome == "interrupted" else RAN_OUT)
        loop.tally.finish()
        return Rollouts(
            episodes=loop.tally.episodes,
            stretches=loop.tally.stretches,
            cut_off=loop.tally.running,
            steps=done,
            wall_s=time.perf_counter() - started,
            outcome=outcome,
        )

    def report(self, result: Rollouts) -> dict[str, Any]:
        """The run as one JSON object; keys are promises, see docs/json.md."""
        contract, n = self.task.contract, self.worlds.nworld
        seconds = result.steps * contract.period_s
        figures = {
            **outcomes(result.episodes, cut_off=result.cut_off, judged=self.task.success is not None),
            "tracking": None if contract.command is None else tracking(result.stretches, contract.command.keys),
        }
        report = {
            **self.header(),
            "placement": self.placed.report(),
            "seconds": seconds,
            "steps": result.steps,
            "steps_per_s": n * result.steps / result.wall_s if result.wall_s > 0.0 else 0.0,
            "real_time_factor": n * seconds / result.wall_s if result.wall_s > 0.0 else 0.0,
            "outcome": result.outcome,
            **(without_intervals(figures) if all_alike(self.task, self.command) else figures),
            "notes": self.notes,
        }
        motion = self.worlds.motion
        report |= {} if motion is None else {"motion": motion.report()}
        return report | ({"command": list(self.command)} if self.command is not None else {})

    def folder(self, path: Path) -> FolderSink:
        """A sink that records this run into the folder `path`; close it after the run."""
        task = self.task
        header = recording_header(self.header(), contract=task.contract, scene=task.scene, task=task)
        return FolderSink(path, self.columns(), header)

    def header(self) -> dict[str, Any]:
        """What was run, on what: shared by the report and by recordings."""
        loaded, task, options = self.loaded, self.task, self.options
        return {
            "policy": str(loaded.file.path),
            "policy_sha256": loaded.file.sha256,
            "contract_sha256": task.contract.sha256(),
            "sim": task.name,
            "scene": str(task.scene),
            **on_chips(self.device, self.physics_device, provider=self.policy.provider),
            "num_envs": self.worlds.nworld,
            "seed": options.seed,
            "control_hz": task.contract.control_hz,
            "randomise": described(self.worlds.randomise),
        }

    def close(self) -> None:
        """Release everything."""
        self._resources.close()


def open_rollouts(options: RolloutOptions, *, every_output: bool = False) -> RolloutSession:
    """Open a run, or refuse it with the reason.

    Raises:
        EdgertError: the policy, the task or an option cannot be used, or they do not fit together.
    """
    check_options(options)
    device, physics_device = options.devices()
    chosen = place_of(options.sim, options.model)
    loaded = chosen.load(options.model, options.contract, options.format)
    contract = loaded.contract
    motion = looped(load_motion(loaded), options.motion_loop)
    notes = [*loaded.notes, *overrides(loaded.overrides), *meaning(contract)]
    task = chosen.under(contract, options.seconds, motion)
    command = command_of(options, task, notes)
    steps = max(1, round((options.seconds or task.episode_s) * contract.control_hz))
    episode_steps = min(task.episode_steps, steps)
    with ExitStack() as resources, _room_for(options.num_envs):
        task = replace(task, randomise=overridden(options, task))
        worlds = resources.enter_context(
            Worlds(task, options.num_envs, nthread=options.nthread, command=command, motion=motion)
        )
        policy, placed = place(
            lambda on, how: OnnxPolicy(loaded, on, options.num_envs, every_output=every_output, placement=how),
            device,
            options.placement(rows=options.num_envs),
            loaded.file.sha256,
        )
        resources.callback(policy.close)
        notes += placed.notes()
        worlds.observe_in({name: array.dtype for name, array in policy.obs.items()})
        notes += [drive_summary(worlds.scene, "contract"), *worlds.scene.held.notes(), *worlds.body.notes()]
        notes += [beginning(worlds.scene, task)] if worlds.motion is None else following(worlds.motion, task)
        notes += [*differences(contract, task.trained, task.name), *out_of_reach(contract, worlds.scene)]
        if command is not None and contract.command is not None:
            notes += outside(contract.command, command)
        if policy.runs > 1:
            notes.append(f"the model takes fewer worlds at a time: it runs {policy.runs} times for one step of all")
        notes += unmet(task, episode_steps)
        if all_alike(task, command):
            notes.append(
                "warning: nothing differs between the worlds: they are one sample, whatever their number; --pushes, "
                "--friction, --mass, --gains or --delay make them differ"
            )
        return RolloutSession(
            options=options,
            loaded=loaded,
            device=device,
            physics_device=physics_device,
            task=task,
            policy=policy,
            placed=placed,
            worlds=worlds,
            command=command,
            steps=steps,
            episode_steps=episode_steps,
            notes=notes,
            _resources=resources.pop_all(),
        )


@contextmanager
def _room_for(num_envs: int) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise UnsupportedError(
            f"{num_envs} worlds do not fit into the memory that is free", found=error, hint="Run fewer at once"
        ) from error


class _Loop:
    """One step of every world after the other."""

    def __init__(self, session: RolloutSession, sink: Sink | None) -> None:
        worlds = self._worlds = session.worlds
        self._policy, self._episode_steps = session.policy, session.episode_steps
        everyone = np.ones(worlds.nworld, np.bool_)
        worlds.seed([np.random.default_rng(session.options.seed + i) for i in range(worlds.nworld)])
        worlds.reset()
        self.tally = Tally(worlds)
        self._log = _Log(session, sink) if sink is not None else _NoLog()
        self._begin(everyone)
        self._observation = worlds.observe()
        self._first = True

    def step(self, *, last: bool) -> None:
        """One control step; worlds whose episode ended begin another one, unless it was the last step."""
        worlds, log = self._worlds, self._log
        action, stopped = self._act()
        if self._first and stopped.all():
            self._refuse()
        self._first = False
        log.seen(self._policy.obs)  # now, as networks hand each other numbers in them
        worlds.step(action)
        self.tally.step()
        ended = worlds.terminated | stopped
        truncated = (worlds.steps >= self._episode_steps) & ~ended
        log.moved(ended, truncated)
        worlds.resample()
        self.tally.commanded(~ended)
        self._observation = worlds.observe()
        done = ended | truncated
        if done.any():
            log.ended(self._observation, self.tally.end(done, stopped))
            if not last:
                worlds.reset(done)
                for name, rows in worlds.observe(done).items():
                    self._observation[name][done] = rows
                self._begin(done)

    def _act(self) -> tuple[npt.NDArray[Any], Mask]:
        """Actions (nworld, nact) that physics can take, and the worlds (nworld,) that gave or saw no usable number."""
        policy = self._policy
        for name, array in policy.obs.items():
            array[:] = self._observation[name]
        begin = time.perf_counter_ns()
        policy.act(policy.obs, policy.out)
        self._log.acted(time.perf_counter_ns() - begin)
        stopped = np.zeros(len(policy.action), np.bool_)
        stopped |= ~usable(policy.action, MAX_MAGNITUDE).all(axis=1)
        for array in policy.obs.values():
            if array.dtype.kind == "f":
                stopped |= ~usable(array, np.inf).all(axis=1)
        return (np.where(stopped[:, None], 0.0, policy.action) if stopped.any() else policy.action), stopped

    def _refuse(self) -> NoReturn:
        policy = self._policy
        observed = {name: array[0] for name, array in policy.obs.items()}
        refuse_start(policy.name, problem(policy.contract, observed, policy.action[0], np.zeros(0)))

    def _begin(self, mask: Mask) -> None:
        self._policy.reset(mask)
        self.tally.begin(mask)
        self._log.begun(mask)

    def close(self, reason: str) -> None:
        """The run is over, or broken off; episodes that go on end for that reason."""
        self._log.close(self._observation, reason)


class _NoLog:
    """Nothing is recorded."""

    def begun(self, mask: Mask) -> None: ...
    def seen(self, observation: Arrays) -> None: ...
    def acted(self, latency_ns: int) -> None: ...
    def moved(self, terminated: Mask, truncated: Mask) -> None: ...
    def ended(self, observation: Arrays, results: dict[int, EpisodeResult]) -> None: ...
    def close(self, observation: Arrays, reason: str) -> None: ...


class _Log(_NoLog):
    """Rows of a run."""

    def __init__(self, session: RolloutSession, sink: Sink) -> None:
        worlds, policy = session.worlds, session.policy
        self._worlds = worlds
        self._log = EpisodeLog(sink, worlds.nworld, session.options.seed, worlds.contract.period_s)
        self._inputs = [name for name in policy.obs if f"observation.{name}" in self._log.wanted]
        qpos, qvel = worlds.sim.view("qpos"), worlds.sim.view("qvel")
        self._seen = self._wanted({"command": worlds.command, "state.qpos": qpos, "state.qvel": qvel})
        outputs = {f"output.{name}": array for name, array in policy.out.items()}
        asked = worlds.asked
        self._sent = self._wanted({"target": asked.q, "target_velocity": asked.qd, "target_torque": asked.tau})
        self._done = self._wanted(outputs | {"action": policy.action})

    def _wanted(self, sources: dict[str, npt.NDArray[Any]]) -> list[tuple[str, npt.NDArray[Any]]]:
        return [(name, array) for name, array in sources.items() if name in self._log.wanted]

    def begun(self, mask: Mask) -> None:
        self._log.begin(mask)

    def seen(self, observation: Arrays) -> None:
        put = self._log.recorder.put
        self._log.put_index(self._worlds.steps)
        for name in self._inputs:
            put(f"observation.{name}", observation[name])
        for name, array in self._seen:
            put(name, array)

    def acted(self, latency_ns: int) -> None:
        put = self._log.recorder.put
        put("latency_ns", latency_ns)
        for name, array in self._done:
            put(name, array)

    def moved(self, terminated: Mask, truncated: Mask) -> None:
        put = self._log.recorder.put
        for name, array in self._sent:
            put(name, array)
        if "reward" in self._log.wanted:
            put("reward", self._worlds.reward)
        put("terminated", terminated)
        put("truncated", truncated)
        self._log.recorder.next()

    def ended(self, observation: Arrays, results: dict[int, EpisodeResult]) -> None:
        self.seen(observation)
        self._log.end(
            {
                world: {"outcome": result.outcome, "steps": result.steps, "return": result.episode_return}
                for world, result in results.items()
            }
        )

    def close(self, observation: Arrays, reason: str) -> None:
        self.seen(observation)
        self._log.close(self._worlds.steps, reason)
