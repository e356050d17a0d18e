"""`Sink`: where recorded rows and episodes go. A folder, memory, and later a spool.

A recording is a table of rows. A row is one control step of one world: what was observed, done and got. The last row
of an episode is its final observation: its columns that need an action are null. Blocks of rows arrive in the order
of time; rows of many episodes may stand in one block, and `episode` and `step` say where each belongs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes

Rows = Mapping[str, npt.NDArray[Any]]
"""Column name to (n, *shape), all of one length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: a number or an array of fixed shape in each row."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    final: bool = False
    """Whether an episode's last row, its final observation, has it too."""


INDEX: Final = (
    Column(name="episode", dtype=np.dtype(np.int64), final=True),  # counts up within a recording
    Column(name="step", dtype=np.dtype(np.int32), final=True),  # 0 at the first observation of an episode
    Column(name="world", dtype=np.dtype(np.int32), final=True),  # 0 for one robot
    Column(name="t_ns", dtype=np.dtype(np.int64), final=True),  # of the observation, since the episode began
)
"""The columns that every recording has."""


class Sink(Protocol):
    """Takes blocks of rows, and what is known of episodes when they begin and end. Whoever made it closes it."""

    @property
    def columns(self) -> Sequence[Column]:
        """Every column, `INDEX` first."""
        ...

    @property
    def acknowledged(self) -> int:
        """How many rows would survive a power cut now."""
        ...

    def begin(self, episode: int, info: Mapping[str, Any]) -> None:
        """An episode begins; `info` is JSON data, such as its seed."""
        ...

    def write(self, rows: Rows, *, final: bool = False) -> None:
        """Take a block of rows. Final rows have the columns with `final` alone. The arrays are not kept."""
        ...

    def end(self, episode: int, info: Mapping[str, Any]) -> None:
        """An episode ended; `info` is JSON data, such as its outcome. Its final row comes with the next write."""
        ...

    def close(self) -> None:
        """Make everything durable and release the storage."""
        ...


class MemorySink(Closes):
    """Keeps copies in memory: for rendering after a run, and for tests."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.blocks: list[dict[str, npt.NDArray[Any]]] = []
        self.final_blocks: list[dict[str, npt.NDArray[Any]]] = []
        self.begun: dict[int, dict[str, Any]] = {}
        self.ended: dict[int, dict[str, Any]] = {}
        self.acknowledged = 0

    def begin(self, episode: int, info: Mapping[str, Any]) -> None:
        """See `Sink.begin`."""
        self.begun[episode] = dict(info)

    def write(self, rows: Rows, *, final: bool = False) -> None:
        """See `Sink.write`."""
        (self.final_blocks if final else self.blocks).append({name: array.copy() for name, array in rows.items()})

    def end(self, episode: int, info: Mapping[str, Any]) -> None:
        """See `Sink.end`."""
        self.ended[episode] = dict(info)

    def rows(self, name: str, *, final: bool = False) -> npt.NDArray[Any]:
        """Every value of a column, in the order of arrival; with `final`, the final ones after them."""
        parts = [block[name] for block in (*self.blocks, *(self.final_blocks if final else ()))]
        return np.concatenate(parts) if parts else np.zeros(0)


class Tee(Closes):
    """Hands everything to several sinks of the same columns."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.sinks = tuple(sinks)
        self.columns = self.sinks[0].columns

    @property
    def acknowledged(self) -> int:
        """What every one of them acknowledges."""
        return min(sink.acknowledged for sink in self.sinks)

    def begin(self, episode: int, info: Mapping[str, Any]) -> None:
        """See `Sink.begin`."""
        for sink in self.sinks:
            sink.begin(episode, info)

    def write(self, rows: Rows, *, final: bool = False) -> None:
        """See `Sink.write`."""
        for sink in self.sinks:
            sink.write(rows, final=final)

    def end(self, episode: int, info: Mapping[str, Any]) -> None:
        """See `Sink.end`."""
        for sink in self.sinks:
            sink.end(episode, info)

    def close(self) -> None:
        """See `Sink.close`."""
        for sink in self.sinks:
            sink.close()
