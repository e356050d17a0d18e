"""`edgert run policy` with a policy that tracks a motion, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tracking
from support import save

from edgert.cli.main import run


def arguments(folder: Path) -> list[str]:
    tables = tracking.network_tables(tracking.reference())
    model = tracking.tracking_model(tables, tracking.document(tracking.NETWORK_MOTION))
    path, scene = save(model, folder / "tracker.onnx"), tracking.scene_file(folder)
    return ["run", "policy", str(path), "--sim", str(scene), "--no-real-time", "--seconds", "1"]


def test_the_report_tells_of_the_motion(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run([*arguments(tmp_path), "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["motion"] == {
        "frames": 40,
        "hz": 50.0,
        "seconds": 0.78,
        "loop": False,
        "source": "the motion in the network",
    }
    assert 0.0 < report["metrics"]["joint_pos_error_rad"] < 1.0
    assert 0.0 < report["metrics"]["anchor_pos_error_m"] < 1.0
    assert "the motion in the network takes 0.78 s and is held at its last frame" in captured.err


@pytest.mark.parametrize(("flag", "said"), [("--motion-loop", "looped"), ("--no-motion-loop", "held at its end")])
def test_the_table_tells_of_the_motion(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flag: str, said: str
) -> None:
    assert run([*arguments(tmp_path), flag]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("motion")]
    assert f"40 frames, 0.78 s, {said}; off by 0." in line
    assert line.rstrip().endswith("m at the anchor (mean)")


def test_a_policy_without_a_motion_does_not_loop(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "policy", "--motion-loop", "--no-real-time"]) == 2
    assert capsys.readouterr().err.endswith(
        "this policy follows no reference motion, which --motion-loop is for. Leave it out, or name the motion "
        "as [motion] in policy.toml\n"
    )


def test_an_environment_has_no_motion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "policy", "x.onnx", "--env", "CartPole-v1", "--motion-loop"]) == 2
    assert "--motion-loop" in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    contract = tracking.document({"file": "walk.npz", "anchor": "torso"})
    path = save(tracking.linear(contract), tmp_path / "tracker.onnx")
    assert run(["run", "policy", str(path), "--sim", str(tracking.scene_file(tmp_path))]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"edgert: cannot read motion file {tmp_path / 'walk.npz'}: found No such file or directory. Check the path and "
        "its permissions"
    )
