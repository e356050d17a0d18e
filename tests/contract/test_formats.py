"""Choosing the reader of a policy's format, and readers that fail."""

from __future__ import annotations

from typing import Any

import pytest

from edgert.contract.formats import FORMATS, Evidence, Reading, choose_format, read_format
from edgert.errors import ContractError, UnsupportedError

FOUND = Evidence(model="p.onnx", inputs={"obs": (1, 3)}, outputs={"actions": (1, 2)}, metadata={"a": "1"})


class Reader:
    """A reader that answers what a test says, or raises it."""

    def __init__(self, evidence: Any, reading: Any = None, **fields: Any) -> None:
        self._evidence, self._reading = evidence, reading
        vars(self).update(fields)

    def evidence(self, found: Evidence) -> Any:
        return answer(self._evidence)

    def read(self, found: Evidence) -> Any:
        return answer(self._reading)


def answer(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The readers there are: none but what a test puts in."""
    offered: dict[str, Any] = {}
    monkeypatch.setattr(FORMATS, "names", lambda: tuple(sorted(offered)))
    monkeypatch.setattr(FORMATS, "load", lambda name: answer(offered[name]))
    return offered


def test_what_matched_is_told(readers):
    readers |= {"one": Reader("metadata a"), "two": Reader("")}
    assert choose_format(FOUND) == ("one", "metadata a")


def test_two_that_match_equally_are_refused_and_the_user_decides(readers):
    readers |= {"one": Reader("metadata a"), "two": Reader("file b")}
    with pytest.raises(ContractError) as caught:
        choose_format(FOUND)
    assert str(caught.value) == (
        "policy p.onnx may be of several formats: found one: metadata a; two: file b, expected one. "
        "Choose with option 'format'"
    )
    assert choose_format(FOUND, "two") == ("two", "file b")


def test_a_generic_format_yields_to_a_specific_one(readers):
    readers |= {"plain": Reader("obs to actions", generic=True), "one": Reader("metadata a")}
    assert choose_format(FOUND) == ("one", "metadata a")
    readers["one"] = Reader("")
    assert choose_format(FOUND) == ("plain", "obs to actions")
    readers["other"] = Reader("obs to actions", generic=True)
    with pytest.raises(ContractError, match="may be of several formats: found other: obs to actions; plain: obs"):
        choose_format(FOUND)


@pytest.mark.parametrize("fault", [KeyError("b"), TypeError("no"), ValueError("no"), RecursionError("deep")])
def test_a_reader_that_fails_while_it_looks_is_left_out_and_named(readers, fault):
    readers |= {"bad": Reader(fault), "one": Reader("metadata a")}
    notes: list[str] = []
    assert choose_format(FOUND, notes=notes) == ("one", "metadata a")
    (note,) = notes
    assert note.startswith(
        f"the reader of policy format 'bad' fails on policy p.onnx: found {type(fault).__name__}: {fault}"
    )
    with pytest.raises(ContractError, match="the reader of policy format 'bad' fails on policy"):
        choose_format(FOUND, "bad")


@pytest.mark.parametrize("fault", [KeyError("b"), TypeError("no"), AttributeError("x"), ZeroDivisionError("0")])
def test_a_reader_that_fails_while_it_reads_is_refused_and_chained(readers, fault):
    readers["bad"] = Reader("all", fault)
    with pytest.raises(ContractError) as caught:
        read_format("bad", FOUND)
    assert caught.value.__cause__ is fault
    assert str(caught.value) == (
        f"the reader of policy format 'bad' fails on policy p.onnx: found {type(fault).__name__}: {fault}. "
        "Choose another one with option 'format', or report it with the policy"
    )


def test_a_refusal_of_a_reader_comes_through(readers):
    readers["one"] = Reader("all", ContractError("the gains are 0"))
    with pytest.raises(ContractError, match=r"^the gains are 0$"):
        read_format("one", FOUND)


def test_other_failures_stay_bugs(readers):
    readers["bad"] = Reader("all", MemoryError())
    with pytest.raises(MemoryError):
        read_format("bad", FOUND)


@pytest.mark.parametrize(("evidence", "reading"), [(True, None), ("all", {}), ("all", None)])
def test_a_reader_that_answers_wrongly_is_refused(readers, evidence, reading):
    readers["bad"] = Reader(evidence, reading)
    with pytest.raises(ContractError, match="the reader of policy format 'bad' answers wrongly: found "):
        read_format("bad", FOUND) if evidence == "all" else choose_format(FOUND, "bad")


def test_a_plug_in_that_does_not_load_fails_only_when_it_is_chosen(readers):
    readers |= {"bad": UnsupportedError("policy format 'bad' of x cannot be loaded"), "one": Reader("metadata a")}
    notes: list[str] = []
    assert choose_format(FOUND, notes=notes) == ("one", "metadata a")
    assert notes == ["policy format 'bad' of x cannot be loaded"]
    with pytest.raises(UnsupportedError):
        choose_format(FOUND, "bad")


def test_built_in_readers_say_what_they_want():
    for name in FORMATS.names():
        reader = FORMATS.load(name)
        assert isinstance(reader.files, tuple)
        assert isinstance(reader.generic, bool)


def test_a_reading_of_a_plug_in(readers):
    readers["one"] = Reader("all", Reading(document={"robot": "x"}, source="here"))
    assert read_format("one", FOUND).document == {"robot": "x"}
