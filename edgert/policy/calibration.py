"""What was measured of a provider on a model, kept from run to run: by digest, provider, versions, chip and shape."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edgert.assets import state_folder
from edgert.device.device import Device
from edgert.errors import EdgertError
from edgert.files import read_regular
from edgert.policy.engine.protocol import Placement
from edgert.tables import Table, read_json
from edgert.writing import part_of, put

SCHEMA: Final = 1
MAX_ENTRIES: Final = 1_000
"""Most results that are kept; the ones that were made longest ago go first."""
_MAX_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A provider that could run a policy, and how it did.

    Attributes:
        provider: its short name.
        median_us, p99_us: of one act, one after the other without a pause; 0 where it is out.
        error: in agreement with the CPU, see `Agreement`; None where it was not compared.
        reason: why it is out, "" where it is not.
        kept: whether this was measured in an earlier run.
    """

    provider: str
    median_us: float = 0.0
    p99_us: float = 0.0
    error: float | None = None
    reason: str = ""
    kept: bool = False

    def text(self) -> str:
        """For people."""
        if self.reason:
            return f"{self.provider} is out: {self.reason}"
        earlier = ", measured earlier" if self.kept else ""
        return f"{self.provider} {self.median_us:.1f} µs (p99 {self.p99_us:.1f} µs{earlier})"

    def report(self) -> dict[str, Any]:
        """As JSON data."""
        timed = not self.reason
        return {
            "provider": self.provider,
            "median_us": self.median_us if timed else None,
            "p99_us": self.p99_us if timed else None,
            "error": self.error,
            "reason": self.reason,
            "kept": self.kept,
        }


def entry(sha256: str, provider: str, version: str, device: Device, placement: Placement) -> Path | None:
    """The file of one result; None where there is no state folder to keep it in."""
    facts = (
        str(SCHEMA), sha256, provider, version, device.name, device.chip, device.driver, placement.precision,
        str(placement.rows), str(placement.allow_cpu_nodes),
    )  # fmt: skip
    try:
        folder = state_folder()[0] / "calibration"
    except EdgertError:  # as in a service without a home
        return None
    return folder / f"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]}.json"


def recall(path: Path) -> Candidate | None:
    """What was kept; None where nothing was, or it cannot be read."""
    if not path.exists():
        return None
    try:
        table = Table(read_json(read_regular(path, "calibration", _MAX_BYTES).decode(), where=str(path)), str(path))
        table.integer("schema", lo=SCHEMA, hi=SCHEMA)
        candidate = Candidate(
            provider=table.text("provider"),
            median_us=table.number("median_us", above=0.0),
            p99_us=table.number("p99_us", above=0.0),
            error=table.number("error", lo=0.0),
            kept=True,
        )
        table.close()
        return candidate
    except (EdgertError, UnicodeDecodeError):
        return None  # it is measured again, and written anew


def keep(path: Path, candidate: Candidate) -> None:
    """Write a result; one that cannot be kept is measured again the next time."""
    document = {
        "schema": SCHEMA,
        "provider": candidate.provider,
        "median_us": candidate.median_us,
        "p99_us": candidate.p99_us,
        "error": candidate.error,
    }
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part_of(path) as part:
            part.write_text(json.dumps(document))
            put(part, path)
        _prune(sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime))


def _prune(paths: Sequence[Path]) -> None:
    for each in paths[: max(0, len(paths) - MAX_ENTRIES)]:
        each.unlink(missing_ok=True)
