"""Histories of observations against the plainest way to write them down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_examples import contract, document, numbers, observed, term_inputs
from hypothesis import given
from hypothesis import strategies as st

from edgert.contract import Contract, parse_contract
from edgert.contract.history import History
from edgert.contract.plan import ObservationPlan
from edgert.errors import ContractError

POS, VEL, LAST = {"name": "joint_pos", "scale": 2.0}, {"name": "joint_vel"}, {"name": "last_action"}


def spec(*terms: Any, layout: str = "term", fill: str = "first", newest: str = "last") -> Contract:
    some = document(*terms)
    some["inputs"]["obs"] |= {"layout": layout, "fill": fill, "newest": newest}
    return parse_contract(some, "test")


def stacked(some: Contract, ticks: list[np.ndarray], now: int, beginning: int) -> list[float]:
    """The input of one world at tick `now` of an episode that began at tick `beginning`, term by term."""
    spec, row = some.inputs["obs"], []
    starts = np.cumsum([0, *(term.dim for term in spec.terms)])
    if spec.fill == "zero":
        ticks = [np.zeros_like(tick) if number < beginning else tick for number, tick in enumerate(ticks)]
        ticks, now, beginning = [np.zeros_like(ticks[0])] * spec.history + ticks, now + spec.history, 0
    order = reversed if spec.newest == "last" else iter
    if spec.layout == "frame":
        for age in order(range(spec.history)):
            row += ticks[max(beginning, now - age)].tolist()
        return row
    for term, start in zip(spec.terms, starts, strict=False):
        for age in order(range(term.history)):
            row += ticks[max(beginning, now - age)][start : start + term.dim].tolist()
    return row


@pytest.mark.parametrize(
    "some",
    [
        spec(POS | {"history": 3}, VEL, LAST | {"history": 2}),
        spec(*(term | {"history": 4} for term in (POS, VEL, LAST)), layout="frame"),
        spec(POS | {"history": 5}),
        spec(POS | {"history": 3}, VEL, LAST | {"history": 2}, fill="zero"),
        spec(*(term | {"history": 4} for term in (POS, VEL, LAST)), layout="frame", fill="zero"),
        spec(POS | {"history": 3}, VEL, LAST | {"history": 2}, newest="first"),
        spec(*(term | {"history": 4} for term in (POS, VEL, LAST)), layout="frame", fill="zero", newest="first"),
    ],
    ids=["term by term", "frame by frame", "one term", "zeros term by term", "zeros frame by frame", "newest", "both"],
)
def test_every_sample_is_where_the_layout_says(some: Contract) -> None:
    inputs = some.inputs["obs"]
    rng = np.random.default_rng(0)
    ticks = [rng.normal(size=(3, inputs.frame_dim)) for _ in range(12)]
    out = np.full((3, inputs.dim), np.nan)
    history, began = History(inputs, out), [0, 0, 0]
    for now, frames in enumerate(ticks):
        if now == 7:  # the second world begins again
            history.reset(np.array([False, True, False]))
            began[1] = now
        history.push(frames)
        for world in range(3):
            assert out[world].tolist() == stacked(some, [tick[world] for tick in ticks], now, began[world])
    assert inputs.names() == [term for term, _ in named(some)]


def named(some: Contract) -> list[tuple[str, int]]:
    """The term and the age of every number."""
    spec = some.inputs["obs"]
    ages = reversed(range(spec.history))
    if spec.layout == "frame":
        return [(term.name, age) for age in ages for term in spec.terms for _ in range(term.dim)]
    return [(term.name, age) for term in spec.terms for age in reversed(range(term.history)) for _ in range(term.dim)]


def test_a_push_of_some_worlds_leaves_the_others_alone() -> None:
    some = spec(POS | {"history": 2})
    out = np.zeros((2, 6))
    history = History(some.inputs["obs"], out)
    history.push(np.array([[1.0, 1, 1], [2, 2, 2]]))
    history.push(np.array([[3.0, 3, 3]]), np.array([True, False]))
    assert out.tolist() == [[1, 1, 1, 3, 3, 3], [2, 2, 2, 2, 2, 2]]
    history.reset()
    history.push(np.array([[5.0, 5, 5]]), np.array([False, True]))  # the first world is still to begin
    assert out.tolist() == [[1, 1, 1, 3, 3, 3], [5, 5, 5, 5, 5, 5]]
    history.push(np.array([[6.0, 6, 6], [7, 7, 7]]))
    assert out.tolist() == [[6, 6, 6, 6, 6, 6], [5, 5, 5, 7, 7, 7]]


def test_the_compiled_plan_of_one_robot_keeps_the_same_history() -> None:
    some = spec(POS | {"history": 3}, VEL | {"clip": [-1.0, 2.0], "scale": 0.5}, layout="term")
    values = numbers(nworld=1)
    inputs = term_inputs(some, values)
    out, generic = np.zeros((1, some.inputs["obs"].dim)), np.zeros((1, some.inputs["obs"].dim))
    plan, history = ObservationPlan(some, "obs", inputs, out), History(some.inputs["obs"], generic)
    rng = np.random.default_rng(1)
    for tick in range(8):
        inputs.state.joint_pos[:] = rng.normal(size=(1, 3))  # type: ignore[index]
        inputs.state.joint_vel[:] = rng.normal(size=(1, 3))  # type: ignore[index]
        if tick == 5:
            plan.reset()
            history.reset()
        plan()
        history.push(observed(some, inputs))
        np.testing.assert_array_equal(out, generic)


@given(
    st.floats(-100, 100), st.floats(-10, 10), st.floats(-10, 10), st.lists(st.floats(-50, 50), min_size=2, max_size=2)
)
def test_clipping_first_is_clipping_before_scaling(
    raw: float, scale: float, offset: float, bounds: list[float]
) -> None:
    low, high = sorted(bounds)
    term = {"name": "last_action", "clip": [low, high], "clip_first": True, "scale": scale, "offset": offset}
    values = numbers(nworld=1) | {"last_action": np.array([[raw, -raw]])}
    some = contract(term)
    expected = np.clip([[raw, -raw]], low, high) * scale + offset
    np.testing.assert_allclose(observed(some, term_inputs(some, values)), expected, rtol=1e-12, atol=1e-9)


def test_a_contract_with_a_history_survives_its_document() -> None:
    some = spec(POS | {"history": 3, "clip": [-1, 1], "clip_first": True}, VEL | {"history": 3}, layout="frame")
    assert parse_contract(some.to_document(), "again").inputs == some.inputs
    assert some.inputs["obs"].dim == 18
    assert some.inputs["obs"].sizes() == "joint_pos 3 × 3 + joint_vel 3 × 3"


@pytest.mark.parametrize(
    ("terms", "layout", "text"),
    [
        ([POS | {"history": 0}], "term", "key 'inputs.obs.terms[0].history' is wrong: found 0, expected at least 1"),
        (
            [POS | {"history": 1001}],
            "term",
            "key 'inputs.obs.terms[0].history' is wrong: found 1001, expected at least 1 and at most 1000",
        ),
        ([POS], "time", "key 'inputs.obs.layout' is wrong: found 'time', expected one of term, frame"),
        (
            [POS | {"history": 2}, VEL],
            "frame",
            "key 'inputs.obs.layout' is wrong: found 'frame', and histories of 1, 2, expected one length of history "
            "for every term",
        ),
    ],
)
def test_a_history_that_cannot_be_is_refused(terms: list[Any], layout: str, text: str) -> None:
    with pytest.raises(ContractError) as caught:
        spec(*terms, layout=layout)
    assert str(caught.value).startswith(f"test: {text}")
