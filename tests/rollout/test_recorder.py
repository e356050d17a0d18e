"""Rows gathered in blocks: what a sink gets, in which order, and how much memory that may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from edgert.errors import UnsupportedError
from edgert.rollout import Column, MemorySink, Recorder
from edgert.rollout.log import EpisodeLog
from edgert.rollout.recorder import BLOCK_BYTES, BLOCK_ROWS
from edgert.rollout.sink import INDEX, Rows


class Calls(MemorySink):
    """Notes what it was asked."""

    def __init__(self, *columns: Column) -> None:
        super().__init__((*INDEX, *columns))
        self.calls: list[Any] = []

    def begin(self, episode: int, info: Mapping[str, Any]) -> None:
        super().begin(episode, info)
        self.calls.append(("begin", episode))

    def write(self, rows: Rows, *, final: bool = False) -> None:
        super().write(rows, final=final)
        self.calls.append(
            ("final" if final else "rows", [*zip(*(rows[name].tolist() for name in ("episode", "step")), strict=True)])
        )

    def end(self, episode: int, info: Mapping[str, Any]) -> None:
        super().end(episode, info)
        self.calls.append(("end", episode))


SEEN = Column(name="seen", dtype=np.dtype("f8"), shape=(2,), final=True)
DONE = Column(name="done", dtype=np.dtype("i4"))


def fill(recorder: Recorder, step: int) -> None:
    n = recorder.nworld
    recorder.put("episode", np.arange(n))
    recorder.put("step", step)
    recorder.put("seen", np.full((n, 2), step + 0.5))
    recorder.put("done", 10 * step + np.arange(n))


def test_a_block_goes_to_the_sink_when_it_is_full() -> None:
    sink = Calls(SEEN, DONE)
    recorder = Recorder(sink, 2, block_steps=3)
    for step in range(7):
        fill(recorder, step)
        recorder.next()
    assert [len(rows) for _, rows in sink.calls] == [6, 6]
    recorder.flush()
    assert sink.rows("done").tolist() == [10 * step + world for step in range(7) for world in (0, 1)]
    assert sink.rows("seen").tolist() == [[step + 0.5] * 2 for step in range(7) for _ in (0, 1)]
    recorder.flush()
    assert len(sink.calls) == 3  # an empty block is none


def test_the_sink_learns_of_an_end_before_its_final_row_and_after_its_other_rows() -> None:
    sink = Calls(SEEN, DONE)
    recorder = Recorder(sink, 2, block_steps=4)
    fill(recorder, 0)
    recorder.next()
    fill(recorder, 1)
    recorder.finish({1: {"outcome": "fell"}}, np.array([1]))
    assert sink.calls == []
    recorder.next()
    recorder.flush()
    assert sink.calls == [("rows", [(0, 0), (1, 0), (0, 1), (1, 1)]), ("end", 1), ("final", [(1, 1)])]
    assert sink.ended == {1: {"outcome": "fell"}}
    assert set(sink.final_blocks[0]) == {"episode", "step", "world", "t_ns", "seen"}
    assert sink.final_blocks[0]["seen"].tolist() == [[1.5, 1.5]]


def test_rows_of_worlds_that_did_nothing_are_left_out() -> None:
    sink = Calls(SEEN, DONE)
    recorder = Recorder(sink, 3, block_steps=2)
    for step, mask in enumerate(([True, False, True], [False, False, True])):
        fill(recorder, step)
        recorder.next(np.array(mask))
    assert sink.calls == [("rows", [(0, 0), (2, 0), (2, 1)])]
    for step in (2, 3):
        fill(recorder, step)
        recorder.next()
    assert len(sink.calls[-1][1]) == 6  # the mask of a step is that of no other


def test_blocks_are_bounded_in_rows_and_in_bytes() -> None:
    assert Recorder(MemorySink((*INDEX, DONE)), 1)._steps == BLOCK_ROWS
    assert Recorder(MemorySink((*INDEX, DONE)), 1000)._steps == 8
    assert Recorder(MemorySink((*INDEX, DONE)), 100_000)._steps == 1
    wide = Column(name="picture", dtype=np.dtype("u1"), shape=(1000, 1000))
    assert Recorder(MemorySink((*INDEX, wide)), 1)._steps == BLOCK_BYTES // 1_000_024


@pytest.mark.parametrize(
    ("nworld", "block_steps", "line"),
    [
        (1, 10_000_000, "found 1.3 GiB for 10000000 rows, expected at most 1 GiB. Record fewer seconds at a time"),
        (60_000_000, 0, "found 1.6 GiB for 60000000 rows, expected at most 1 GiB. Record fewer worlds at a time"),
    ],
)
def test_what_does_not_fit_into_memory_is_refused(nworld: int, block_steps: int, line: str) -> None:
    columns = (*INDEX, DONE) if block_steps == 0 else (*INDEX, Column(name="x", dtype=np.dtype("f8"), shape=(14,)))
    with pytest.raises(UnsupportedError) as caught:
        Recorder(MemorySink(columns), nworld, block_steps)
    assert str(caught.value) == f"the recording does not fit into memory while the run goes on: {line}"


def test_episodes_of_many_worlds_are_numbered_as_they_begin() -> None:
    sink = Calls(SEEN, DONE)
    log = EpisodeLog(sink, 3, seed=7, period_s=0.02)
    assert log.wanted == {"episode", "step", "world", "t_ns", "seen", "done"}
    log.begin(np.array([True, True, True]))
    assert log.open.all()
    log.put_index(np.array([4, 5, 6]))
    log.end({1: {"outcome": "fell"}})
    assert log.open.tolist() == [True, False, True]
    log.begin(np.array([False, True, False]))
    log.put_index(np.array([5, 0, 7]))
    log.close(np.array([5, 0, 7]), "the run ended here")
    assert sink.begun == {
        0: {"world": 0, "seed": 7, "in_world": 0},
        1: {"world": 1, "seed": 8, "in_world": 0},
        2: {"world": 2, "seed": 9, "in_world": 0},
        3: {"world": 1, "seed": 8, "in_world": 1},
    }
    assert sink.ended == {
        1: {"outcome": "fell"},
        0: {"outcome": "interrupted", "reason": "the run ended here", "steps": 5},
        3: {"outcome": "interrupted", "reason": "the run ended here", "steps": 0},
        2: {"outcome": "interrupted", "reason": "the run ended here", "steps": 7},
    }
    final = {name: sink.rows(name, final=True).tolist() for name in ("episode", "step", "world", "t_ns")}
    assert final == {
        "episode": [1, 0, 3, 2],
        "step": [5, 5, 0, 7],
        "world": [1, 0, 1, 2],
        "t_ns": [100_000_000, 100_000_000, 0, 140_000_000],
    }
