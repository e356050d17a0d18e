"""Reading fields that hold something for each joint or number: one for all, a list in order, or a table by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from edgert.contract.spec import Range
from edgert.tables import Table, is_number, show, type_name

_T = TypeVar("_T")


def per_joint(
    table: Table, name: str, joints: Sequence[str], default: Any = None, *, lo: float = float("-inf")
) -> tuple[float, ...]:
    """Numbers: one for all joints, a list in joint order, or a table by joint name."""
    value = table.raw(name, default) if default is not None else table.raw(name)
    if is_number(value):
        table.number(name, value, lo=lo)
        return (float(value),) * len(joints)
    if isinstance(value, list):
        numbers = table.numbers(name)
        if len(numbers) != len(joints):
            table.fail(name, found=f"{len(numbers)} numbers", expected=f"{len(joints)}, one for each joint")
        result = numbers
    elif isinstance(value, Mapping):
        result = by_name(table, name, value, joints, lambda entries, joint: entries.number(joint))
    else:
        table.fail(
            name,
            found=f"{type_name(value)} {show(value)}",
            expected="a number, a list in joint order or a table by joint",
        )
    for joint, number in zip(joints, result, strict=True):
        if number < lo:
            table.fail(name, found=f"{number:g} for {joint}", expected=f"at least {lo:g}")
    return result


def by_name(
    table: Table, name: str, value: Mapping[str, Any], joints: Sequence[str], read: Callable[[Table, str], _T]
) -> tuple[_T, ...]:
    """Values of a table by joint name, in the order of the joints; a joint too many or too few is refused."""
    known = set(joints)
    unknown = [joint for joint in value if joint not in known]
    missing = [joint for joint in joints if joint not in value]
    if unknown:
        table.fail(name, found=f"unknown joint {', '.join(unknown)}", expected="joints of " + ", ".join(joints))
    if missing:
        table.fail(name, found=f"no value for {', '.join(missing)}", expected="a value for every joint")
    entries = Table(value, table.where, table.key(name))
    return tuple(read(entries, joint) for joint in joints)


def bounds(table: Table, name: str, joints: Sequence[str]) -> tuple[Range, ...] | None:
    """Pairs [low, high]: one for all, a list of one for each number, or a table by joint; None where the key is not."""
    if not table.has(name):
        return None
    value = table.raw(name)
    if isinstance(value, Mapping):
        return by_name(table, name, value, joints, lambda entries, joint: entries.range(joint))
    if not isinstance(value, list) or not any(isinstance(item, list) for item in value):
        return (table.range(name),) * len(joints)
    if len(value) != len(joints):
        table.fail(name, found=f"{len(value)} pairs", expected=f"{len(joints)}, one for each joint")
    entries = Table({str(i): pair for i, pair in enumerate(value)}, table.where, table.key(name))
    return tuple(entries.range(str(i)) for i in range(len(value)))


def choices(table: Table, name: str, joints: Sequence[str], allowed: Sequence[str], default: str) -> tuple[str, ...]:
    """Words: one for all, a list of one for each number, or a table by joint."""
    value = table.raw(name, default)
    if isinstance(value, Mapping):
        return by_name(table, name, value, joints, lambda entries, joint: entries.text(joint, choices=allowed))
    if not isinstance(value, list):
        return (table.text(name, default, choices=allowed),) * len(joints)
    if len(value) != len(joints):
        table.fail(name, found=f"{len(value)} words", expected=f"{len(joints)}, one for each joint")
    entries = Table({str(i): word for i, word in enumerate(value)}, table.where, table.key(name))
    return tuple(entries.text(str(i), choices=allowed) for i in range(len(value)))
