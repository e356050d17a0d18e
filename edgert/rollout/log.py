"""`EpisodeLog`: numbers the episodes of many worlds and files their rows with a `Recorder`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.errors import EdgertError, one_line
from edgert.rollout.recorder import Recorder
from edgert.rollout.sink import Sink

RAN_OUT: Final = "the run ended here"
STOPPED: Final = "stopped by the operator"


@contextmanager
def finished(close: Callable[[str], None]) -> Iterator[None]:
    """Whatever breaks a run off, `close` is called with the reason, so that what was recorded is kept."""
    try:
        yield
    except BaseException as error:
        reason = STOPPED if isinstance(error, KeyboardInterrupt) else one_line(f"{type(error).__name__}: {error}")
        with suppress(EdgertError):  # such as a disk that is full: the first error is the one to tell
            close(reason)
        raise


class EpisodeLog:
    """Episodes of `nworld` worlds; world i began with seed + i.

    Args:
        sink: gets everything; whoever made it closes it.
        nworld: worlds.
        seed: of the first world.
        period_s: control period, s.
    """

    def __init__(self, sink: Sink, nworld: int, seed: int, period_s: float) -> None:
        self.recorder = Recorder(sink, nworld)
        self.wanted = frozenset(column.name for column in sink.columns)
        self._sink = sink
        self._seed = seed
        self._period_ns = round(period_s * 1e9)
        self._worlds = np.arange(nworld)
        self._episode = np.zeros(nworld, np.int64)
        self._open = np.zeros(nworld, np.bool_)
        self._count = np.zeros(nworld, np.int64)
        self._next = 0

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """Worlds (nworld,) with an episode that goes on."""
        return self._open

    def begin(self, mask: npt.NDArray[np.bool_]) -> None:
        """New episodes begin in the worlds of the mask."""
        for world in np.flatnonzero(mask).tolist():
            self._episode[world] = self._next
            about = {"world": world, "seed": self._seed + world, "in_world": int(self._count[world])}
            self._sink.begin(self._next, about)
            self._next += 1
        self._count += mask
        self._open |= mask

    def put_index(self, steps: npt.NDArray[Any]) -> None:
        """Put the columns of every recording for the present step; `steps` (nworld,) since each episode began."""
        put = self.recorder.put
        put("episode", self._episode)
        put("step", steps)
        put("world", self._worlds)
        put("t_ns", steps * self._period_ns)

    def end(self, infos: Mapping[int, Mapping[str, Any]]) -> None:
        """Episodes end; `infos` by world. The columns of their final rows have been put for the present step."""
        worlds = np.array(list(infos))
        self.recorder.finish({int(self._episode[world]): info for world, info in infos.items()}, worlds)
        self._open[worlds] = False

    def close(self, steps: npt.NDArray[Any], reason: str) -> None:
        """Episodes that go on end here as interrupted; their final rows have been put. Nothing is kept back."""
        left = np.flatnonzero(self._open).tolist()
        if left:
            self.end(
                {world: {"outcome": "interrupted", "reason": reason, "steps": int(steps[world])} for world in left}
            )
        self.recorder.flush()
