"""Figures of chips, from `chips.toml`: each with its precision, dense or sparse, and its source.

They name a chip and set a measurement in relation to what its maker claims; nothing is ever claimed from them that was
not measured, and figures of different kinds are never compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

from edgert.errors import UnsupportedError
from edgert.tables import Table, read_toml

SCHEMA: Final = 1
UNITS: Final = {
    "compute": ("TFLOPS", "TOPS"),
    "memory": ("GB", "MiB"),
    "bandwidth": ("GB/s", "TB/s"),
    "power": ("W",),
}
"""What a figure can be of, and the units that it may have."""
PRECISIONS: Final = ("fp4", "fp8", "fp16", "bf16", "tf32", "fp32", "int4", "int8", "unstated")
SPARSITIES: Final = ("dense", "sparse", "unstated")
CLAIMS: Final = ("vendor", "seen")
"""Who says so: the maker, without proof here, or a tool on a machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of a chip.

    Attributes:
        what: a key of `UNITS`.
        value: in `unit`.
        low: lower end of a range whose upper end is `value`, such as a power that can be set; None for one number.
        precision, sparsity: of a compute figure, else "".
        claim: one of `CLAIMS`.
        source: who published it, or where it was seen.
    """

    what: str
    value: float
    unit: str
    low: float | None
    precision: str
    sparsity: str
    claim: str
    source: str

    def text(self) -> str:
        """The figure for people, with all that has to be said about it."""
        number = f"{self.value:g}" if self.low is None else f"{self.low:g}–{self.value:g}"
        precision = "of unstated precision" if self.precision == "unstated" else self.precision.upper()
        sparsity = "dense or sparse, unstated" if self.sparsity == "unstated" else self.sparsity
        kind = f" {precision}, {sparsity}" if self.what == "compute" else ""
        by = "the vendor's claim" if self.claim == "vendor" else "seen"
        return f"{number} {self.unit}{kind} ({by}: {self.source})"

    def share(self, measured: float, *, unit: str, precision: str, sparsity: str) -> float:
        """Which part of a compute figure a measurement reached.

        Raises:
            UnsupportedError: the measurement is of another unit or precision, or one is dense and the other sparse, or
                the figure does not say what it is.
        """
        mine, its = (self.unit, self.precision, self.sparsity), (unit, precision, sparsity)
        if self.what != "compute" or mine != its or "unstated" in mine:
            raise UnsupportedError(
                "a measurement cannot be set in relation to a figure of another kind",
                found=" ".join(part for part in its if part),
                expected=" ".join(part for part in mine if part),
            )
        return measured / self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One chip, or the module that holds it.

    Attributes:
        name: its key in the table.
        title: what people call it.
        match: shell patterns of the names that machines report for it, upper and lower case alike.
        host: patterns of the name of the CPU beside it, where the chip alone does not tell; any CPU by default.
        arch: instruction sets of its kernels, such as sm_110.
        notes: what one has to know about it.
    """

    name: str
    title: str
    vendor: str
    match: tuple[str, ...]
    host: tuple[str, ...]
    arch: tuple[str, ...]
    figures: tuple[Figure, ...]
    notes: str

    def is_called(self, reported: str, host: str) -> bool:
        """Whether a machine with such a CPU means this chip by that name."""
        return _matches(self.match, reported) and (not self.host or _matches(self.host, host))


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def read_chips(path: Path) -> dict[str, Chip]:
    """Read a table of chips strictly.

    Raises:
        ContractError: it cannot be read, or a key is wrong, missing or unknown.
    """
    document = Table(read_toml(path, kind="chip"), str(path))
    document.integer("schema", lo=SCHEMA, hi=SCHEMA)
    entries = document.table("chips")
    document.close()
    return entries.each(_chip)


def _chip(name: str, table: Table) -> Chip:
    return Chip(
        name=name,
        title=table.text("title"),
        vendor=table.text("vendor"),
        match=table.names("match"),
        host=table.names("host", ()),
        arch=table.names("arch", ()),
        figures=tuple(_figures(table)),
        notes=table.text("notes", ""),
    )


def _figures(table: Table) -> Iterable[Figure]:
    entries = table.raw("figures", [])
    if not isinstance(entries, list):
        table.fail("figures", found=type(entries).__name__, expected="a list of tables")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            table.fail("figures", found=type(entry).__name__, expected="tables")
        one = Table(entry, table.where, f"{table.key('figures')}[{index}]")
        what = one.text("what", choices=UNITS)
        compute = what == "compute"
        yield Figure(
            what=what,
            value=one.number("value", above=0.0),
            unit=one.text("unit", choices=UNITS[what]),
            low=one.number("low", above=0.0) if one.has("low") else None,
            precision=one.text("precision", choices=PRECISIONS) if compute else "",
            sparsity=one.text("sparsity", choices=SPARSITIES) if compute else "",
            claim=one.text("claim", choices=CLAIMS),
            source=one.text("source"),
        )
        one.close()


@cache
def bundled_chips() -> dict[str, Chip]:
    """The chips of `chips.toml` beside this file."""
    return read_chips(Path(__file__).with_name("chips.toml"))


def identify(chips: Iterable[Chip], reported: str, host: str) -> Chip | None:
    """The first chip that a machine with such a CPU means by that name; None for one in no table."""
    return next((chip for chip in chips if chip.is_called(reported, host)), None)
