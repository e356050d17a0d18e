"""The bundled quadruped policy walks as its card says, in worlds that differ from each other."""

from __future__ import annotations

import numpy as np
import pytest
from support import QUADRUPED, linear_model, quadruped_document, save

from edgert.device import find_device
from edgert.errors import ContractError
from edgert.policy import load_policy
from edgert.rollout import Tracking, follow

SEEDS = range(20)


def walked(command: tuple[float, float, float] | None, seconds: float, **options: object) -> Tracking:
    return follow(
        load_policy("quadruped"),
        QUADRUPED,
        find_device("cpu"),
        seeds=SEEDS,
        seconds=seconds,
        command=command,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("speed", [0.0, 0.5, 1.0])
def test_forward_speed(speed: float) -> None:
    result = walked((speed, 0.0, 0.0), 10.0)
    assert not result.fell.any()
    mean = result.velocity.mean(axis=0)
    print(f"asked vx {speed} m/s, walked {mean} m/s, m/s, rad/s over {len(SEEDS)} randomised worlds")
    assert result.velocity[:, 0] == pytest.approx(speed, abs=0.1)  # in every world


@pytest.mark.parametrize("turn", [0.6, -0.6])
def test_turning(turn: float) -> None:
    result = walked((0.5, 0.0, turn), 20.0)
    assert not result.fell.any()
    mean = result.velocity.mean(axis=0)
    print(f"asked wz {turn} rad/s, walked {mean} m/s, m/s, rad/s over {len(SEEDS)} randomised worlds")
    assert result.velocity[:, 2] == pytest.approx(turn, abs=0.15)  # in every world


def test_no_fall_in_20_randomised_worlds_of_20_s_each() -> None:
    assert QUADRUPED.randomise.push_interval_s is not None
    assert not walked(None, 20.0).fell.any()


def test_a_world_depends_on_its_seed_alone() -> None:
    loaded, device = load_policy("quadruped"), find_device("cpu")
    many = follow(loaded, QUADRUPED, device, seeds=[5, 6, 7], seconds=1.0)
    one = follow(loaded, QUADRUPED, device, seeds=[6], seconds=1.0)
    # The network's own arithmetic may round differently for another batch size.
    np.testing.assert_allclose(many.velocity[1], one.velocity[0], atol=1e-3)


def test_falls_are_counted(tmp_path) -> None:
    kick = save(linear_model(bias=8.0, document=quadruped_document()), tmp_path / "kick.onnx")
    result = follow(load_policy(str(kick)), QUADRUPED, find_device("cpu"), seeds=[1, 2], seconds=3.0)
    assert result.fell.all()
    assert np.isnan(result.velocity).all()


def test_policy_of_another_task_is_refused(tmp_path) -> None:
    document = quadruped_document()
    document["inputs"]["obs"]["terms"].reverse()
    path = save(linear_model(document=document), tmp_path / "other.onnx")
    with pytest.raises(
        ContractError, match="was trained for another task than 'quadruped': found 'inputs' of its contract"
    ):
        follow(load_policy(str(path)), QUADRUPED, find_device("cpu"), seeds=[1], seconds=1.0)
