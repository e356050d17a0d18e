"""Reading `task.toml`: what is read, and what is refused with the file, the key and the valid ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support import QUADRUPED
from task_examples import FILE, GONE, changed, document, leg_document, parse, write_task

from edgert.errors import ContractError, EdgertError, UnknownNameError
from edgert.task.rewards import REWARDS
from edgert.task.sampling import Randomisation, ResetRanges
from edgert.task.task import load_task

QUADRUPED_DOCUMENT = document()


def test_the_bundled_task_is_what_its_file_says() -> None:
    task, file = QUADRUPED, QUADRUPED_DOCUMENT
    assert task.name == "quadruped"
    assert task.id == file["id"] == "edgert/Quadruped-v0"
    assert task.scene == FILE.parent / file["scene"]
    assert task.scene.is_file()
    assert (task.decimation, task.episode_s, task.base) == (file["decimation"], file["episode_s"], file["base"])
    assert task.contract.joints == tuple(file["contract"]["joints"]["names"])
    assert task.episode_steps == round(file["episode_s"] * file["contract"]["control_hz"])
    assert {term.name: term.weight for term in task.rewards} == {
        name: entry["weight"] for name, entry in file["rewards"].items()
    }
    assert task.fall is not None
    assert task.fall.tilt_rad == file["terminations"]["fall"]["tilt_rad"]
    assert task.fall.height_m == file["terminations"]["fall"]["height_m"]
    assert {name: getattr(task.reset, name) for name in file["reset"]} == file["reset"]


def test_commands_and_randomisation_are_read() -> None:
    sampling, randomise = QUADRUPED.command, QUADRUPED.randomise
    assert sampling is not None
    for key, value in QUADRUPED_DOCUMENT["command"].items():
        assert getattr(sampling, key) == (tuple(value) if isinstance(value, list) else value)
    file = QUADRUPED_DOCUMENT["randomise"]
    assert randomise.friction == tuple(file["friction"]["range"])
    assert randomise.friction_geoms == tuple(file["friction"]["geoms"])
    assert (randomise.mass_body, randomise.mass_add_kg) == (file["mass"]["body"], tuple(file["mass"]["add_kg"]))
    assert (randomise.kp, randomise.kd) == (tuple(file["gains"]["kp"]), tuple(file["gains"]["kd"]))
    assert randomise.delay_s == tuple(file["action_delay"]["range_s"])
    assert (randomise.push_interval_s, randomise.push_m_s) == tuple(file["push"].values())
    assert randomise.noise == file["observation_noise"]


def test_fields_of_the_contract_come_from_the_task() -> None:
    sources = QUADRUPED.contract.provenance
    for key in ("control_hz", "joints.names", "joints.kp", "inputs.obs.terms", "action.scale", "phase.hz"):
        assert sources[key] == "task"
    assert set(sources.values()) <= {"task", "default"}


@pytest.mark.parametrize("name", [FILE.parent, str(FILE.parent), FILE])
def test_a_task_may_be_named_by_its_folder_or_file(name: str | Path) -> None:
    task = load_task(name)
    assert (task.name, task.scene) == ("quadruped", QUADRUPED.scene)
    assert task.contract.sha256() == QUADRUPED.contract.sha256()


def test_tasks_may_be_compared() -> None:
    other = load_task("quadruped")
    assert other != QUADRUPED
    assert [other, QUADRUPED].index(QUADRUPED) == 1
    assert len({QUADRUPED, other}) == 2


def test_optional_parts_may_be_left_out() -> None:
    task = parse(leg_document(rewards={}))
    assert task.command is None
    assert task.fall is None
    assert task.rewards == ()
    assert task.reset == ResetRanges()
    assert task.randomise == Randomisation()
    assert (task.id, task.base) == ("", "")


def test_a_task_of_ones_own(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "mine", leg_document(), "<mujoco/>")
    task = load_task(folder)
    assert task.name == "mine"
    assert task.scene == folder / "scene.xml"
    assert task.episode_steps == 100


def test_an_episode_has_at_least_one_step() -> None:
    assert parse(leg_document(episode_s=1e-6)).episode_steps == 1


def test_an_unknown_sim_lists_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown sim 'biped': expected one of .*quadruped.* such as ./biped"):
        load_task("biped")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"cannot read task file .*found No such file"):
        load_task(tmp_path / "task.toml")


REFUSED: dict[str, tuple[str, Any, str]] = {
    "unknown key": ("episode_length_s", 20.0, "unknown key 'episode_length_s': expected one of .*episode_s"),
    "unknown key in a table": ("reset.yaw", 1.0, "unknown key 'reset.yaw': expected one of .*yaw_rad"),
    "unknown table": ("observations", {}, "unknown key 'observations'"),
    "unknown key of a reward": (
        "rewards.tilt.height_m",
        1.0,
        "unknown key 'rewards.tilt.height_m': expected one of weight",
    ),
    "unknown randomisation": ("randomise.gravity", {}, "unknown key 'randomise.gravity'"),
    "unknown termination": ("terminations.stall", {}, "unknown key 'terminations.stall': expected one of fall"),
    "noise on an unknown term": (
        "randomise.observation_noise.height",
        0.1,
        "unknown key 'randomise.observation_noise.height': expected one of .*joint_pos",
    ),
    "missing": ("decimation", GONE, "key 'decimation' is missing. Add decimation to it"),
    "missing scene": ("scene", GONE, "key 'scene' is missing"),
    "missing schema": ("schema", GONE, "key 'schema' is missing"),
    "missing contract": ("contract", GONE, "key 'contract' is missing"),
    "missing rewards": ("rewards", GONE, "key 'rewards' is missing"),
    "missing weight": ("rewards.tilt.weight", GONE, "key 'rewards.tilt.weight' is missing"),
    "missing in the contract": ("contract.control_hz", GONE, r"\[contract\]: key 'control_hz' is missing"),
    "missing fall": ("terminations", {}, "key 'terminations.fall' is missing"),
    "text for a number": ("episode_s", "20", "key 'episode_s' is wrong: found text '20', expected a finite number"),
    "a number for text": ("base", 3, "key 'base' is wrong: found an integer 3, expected text"),
    "a boolean for an integer": ("decimation", True, "key 'decimation' is wrong: found a boolean True"),
    "a fraction for an integer": (
        "decimation",
        4.0,
        "key 'decimation' is wrong: found a number 4.0, expected an integer",
    ),
    "a value for a table": ("rewards.tilt", -2.0, "key 'rewards.tilt' is wrong: found a number -2.0, expected a table"),
    "a table for a list": ("randomise.friction.geoms", {}, "key 'randomise.friction.geoms' is wrong: found a table"),
    "not finite": ("episode_s", float("inf"), "key 'episode_s' is wrong: found a number inf, expected a finite number"),
    "too small": ("decimation", 0, "key 'decimation' is wrong: found 0, expected at least 1 and at most 10000"),
    "too large": ("episode_s", 1e9, "key 'episode_s' is wrong: found .*, expected more than 0 and at most 86400"),
    "not positive": ("command.resample_s", 0.0, "key 'command.resample_s' is wrong: found 0.*, expected more than 0"),
    "a fraction above 1": ("command.still_fraction", 1.5, "found 1.5, expected at least 0 and at most 1"),
    "a negative half width": ("reset.yaw_rad", -1.0, "key 'reset.yaw_rad' is wrong: found -1.*, expected at least 0"),
    "a range upside down": (
        "randomise.mass.add_kg",
        [2.0, -1.0],
        r"found \[2, -1\], expected \[low, high\] with low <= high",
    ),
    "half a range": ("command.vx_m_s", [1.0], "key 'command.vx_m_s' is wrong: found 1 numbers, expected 2"),
    "a negative friction": ("randomise.friction.range", [-0.1, 1.0], "found -0.1, expected at least 1e-05"),
    "a delay of a minute": (
        "randomise.action_delay.range_s",
        [0.0, 60.0],
        "found 60.*, expected at least 0 and at most 1",
    ),
    "a geom twice": ("randomise.friction.geoms", ["a", "a"], "found a more than once, expected each name once"),
    "newer": ("schema", 2, "found 2, expected at most 1. This file was written by a newer edgert: upgrade it"),
    "newer contract": ("contract.schema", 2, r"\[contract\]: key 'schema' is wrong: found 2"),
    "scene above": (
        "scene",
        "../scene.xml",
        "key 'scene' is wrong: found ../scene.xml, expected a file inside the task's folder",
    ),
    "scene elsewhere": ("scene", "/etc/passwd", "key 'scene' is wrong: found /etc/passwd"),
    "scene with a NUL": ("scene", "a\0b", "key 'scene' is wrong: found 'a.x00b', expected the name of a file"),
    "unknown reward": (
        "rewards.speed",
        {"weight": 1.0},
        "unknown reward 'speed', expected one of " + ", ".join(sorted(REWARDS)),
    ),
    "reward on an unknown joint": (
        "rewards.pose.joints",
        ["FL_hip_joint", "tail"],
        "key 'rewards.pose.joints' is wrong: found tail, expected joints of the contract",
    ),
    "unknown term": ("contract.inputs.obs.terms", ["mood"], "mood"),
    "no command sampling": ("command", GONE, r"\[command\] and \[contract.command\] go together"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_file_and_the_key(case: str) -> None:
    key, value, expected = REFUSED[case]
    with pytest.raises(EdgertError) as caught:
        parse(changed(key, value))
    text = str(caught.value)
    assert re.search(expected, text)
    assert text.isprintable()
    if isinstance(caught.value, ContractError):
        assert str(FILE) in text


def test_sampling_without_a_command_in_the_contract() -> None:
    some = document()
    del some["contract"]["command"], some["contract"]["phase"]
    some["contract"]["inputs"]["obs"]["terms"] = ["joint_pos"]
    some["randomise"] = {}
    del some["trials"]
    with pytest.raises(ContractError, match="go together: found only one of them"):
        parse(some)


def test_a_scene_behind_a_link_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "scene.xml").write_text("<mujoco/>")
    (tmp_path / "task" / "scene.xml").symlink_to(tmp_path / "scene.xml")
    with pytest.raises(ContractError, match="expected a file inside the task's folder"):
        parse(leg_document(), tmp_path / "task")


def test_a_scene_behind_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "scene.xml").symlink_to(tmp_path / "scene.xml")
    with pytest.raises(ContractError, match="key 'scene' is wrong"):
        parse(leg_document(), tmp_path)
