"""`edgert bench policy`, from the command line to the report."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from support import linear_model, quadruped_document, save

from edgert.bench import policy as module
from edgert.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
QUICK = (
    "--device", "cpu", "--provider", "cpu", "--acts", "20", "--warm-up", "3", "--paced-seconds", "0.1", "--rows", "1",
)  # fmt: skip


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["bench", "policy", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx"))


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for each in value.values() for key in keys(each)}
    return {key for each in value for key in keys(each)} if isinstance(value, list) else set()


def test_the_report_is_printed_and_kept(model: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    code, printed, err = ran(capsys, model, *QUICK, "--json", "-o", str(out))
    assert code == 0, err
    report = json.loads(printed)
    assert json.loads(out.read_text()) == report
    samples = tmp_path / "report.npz"
    block = report["disclosure"]
    assert block["samples_sha256"] == hashlib.sha256(samples.read_bytes()).hexdigest()
    assert f"wrote {out} and the raw samples {samples}" in err
    text = (ROOT / "docs/json.md").read_text()
    section = text[text.index("## `edgert bench policy --json`") :]
    section = section[: section.index("\n## ", 1)]
    section += text[text.index("## The disclosure block") :]
    names = keys(report) - {"obs", "actions"}
    assert [key for key in sorted(names) if f"`{key}`" not in section] == []


def test_the_table_names_units_and_how_it_was_measured(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = ran(capsys, model, *QUICK)
    assert code == 0
    shown = (
        "p50 µs", "p99.9 µs", "no pause", "50 Hz", "build cold", "1 rows", " /s", "warm-up    3 acts",
        "20 acts without a pause", "it is the CPU's own",
    )  # fmt: skip
    for text in shown:
        assert text in printed


def test_a_provider_that_computes_something_else_is_exit_5(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.run_worker

    def wrong(*arguments: Any, **keywords: Any) -> dict[str, Any]:
        agreement = {"error": 0.2, "tolerance": 1e-3, "output": "actions", "ticks": 16}
        return {**real(*arguments, **keywords), "agreement": agreement}

    monkeypatch.setattr(module, "run_worker", wrong)
    code, printed, err = ran(capsys, model, *QUICK)
    assert code == 5
    assert "2.0e-01" in printed
    assert "edgert: cpu on cpu computes something else than the CPU" in err


def test_where_no_provider_runs_it_the_reason_is_told(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_worker", lambda *arguments: {"failed": "the driver is too old"})
    code, _, err = ran(capsys, model, *QUICK)
    assert code == 2
    assert "edgert: cpu by cpu: the driver is too old" in err
    assert "no provider ran this policy: found the driver is too old" in err


def test_what_cannot_be_meant_is_refused(model: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments, text in (
        (("--out", str(tmp_path / "none" / "r.json")), "there is no folder"),
        (("--provider", "tpu"), "nothing that was asked for is on this node"),
        (("--device", "cuda:9"), "unknown device 'cuda:9'"),
    ):
        code, out, err = ran(capsys, model, *arguments)
        assert (code, out) == (2, "")
        assert text in err
