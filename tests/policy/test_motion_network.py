"""Motions inside a network: how their end is found, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from edgert.contract.motion import MAX_FRAMES
from edgert.contract.spec import MotionSpec
from edgert.errors import ContractError, IntegrityError
from edgert.policy import motion_network
from edgert.policy.motion_network import read_network

SPEC = MotionSpec(time_step="time_step", outputs={"joint_pos": "q"}, joints=("a", "b", "c"))


class Network:
    """A table of joints, clamped at its end or not; counts its runs."""

    def __init__(self, table: np.ndarray, *, clamp: bool = True) -> None:
        self.table, self.clamp, self.runs = table, clamp, 0

    def __call__(self, step: int, observation: float) -> Mapping[str, Any]:
        self.runs += 1
        if not self.clamp and step >= len(self.table):
            raise IntegrityError("the network fails", found="index out of range")
        return {"q": self.table[min(step, len(self.table) - 1)][None].astype(np.float32)}


def read(table: np.ndarray, **options: Any) -> np.ndarray:
    track = read_network(Network(table, **options), SPEC, 50.0)
    assert track.joint_pos is not None
    return track.joint_pos


def moving(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(frames, 3)).astype(np.float32)


@pytest.mark.parametrize("frames", [2, 3, 5, 8, 9, 64, 411, 1500])
@pytest.mark.parametrize("clamp", [True, False])
def test_every_frame_is_found(frames: int, clamp: bool) -> None:
    np.testing.assert_array_equal(read(moving(frames), clamp=clamp), moving(frames))


def test_few_runs_more_than_frames_are_needed() -> None:
    network = Network(moving(1000))
    read_network(network, SPEC, 50.0)
    assert network.runs < 1.3 * 1000 + 120


@pytest.mark.parametrize("again", [0, 1, 17, 48])
def test_passing_the_last_pose_is_not_the_end(again: int) -> None:
    table = moving(50)
    table[again] = table[-1]
    np.testing.assert_array_equal(read(table)[:49], table[:49])


def test_a_pause_in_the_last_pose_is_not_the_end() -> None:
    table = moving(200)
    table[20:60] = table[-1]
    np.testing.assert_array_equal(read(table), table)


def test_a_last_pose_that_is_held_needs_no_frames() -> None:
    table = moving(60)
    table[40:] = table[40]
    np.testing.assert_array_equal(read(table), table[:41])


def test_a_pose_that_never_changes() -> None:
    with pytest.raises(ContractError) as caught:
        read(np.ones((5, 3)))
    assert str(caught.value) == (
        "the motion in the network never changes with its input 'time_step': found q, expected outputs that give "
        "another frame for each time step. Correct [motion.outputs] and time_step in policy.toml"
    )


def test_a_motion_without_an_end() -> None:
    def endless(step: int, observation: float) -> Mapping[str, Any]:
        return {"q": np.full((1, 3), np.sin(step))}

    with pytest.raises(ContractError) as caught:
        read_network(endless, SPEC, 50.0)
    assert str(caught.value) == (
        f"the motion in the network does not end: found other outputs at time step {MAX_FRAMES + 1} than at "
        f"{MAX_FRAMES}, expected at most {MAX_FRAMES} frames, and the last one held. Export the motion with time_step "
        "clamped at its end"
    )


def test_a_motion_of_too_many_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion_network, "MAX_NUMBERS", 100)
    with pytest.raises(ContractError) as caught:
        read(moving(40))
    assert str(caught.value) == (
        "the motion in the network is too large: found 40 frames of 3 numbers, expected at most 100 numbers"
    )


def test_outputs_that_follow_the_observation() -> None:
    def actor(step: int, observation: float) -> Mapping[str, Any]:
        return {"q": np.full((1, 3), min(step, 9) + observation)}

    with pytest.raises(ContractError, match="follows the observation: found q, expected outputs of time_step alone"):
        read_network(actor, SPEC, 50.0)


def test_a_network_that_fails_at_once() -> None:
    with pytest.raises(IntegrityError, match="the network fails"):
        read(np.zeros((0, 3)), clamp=False)


def test_poses_of_the_anchor_and_of_bodies() -> None:
    rng = np.random.default_rng(0)
    pos, quat = rng.normal(size=(6, 2, 3)), rng.normal(size=(6, 2, 4))

    def network(step: int, observation: float) -> Mapping[str, Any]:
        frame = min(step, 5)
        return {"p": pos[frame][None], "o": quat[frame][None], "x": pos[frame, 1], "r": quat[frame, 1]}

    bodies = MotionSpec(time_step="t", outputs={"body_pos": "p", "body_quat": "o"})
    track = read_network(network, bodies, 50.0)
    np.testing.assert_array_equal(track.body_pos, pos)
    np.testing.assert_array_equal(track.body_quat, quat)
    assert track.bodies == ()
    anchor = MotionSpec(time_step="t", outputs={"anchor_quat": "r", "anchor_pos": "x"}, anchor="torso")
    track = read_network(network, anchor, 50.0)
    np.testing.assert_array_equal(track.body_pos, pos[:, 1:])
    np.testing.assert_array_equal(track.body_quat, quat[:, 1:])
    assert track.bodies == ("torso",)
    wrong = MotionSpec(time_step="t", outputs={"anchor_pos": "p"})
    with pytest.raises(ContractError) as caught:
        read_network(network, wrong, 50.0)
    assert str(caught.value) == (
        "output 'p' of the motion in the network has a wrong size: found 6 numbers a frame, expected 3 for the anchor"
    )
