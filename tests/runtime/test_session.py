"""Real policies that nobody here trained, and the bundled one, as `edgert run policy` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import GO1_TOML

from edgert.runtime import RunOptions, open_session


def go1(shared: Path, tmp_path: Path, command: tuple[float, float, float], seconds: float) -> dict:
    contract = tmp_path / "policy.toml"
    contract.write_text(GO1_TOML)
    options = RunOptions(
        model=str(shared / "policies/unitree_go1_playground/go1_policy.onnx"),
        sim=str(shared / "robots/unitree_go1/scene.xml"),
        contract=contract,
        command=command,
        seconds=seconds,
        real_time=False,
    )
    with open_session(options) as session:
        return session.report(session.run())


def test_go1_walks(shared: Path, tmp_path: Path) -> None:
    report = go1(shared, tmp_path, (0.8, 0.0, 0.0), 10.0)
    assert report["outcome"] == "completed"
    assert report["mean_velocity"][0] == pytest.approx(0.83, abs=0.05)
    assert report["distance_m"] == pytest.approx(8.2, abs=0.5)


@pytest.mark.parametrize("turn", [0.6, -0.6])
def test_go1_turns(shared: Path, tmp_path: Path, turn: float) -> None:
    report = go1(shared, tmp_path, (0.5, 0.0, turn), 20.0)
    assert report["outcome"] == "completed"
    vx, _, wz = report["mean_velocity"]
    assert vx == pytest.approx(0.5, abs=0.1)
    assert wz == pytest.approx(turn, abs=0.05)


def test_go1_has_the_digest_of_its_catalogue_entry(shared: Path, tmp_path: Path) -> None:
    report = go1(shared, tmp_path, (0.8, 0.0, 0.0), 0.1)
    assert report["policy_sha256"] == "386cde6a1eac679e2f2a313ade2b395d9f26905b151ee3b019c2c4163d49b6f2"


def test_wrong_term_order_drops_the_robot(shared: Path, tmp_path: Path) -> None:
    """The check can fail: the term order of another robot fells this one."""
    contract = tmp_path / "policy.toml"
    contract.write_text(
        GO1_TOML.replace('  "command",\n', "").replace('  "joint_pos",\n', '  "command",\n  "joint_pos",\n')
    )
    options = RunOptions(
        model=str(shared / "policies/unitree_go1_playground/go1_policy.onnx"),
        sim=str(shared / "robots/unitree_go1/scene.xml"),
        contract=contract,
        command=(0.8, 0.0, 0.0),
        real_time=False,
    )
    with open_session(options) as session:
        report = session.report(session.run())
    assert report["outcome"] == "fell"
