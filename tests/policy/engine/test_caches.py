"""Engines that are kept: each in a folder of its own, no more than so many."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgert.device import Device
from edgert.errors import DeviceError
from edgert.policy.engine import Placement
from edgert.policy.engine.caches import MAX_FOLDERS, engine_folder
from edgert.policy.engine.providers import provider

CHIP = Device(name="cuda:0", chip="NVIDIA Thor", vendor="NVIDIA", memory_bytes=None, driver="580.0")


def test_whatever_an_engine_depends_on_gives_another_folder(tmp_path: Path) -> None:
    here = Placement(caches=tmp_path)
    trt = provider("tensorrt")
    folders = [
        engine_folder("a", trt, CHIP, here),
        engine_folder("b", trt, CHIP, here),
        engine_folder("a", provider("cuda"), CHIP, here),
        engine_folder("a", trt, replace(CHIP, chip="NVIDIA GB10"), here),
        engine_folder("a", trt, replace(CHIP, driver="590.0"), here),
        engine_folder("a", trt, replace(CHIP, name="cuda:1"), here),
        engine_folder("a", trt, CHIP, replace(here, precision="fp16")),
        engine_folder("a", trt, CHIP, replace(here, rows=2)),
    ]
    assert len(set(folders)) == len(folders)
    assert engine_folder("a", trt, CHIP, here) == folders[0]
    assert all(folder.is_dir() and folder.parent == tmp_path for folder in folders)


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path) -> None:
    for number in range(MAX_FOLDERS + 3):
        folder = tmp_path / f"{number:03}"
        folder.mkdir()
        (folder / "engine").write_text("x")
        os.utime(folder, (number, number))
    made = engine_folder("a", provider("tensorrt"), CHIP, Placement(caches=tmp_path))
    left = {each.name for each in tmp_path.iterdir()}
    assert len(left) == MAX_FOLDERS
    assert made.name in left
    assert left.isdisjoint({"000", "001", "002", "003"})


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDGERT_HOME", str(tmp_path / "file"))
    with pytest.raises(DeviceError) as caught:
        engine_folder("a", provider("tensorrt"), CHIP, Placement())
    assert "the engine that TensorrtExecutionProvider builds cannot be kept in" in str(caught.value)
    assert "found Not a directory. Set EDGERT_HOME to a folder that may be written" in str(caught.value)
