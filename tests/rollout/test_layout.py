"""Nothing is recorded that could not be read: a sink refuses what a reader would."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollout_examples import HEADER, small_columns, write_small

from edgert.errors import ContractError, EdgertError, UnsupportedError
from edgert.rollout import Column, FolderSink, read
from edgert.rollout.folder import MAX_EVENT_BYTES
from edgert.tables import MAX_FILE_BYTES


def one(name: str = "action", dtype: str = "f4", shape: Any = (2,)) -> Column:
    return Column(name=name, dtype=np.dtype(dtype), shape=shape)


COLUMNS: list[tuple[list[Column], str]] = [
    ([], "found no action"),
    ([one(), one()], "found a name more than once"),
    ([one(), one("episode", "i8", ())], "found a name more than once"),
    ([one(shape=())], "found action"),
    ([one(), one("command")], "found command"),
    ([one(), one("reward")], "found reward"),
    ([one(), one("output.x", shape=(2, 0))], "found output.x"),
    ([one(), one("output.x", shape=(2**20 + 1,))], "found output.x"),
    ([one(), one("output.x", "M8[ns]", ())], "found output.x"),
    ([one(), one("output.x", "U3", ())], "found output.x"),
    ([one(), one("output.x", "c8")], "a column cannot be recorded: found Unsupported numpy type"),
    ([one(), one("output.x", "O")], "a column cannot be recorded: found Unsupported numpy type"),
    ([one(), one("output.x", shape=(2**40,))], "a column cannot be recorded: found Product of shape dimensions"),
    ([one(), one("output.x", shape=(-1,))], "a column cannot be recorded: found shape must have non-negative"),
    ([one(), one("output.\ud800")], "a column cannot be recorded: found 'utf-8' codec can't encode"),
]


@pytest.mark.parametrize(("columns", "text"), COLUMNS)
def test_columns_that_nobody_reads_are_not_recorded(columns: list[Column], text: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        FolderSink(tmp_path / "r", columns, HEADER)
    assert text in str(caught.value)
    assert not (tmp_path / "r").exists()


def deep(levels: int) -> dict[str, Any]:
    return {"a": deep(levels - 1)} if levels else {}


HEADERS: list[tuple[dict[str, Any], str]] = [
    ({}, "what is to be recorded is not laid out as a recording: found no control_hz, expected epoch, control_hz, and"),
    ({"control_hz": 0.0}, "found no control_hz"),
    ({"control_hz": 1e300}, "found no control_hz"),
    (HEADER | {"x": math.nan}, "what the recording says of its run is no JSON: found Out of range float values"),
    (HEADER | {"x": object()}, "what the recording says of its run is no JSON: found Object of type object is not"),
    (HEADER | {"x": "y" * MAX_FILE_BYTES}, "what the recording says of its run is too long: found 10487"),
    (HEADER | {"x": deep(20)}, "what the recording says of its run is nested too deep: expected at most 16 levels"),
]


@pytest.mark.parametrize(("header", "text"), HEADERS)
def test_headers_that_nobody_reads_are_not_recorded(header: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises((UnsupportedError, ContractError)) as caught:
        FolderSink(tmp_path / "r", small_columns(), header)
    assert text in str(caught.value)
    assert not (tmp_path / "r").exists()


def test_a_header_does_not_name_its_own_run(tmp_path: Path) -> None:
    with FolderSink(tmp_path / "r", small_columns(), HEADER | {"schema": 9, "epoch": "mine"}) as sink:
        write_small(sink)
    assert {episode.header["epoch"] for episode in read(tmp_path / "r")} == {sink.epoch}


def test_long_reasons_of_many_episodes_are_read(tmp_path: Path) -> None:
    """As of many worlds that one error breaks off."""
    sink = FolderSink(tmp_path / "r", [one()], HEADER)
    rows = {column.name: np.zeros((5_000, *column.shape), column.dtype) for column in sink.columns}
    rows["episode"] = np.arange(5_000)
    sink.write(rows)
    for number in range(5_000):
        sink.end(number, {"outcome": "interrupted", "reason": f"{number} " + "µ" * 600})
    sink.close()
    assert all(episode.info["reason"].startswith(f"{episode.index} µµ") for episode in read(tmp_path / "r"))


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"return": math.nan}, "what the recording says of its run is no JSON: found Out of range float values"),
        ({"seed": np.int64(3)}, "what the recording says of its run is no JSON: found Object of type int64 is not"),
        ({"reason": "x" * MAX_EVENT_BYTES}, "what the recording says of episode 7 is too long: found 5243"),
    ],
)
def test_what_cannot_be_said_of_an_episode_is_refused_at_once(info: dict[str, Any], text: str, tmp_path: Path) -> None:
    with FolderSink(tmp_path / "r", small_columns(), HEADER) as sink:
        with pytest.raises(EdgertError) as caught:
            sink.end(7, info)
        write_small(sink)
    assert str(caught.value).startswith(text)
    assert len(read(tmp_path / "r")) == 2
