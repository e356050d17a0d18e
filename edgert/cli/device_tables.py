"""What `edgert device` prints for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgert.cli.tables import facts, listing, plain, rendered
from edgert.device.host import size_text
from edgert.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgert.device.reading import Value
    from edgert.device.telemetry import Sample

_UNTOLD = "–"


def list_table(report: dict[str, Any]) -> str:
    """`edgert device list`: what is here, then what was looked for and is not."""
    rows = []
    for row in report["devices"]:
        why = row["why"] if row["run_on_hardware"] else f"{row['why']}; not yet run on hardware"
        memory = _UNTOLD if row["memory_bytes"] is None else size_text(row["memory_bytes"])
        providers = ", ".join(name.removesuffix("ExecutionProvider") for name in row["providers"])
        rows.append((row["name"], row["chip"], memory, providers or "none", ", ".join(row["physics"]) or "none", why))
    parts: list[Any] = [listing(("device", "chip", "memory", "providers", "physics", "why"), rows)]
    if report["absent"]:
        parts.append("\nnot here")
        parts.append(facts((row["platform"], row["reason"]) for row in report["absent"]))
    return rendered(*parts)


def show_table(report: dict[str, Any]) -> str:
    """`edgert device show`: the chip, what is known of it and from whom, and what was looked at."""
    memory = None if report["memory_bytes"] is None else size_text(report["memory_bytes"])
    rows = [
        ("device", report["name"]),
        ("chip", report["chip"]),
        ("known as", report["title"]),
        ("vendor", report["vendor"]),
        ("instruction set", report["arch"]),
        ("memory", memory or "nobody tells"),
        ("driver", report["driver"]),
        ("providers", ", ".join(report["providers"]) or "none"),
        ("physics", ", ".join(report["physics"]) or "none"),
        *report["details"].items(),
        *(("note", note) for note in report["notes"]),
    ]
    parts: list[Any] = [facts((name, value) for name, value in rows if value)]
    parts += ["\nevidence", facts(report["evidence"].items())]
    if report["figures"]:
        parts += ["\nfigures", facts((figure["what"], figure["text"]) for figure in report["figures"])]
    parts += ["\nlooked at", *map(plain, report["looked"])]
    return rendered(*parts)


def top_table(samples: Sequence[Sample]) -> str:
    """`edgert device top` on a terminal."""
    rows = [
        (
            sample.device,
            _with(sample.values["utilization_percent"], "%"),
            _with(sample.values["power_w"], "W"),
            _with(sample.values["temperature_c"], "°C"),
            _with(sample.values["clock_mhz"], "MHz"),
            _memory(sample),
            _throttle(sample),
            one_line(str(sample.values["power_mode"] or _UNTOLD)),
        )
        for sample in samples
    ]
    return rendered(listing(("device", "use", "power", "heat", "clock", "memory", "throttled by", "mode"), rows))


def sample_line(sample: Sample) -> str:
    """One sample in one line, for a log."""
    parts = [
        ("", _with(sample.values["utilization_percent"], "%")),
        ("", _with(sample.values["power_w"], "W")),
        ("", _with(sample.values["temperature_c"], "°C")),
        ("", _with(sample.values["clock_mhz"], "MHz")),
        ("memory ", _memory(sample)),
        ("throttled by ", _throttle(sample)),
        ("mode ", str(sample.values["power_mode"] or _UNTOLD)),
    ]
    told = [f"{label}{value}" for label, value in parts if value != _UNTOLD]
    return one_line(f"{sample.device}: {', '.join(told) or 'it tells nothing'}")


def _with(value: Value | None, unit: str) -> str:
    return f"{value:.1f} {unit}" if isinstance(value, (int, float)) else _UNTOLD


def _memory(sample: Sample) -> str:
    used, total = sample.values["memory_used_bytes"], sample.values["memory_total_bytes"]
    texts = [size_text(int(value)) if isinstance(value, (int, float)) else _UNTOLD for value in (used, total)]
    return _UNTOLD if texts == [_UNTOLD, _UNTOLD] else " of ".join(texts)


def _throttle(sample: Sample) -> str:
    reasons = sample.values["throttle"]
    return _UNTOLD if not isinstance(reasons, tuple) else ", ".join(reasons) or "nothing"


def record_table(report: dict[str, Any]) -> str:
    """`edgert device record`: what was written, and what to do with it."""
    return rendered(
        facts(
            [
                ("recording", f"{report['path']}, {size_text(report['size_bytes'])}"),
                ("devices", ", ".join(report["devices"])),
                ("look into it", f"tar xOf {report['path']}"),
                ("replay it", f"edgert device list --replay {report['path']}"),
            ]
        )
    )
