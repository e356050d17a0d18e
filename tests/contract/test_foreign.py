"""What the readers of formats share."""

from __future__ import annotations

import pytest
from metadata_examples import evidence

from edgert.contract.foreign import one_bound, only_input, twist
from edgert.errors import ContractError
from edgert.tables import Table

OUTPUTS = {"actions": (1, 2), "h_out": (1, 1, 4)}
NAMES = {"lin_vel_x": "vx_m_s", "ang_vel_z": "wz_rad_s"}


def test_memory_and_the_frame_of_a_motion_are_no_observation() -> None:
    inputs = {"h_in": (1, 1, 4), "time_step": (1, 1), "obs": (1, 3)}
    assert only_input(evidence(inputs, OUTPUTS, {}), "its file") == "obs"
    with pytest.raises(ContractError) as caught:
        only_input(evidence(inputs | {"image": (1, 3, 8, 8)}, OUTPUTS, {}), "its file")
    assert str(caught.value) == ("policy p.onnx does not take the one input that its file describes: found obs, image")


def test_a_twist_has_the_ranges_that_are_told() -> None:
    assert twist(None, NAMES) == {"kind": "twist"}
    ranges = {"lin_vel_x": [-1, 2], "ang_vel_z": None, "heading": [0, 1]}
    assert twist(Table(ranges, "test"), NAMES) == {"kind": "twist", "vx_m_s": [-1.0, 2.0]}


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        (None, None),
        ([-1, 2], [-1.0, 2.0]),
        ([[-1, 2], [-1, 2], [-1, 2]], [-1.0, 2.0]),
        ([float("-inf"), float("inf")], None),
        ([float("-inf"), 2], [-1e12, 2.0]),
    ],
)
def test_a_bound_is_one_for_every_number(value: object, bound: list[float] | None) -> None:
    assert one_bound(Table({"clip": value}, "test"), "clip") == bound


@pytest.mark.parametrize("value", [[[-1, 2], [-1, 3]], [2, -1], [1], "x", [float("nan"), 1.0], []])
def test_bounds_that_differ_or_cannot_be_are_refused(value: object) -> None:
    with pytest.raises(ContractError, match=r"test: key 'obs\.clip' is wrong"):
        one_bound(Table({"clip": value}, "test", "obs"), "clip")
