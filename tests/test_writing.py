"""A file appears whole, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgert.writing import part_of, put


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with part_of(path) as part:
        part.write_bytes(b"new")
        assert path.read_bytes() == b"old"
        put(part, path)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_what_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def break_off() -> None:
        with part_of(path) as part:
            part.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError), part_of(path) as part:
        put(part, path, new=True)
    assert path.read_bytes() == b"theirs"


def test_a_new_file_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    with part_of(tmp_path / "a") as part:
        part.write_bytes(b"new")
        put(part, tmp_path / "a", new=True)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_what_the_disk_says_reaches_the_caller(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), part_of(tmp_path / "none" / "a"):
        pass
