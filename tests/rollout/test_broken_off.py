"""Whatever breaks a run off, what was recorded until then is kept, and says why it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gym_examples import Point, linear, register
from support import failing_later_model, linear_model, quadruped_document, save

from edgert.cli.main import run
from edgert.errors import IntegrityError
from edgert.rollout import RolloutOptions, open_rollouts, read
from edgert.runtime import RunOptions, open_session


class BrokenError(Exception):
    """Something that nobody foresaw."""


@pytest.mark.parametrize("error", [BrokenError("at last"), KeyboardInterrupt()], ids=["bug", "second Ctrl-C"])
def test_rollouts_that_break_off_are_kept(error: BaseException, tmp_path: Path) -> None:
    def fail(done: int, total: int) -> None:
        if done == 30:
            raise error

    options = RolloutOptions(model="cartpole", num_envs=3, seconds=2.0)
    with open_rollouts(options) as session, session.folder(tmp_path / "r") as sink, pytest.raises(type(error)):
        session.run(sink=sink, progress=fail)
    episodes = list(read(tmp_path / "r"))
    assert [(each.steps, each.info["outcome"]) for each in episodes] == [(30, "interrupted")] * 3
    reason = "stopped by the operator" if isinstance(error, KeyboardInterrupt) else "BrokenError: at last"
    assert {each.info["reason"] for each in episodes} == {reason}
    assert all(len(each.qpos) == 31 for each in episodes)


@pytest.mark.parametrize("real_time", [False, True])
def test_a_run_on_one_body_that_breaks_off_is_kept(real_time: bool, tmp_path: Path) -> None:
    def fail(step: int, trace: Any) -> None:
        if step == 12:
            raise BrokenError("at last")

    options = RunOptions(seconds=1.0, real_time=real_time)
    with open_session(options) as session, session.folder(tmp_path / "r") as sink, pytest.raises(BrokenError):
        session.run(tick=fail, sinks=[sink])
    (episode,) = read(tmp_path / "r")
    assert (episode.steps, episode.info["outcome"]) == (13, "interrupted")
    assert episode.info["reason"] == "BrokenError: at last"
    assert len(episode.observation["obs"]) == 14


class Tired(Point):
    """Raises after some steps."""

    def step(self, action: Any) -> Any:
        self.count = getattr(self, "count", 0) + 1
        if self.count == 25:
            raise RuntimeError("tired")
        return super().step(action)


def test_an_environment_that_breaks_off_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env_id = register("Tired", Tired)
    arguments = ["--env", env_id, "--seconds", "5", "--record", str(tmp_path / "r")]
    assert run(["run", "policy", str(linear(tmp_path)), *arguments]) == 2
    assert "tired" in capsys.readouterr().err
    episodes = list(read(tmp_path / "r"))
    assert sum(each.steps for each in episodes) == 24
    assert episodes[-1].info["outcome"] == "interrupted"
    assert "tired" in episodes[-1].info["reason"]
    gymnasium.registry.pop(env_id)


def test_a_changed_scene_is_not_filmed(tmp_path: Path) -> None:
    from rollout_examples import changed_sim, recorded, wild

    from edgert.rollout.scenes import recorded_model

    sim = changed_sim("cartpole", tmp_path, {})
    recorded(wild("cartpole", tmp_path), sim, tmp_path / "r", num_envs=1, seconds=0.1)
    assert recorded_model(read(tmp_path / "r")[0]).nq == 2
    scene = Path(sim) / "scene.xml"
    scene.write_text(scene.read_text().replace('fromto="0 0 0 0 0 0.6"', 'fromto="0 0 0 0 0 0.7"'))
    with pytest.raises(IntegrityError, match=r"scene .* is not the one that was recorded: found 2 coordinates, sha256"):
        recorded_model(read(tmp_path / "r")[0])


def test_a_scene_with_meshes_is_known_again_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled scene holds the paths of its meshes, which are relative where the scene's was."""
    from rollout_examples import TASKS, recorded, wild

    from edgert.rollout.scenes import recorded_model

    (tmp_path / "end.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    text = TASKS["cartpole"].scene.read_text(encoding="utf-8")
    text = text.replace("<asset>", '<asset><mesh name="end" file="end.obj" scale="0.1 0.1 0.1"/>')
    text = text.replace('name="end" type="sphere" size="0.03"', 'name="end" type="mesh" mesh="end"')
    (tmp_path / "scene.xml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    recorded(wild("cartpole", tmp_path), "./scene.xml", tmp_path / "r", num_envs=1, seconds=0.1)
    assert recorded_model(read(tmp_path / "r")[0]).nmesh == 1


def test_an_action_that_is_not_finite_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The policy gives no number after a while, in every world: that is the last action of each episode."""
    failing = save(failing_later_model(quadruped_document()), tmp_path / "later.onnx")
    endless = save(linear_model(bias=np.inf, document=quadruped_document()), tmp_path / "inf.onnx")
    folder = str(tmp_path / "r")
    arguments = ["--num-envs", "2", "--seconds", "0.3", "--sim", "quadruped", "--record", folder]
    assert run(["run", "rollouts", str(failing), *arguments]) == 3
    assert run(["episode", "replay", folder, "--json"]) == 0
    capsys.readouterr()
    assert run(["episode", "replay", folder, "--policy", str(endless), "--json"]) == 5
    assert '"max_difference": null' in capsys.readouterr().out
    assert run(["episode", "replay", folder, "--policy", str(endless)]) == 5
    assert "not finite" in capsys.readouterr().out


def test_the_policy_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(linear_model(document=quadruped_document()), Path("p.onnx"))
    quick = ["--seconds", "0.1", "--no-real-time", "--record", "r"]
    assert run(["run", "policy", "p.onnx", "--sim", "quadruped", *quick]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(["episode", "replay", "../r"]) == 0
