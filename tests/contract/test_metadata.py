"""Values of ONNX metadata: JSON, lists with commas, lists inside them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.contract.metadata import Metadata
from edgert.errors import ContractError, EdgertError


def values(text: str) -> Metadata:
    return Metadata({"key": text}, "p.onnx")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("hip,knee", ["hip", "knee"]),
        (" hip , knee ", ["hip", "knee"]),
        ("hip", "hip"),
        ("a,,b,", ["a", "", "b", ""]),
        ("", ""),
        ('["hip", "knee"]', ["hip", "knee"]),
        ('{"hip": 1.5}', {"hip": 1.5}),
        ('"0.4.1"', "0.4.1"),
        ("-inf;inf,-1.000;1.000", [["-inf", "inf"], ["-1.000", "1.000"]]),
        ("[-inf, inf],[-1.0, 1.0]", [["-inf", "inf"], [-1.0, 1.0]]),
        ("[(-inf, inf), None, (-0.5, 0.5), True,]", [["-inf", "inf"], None, [-0.5, 0.5], True]),
        ("None, (-inf, inf)", [None, ["-inf", "inf"]]),
        ("[[-Infinity, Infinity]]", [["-Infinity", "Infinity"]]),
        ("['hip', 'inf (left)']", ["hip", "inf (left)"]),
        ("('hip', \"knee\")", ["hip", "knee"]),
        ('"hip", "knee"', ["hip", "knee"]),
        ("[[-1, 1], [0, 2]]", [[-1, 1], [0, 2]]),
    ],
)
def test_a_value_is_json_or_a_list_with_commas(text: str, value: object) -> None:
    assert values(text).value("key") == value


def test_numbers_are_read_as_they_are_printed() -> None:
    assert values("1.000,-0.250,3e-2").numbers("key") == [1.0, -0.25, 0.03]
    assert values("[1, 2.5]").numbers("key", 2) == [1.0, 2.5]
    assert values("0.500").numbers("key") == [0.5]
    assert values("5.000,0.000").integers("key", 2, 10) == [5, 0]
    assert values("1.000,0.000,True,False").flags("key", 4) == [True, False, True, False]
    assert values("[true, false]").flags("key", 2) == [True, False]
    assert values("0.250,1.000;2.000").scales("key", 2) == [0.25, [1.0, 2.0]]
    assert values("1.000;2.000").scales("key", 1) == [[1.0, 2.0]]


def test_a_comma_at_the_end_adds_nothing() -> None:
    assert values("1.0,2.0,").numbers("key", 2) == [1.0, 2.0]
    assert values("hip,knee,").names("key") == ["hip", "knee"]
    assert values("1,2,").integers("key", 2, 5) == [1, 2]
    assert values("imu,,").texts("key", 2) == ["imu", ""]
    assert values("imu,,").texts("key", 3) == ["imu", "", ""]


def test_an_item_that_says_nothing_is_no_scale_and_no_history() -> None:
    assert values("0.25,None,,2").scales("key", 4) == [0.25, 1.0, 1.0, 2.0]
    assert values("None,3,null").integers("key", 3, 5) == [0, 3, 0]
    assert values('[null, 0.5, ""]').scales("key", 3) == [1.0, 0.5, 1.0]


def test_bounds_without_an_end_are_none_or_large() -> None:
    found = values("-inf;inf,-100.000;100.000,-inf;5.000,None").bounds("key", 4)
    assert found == [None, [-100.0, 100.0], [-1e12, 5.0], None]
    assert values("-1;1").bounds("key", 1) == [[-1.0, 1.0]]


def test_what_says_nothing_is_not_there() -> None:
    assert not any(Metadata({"key": text}, "p").has("key") for text in ("", "  ", "None", "null", "[]"))
    assert not Metadata({}, "p").has("key")
    assert values("0").has("key")


def test_json_inside_json_is_taken_out() -> None:
    assert values('"{\\"a\\": [1]}"').table("key").data == {"a": [1]}


REFUSED: list[tuple[str, Callable[[Metadata], Any], str]] = [
    ("1.0,abc", lambda m: m.numbers("key"), "found 'abc', expected finite numbers"),
    ("1.0,nan", lambda m: m.numbers("key"), "found 'nan'"),
    ("1.0,inf", lambda m: m.numbers("key"), "found 'inf'"),
    ("1e999", lambda m: m.numbers("key"), "found '1e999'"),
    ("1e13", lambda m: m.numbers("key"), "at most 1e+12 in magnitude"),
    ("1_000", lambda m: m.numbers("key"), "found '1_000'"),
    ("[1, NaN]", lambda m: m.numbers("key"), "is not valid JSON: found the number NaN"),
    ("[1e999]", lambda m: m.numbers("key"), "is not valid JSON: found Out of range"),
    ("[true]", lambda m: m.numbers("key"), "found True"),
    ("1.0,,2.0,", lambda m: m.numbers("key"), "found ''"),
    ("1.0,2.0", lambda m: m.numbers("key", 3, "joint"), "found 2 numbers, expected 3, one for each joint"),
    ("0.5", lambda m: m.integers("key", 1, 9), "expected whole numbers from 0 to 9"),
    ("-1", lambda m: m.integers("key", 1, 9), "expected whole numbers from 0 to 9"),
    ("2.000", lambda m: m.flags("key", 1), "expected true or false"),
    ("1,2,1", lambda m: m.bounds("key", 3), "expected a low and a high bound"),
    ("2;1", lambda m: m.bounds("key", 1), "low <= high"),
    ("a,b,a", lambda m: m.names("key"), "found a more than once, expected each name once"),
    ("a,,b", lambda m: m.names("key"), "expected a list of names"),
    ('["a", 1]', lambda m: m.names("key"), "expected a list of names"),
    ('["a", "b', lambda m: m.names("key"), "is not valid JSON"),
    ("['a', b]", lambda m: m.names("key"), "is not valid JSON"),
    ('{"a": 1, "a": 2}', lambda m: m.table("key"), "the key a more than once"),
    ("[1]", lambda m: m.table("key"), "expected a JSON object"),
    ('{"a":' * 40 + "1" + "}" * 40, lambda m: m.table("key"), "nested too deep"),
    ('{"a":' * 5000, lambda m: m.table("key"), "is not valid JSON"),
    ("a" * (2 << 20), lambda m: m.text("key"), "found 2097152 characters"),
    ("__import__('os').system('true')", lambda m: m.numbers("key"), "expected finite numbers"),
]


@pytest.mark.parametrize(("text", "read", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_anything_else_is_refused_by_its_key(text: str, read: Callable[[Metadata], Any], said: str) -> None:
    with pytest.raises(ContractError) as caught:
        read(values(text))
    assert "metadata 'key' of policy p.onnx" in str(caught.value)
    assert said in str(caught.value)


def test_a_key_that_is_not_there_is_named() -> None:
    with pytest.raises(ContractError, match=r"^metadata 'other' of policy p.onnx is missing$"):
        values("1").numbers("other")


READERS: list[Callable[[Metadata], Any]] = [
    lambda m: m.value("key"),
    lambda m: m.text("key"),
    lambda m: m.names("key"),
    lambda m: m.numbers("key"),
    lambda m: m.scales("key", 2),
    lambda m: m.bounds("key", 2),
    lambda m: m.integers("key", 2, 5),
    lambda m: m.flags("key", 2),
    lambda m: m.table("key"),
]
ALPHABET = st.sampled_from([*'[]{};,:" .-+', "inf", "nan", "1", "1e999", "null", "true", "a", "\\", "\0", "\ud800"])


@given(st.lists(ALPHABET, max_size=30).map("".join), st.sampled_from(READERS))
def test_no_text_ends_in_a_traceback(text: str, read: Callable[[Metadata], Any]) -> None:
    with suppress(EdgertError):
        read(values(text))


@pytest.mark.parametrize("text", ["," * 1_000_000, "[" * 1_000_000, "[]," * 300_000, "1" * 1_000_000, ";," * 400_000])
def test_a_large_text_is_no_number_and_no_trap(text: str) -> None:
    """Time in proportion to the text: at a square of it this test would take hours."""
    with pytest.raises(ContractError):
        values(text).numbers("key")
    for read in READERS:
        with suppress(EdgertError):
            read(values(text))
