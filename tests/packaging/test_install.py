"""What users install: a built wheel and an editable checkout, each in an environment of its own, run from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAIN_JOB = ["run", "policy", "--seconds", "1", "--json"]


def call(*command: str | Path, cwd: Path) -> str:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project's files, so that building leaves nothing behind."""
    copy = tmp_path_factory.mktemp("checkout") / "edgert"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "venv")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def installed(folder: Path, *arguments: str | Path) -> Path:
    """The `bin` folder of a fresh environment with edgert in it."""
    environment = folder / "venv"
    call(sys.executable, "-m", "venv", environment, cwd=folder)
    call(environment / "bin/python", "-m", "pip", "install", "--quiet", *arguments, cwd=folder)
    return environment / "bin"


@pytest.mark.slow
def test_wheel_runs_the_main_job_from_an_empty_folder(checkout: Path, tmp_path: Path) -> None:
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, checkout, cwd=tmp_path)
    (wheel,) = tmp_path.glob("edgert-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "edgert/_data/sims/quadruped/scene.xml" in names
    assert "edgert/_data/models/quadruped/policy.onnx" in names
    assert {"edgert/_data/models/catalog.toml", "edgert/_data/models/catalog/go1_playground.toml"} <= set(names)
    assert "edgert/device/chips.toml" in names
    assert not [name for name in names if name.startswith(("tests/", "examples/", "sims/", "models/"))]

    binaries = installed(tmp_path, f"{wheel}[cpu]")
    empty = tmp_path / "empty"
    empty.mkdir()
    report = json.loads(call(binaries / "edgert", *MAIN_JOB, cwd=empty))
    assert report["outcome"] == "completed"
    assert Path(report["policy"]).is_relative_to(tmp_path / "venv")
    assert list(empty.iterdir()) == []
    env = "import gymnasium; print(gymnasium.make('edgert:edgert/Quadruped-v0').reset(seed=0)[0].shape)"
    assert call(binaries / "python", "-c", env, cwd=empty) == "(50,)\n"


@pytest.mark.slow
def test_editable_install_reads_the_checkout(checkout: Path, tmp_path: Path) -> None:
    binaries = installed(tmp_path, "-e", f"{checkout}[cpu]")
    empty = tmp_path / "empty"
    empty.mkdir()
    report = json.loads(call(binaries / "edgert", *MAIN_JOB, cwd=empty))
    assert report["outcome"] == "completed"
    assert Path(report["policy"]) == checkout / "models/quadruped/policy.onnx"
    assert Path(report["scene"]) == checkout / "sims/quadruped/scene.xml"


def test_installed_size_is_under_320_mb() -> None:
    """Of what `edgert[cpu]` needs, by the records of the distributions installed here."""
    from importlib.metadata import distribution, requires

    from packaging.requirements import Requirement

    def needed(name: str, extras: set[str], seen: dict[str, int]) -> None:
        try:
            found = distribution(name)
        except ModuleNotFoundError:
            return
        key = found.metadata["Name"].lower()
        if key in seen:
            return
        seen[key] = sum(
            file.locate().stat().st_size for file in found.files or () if Path(str(file.locate())).is_file()
        )
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in extras | {""}
            ):
                needed(requirement.name, set(requirement.extras), seen)

    sizes: dict[str, int] = {}
    needed("edgert", {"cpu"}, sizes)
    total = sum(sizes.values()) / 1e6
    print(f"{total:.0f} MB in {len(sizes)} distributions: {sorted(sizes.items(), key=lambda item: -item[1])[:6]}")
    assert {"onnxruntime", "mujoco", "numpy"} <= sizes.keys()
    assert total < 320
