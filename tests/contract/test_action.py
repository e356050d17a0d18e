"""Where the numbers of an action go."""

from __future__ import annotations

from support import QUADRUPED

from edgert.contract.action import EVERY, places
from edgert.contract.document import parse_contract


def test_an_action_of_one_kind_for_every_joint_is_taken_whole() -> None:
    contract = QUADRUPED.contract
    assert places(contract.action, contract.joints) == [("q", EVERY, EVERY)]


def test_numbers_of_several_kinds_go_to_their_own_fields() -> None:
    document = {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": ["hip", "knee", "wheel"], "default_pos": [0.0] * 3, "kp": [9.0, 0.0, 0.0], "kd": 1.0},
        "inputs": {"obs": {"terms": ["joint_pos"]}},
        "action": {
            "joints": ["wheel", "hip", "knee"],
            "kind": {"wheel": "velocity", "hip": "relative_position", "knee": "torque"},
            "scale": 1.0,
            "output": "actions",
        },
    }
    contract = parse_contract(document, "a test")
    assert places(contract.action, contract.joints) == [("q", [0], [1]), ("qd", [2], [0]), ("tau", [1], [2])]
