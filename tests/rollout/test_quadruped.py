"""The bundled quadruped policy walks as its card says, in worlds that differ from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import QUADRUPED

from edgert.rollout import RolloutOptions, Rollouts, open_rollouts

WORLDS = 20


def walked(command: tuple[float, float, float] | None, seconds: float) -> tuple[Rollouts, dict[str, Any]]:
    options = RolloutOptions(model="quadruped", num_envs=WORLDS, seconds=seconds, command=command)
    with open_rollouts(options) as session:
        result = session.run()
        return result, session.report(result)


def told(command: tuple[float, float, float], seconds: float) -> np.ndarray:
    """Mean velocities (world, 3) of worlds in which nobody fell."""
    result, report = walked(command, seconds)
    assert (report["episodes"], report["falls"], report["safety_stops"]) == (WORLDS, 0, 0)
    velocity = np.array([stretch.velocity for stretch in result.stretches])
    assert [stretch.world for stretch in result.stretches] == list(range(WORLDS))
    mean = " ".join(f"{value:+.3f}" for value in velocity.mean(axis=0))
    print(f"asked {command}, walked {mean} m/s, m/s, rad/s over {WORLDS} randomised worlds")
    return velocity


@pytest.mark.parametrize("speed", [0.0, 0.5, 1.0])
def test_forward_speed(speed: float) -> None:
    assert told((speed, 0.0, 0.0), 10.0)[:, 0] == pytest.approx(speed, abs=0.1)  # in every world


@pytest.mark.parametrize("turn", [0.6, -0.6])
def test_turning(turn: float) -> None:
    assert told((0.5, 0.0, turn), 20.0)[:, 2] == pytest.approx(turn, abs=0.15)  # in every world


def test_no_fall_in_20_randomised_worlds_of_20_s_each() -> None:
    assert QUADRUPED.randomise.push_interval_s is not None
    result, report = walked(None, 20.0)
    assert [(e.steps, e.outcome) for e in result.episodes] == [(1000, "completed")] * WORLDS
    assert report["fall_rate"]["ci95"][0] == 0.0
    assert len(result.stretches) > WORLDS  # commands were drawn anew on the way
