"""Refusals: one printable line, with fields."""

from __future__ import annotations

import pytest

from edgert.errors import ContractError, EdgertError


def test_a_refusal_says_what_found_expected_and_the_next_step():
    error = ContractError("the gain is wrong", found=-1, expected="at least 0", hint="Give a positive gain")
    assert str(error) == "the gain is wrong: found -1, expected at least 0. Give a positive gain"
    assert (error.what, error.found, error.expected, error.hint) == (
        "the gain is wrong",
        "-1",
        "at least 0",
        "Give a positive gain",
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "wrong"),
        ({"found": 1}, "wrong: found 1"),
        ({"expected": 2}, "wrong: expected 2"),
        ({"hint": "Do it"}, "wrong. Do it"),
        ({"found": 0}, "wrong: found 0"),
    ],
)
def test_parts_that_say_nothing_are_left_out(fields, text):
    assert str(EdgertError("wrong", **fields)) == text


def test_lines_become_one():
    assert str(EdgertError("a\n b", found="c\r\n\td")) == "a b: found c d"


def test_controls_and_half_surrogates_are_escaped():
    assert str(EdgertError("a\x1b[31m", found="\ud800\u202e")) == r"a\x1b[31m: found \ud800\u202e"


def test_letters_units_and_signs_are_left_alone():
    assert str(EdgertError("Gelenk für 5 N·m/rad … ²")) == "Gelenk für 5 N·m/rad … ²"


def test_a_long_part_is_cut_in_the_middle():
    text = str(EdgertError("start " + "x" * 10_000 + " end"))
    assert len(text) < 620
    assert text.startswith("start x")
    assert text.endswith("x end")
    assert " … " in text


def test_every_refusal_is_an_edgert_error():
    import edgert.errors

    kinds = [kind for kind in vars(edgert.errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 5
    assert all(issubclass(kind, EdgertError) for kind in kinds)
