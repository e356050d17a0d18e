"""What `edgert bench` prints for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgert.cli.tables import facts, listing, rendered
from edgert.device.host import size_text


def policy_table(report: dict[str, Any]) -> str:
    """`edgert bench policy`: latency, what it costs, throughput, and how it was measured."""
    runs = [run for run in report["runs"] if not run["failed"]]
    parts: list[Any] = []
    if runs:
        times = ("device", "provider", "pace", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs", "max µs", "CPU")
        parts.append(listing(times, [row for run in runs for row in _latency(run)]))
        costs = ("device", "provider", "build cold", "build warm", "memory", "differs from the CPU by")
        parts += ["", listing(costs, [_cost(run) for run in runs])]
        sizes = [f"{each['rows']} rows" for each in runs[0]["throughput"]]
        rates = [[f"{each['rows_per_s']:,.0f} /s" for each in run["throughput"]] for run in runs]
        lines = [(run["device"], run["provider"], *rate) for run, rate in zip(runs, rates, strict=True)]
        parts += ["", listing(("device", "provider", *sizes), lines), ""]
    block = report["disclosure"]
    host = block["host"]
    governor = host["governor"] or "no governor visible"
    parts.append(
        facts(
            (
                ("policy", f"{report['policy']} sha256 {report['policy_sha256'][:12]}… ({report['measured']})"),
                ("timed", block["timing"]),
                ("warm-up", block["warm_up"]),
                ("counts", ", ".join(block["counts"])),
                ("precision", block["precision"]),
                (
                    "host",
                    f"{host['cpu']}, {host['cpus']} CPUs, {host['kernel']}, {governor}, load {host['load_1min']:g}",
                ),
                ("with", ", ".join(block["packages"])),
                ("edgert", f"{block['edgert']}{_commit(block)}"),
            )
        )
    )
    return rendered(*parts)


def _latency(run: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """One line without a pause, and one at the control rate."""
    for pace, latency, busy in (
        ("no pause", run["latency_us"], run["cpu_percent"]),
        (f"{run['paced_hz']:g} Hz", run["paced_latency_us"], run["paced_cpu_percent"]),
    ):
        figures = (f"{latency[name]:.1f}" for name in ("p50", "p90", "p99", "p999", "max"))
        yield (run["device"], run["provider"], pace, *figures, f"{busy:.1f} %")


def _cost(run: dict[str, Any]) -> tuple[str, ...]:
    agreement = run["agreement"]
    error = "it is the CPU's own"
    if agreement is not None:
        part = "no number" if agreement["error"] is None else f"{agreement['error']:.1e}"
        error = f"{part} ({agreement['tolerance']:.0e} tolerated)"
    return (
        run["device"],
        run["provider"],
        f"{run['build_cold_s']:.3f} s",
        f"{run['build_warm_s']:.3f} s",
        size_text(run["memory_bytes"]),
        error,
    )


def _commit(block: dict[str, Any]) -> str:
    if block["commit"] is None:
        return ""
    return f" at {block['commit'][:12]}{', changed since' if block['dirty'] else ''}"
