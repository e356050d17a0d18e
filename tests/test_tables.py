"""Strict reading of TOML and JSON tables."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgert.errors import ContractError
from edgert.tables import MAX_DEPTH, MAX_FILE_BYTES, Table, check_depth, is_number, read_json, read_toml, show


def table(**data: Any) -> Table:
    return Table(data, "file.toml", "top")


def refused(read: Any) -> str:
    with pytest.raises(ContractError) as caught:
        read()
    return str(caught.value)


def toml(tmp_path: Path, data: bytes) -> dict[str, Any]:
    path = tmp_path / "a.toml"
    path.write_bytes(data)
    return read_toml(path, kind="task")


def test_an_empty_file_is_an_empty_table(tmp_path):
    assert toml(tmp_path, b"") == {}


def test_a_missing_file_is_refused(tmp_path):
    path = tmp_path / "none.toml"
    assert refused(lambda: read_toml(path, kind="contract")) == (
        f"cannot read contract file {path}: found No such file or directory. Check the path and its permissions"
    )


def test_a_folder_is_refused(tmp_path):
    assert "is a folder: expected a file in it" in refused(lambda: read_toml(tmp_path, kind="task"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"")
    path.chmod(0)
    assert "found Permission denied" in refused(lambda: read_toml(path, kind="task"))


def test_a_file_of_the_largest_size_is_read(tmp_path):
    assert toml(tmp_path, b"a = 1\n" + b"#" * (MAX_FILE_BYTES - 6)) == {"a": 1}


def test_a_larger_file_is_refused(tmp_path):
    assert refused(lambda: toml(tmp_path, b"a = 1\n" + b"#" * MAX_FILE_BYTES)) == (
        f"task file {tmp_path / 'a.toml'} is too large: found over {MAX_FILE_BYTES} bytes, "
        "expected a few kilobytes of TOML"
    )


def test_an_endless_file_is_refused():
    assert "is no regular file" in refused(lambda: read_toml(Path("/dev/zero"), kind="task"))


def test_a_pipe_that_nobody_writes_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    assert "is no regular file" in refused(lambda: read_toml(tmp_path / "pipe.toml", kind="task"))


def test_bytes_that_are_not_utf8_are_refused(tmp_path):
    assert refused(lambda: toml(tmp_path, b"a = '\xff'")) == (
        f"task file {tmp_path / 'a.toml'} is not UTF-8 text: found invalid start byte, expected TOML"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"a = ",
        b"a = 1\na = 2",
        b"[a]\n[a]",
        b"[a]\nb = 1\n[a.b]",
        b"a = {b = 1, b = 2}",
        b"\xef\xbb\xbfa = 1",
        b"a = 1979-13-01",
        b"a = " + b"9" * 5000,
        b"a = " + b"[" * 100_000,
        b"\x00",
    ],
    ids=[
        *("no value", "two keys", "two tables", "table over value", "two inline keys", "byte order mark", "date"),
        *("digits", "brackets", "zero byte"),
    ],
)
def test_what_is_not_toml_is_refused(tmp_path, data):
    text = refused(lambda: toml(tmp_path, data))
    assert text.startswith(f"task file {tmp_path / 'a.toml'} is not valid TOML: found ")


@pytest.mark.parametrize(
    "data",
    [
        b"a = " + b"[" * 18 + b"]" * 18,
        b"a." * 17 + b"a = 1",
        b"a." * 200_000 + b"a = 1",
        b"[" + b"'a'. " * 200_000 + b"a]",
        b'b = 1\nc = {"a=" . ' + b'"\\"," .' * 100_000 + b"a = 1}",
    ],
    ids=["lists", "keys", "many keys", "table of many keys", "many quoted keys"],
)
def test_deep_nesting_is_refused_at_once(tmp_path, data):
    assert refused(lambda: toml(tmp_path, data)) == (
        f"{tmp_path / 'a.toml'} is nested too deep: expected at most {MAX_DEPTH} levels"
    )


def test_many_numbers_and_dots_are_no_deep_nesting(tmp_path):
    text = "# see a.b.c. And d.e.f. " + "." * 90 + "\na = [" + "0.5, " * 90 + "]\nb.c.d = 'x.y.z " + "0. " * 29 + "'"
    assert toml(tmp_path, text.encode())["a"] == [0.5] * 90


def test_json_that_is_an_object_is_read():
    assert read_json('{"a": [1, 2.5, true, null, "ü"]}', where="metadata") == {"a": [1, 2.5, True, None, "ü"]}


@pytest.mark.parametrize(
    "text",
    ["", "{", "{'a': 1}", '{"a": 1,}', '{"a": ' * 100_000, '{"a": ' + "9" * 5000 + "}"],
    ids=["empty", "open", "single quotes", "trailing comma", "too deep", "digits"],
)
def test_what_is_not_json_is_refused(text):
    assert refused(lambda: read_json(text, where="metadata")).startswith("metadata is not valid JSON: found ")


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_the_constants_that_json_does_not_have_are_refused(name):
    assert refused(lambda: read_json(f'{{"a": {name}}}', where="metadata")) == (
        f"metadata is not valid JSON: found the number {name}, which JSON does not have"
    )


def test_a_key_that_json_repeats_is_refused():
    assert refused(lambda: read_json('{"b": {"a": 1, "a": 2, "c": 3}}', where="metadata")) == (
        "metadata is not valid JSON: found the key a more than once"
    )


def test_half_a_surrogate_pair_is_refused():
    assert "surrogates not allowed" in refused(lambda: read_json(r'{"a": "\ud800"}', where="metadata"))


def test_a_whole_surrogate_pair_is_a_character():
    assert read_json(r'{"a": "\ud83e\udd16"}', where="metadata") == {"a": "\N{ROBOT FACE}"}


@pytest.mark.parametrize(("text", "found"), [("[]", "a list"), ("1", "an integer"), ("null", "nothing")])
def test_json_that_is_no_object_is_refused(text, found):
    assert refused(lambda: read_json(text, where="metadata")) == (
        f"metadata is not a JSON object: found {found}, expected an object"
    )


def test_json_of_more_than_the_limit_is_refused():
    text = json.dumps({"a": "x" * MAX_FILE_BYTES})
    assert refused(lambda: read_json(text, where="metadata")) == (
        f"metadata is too large: found {len(text)} characters, expected at most {MAX_FILE_BYTES}"
    )


def test_the_deepest_nesting_is_accepted_and_one_more_refused():
    value: Any = 0
    for _ in range(MAX_DEPTH):
        value = [value]
    check_depth(value, "metadata")
    assert refused(lambda: check_depth([value], "metadata")) == (
        f"metadata is nested too deep: expected at most {MAX_DEPTH} levels"
    )


def test_a_key_that_nobody_asked_for_is_refused_with_those_asked_for():
    some = table(a=1, b=2, z=3)
    some.number("a")
    some.has("c")
    assert refused(some.close) == "file.toml: unknown key 'top.b', 'top.z': expected one of a, c"


def test_a_table_of_which_all_keys_were_asked_for_closes():
    some = table(a=1)
    some.raw("a")
    some.flag("b", False)
    some.close()


def test_a_table_that_takes_no_key_says_none():
    assert refused(table(a=1).close) == "file.toml: unknown key 'top.a': expected one of none"


def test_a_missing_key_is_refused_with_the_next_step():
    assert refused(lambda: table().number("a")) == "file.toml: key 'top.a' is missing. Add top.a to it"


def test_keys_at_the_top_have_no_prefix():
    assert refused(lambda: Table({}, "file.toml").text("a")) == "file.toml: key 'a' is missing. Add a to it"


def test_defaults_are_used_where_the_key_is_missing():
    some = table()
    assert some.number("a", 1) == 1.0
    assert some.integer("a", 2, lo=0) == 2
    assert some.text("a", "x") == "x"
    assert some.flag("a", True) is True
    assert some.names("a", ("x", "y")) == ("x", "y")
    assert some.numbers("a", (1.0,)) == (1.0,)
    assert some.range("a", (1.0, 2.0)) == (1.0, 2.0)
    assert some.table("a", {"b": 1}).number("b") == 1.0


@given(st.floats(-1e12, 1e12) | st.integers(-(10**12), 10**12))
def test_any_sane_number_is_a_number(value):
    assert table(a=value).number("a") == value


@pytest.mark.parametrize("value", [1.1e12, -1e300, 10**13])
def test_absurd_numbers_are_refused(value):
    assert "expected at most 1e+12 in magnitude" in refused(lambda: table(a=value).number("a"))
    assert "expected at most 1e+12 in magnitude" in refused(lambda: table(a=[0, value]).numbers("a"))


@pytest.mark.parametrize(
    "value", [True, "1", None, [], {}, math.nan, math.inf, -math.inf, 10**400, 1 << 20_000], ids=show
)
def test_anything_else_is_no_number(value):
    assert not is_number(value)
    assert refused(lambda: table(a=value).number("a")).endswith("expected a finite number")


def test_the_bounds_of_a_number():
    assert table(a=1).number("a", lo=1, hi=1) == 1.0
    assert refused(lambda: table(a=0.5).number("a", lo=1)).endswith("found 0.5, expected at least 1")
    assert refused(lambda: table(a=1.5).number("a", hi=1)).endswith("found 1.5, expected at most 1")
    assert refused(lambda: table(a=0).number("a", above=0)).endswith("found 0, expected more than 0")
    assert refused(lambda: table(a=9.5).number("a", lo=0, hi=9)).endswith("expected at least 0 and at most 9")


def test_a_refusal_shows_what_distinguishes_the_number_from_its_bound():
    assert refused(lambda: table(a=1e6 + 0.5).number("a", hi=1e6)).endswith("found 1000000.5, expected at most 1e+06")


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_what_is_no_integer(value):
    assert refused(lambda: table(a=value).integer("a", lo=0, hi=9)).endswith("expected an integer")


@pytest.mark.parametrize("value", [-1, 10, 10**400, -(10**400), 1 << 20_000], ids=show)
def test_integers_out_of_bounds(value):
    assert refused(lambda: table(a=value).integer("a", lo=0, hi=9)).endswith("expected at least 0 and at most 9")


def test_text_from_a_list_of_choices():
    assert table(a="x").text("a", choices=("x", "y")) == "x"
    assert refused(lambda: table(a="z").text("a", choices=("x", "y"))).endswith("found 'z', expected one of x, y")
    assert refused(lambda: table(a=1).text("a")).endswith("found an integer 1, expected text")


def test_a_flag_is_true_or_false_and_nothing_like_it():
    assert table(a=False).flag("a", True) is False
    assert refused(lambda: table(a=1).flag("a", True)).endswith("found an integer 1, expected true or false")


def test_names_are_unique_and_not_empty():
    assert table(a=["x", "y"]).names("a") == ("x", "y")
    assert refused(lambda: table(a=["y", "x", "y", "x"]).names("a")).endswith(
        "found x, y more than once, expected each name once"
    )
    assert refused(lambda: table(a=["x", ""]).names("a")).endswith("expected a list of names")


def test_a_tuple_in_a_document_is_checked_like_a_list():
    assert refused(lambda: table(a=("x", 1)).names("a", ("x",))).endswith("expected a list of names")
    assert refused(lambda: table(a=("x",)).numbers("a", (1.0,))).endswith("expected a list of finite numbers")


def test_as_many_names_as_a_file_can_hold_are_compared_in_passing():
    names = [str(number) for number in range(100_000)]
    assert table(a=names).names("a") == tuple(names)


def test_numbers_have_the_length_asked_for():
    assert table(a=[1, 2.5]).numbers("a", length=2) == (1.0, 2.5)
    assert refused(lambda: table(a=[1]).numbers("a", length=2)).endswith("found 1 numbers, expected 2")
    assert refused(lambda: table(a=[True]).numbers("a")).endswith("expected a list of finite numbers")


def test_a_range_is_low_then_high_within_its_bounds():
    assert table(a=[1, 1]).range("a") == (1.0, 1.0)
    assert refused(lambda: table(a=[2, 1]).range("a")).endswith("found [2, 1], expected [low, high] with low <= high")
    assert refused(lambda: table(a=[-1, 1]).range("a", lo=0)).endswith("found -1.0, expected at least 0")
    assert refused(lambda: table(a=[0, 3]).range("a", hi=2)).endswith("found 3.0, expected at most 2")


def test_a_table_in_a_table_names_the_whole_key():
    inner = table(a={"b": 1}).table("a")
    assert refused(inner.close) == "file.toml: unknown key 'top.a.b': expected one of none"
    assert refused(lambda: table(a=[]).table("a")).endswith("found a list [], expected a table")


def test_each_entry_is_read_and_closed():
    some = table(x={"v": 1}, y={"v": 2})
    assert some.each(lambda name, entry: (name, entry.number("v"))) == {"x": ("x", 1.0), "y": ("y", 2.0)}
    some.close()
    assert refused(lambda: table(x={"v": 1}).each(lambda name, entry: None)).startswith(
        "file.toml: unknown key 'top.x.v'"
    )


def test_values_are_shown_short():
    assert show([1, 2]) == "[1, 2]"
    assert show("x" * 100) == "'" + "x" * 56 + "..."
    assert show(1 << 20_000) == "0x1" + "0" * 54 + "..."
    assert show([1 << 20_000]) == "with an integer of more than 4300 digits"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_a_file_that_hides_its_size_is_read_within_bounds():
    assert "is not valid TOML" in refused(lambda: read_toml(Path("/proc/self/status"), kind="task"))
