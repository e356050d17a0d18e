"""What the readers of formats share."""

from __future__ import annotations

import pytest
from metadata_examples import evidence

from edgert.contract.foreign import only_input, twist
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
