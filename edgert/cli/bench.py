"""`edgert bench`: measurements that tell how they came about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edgert.cli.live import LiveLine
from edgert.cli.main import EXIT_DIFFERENCE, HELP_NAMES, say, write
from edgert.cli.running import FilePath, contract_option, format_option, json_option, model_argument
from edgert.errors import EdgertError
from edgert.writing import part_of, put


@click.group(context_settings=HELP_NAMES)
def bench() -> None:
    """Measure, and say on what and how."""


@bench.command(context_settings=HELP_NAMES)
@model_argument
@contract_option
@format_option
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Chip; may be repeated.  [default: all]")
@click.option(
    "--provider",
    "providers",
    multiple=True,
    metavar="NAME",
    help="Inference provider; may be repeated.  [default: all]",
)
@click.option(
    "--rows", multiple=True, type=click.IntRange(min=1), default=(1, 16, 256, 4096), show_default=True,
    help="Rows of a batch whose throughput is measured; may be repeated.",
)  # fmt: skip
@click.option("--acts", type=click.IntRange(min=1), default=5_000, show_default=True, help="Acts without a pause.")
@click.option("--warm-up", type=click.IntRange(min=1), default=200, show_default=True, help="Acts before these.")
@click.option("--paced-seconds", type=float, default=2.0, show_default=True, help="Time of acting at the control rate.")
@click.option("--hz", type=float, help="Control rate.  [default: the policy's, else 50]")
@click.option("--precision", type=click.Choice(["fp32", "fp16"]), default="fp32", show_default=True, help="Arithmetic.")
@click.option("--allow-cpu-nodes", is_flag=True, help="Let the CPU compute what a provider cannot, and say so.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the inputs.")
@click.option(
    "-o", "--out", type=FilePath(), metavar="FILE", help="Write the report here, and raw samples beside it (.npz)."
)
@json_option
def policy(as_json: bool, out: str | None, devices: tuple[str, ...], providers: tuple[str, ...], **values: Any) -> int:
    """Measure MODEL on every provider of this computer: latency of one act, throughput, build time, CPU, memory.

    Each provider runs in a process of its own and is compared with the CPU's. Exit code 5 means that one computes
    something else than the CPU.

    \b
    Examples:
      edgert bench policy
      edgert bench policy my.onnx --contract policy.toml --provider cpu --provider openvino -o report.json
    """  # noqa: D301  # \b is click's mark for lines to keep
    from edgert.bench.measure import Request
    from edgert.bench.policy import bench_policy
    from edgert.cli.bench_tables import policy_table
    from edgert.device import find_device

    path = None if out is None else Path(out)
    if path is not None and not path.parent.is_dir():
        raise click.UsageError(f"--out: there is no folder {path.parent}")
    request = Request(
        model=values["model"],
        contract=values["contract"] or "",
        format=values["format"] or "",
        device=find_device("cpu"),
        provider="cpu",
        batches=values["rows"],
        acts=values["acts"],
        warm_up=values["warm_up"],
        paced_s=values["paced_seconds"],
        hz=values["hz"] or 0.0,
        precision=values["precision"],
        allow_cpu_nodes=values["allow_cpu_nodes"],
        seed=values["seed"],
    )
    samples = None if path is None else path.with_suffix(".npz")
    with LiveLine() as line:
        report = bench_policy(request, devices, providers, samples, lambda text: line.update(lambda: text))
    if path is not None:
        _save(path, report)
        say(f"wrote {path} and the raw samples {samples}")
    write(report, as_json, policy_table)
    runs = report["runs"]
    for run in runs:
        if run["failed"]:
            say(f"edgert: {run['device']} by {run['provider']}: {run['failed']}")
    if all(run["failed"] for run in runs):
        raise EdgertError("no provider ran this policy", found="; ".join(run["failed"] for run in runs))
    differ = [run for run in runs if not run["failed"] and _differs(run)]
    for run in differ:
        say(f"edgert: {run['provider']} on {run['device']} computes something else than the CPU")
    return EXIT_DIFFERENCE if differ else 0


def _differs(run: dict[str, Any]) -> bool:
    agreement = run["agreement"]
    return agreement is not None and (agreement["error"] is None or agreement["error"] > agreement["tolerance"])


def _save(path: Path, report: dict[str, Any]) -> None:
    try:
        with part_of(path) as part:
            part.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n")
            put(part, path)
    except OSError as error:
        raise EdgertError(f"cannot write {path}", found=error.strerror or error) from error
