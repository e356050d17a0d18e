"""Files that other trainers leave beside a model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgert.policy import sidecars
from edgert.policy.sidecars import MAX_SIDECARS, read_sidecars


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "exported"
    folder.mkdir(parents=True)
    return folder / "policy.onnx"


def test_each_suffix_has_its_parser(model):
    (model.parent / "a.yaml").write_text("x: 1")
    (model.parent / "b.yml").write_text("x: 2")
    (model.parent / "c.json").write_text('\ufeff{"x": 3}')
    (model.parent / "d.toml").write_text("x = 4")
    (model.parent / "e.txt").write_text("x = 5")
    result = read_sidecars(model, ("a.yaml", "b.yml", "c.json", "d.toml", "e.txt"))
    assert result.found == {name: {"x": i} for i, name in enumerate(("a.yaml", "b.yml", "c.json", "d.toml"), 1)}
    assert (result.broken, result.left_out) == ({}, 0)


def test_the_nearest_file_of_a_name_counts(model):
    here, above = model.parent, model.parent.parent
    places = [here, here / "params", here / "io_descriptors", above / "params", above / "io_descriptors", above]
    for number, place in reversed(list(enumerate(places))):
        place.mkdir(exist_ok=True)
        (place / "deploy.yaml").write_text(f"x: {number}")
        (place / "env_a.yaml").write_text(f"x: {number}")
        assert read_sidecars(model, ("deploy.yaml", "env_*.yaml")).found == {
            "deploy.yaml": {"x": number},
            "env_a.yaml": {"x": number},
        }


def test_a_pattern_means_files_alone_and_never_the_users_contract(model):
    for name in ("policy.toml", "a_env.toml", "b_env.toml", "c.toml"):
        (model.parent / name).write_text("x = 1")
    (model.parent / "d_env.toml").mkdir()
    assert list(read_sidecars(model, ("*_env.toml", "policy.*")).found) == ["a_env.toml", "b_env.toml"]


def test_what_cannot_be_read_is_told_by_name(model):
    (model.parent / "a.json").write_text("[1]")
    (model.parent / "b.yaml").write_text("!!python/object/apply:os.system ['true']")
    (model.parent / "c.json").write_bytes(b"\xff\xfe")
    os.mkfifo(model.parent / "d.yaml")
    (model.parent / "e.json").symlink_to("nowhere")
    result = read_sidecars(model, ("a.json", "b.yaml", "c.json", "d.yaml", "e.json"))
    assert result.found == {}
    said = {name: str(error).replace(f"{model.parent}/", "") for name, error in result.broken.items()}
    assert said["a.json"] == "sidecar file a.json is not a JSON object: found a list, expected an object"
    assert said["b.yaml"].startswith("sidecar file b.yaml cannot be read as safe YAML: found could not determine a")
    assert said["c.json"].startswith("sidecar file c.json is not UTF-8 text")
    assert said["d.yaml"].startswith("sidecar file d.yaml is no regular file")
    assert said["e.json"].startswith("cannot read sidecar file e.json: found No such file")


def test_no_more_than_a_few_files_are_parsed(model, monkeypatch):
    monkeypatch.setattr(sidecars, "MAX_SIDECARS", 3)
    for number in range(5):
        (model.parent / f"{number}.yaml").write_text("x: 1")
    result = read_sidecars(model, ("*.yaml",))
    assert list(result.found) == ["0.yaml", "1.yaml", "2.yaml"]
    assert result.left_out == 2


def test_files_that_only_a_pattern_means_share_a_bound(model):
    for name, size in (("a.yaml", 200), ("b.yaml", 100), ("c.yaml", 1), ("deploy.yaml", 300)):
        (model.parent / name).write_text("x: 1 #" + "-" * (size << 10))
    result = read_sidecars(model, ("*.yaml", "deploy.yaml"))
    assert (sorted(result.found), result.left_out) == (["a.yaml", "c.yaml", "deploy.yaml"], 1)


def test_a_file_that_is_too_large_is_not_read(model):
    (model.parent / "a.json").write_text(" " * (1 << 20) + "{}")
    assert "is too large" in str(read_sidecars(model, ("a.json",)).broken["a.json"])


def test_folders_that_are_not_there_hold_nothing(tmp_path):
    assert read_sidecars(tmp_path / "no" / "policy.onnx", ("*.yaml", "deploy.yaml")).found == {}


def test_a_file_of_another_models_name_is_that_models(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        (tmp_path / name).write_bytes(b"")
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        (tmp_path / name).write_text("x: 1\n")
    assert sorted(read_sidecars(tmp_path / "a.onnx", ["*.yaml"]).found) == ["a.yaml", "c.yaml"]
    assert sorted(read_sidecars(tmp_path / "a.onnx", ["b.yaml"]).found) == ["b.yaml"]


def test_files_that_are_called_by_their_name_come_before_any_others(tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    for name in (*(f"a{number}.json" for number in range(2 * MAX_SIDECARS)), "zoo.json", "params/deploy.yaml"):
        (tmp_path / name).write_text("{}")
    result = read_sidecars(tmp_path / "zoo.onnx", ["deploy.yaml", "*.json"])
    assert {"deploy.yaml", "zoo.json"}.issubset(result.found)
    assert (len(result.found), result.left_out) == (MAX_SIDECARS, MAX_SIDECARS + 2)
