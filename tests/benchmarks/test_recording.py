"""What recording costs: runs with it beside runs without, and the sink alone beside bare Arrow, turn and turn about."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.ipc
import pytest

from edgert.rollout import FolderSink, RolloutOptions, open_rollouts
from edgert.rollout.recorder import BLOCK_ROWS
from edgert.rollout.sink import INDEX

NUM_ENVS, ROUNDS, TRIES = 1024, 3, 3
SECONDS = {"quadruped": 0.4, "cartpole": 2.0, "arm_reach": 0.8}
"""So long that a run takes about a second, and making it durable is no more of it than of a real one."""
LEAST_OF_A_RUN, LEAST_OF_THE_SINK = 0.8, 0.5


def alternating(*calls: Callable[[], float], rounds: int = ROUNDS) -> list[float]:
    """The median of what each call gives, over rounds in which they take turns; the first round warms up."""
    results: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        order = range(len(calls)) if number % 2 else reversed(range(len(calls)))
        for which in order:
            value = calls[which]()
            if number > 0:
                results[which].append(value)
    return [statistics.median(each) for each in results]


@pytest.mark.slow
@pytest.mark.parametrize("sim", SECONDS)
def test_a_recorded_run_is_nearly_as_fast(sim: str, tmp_path: Path) -> None:
    """Until everything is durable: the sink is closed, with its fsync, within the time."""
    options = RolloutOptions(model=sim, sim=sim, num_envs=NUM_ENVS, seconds=SECONDS[sim])
    with open_rollouts(options, every_output=True) as session:

        def plain() -> float:
            begin = time.perf_counter()
            result = session.run()
            return NUM_ENVS * result.steps / (time.perf_counter() - begin)

        def recorded() -> float:
            shutil.rmtree(tmp_path / "r", ignore_errors=True)
            begin = time.perf_counter()
            with session.folder(tmp_path / "r") as sink:
                result = session.run(sink=sink)
            return NUM_ENVS * result.steps / (time.perf_counter() - begin)

        for _ in range(TRIES):  # a busy machine disturbs either: one undisturbed try tells what recording costs
            theirs, ours = alternating(plain, recorded)
            if ours / theirs >= LEAST_OF_A_RUN:
                break
    size = sum(file.stat().st_size for file in (tmp_path / "r").iterdir())
    rows = NUM_ENVS * round(SECONDS[sim] * session.task.contract.control_hz)
    print(
        f"{sim}, {NUM_ENVS} worlds: {theirs:,.0f} steps/s, recorded {ours:,.0f} steps/s, ratio {ours / theirs:.3f}; "
        f"{size / rows:.0f} bytes a step"
    )
    assert ours / theirs >= LEAST_OF_A_RUN


def test_the_sink_alone_is_nearly_as_fast_as_arrow(tmp_path: Path) -> None:
    """The same blocks, as NumPy arrays for the sink and as batches that are made before for Arrow's own writer."""
    with open_rollouts(RolloutOptions(model="quadruped", num_envs=1)) as session:
        columns = session.columns()
    rng = np.random.default_rng(0)
    rows: dict[str, Any] = {
        column.name: (100.0 * rng.random((BLOCK_ROWS, *column.shape))).astype(column.dtype)
        for column in (*INDEX, *columns)
    }
    with FolderSink(tmp_path / "model", columns, {"control_hz": 50.0}) as sink:
        sink.write(rows)
    with pyarrow.ipc.open_stream(sink.path.read_bytes()) as reader:
        batch = reader.read_next_batch()
    blocks = 20

    def ours() -> float:
        with FolderSink(tmp_path / "ours", columns, {"control_hz": 50.0}) as sink:
            begin = time.perf_counter()
            for _ in range(blocks):
                sink.write(rows)
            seconds = time.perf_counter() - begin
        shutil.rmtree(tmp_path / "ours")
        return blocks * BLOCK_ROWS / seconds

    def bare() -> float:
        path = tmp_path / "bare.arrows"
        with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, batch.schema) as writer:
            begin = time.perf_counter()
            for _ in range(blocks):
                writer.write_batch(batch)
            seconds = time.perf_counter() - begin
        path.unlink()
        return blocks * BLOCK_ROWS / seconds

    sink_rows_s, arrow_rows_s = alternating(ours, bare)
    ratio, megabytes = sink_rows_s / arrow_rows_s, batch.nbytes / BLOCK_ROWS / 1e6
    print(
        f"sink {sink_rows_s:,.0f} rows/s = {sink_rows_s * megabytes:,.0f} MB/s, bare Arrow {arrow_rows_s:,.0f} rows/s, "
        f"ratio {ratio:.2f}"
    )
    assert ratio >= LEAST_OF_THE_SINK
