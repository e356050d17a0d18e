"""From an observation to the targets of each joint, in the controller of one robot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgert.contract import Contract, RobotState, parse_contract
from edgert.contract.action import action_map
from edgert.errors import ContractError
from edgert.runtime.controller import Controller

NAMES = ("hip", "knee", "wheel")
RAW = np.array([[1.5, -2.0, 0.5, 3.0]], np.float32)


class Fixed:
    """A policy that always answers the same."""

    def __init__(self, contract: Contract, raw: np.ndarray, dtypes: dict[str, Any] | None = None) -> None:
        self.contract, self.name, self.nworld = contract, "fixed", 1
        kinds = dtypes or {}
        self.obs = {n: np.zeros((1, s.dim), kinds.get(n, np.float32)) for n, s in contract.inputs.items()}
        self.out = {"actions": raw}
        self.action = raw

    def reset(self, mask: Any = None) -> None:
        """It remembers nothing."""

    def act(self, obs: Any, out: Any) -> None:
        """It has acted already."""


def contract(inputs: dict[str, Any] | None = None, **action: Any) -> Contract:
    document = {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": list(NAMES), "default_pos": [0.1, -0.2, 0.3], "kp": [20.0, 10.0, 0.0], "kd": 0.5},
        "inputs": inputs or {"obs": {"terms": ["joint_pos"]}},
        "action": {"output": "actions"} | action,
    }
    return parse_contract(document, "test")


STATE = RobotState(joint_names=NAMES, joint_pos=np.array([[0.5, 0.25, 4.0]]), joint_vel=np.zeros((1, 3)))


def controller(spec: Contract, raw: np.ndarray = RAW, dtypes: dict[str, Any] | None = None) -> Controller:
    return Controller(Fixed(spec, raw, dtypes), STATE, (), "a body")  # type: ignore[arg-type]


def test_each_number_becomes_the_target_of_its_kind() -> None:
    spec = contract(
        joints=["knee", "wheel", "hip", "knee"],
        kind=["position", "velocity", "relative_position", "torque"],
        scale=[0.5, 10.0, 2.0, 1.0],
        clip=[-1.0, 1.0],
        target_clip=[[-9.0, 9.0], [-8.0, 8.0], [0.0, 1.2], [-9.0, 0.5]],
    )
    control = controller(spec)
    assert control.act()
    out = control.out
    assert out.q.tolist() == [[1.2, 0.3, 0.3]]  # hip: 0.5 measured + 2 × 0.5 within 1.2; knee: −0.2 + 0.5 × 1; default
    assert out.qd.tolist() == [[0.0, 0.0, -8.0]]
    assert out.tau.tolist() == [[0.0, 0.5, 0.0]]
    assert (out.kp.tolist(), out.kd.tolist()) == ([[20.0, 10.0, 0.0]], [[0.5, 0.5, 0.5]])


@pytest.mark.parametrize("kinds", [["position"] * 2, ["relative_position"] * 2, ["relative_position", "position"]])
@pytest.mark.parametrize("bounds", [{}, {"clip": [[-0.5, 0.5], [-4.0, 4.0]]}, {"target_clip": [-0.25, 0.75]}])
def test_targets_are_those_of_many_worlds(kinds: list[str], bounds: dict[str, Any]) -> None:
    spec = contract(joints=["knee", "hip"], kind=kinds, scale=[0.3, 0.7], **bounds)
    control = controller(spec, RAW[:, :2].copy())
    assert control.act()
    raw, measured = RAW[:, :2].astype(np.float64), np.array([[0.25, 0.5]])
    target = action_map(spec.action, raw, np).target(raw, np, measured)
    assert control.out.q[0, [1, 0]].tolist() == target[0].tolist()


def test_joints_that_get_no_position_or_none_at_all_keep_theirs() -> None:
    control = controller(contract(joints=["wheel"], kind="velocity"), RAW[:, :1].copy())
    assert control.act()
    assert control.out.q.tolist() == [[0.1, -0.2, 0.3]]
    assert control.out.qd.tolist() == [[0.0, 0.0, 1.5]]


@pytest.mark.parametrize(("stage", "seen"), [("raw", [1.5, -2.0]), ("clipped", [1.0, -1.0]), ("target", [0.6, -0.7])])
def test_the_last_action_is_seen_at_its_stage(stage: str, seen: list[float]) -> None:
    term = {"name": "last_action", "stage": stage}
    spec = contract({"obs": {"terms": [term]}}, joints=["hip", "knee"], scale=0.5, clip=[-1, 1])
    control = controller(spec, RAW[:, :2].copy())
    control.act()
    control.observe()
    np.testing.assert_allclose(control.policy.obs["obs"], [seen], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
def test_ticks_are_counted_from_the_reset(dtype: Any) -> None:
    spec = contract({"count": {"terms": ["step_count"]}, "obs": {"terms": ["joint_angle"]}}, joints=["hip"])
    control = controller(spec, RAW[:, :1].copy(), {"count": dtype})
    seen = []
    for tick in range(5):
        if tick == 3:
            control.reset()
        assert control.act()
        seen.append(control.policy.obs["count"].tolist())
    assert seen == [[[0]], [[1]], [[2]], [[0]], [[1]]]
    assert control.policy.obs["obs"].tolist() == [[0.5, 0.25, 4.0]]


def test_a_target_that_is_not_finite_is_not_sent_and_named() -> None:
    spec = contract(joints=["hip", "wheel"], kind=["position", "velocity"])
    control = controller(spec, np.array([[0.5, np.nan]], np.float32))
    assert not control.act()
    assert control.out.qd.tolist() == [[0.0, 0.0, 0.0]]
    assert control.problem() == "nan for joint 'wheel'"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"joints": ["hip", "hip"]}, "key 'action.joints' is wrong: found hip more than once, expected each name once"),
        ({"joints": ["hip", "hip"], "kind": ["position", "relative_position"]}, "found hip more than once"),
        ({"joints": ["hip"], "kind": "velocity"}, "found 20 for hip, which gets no position, expected 0 for joints"),
        ({"joints": ["hip"], "kind": ["position", "torque"]}, "found 2 words, expected 1, one for each joint"),
        ({"joints": ["hip"], "kind": {"knee": "torque"}}, "found unknown joint knee"),
        ({"joints": ["hip"], "kind": ["force"]}, "key 'action.kind.0' is wrong: found 'force'"),
        ({"joints": ["hip", "knee"], "clip": [[0, 1]]}, "found 1 pairs, expected 2, one for each joint"),
        ({"joints": ["hip", "knee"], "clip": [[0, 1], [2, 1]]}, "key 'action.clip.1' is wrong: found [2, 1]"),
        ({"joints": ["hip"], "target_clip": {"hip": [1]}}, "key 'action.target_clip.hip' is wrong"),
        ({"joints": ["hip"], "target_clip": [0, 1, 2]}, "key 'action.target_clip' is wrong: found 3 numbers"),
        ({"joints": []}, "key 'action.joints' is wrong: found no joint"),
        ({"joints": "hip"}, "key 'action.joints' is wrong: found text 'hip', expected a list of names"),
        ({"output": []}, "key 'action.output' is wrong"),
        ({"added": [3]}, "key 'action.added' is wrong"),
    ],
)
def test_actions_that_cannot_be_meant_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught:
        contract(**changes)
    assert text in str(caught.value)


def test_a_target_that_was_measured_is_no_last_action() -> None:
    inputs = {"obs": {"terms": [{"name": "last_action", "stage": "target"}]}}
    with pytest.raises(ContractError, match="a term last_action of stage 'target', and a relative_position action"):
        contract(inputs, joints=["hip"], kind="relative_position")


@pytest.mark.parametrize(
    ("term", "dims"),
    [
        ({"name": "joint_vel", "joints": ["wheel", "hip"]}, (2, 0)),
        ({"name": "joint_angle", "joints": ["knee"]}, (1,)),
        ({"name": "joint_pos", "joints": list(NAMES)}, None),
    ],
)
def test_terms_pick_joints_by_name(term: dict[str, Any], dims: tuple[int, ...] | None) -> None:
    (read,) = contract({"obs": {"terms": [term]}}).inputs["obs"].terms
    assert read.index == dims
