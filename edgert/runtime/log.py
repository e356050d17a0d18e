"""`RunLog`: one run on one body as rows for a `Sink`, in the manner of `edgert.rollout`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from edgert.rollout.recorder import Recorder
from edgert.rollout.sink import Sink
from edgert.runtime.loop import Trace

if TYPE_CHECKING:
    from edgert.runtime.session import Session


class RunLog:
    """The run of `session` as episode 0.

    In real time everything stays in memory until the run is over, because the loop touches no disk; otherwise blocks
    go to the sink on the way.
    """

    def __init__(self, session: Session, sink: Sink) -> None:
        contract, policy, robot = session.loaded.contract, session.policy, session.robot
        real_time = session.options.real_time
        self._recorder = Recorder(sink, 1, session.steps + 1 if real_time else 0)
        self._sink = sink
        self._stamp = robot.allocate().stamp_ns
        self._first_ns = 0
        self._period_ns = None if real_time else round(contract.period_s * 1e9)
        wanted = {column.name for column in sink.columns}
        seen: dict[str, Any] = {f"observation.{name}": array for name, array in policy.obs.items()}
        seen |= {"state.qpos": robot.sim.view("qpos"), "state.qvel": robot.sim.view("qvel")}
        if session.command:
            seen["command"] = session.controller.command
        done: dict[str, Any] = {f"output.{name}": array for name, array in policy.out.items()}
        sent = session.controller.out
        done |= {"action": policy.action, "target": sent.q, "target_velocity": sent.qd, "target_torque": sent.tau}
        self._seen = [(name, array) for name, array in seen.items() if name in wanted]
        self._done = [(name, array) for name, array in done.items() if name in wanted]
        self._timed = "latency_ns" in wanted
        self._ticks = 0
        sink.begin(0, {"world": 0, "seed": session.options.seed, "command": list(session.command)})

    def tick(self, step: int, trace: Trace) -> None:
        """A tick was commanded."""
        recorder = self._recorder
        self._see(step)
        for name, array in self._done:
            recorder.put(name, array)
        if self._timed:
            recorder.put("latency_ns", trace.latency_ns[step])
        recorder.next()
        self._ticks += 1

    def finish(self, outcome: str, reason: str) -> None:
        """The run is over: the body's last state is the final observation."""
        self._see(self._ticks)
        info = {"outcome": outcome, "reason": reason, "steps": self._ticks}
        self._recorder.finish({0: info}, np.array([0]))
        self._recorder.flush()

    def _since_the_beginning_ns(self, step: int) -> int:
        if self._period_ns is not None:
            return step * self._period_ns
        stamp_ns = int(self._stamp[0])  # type: ignore[index]  # a SimRobot stamps what it observes
        if step == 0:
            self._first_ns = stamp_ns
        return stamp_ns - self._first_ns

    def _see(self, step: int) -> None:
        recorder = self._recorder
        recorder.put("step", step)
        recorder.put("t_ns", self._since_the_beginning_ns(step))
        for name, array in self._seen:
            recorder.put(name, array)
