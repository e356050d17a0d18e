"""Finding bundled sims and models, in a checkout and in an installed wheel."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from edgert import assets
from edgert.errors import EdgertError, UnknownNameError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def installed(tmp_path: Path) -> Callable[[], ModuleType]:
    """The module as it stands in another folder: `tmp_path/edgert/assets.py`."""

    def load() -> ModuleType:
        path = tmp_path / "edgert" / "assets.py"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(assets.__file__, path)
        spec = importlib.util.spec_from_file_location("installed_assets", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def add(folder: Path, name: str, marker: str) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / marker).touch()
    return path


def test_a_checkout_serves_its_own_sims():
    assert "quadruped" in assets.names("sims")
    assert assets.find("sims", "quadruped") == ROOT / "sims" / "quadruped"


@pytest.mark.parametrize(("kind", "marker"), [("sims", "task.toml"), ("models", "README.md")])
def test_a_wheel_serves_what_it_carries(installed, tmp_path, kind, marker):
    expected = add(tmp_path / "edgert" / "_data" / kind, "b", marker)
    add(tmp_path / "edgert" / "_data" / kind, "a", marker)
    module = installed()
    assert module.names(kind) == ("a", "b")
    assert module.find(kind, "b") == expected


def test_a_checkout_beside_the_package_comes_before_what_the_package_carries(installed, tmp_path):
    add(tmp_path / "edgert" / "_data" / "sims", "stale", "task.toml")
    fresh = add(tmp_path / "sims", "fresh", "task.toml")
    (tmp_path / "pyproject.toml").touch()
    assert installed().find("sims", "fresh") == fresh
    assert installed().names("sims") == ("fresh",)


def test_a_folder_beside_the_package_without_a_project_is_no_checkout(installed, tmp_path):
    add(tmp_path / "edgert" / "_data" / "sims", "carried", "task.toml")
    add(tmp_path / "sims", "foreign", "task.toml")
    assert installed().names("sims") == ("carried",)


def test_folders_without_their_marker_are_left_out(installed, tmp_path):
    add(tmp_path / "edgert" / "_data" / "sims", "whole", "task.toml")
    add(tmp_path / "edgert" / "_data" / "sims", "draft", "notes.txt")
    assert installed().names("sims") == ("whole",)


def test_an_installation_without_data_has_no_names(installed):
    assert installed().names("sims") == ()


@pytest.mark.parametrize("name", ["triped", "", ".", "..", "../sims/whole", "whole/", "/etc", "a\0b"])
def test_what_is_no_name_is_refused_with_the_valid_ones(installed, tmp_path, name):
    add(tmp_path / "edgert" / "_data" / "sims", "whole", "task.toml")
    with pytest.raises(UnknownNameError) as caught:
        installed().find("sims", name)
    shown = name.replace("\0", r"\x00")
    assert str(caught.value) == (
        f"unknown sim '{shown}': expected one of whole. A file of your own is named by its path, such as ./{shown}"
    )


def test_an_installation_without_data_says_so(installed):
    with pytest.raises(UnknownNameError) as caught:
        installed().find("models", "walker")
    assert str(caught.value) == (
        "unknown model 'walker': expected one of none, as this installation carries no data. "
        "A file of your own is named by its path, such as ./walker"
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"EDGERT_HOME": "/a/b", "XDG_STATE_HOME": "/x", "HOME": "/h"}, ("/a/b", "EDGERT_HOME")),
        ({"EDGERT_HOME": "", "XDG_STATE_HOME": "/x", "HOME": "/h"}, ("/x/edgert", "XDG_STATE_HOME")),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, ("/h/.local/state/edgert", "")),
        ({"HOME": "/h"}, ("/h/.local/state/edgert", "")),
    ],
)
def test_state_folder(environ, expected):
    path, variable = assets.state_folder(environ)
    assert (str(path), variable) == expected


def test_no_state_folder_without_a_home():
    with pytest.raises(EdgertError) as caught:
        assets.state_folder({})
    assert str(caught.value) == "there is no home folder for edgert's state. Set EDGERT_HOME to a folder"
