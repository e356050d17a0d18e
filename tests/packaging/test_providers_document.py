"""docs/providers.md and docs/benchmarks.md say what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from edgert.cli.bench import policy as bench_policy
from edgert.cli.run_policy import policy as run_policy
from edgert.policy.agreement import TICKS, TOLERANCES
from edgert.policy.engine.caches import MAX_FOLDERS
from edgert.policy.engine.providers import IXRT, PROVIDERS

ROOT = Path(__file__).resolve().parents[2]
PROVIDERS_TEXT = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
BENCHMARKS_TEXT = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")


def test_the_table_has_every_provider_and_whether_it_was_run() -> None:
    rows = {}
    for line in PROVIDERS_TEXT.splitlines():
        match = re.match(r"\| `([a-z-]+)` \| (?:`(\w+)`|none: \S+ (\w+)) \|.*\| ([^|]+) \|$", line)
        if match is not None:
            rows[match[2] or match[3]] = (match[1], match[4])
    assert rows.keys() == PROVIDERS.keys()
    for runtime, (name, run) in rows.items():
        assert PROVIDERS[runtime].name == name
        assert PROVIDERS[runtime].proven is ("not yet" not in run)
    assert rows[IXRT][1] == "**not yet run on hardware**"


def test_the_program_from_python_runs() -> None:
    (code,) = (
        part.removeprefix("python\n") for part in PROVIDERS_TEXT.split("```")[1::2] if part.startswith("python\n")
    )
    exec(compile(code, "providers.md", "exec"), {})


def test_numbers_are_those_of_the_code() -> None:
    assert f"acts on {TICKS} ticks" in PROVIDERS_TEXT
    assert "Up to 1e-3 is\ntolerated, up to 2e-2 with" in PROVIDERS_TEXT
    assert dict(TOLERANCES) == {"fp32": 1e-3, "fp16": 2e-2}
    assert f"number of rows, {MAX_FOLDERS} at most" in PROVIDERS_TEXT


def test_options_that_are_named_exist() -> None:
    help_of = {
        "run policy": CliRunner().invoke(run_policy, ["-h"]).output,
        "bench policy": CliRunner().invoke(bench_policy, ["-h"]).output,
    }
    for text in (PROVIDERS_TEXT, BENCHMARKS_TEXT):
        for command, options in re.findall(r"edgert ((?:run|bench) policy)([^\n#`]*)", text):
            for option in re.findall(r"--[a-z-]+", options):
                assert option in help_of[command], f"{option} of {command}"
    for option in re.findall(r"`(--[a-z-]+)`", BENCHMARKS_TEXT):
        assert option in help_of["bench policy"] + "--json"
