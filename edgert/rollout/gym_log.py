"""`EnvLog`: a run against a Gymnasium environment as rows for a `Sink`; its `step` is the `on_step` of the run."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from edgert.rollout.folder import FolderSink
from edgert.rollout.gym_env import EnvSession, EnvStep
from edgert.rollout.log import RAN_OUT, EpisodeLog
from edgert.rollout.provenance import recording_header
from edgert.rollout.sink import Column, Sink


def env_columns(session: EnvSession) -> list[Column]:
    """What a recording of such a run holds, besides the columns of every recording."""
    network, low = session.network, session.worlds.low
    (seen,) = network.obs
    observation, action = network.obs[seen], network.out[session.output]
    flag = np.dtype(np.bool_)
    return [
        Column(name=f"observation.{seen}", dtype=observation.dtype, shape=observation.shape[1:], final=True),
        Column(name="action", dtype=action.dtype, shape=action.shape[1:]),
        Column(name="target", dtype=low.dtype, shape=low.shape),
        *(
            Column(name=f"output.{name}", dtype=array.dtype, shape=array.shape[1:])
            for name, array in network.out.items()
            if name != session.output
        ),
        Column(name="reward", dtype=np.dtype(np.float64)),
        Column(name="terminated", dtype=flag),
        Column(name="truncated", dtype=flag),
        Column(name="latency_ns", dtype=np.dtype(np.int64)),
    ]


def env_folder(session: EnvSession, path: Path) -> FolderSink:
    """A sink that records the run into the folder `path`; close it after the run."""
    options = session.options
    header = {
        "policy": str(session.file.path),
        "policy_sha256": session.file.sha256,
        "output": session.output,
        "env": options.env_id,
        "num_envs": session.worlds.num_envs,
        "device": session.device.name,
        "device_chip": session.device.chip,
        "provider": session.network.provider,
        "seed": options.seed,
        "control_hz": 1.0 / session.worlds.period_s,
    }
    return FolderSink(path, env_columns(session), recording_header(header))


class EnvLog:
    """Rows of one run; `finish` after it."""

    def __init__(self, session: EnvSession, sink: Sink) -> None:
        worlds = session.worlds
        self._session = session
        self._log = EpisodeLog(sink, worlds.num_envs, session.options.seed, worlds.period_s)
        self._steps = np.zeros(worlds.num_envs, np.int64)
        self._returns = np.zeros(worlds.num_envs)
        (self._input,) = session.network.obs
        self._output = session.output
        self._after = np.zeros_like(session.network.obs[self._input])

    def step(self, step: EnvStep) -> None:
        """A step of all environments."""
        log, put = self._log, self._log.recorder.put
        log.begin(step.real & ~log.open)
        log.put_index(self._steps)
        put(f"observation.{self._input}", step.observation)
        for name in ("action", "target", "reward", "terminated", "truncated", "latency_ns"):
            put(name, getattr(step, name))
        for name, array in step.outputs.items():
            if name != self._output:
                put(f"output.{name}", array)
        log.recorder.next(step.real)
        self._steps += step.real
        self._returns += np.where(step.real, step.reward, 0.0)
        self._after[step.real] = step.next_observation[step.real]
        ended = step.real & (step.terminated | step.truncated)
        if ended.any():
            self._put_final()
            log.end(
                {
                    world: {**self._so_far("completed", world), "terminated": bool(step.terminated[world])}
                    for world in np.flatnonzero(ended).tolist()
                }
            )
            self._steps[ended] = 0
            self._returns[ended] = 0.0

    def finish(self, reason: str = RAN_OUT) -> None:
        """The run is over, or broken off; episodes that go on end for that reason, but the one that was stopped."""
        self._put_final()
        stopped = self._session.stopped
        if stopped is not None and self._log.open[stopped]:
            self._log.end({stopped: self._so_far("safety_stop", stopped)})
        self._log.close(self._steps, reason)

    def _so_far(self, outcome: str, world: int) -> dict[str, Any]:
        total = float(self._returns[world])
        return {
            "outcome": outcome,
            "steps": int(self._steps[world]),
            "return": total if isfinite(total) else None,  # JSON has no other numbers
        }

    def _put_final(self) -> None:
        self._log.put_index(self._steps)
        self._log.recorder.put(f"observation.{self._input}", self._after)
