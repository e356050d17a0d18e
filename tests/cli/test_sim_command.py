"""`edgert sim list` and `edgert sim show` as a user types them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import scenes
from support import QUADRUPED, Command

from edgert import assets
from edgert.task.task import load_task

COMMAND = Command("sim", alone=True)
ran, report_of, refused = COMMAND.ran, COMMAND.told, COMMAND.refused


def words(out: str) -> list[str]:
    return [" ".join(line.split()) for line in out.splitlines()]


def test_bundled_sims_are_listed(capsys):
    rows = report_of(capsys, "list")["sims"]
    assert [row["name"] for row in rows] == list(assets.names("sims"))
    (row,) = [row for row in rows if row["name"] == "quadruped"]
    assert row == {
        "name": "quadruped",
        "id": "edgert/Quadruped-v0",
        "joints": 12,
        "control_hz": 50.0,
        "episode_s": 20.0,
        "description": "Walking on flat ground after a commanded twist. Units: m, s, rad, kg, N·m.",
        "policy": True,
        "path": str(QUADRUPED.scene.parent / "task.toml"),
        "error": None,
    }
    for row in rows:
        task = load_task(row["name"])
        assert (row["id"], row["joints"], row["episode_s"]) == (task.id, len(task.contract.joints), task.episode_s)
        assert row["policy"] == (row["name"] in assets.names("models"))
    code, out, _ = ran(capsys, "list")
    assert code == 0
    said = "Walking on flat ground after a commanded twist. Units: m, s, rad, kg, N·m."
    assert f"quadruped edgert/Quadruped-v0 12 50 Hz 20 s yes {said}" in words(out)


def test_a_broken_bundled_sim_does_not_break_the_list(capsys, tmp_path, monkeypatch):
    sims = tmp_path / "sims"
    shutil.copytree(QUADRUPED.scene.parent, sims / "good")
    (sims / "bad").mkdir()
    (sims / "bad/task.toml").write_text("# A bad one\nschema = 99\n")
    monkeypatch.setattr(assets, "root", lambda kind: tmp_path / kind)
    bad, good = report_of(capsys, "list")["sims"]
    assert good["error"] is None
    assert good["policy"] is False
    assert bad.keys() == good.keys()
    assert f"{sims}/bad/task.toml: key 'schema' is wrong: found 99" in bad["error"]
    code, out, _ = ran(capsys, "list")
    assert code == 0
    assert f"unusable: {sims}/bad/task.toml" in out


def test_a_bundled_task(capsys):
    report = report_of(capsys, "show", "quadruped")
    assert report["sim"] == "quadruped"
    assert report["task"]["contract"] == QUADRUPED.contract.to_document()
    assert report["task"]["decimation"] == 4
    assert report["scene"]["path"] == str(QUADRUPED.scene)
    assert [joint["name"] for joint in report["scene"]["joints"]][1:] == list(QUADRUPED.contract.joints)
    code, out, err = ran(capsys, "show", "quadruped")
    assert (code, err) == (0, "")
    lines = words(out)
    for line in (
        "id edgert/Quadruped-v0",
        "rate 50 Hz: 4 physics steps of 5 ms",
        "24 joint_vel 12 0.05 0 – ± 0.8 rad/s",
        "track_lin_vel 2 std 0.4",
        "tilt_rad 1",
        "yaw_rad 3.14159",
        "mass_add_kg -1, 2",
        "size nq 19, nv 18, nu 0, 13 bodies, 60 geoms",
        "FL_calf_joint hinge FL_calf -2.7227 … -0.83776 rad 0.01 kg·m² 0.05 N·m·s/rad 0.1 N·m 45 N·m",
        "imu_ang_vel gyro 3",
        "keyframes home",
    ):
        assert line in lines


@pytest.mark.parametrize("name", assets.names("sims"))
def test_every_field_of_every_bundled_task_is_shown(capsys, name):
    task = report_of(capsys, "show", name)["task"]
    code, out, _ = ran(capsys, "show", name)
    assert code == 0
    firsts = {line.split()[0] for line in out.splitlines() if line}
    for key, value in task.items():
        if key == "contract" or value in (None, "", [], {}):
            continue
        inner = {entry["name"] for entry in value} if isinstance(value, list) else set()
        if isinstance(value, dict):
            inner = {name for name, content in value.items() if content not in (None, "", [], {})}
        assert {key, *inner} <= firsts


def test_folders_and_files_of_ones_own(capsys, tmp_path, monkeypatch):
    shutil.copytree(QUADRUPED.scene.parent, tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    for name in ("./mine", "mine/task.toml"):
        assert report_of(capsys, "show", name)["task"]["name"] == "mine"
    report = report_of(capsys, "show", "mine/scene.xml")
    assert (report["sim"], report["task"]) == ("mine/scene.xml", None)
    assert report["scene"]["nq"] == 19
    assert "unknown sim 'mine'" in refused(capsys, "show", "mine")


def test_a_scene_with_actuators_and_names_of_its_own(capsys, tmp_path):
    actuators = "<position name='a' joint='hip' kp='3' forcerange='-7 7'/><motor site='imu'/>"
    path = scenes.write(tmp_path, actuators=actuators, keys="<key/>", sensors="<clock name='x[/b]&#7;'/>")
    code, out, _ = ran(capsys, "show", str(path))
    assert code == 0
    lines = words(out)
    assert "a position joint hip 1 3 0 – -7 … 7" in lines
    assert "– motor site 1 – – – –" in lines
    assert "root free torso – – – – –" in lines
    assert "keyframes without a name" in lines
    assert "x[/b]\\x07 clock 1" in lines


def test_long_scenes_are_cut_for_people_only(capsys, tmp_path):
    bodies = "".join(f"<body><joint name='j{i}'/><geom size='0.1'/></body>" for i in range(203))
    path = tmp_path / "many.xml"
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    assert len(report_of(capsys, "show", str(path))["scene"]["joints"]) == 203
    _, out, _ = ran(capsys, "show", str(path))
    assert "j199" in out
    assert "j200" not in out
    assert out.endswith("3 more joints: see --json\n")


def test_broken_ones_are_refused_in_one_line(capsys, tmp_path):
    assert refused(capsys, "show", "none").startswith("unknown sim 'none': expected one of ")
    assert "cannot read task file" in refused(capsys, "show", str(tmp_path))
    assert "cannot read scene" in refused(capsys, "show", str(tmp_path / "none.xml"))
    (tmp_path / "junk.xml").write_text("<mujoco")
    assert "is not a valid MJCF model" in refused(capsys, "show", str(tmp_path / "junk.xml"))
    (tmp_path / "task.toml").write_text("rewards = 1")
    assert "task.toml: key 'schema' is missing" in refused(capsys, "show", str(tmp_path))
    os.mkfifo(tmp_path / "pipe.xml")
    assert "is no regular file" in refused(capsys, "show", str(tmp_path / "pipe.xml"))


def test_a_mujoco_that_cannot_be_imported_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgert", "sim", "list"],
        env=os.environ | {"MUJOCO_GL": "vulkan"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "edgert: MuJoCo cannot be imported: found invalid value for environment variable MUJOCO_GL: vulkan. "
        "Check the variable MUJOCO_GL\n"
    )


def test_real_robots_of_others(capsys, shared: Path):
    report = report_of(capsys, "show", str(shared / "robots/unitree_go1/scene.xml"))
    assert report["scene"]["nv"] == 18
    assert len(report["scene"]["joints"]) == 13
