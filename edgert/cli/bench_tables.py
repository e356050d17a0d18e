"""What `edgert bench` prints for people."""

from __future__ import annotations

from typing import Any

from edgert.cli.tables import facts, listing, rendered
from edgert.device.host import size_text


def policy_table(report: dict[str, Any]) -> str:
    """`edgert bench policy`: a line for each provider, throughput, and how it was measured."""
    runs = [run for run in report["runs"] if not run["failed"]]
    parts: list[Any] = []
    if runs:
        rows = [_row(run) for run in runs]
        head = (
            "device", "provider", "p50 µs", "p90", "p99", "p99.9", "max", "CPU", "at the rate, p50 µs", "p99", "CPU",
            "build cold s", "warm", "memory", "error",
        )  # fmt: skip
        parts.append(listing(head, rows))
        parts.append("\nrows/s by rows of a batch")
        sizes = [str(each["rows"]) for each in runs[0]["throughput"]]
        parts.append(
            listing(
                ("device", "provider", *sizes),
                [
                    (run["device"], run["provider"], *(f"{each['rows_per_s']:,.0f}" for each in run["throughput"]))
                    for run in runs
                ],
            )
        )
    block = report["disclosure"]
    host = block["host"]
    governor = host["governor"] or "no governor visible"
    lines = [
        ("policy", f"{report['policy']} sha256 {report['policy_sha256'][:12]}… ({report['measured']})"),
        ("timed", block["timing"]),
        ("warm-up", block["warm_up"]),
        ("counts", ", ".join(block["counts"])),
        ("precision", block["precision"]),
        ("host", f"{host['cpu']}, {host['cpus']} CPUs, {host['kernel']}, {governor}, load {host['load_1min']:g}"),
        ("with", ", ".join(block["packages"])),
        ("edgert", f"{block['edgert']}{_commit(block)}"),
    ]
    if runs and runs[0]["paced_hz"]:
        lines.insert(3, ("rate", f"{runs[0]['paced_hz']:g} Hz"))
    parts += ["", facts(lines)]
    return rendered(*parts)


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    latency, paced, agreement = run["latency_us"], run["paced_latency_us"], run["agreement"]
    error = "–" if agreement is None else "none" if agreement["error"] is None else f"{agreement['error']:.1e}"
    return (
        run["device"],
        run["provider"],
        *(f"{latency[name]:.1f}" for name in ("p50", "p90", "p99", "p999", "max")),
        f"{run['cpu_percent']:.0f} %",
        *(f"{paced[name]:.1f}" for name in ("p50", "p99")),
        f"{run['paced_cpu_percent']:.1f} %",
        f"{run['build_cold_s']:.3f}",
        f"{run['build_warm_s']:.3f}",
        size_text(run["memory_bytes"]),
        error,
    )


def _commit(block: dict[str, Any]) -> str:
    if block["commit"] is None:
        return ""
    return f" at {block['commit'][:12]}{', changed since' if block['dirty'] else ''}"
