"""`Recorder`: rows gathered in memory and handed to a `Sink` in blocks, so that a control step only copies.

It knows nothing of policies and physics: its owner puts the values of a step under the names of columns, then moves to
the next step. All worlds have a row in every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.errors import UnsupportedError
from edgert.rollout.sink import Sink

BLOCK_ROWS: Final = 8_192
BLOCK_BYTES: Final = 64 << 20
MAX_BLOCK_BYTES: Final = 1 << 30


class Recorder:
    """Rows of `nworld` worlds.

    Args:
        sink: takes the blocks; whoever made it closes it.
        nworld: rows of one step.
        block_steps: steps kept before the sink gets them; 0: as many as give about `BLOCK_ROWS` rows, or fewer of very
            wide ones.

    Raises:
        UnsupportedError: a block of that many steps is larger than `MAX_BLOCK_BYTES`.
    """

    def __init__(self, sink: Sink, nworld: int, block_steps: int = 0) -> None:
        self.sink = sink
        self.nworld = nworld
        row_bytes = sum(column.dtype.itemsize * prod(column.shape) for column in sink.columns)
        steps = block_steps or max(1, min(BLOCK_ROWS, BLOCK_BYTES // row_bytes) // nworld)
        if steps * nworld * row_bytes > MAX_BLOCK_BYTES:
            raise UnsupportedError(
                "the recording does not fit into memory while the run goes on",
                found=f"{steps * nworld * row_bytes / 2**30:.1f} GiB for {steps * nworld} rows",
                expected=f"at most {MAX_BLOCK_BYTES / 2**30:g} GiB",
                hint=f"Record fewer {'seconds' if block_steps else 'worlds'} at a time",
            )
        self._block = {column.name: np.zeros((steps, nworld, *column.shape), column.dtype) for column in sink.columns}
        self._final = [column.name for column in sink.columns if column.final]
        self._finals: list[dict[str, npt.NDArray[Any]]] = []
        self._ended: dict[int, Mapping[str, Any]] = {}
        self._kept = np.ones((steps, nworld), np.bool_)
        self._steps = steps
        self._at = 0

    def put(self, name: str, values: Any) -> None:
        """Copy the values (nworld, *shape) of a column for the present step."""
        self._block[name][self._at] = values

    def next(self, worlds: npt.NDArray[np.bool_] | None = None) -> None:
        """The present step is complete: the rows of the mask (None: all worlds) are kept."""
        self._kept[self._at] = True if worlds is None else worlds
        self._at += 1
        if self._at == self._steps:
            self.flush()

    def finish(self, ended: Mapping[int, Mapping[str, Any]], worlds: npt.NDArray[Any]) -> None:
        """End the episodes `ended`, each with what is known of it, by a final observation of `worlds`.

        Its values are those put for the present step, which goes on: only the columns that final rows have are taken.
        """
        self._finals.append({name: self._block[name][self._at][worlds] for name in self._final})
        self._ended |= ended

    def flush(self) -> None:
        """Hand over the rows that are kept, then the final ones."""
        if self._at > 0:
            kept = self._kept[: self._at].reshape(-1)
            rows = {name: block[: self._at].reshape(-1, *block.shape[2:]) for name, block in self._block.items()}
            self.sink.write(rows if kept.all() else {name: values[kept] for name, values in rows.items()})
            self._at = 0
        if self._finals:
            for episode, info in self._ended.items():
                self.sink.end(episode, info)
            finals = {name: np.concatenate([rows[name] for rows in self._finals]) for name in self._final}
            self._finals, self._ended = [], {}
            self.sink.write(finals, final=True)
