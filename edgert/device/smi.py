"""What the vendors' tools print: rows of CSV with the fields that were asked for, numbers with or without units."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from edgert.device.machine import Machine, Tool

MAX_ROWS = 1024
"""Most devices that one tool may list."""
MIB = 1 << 20

_NUMBER = re.compile(r"([-+]?\d{1,18}(?:\.\d{1,9})?)\s*(?:%|°?[A-Za-z]{0,4})")
_NOTHING = ("", "-", "n/a", "na", "[n/a]", "[not supported]", "not supported", "[unknown error]", "unknown", "none")

Row = Mapping[str, str | None]
"""Field to what the tool says; None where it says that it does not know."""


def number(text: str | None) -> float | None:
    """The number of "15824 MiB", "46 C", "0 %" or "41.0C"; None where there is none."""
    match = _NUMBER.fullmatch((text or "").strip())
    return float(match[1]) if match is not None else None


def mebibytes(text: str | None) -> int | None:
    """Bytes of a number of MiB that is not negative."""
    value = number(text)
    return int(value * MIB) if value is not None and 0 <= value < 1e9 else None


def known(text: str | None) -> str | None:
    """A text, None for the ways in which tools say that they do not know."""
    stripped = (text or "").strip()
    return None if stripped.lower() in _NOTHING or not stripped.isprintable() else stripped[:200]


def query(
    machine: Machine, tool: Tool, option: str, queries: Sequence[Sequence[str]], form: str
) -> tuple[list[Row], str]:
    """Rows of the first of several lists of fields that a tool knows, and why there are none.

    Older tools refuse fields of newer ones, and then the whole query.

    Args:
        machine: where it runs.
        tool: one that answers as nvidia-smi does.
        option: such as "--query-gpu".
        queries: lists of fields, the best first.
        form: such as "csv,noheader,nounits".
    """
    problem = ""
    for fields in queries:
        answer = machine.tool(tool, f"{option}={','.join(fields)}", f"--format={form}")
        found = [] if answer.problem else rows(answer.text, fields)
        if found:
            return found, ""
        problem = answer.problem or f"{tool.name} printed nothing that fits the question"
        if "ended with status" not in problem and "fits" not in problem:  # it is absent, or hangs
            break
    return [], problem


def rows(text: str, fields: Sequence[str]) -> list[Row]:
    """The lines of a CSV that have exactly the fields asked for; others are messages of the tool."""
    found: list[Row] = []
    try:
        for cells in csv.reader(text.splitlines(), skipinitialspace=True):
            if len(cells) == len(fields) and known(cells[0]) is not None:
                found.append({name: known(cell) for name, cell in zip(fields, cells, strict=True)})
            if len(found) == MAX_ROWS:
                break
    except csv.Error:  # a field of more than 128 KiB
        return []
    return found
