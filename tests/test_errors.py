"""Refusals: one printable line, with fields."""

from __future__ import annotations

import pytest

from edgert.errors import ContractError, DeviceError, EdgertError, UnsupportedError, importing


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


def test_a_long_list_is_cut_between_its_names():
    names = [f"left_shoulder_{number}_joint" for number in range(100)]
    shown = str(EdgertError("no joints", found=", ".join(names))).removeprefix("no joints: found ")
    assert len(shown) < 620
    first, last = shown.split(" … ")
    assert set(first.removesuffix(",").split(", ")) | set(last.split(", ")) <= set(names)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ModuleNotFoundError("No module named 'pack'", name="pack"), "there is no pack. Run: pip install pack"),
        (
            ModuleNotFoundError("No module named 'other'", name="other"),
            "the Pack cannot be imported: found No module named 'other'. Mend it",
        ),
        (ImportError("libpack.so.1: no such file"), "the Pack cannot be imported: found libpack.so.1: no such file. "),
        (AttributeError("no glGetError"), "the Pack cannot be imported: found no glGetError. Mend it"),
        (TypeError(), "the Pack cannot be imported: found TypeError. Mend it"),
    ],
)
def test_a_package_that_is_missing_or_broken(error, text):
    said = {"what": "the Pack", "missing": "there is no pack", "install": "Run: pip install pack", "mend": "Mend it"}
    with pytest.raises(DeviceError) as caught, importing("pack", **said, refusal=DeviceError):
        raise error
    assert str(caught.value).startswith(text)
    assert caught.value.__cause__ is error


def test_a_package_needs_no_words_of_its_own():
    with pytest.raises(UnsupportedError) as caught, importing("pack", install="Run: pip install pack"):
        raise ModuleNotFoundError("No module named 'pack'", name="pack")
    assert str(caught.value) == "pack is not installed. Run: pip install pack"


def test_ctrl_c_while_a_package_is_imported_stays_ctrl_c():
    hidden = ImportError("numpy._core.multiarray failed to import")
    hidden.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), importing("pack", install=""):
        raise hidden
    with pytest.raises(SystemExit), importing("pack", install=""):
        raise SystemExit(3)


def test_every_refusal_is_an_edgert_error():
    import edgert.errors

    kinds = [kind for kind in vars(edgert.errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 5
    assert all(issubclass(kind, EdgertError) for kind in kinds)
