"""`edgert device`: the chips that are here, by which evidence, what they tell while they work; recording a machine."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from edgert import __version__
from edgert.cli.machine import machine_of, replay_option
from edgert.cli.main import EXIT_INTERRUPTED, HELP_NAMES, output, say, write
from edgert.cli.running import FilePath, interruptible, json_option
from edgert.errors import EdgertError

if TYPE_CHECKING:
    from edgert.device.device import Device
    from edgert.device.survey import Survey
    from edgert.device.telemetry import Sample

_PERIOD_S = 1.0
_WINDOW_S = 0.5
"""Time between the two looks of `top --json`, over which counters become rates."""


@click.group(context_settings=HELP_NAMES)
def device() -> None:
    """List, show, watch and record the chips of this computer."""


@device.command("list", context_settings=HELP_NAMES)
@replay_option
@json_option
def list_(replay: str | None, as_json: bool) -> None:
    """List the chips that are here, the providers for them, and why others are not."""
    from edgert.cli.device_tables import list_table
    from edgert.device.survey import survey

    found = survey(machine_of(replay))
    absent = [
        {"platform": name, "reason": finding.no, "trouble": finding.trouble}
        for name, finding in found.findings.items()
        if finding.no
    ]
    rows = [_row(found, one) for one in found.devices]
    write({"devices": rows, "absent": absent, "replayed": replay}, as_json, list_table)


def _row(found: Survey, one: Device) -> dict[str, Any]:
    return {
        "name": one.name,
        "chip": one.chip,
        "model": one.model,
        "vendor": one.vendor,
        "arch": one.arch,
        "memory_bytes": one.memory_bytes,
        "driver": one.driver,
        "providers": list(one.providers),
        "physics": list(one.physics),
        "run_on_hardware": found.platform_of(one).proven,
        "why": one.why,
        "notes": list(one.notes),
    }


@device.command(context_settings=HELP_NAMES)
@click.argument("name", default="cpu")
@replay_option
@json_option
def show(name: str, replay: str | None, as_json: bool) -> None:
    """Show the chip NAME (default: cpu): what it is, by which evidence, and what its maker claims."""
    from edgert.cli.device_tables import show_table
    from edgert.device.survey import survey

    found = survey(machine_of(replay))
    one = found.device(name)
    finding = next(finding for finding in found.findings.values() if one in finding.devices)
    chip = found.chips.get(one.model)
    figures = [] if chip is None else chip.figures
    report = _row(found, one) | {
        "details": dict(one.details),
        "evidence": dict(one.evidence),
        "title": "" if chip is None else chip.title,
        "figures": [
            {
                "what": figure.what,
                "value": figure.value,
                "low": figure.low,
                "unit": figure.unit,
                "precision": figure.precision or None,
                "sparsity": figure.sparsity or None,
                "claim": figure.claim,
                "source": figure.source,
                "text": figure.text(),
            }
            for figure in figures
        ],
        "looked": list(finding.looked),
        "replayed": replay,
    }
    write(report, as_json, show_table)


@device.command(context_settings=HELP_NAMES)
@click.option("--seconds", type=click.FloatRange(min=0.0), help="End after this time.  [default: Ctrl-C ends it]")
@replay_option
@json_option
def top(seconds: float | None, replay: str | None, as_json: bool) -> int:
    """Watch what the chips tell: power, temperature, clocks, use, memory, throttling.

    With --json one object is printed, after half a second or --seconds, over which counters become rates. What a chip
    does not tell is null, with the reason.
    """
    from edgert.cli.device_tables import sample_line, top_table
    from edgert.device.survey import survey
    from edgert.device.telemetry import Sampler

    machine = machine_of(replay)
    found = survey(machine)
    sampler = Sampler(machine, found, found.devices)
    if as_json:
        sampler.sample()
        time.sleep(_WINDOW_S if seconds is None else seconds)
        write({"samples": [_sample(one) for one in sampler.sample()], "replayed": replay}, as_json, str)
        return 0
    redraws = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    started_s, lines = time.monotonic(), 0
    with interruptible() as interrupted:
        while not interrupted():
            samples = sampler.sample()
            text = top_table(samples) if redraws else "\n".join(map(sample_line, samples))
            with output():
                click.echo((f"\x1b[{lines}F\x1b[J" if lines else "") + text)
            lines = _lines_on_terminal(text) if redraws else 0
            left_s = sampler.period_s(_PERIOD_S)
            if seconds is not None:
                left_s = min(left_s, started_s + seconds - time.monotonic())
            if left_s <= 0:
                return 0
            until_s = time.monotonic() + left_s
            while not interrupted() and time.monotonic() < until_s:
                time.sleep(min(0.05, left_s))
    return EXIT_INTERRUPTED


def _lines_on_terminal(text: str) -> int:
    """How many lines a terminal makes of a text, whose lines it breaks at its width."""
    width = max(1, get_terminal_size().columns)
    return sum(max(1, -(-len(click.unstyle(line)) // width)) for line in text.splitlines())


def _sample(sample: Sample) -> dict[str, Any]:
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in sample.values.items()}
    return {"device": sample.device, "t_ns": sample.t_ns, **values, "missing": dict(sample.missing)}


@device.command(context_settings=HELP_NAMES)
@click.option("-o", "--output", "path", type=FilePath(), metavar="FILE", required=True, help="The tar file to write.")
@json_option
def record(path: str, as_json: bool) -> None:
    """Record what is read of this computer into a tar file, for people who have no such chip.

    Serial numbers, addresses, names of hosts and users, and processes are taken out. Look into it before you send it.
    """
    from edgert.cli.device_tables import record_table
    from edgert.device.recording import record as recorded

    if Path(path).exists():
        raise EdgertError(f"{path} is there already", hint="Name another file")
    data, found = recorded(__version__)
    try:
        with Path(path).open("xb") as file:
            file.write(data)
    except OSError as error:
        raise EdgertError(f"{path} cannot be written", found=error.strerror or error) from error
    for finding in found.findings.values():
        if finding.trouble:
            say(finding.trouble)
    report = {"path": path, "size_bytes": len(data), "devices": [one.name for one in found.devices]}
    write(report, as_json, record_table)
