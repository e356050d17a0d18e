"""`edgert policy`: the bundled policies, and what an .onnx file and its contract hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgert import assets
from edgert.cli.main import HELP_NAMES, write
from edgert.cli.policy_embed import embed
from edgert.cli.policy_get import get, rows
from edgert.cli.policy_inspect import inspect
from edgert.cli.running import json_option
from edgert.errors import EdgertError


@click.group(context_settings=HELP_NAMES)
def policy() -> None:
    """Look at policies: those that are bundled or known, and any .onnx file; download those that are known."""


policy.add_command(get)
policy.add_command(inspect)
policy.add_command(embed)


@policy.command("list", context_settings=HELP_NAMES)
@json_option
def list_policies(as_json: bool) -> None:
    """List the bundled policies, and the known ones of others."""
    bundled = [
        _row(name, assets.root("models") / name / "policy.onnx") | {"state": "bundled", "licence": None, "source": None}
        for name in assets.names("models")
    ]
    write({"policies": bundled + rows(_row)}, as_json, _list_table)


def _row(name: str, path: Path) -> dict[str, Any]:
    """One policy that is here; what cannot be read has its reason in `error`."""
    from edgert.files import regular_size
    from edgert.policy.load import load_policy
    from edgert.policy.model import read_policy

    row: dict[str, Any] = dict.fromkeys(("robot", "control_hz", "inputs", "actions", "policy_sha256", "size_bytes"))
    row = {"name": name, **row, "path": str(path), "error": None}
    try:
        file = read_policy(path)
        sizes = [regular_size(path.parent / name, "external data") for name in file.external]
        row |= {"policy_sha256": file.sha256, "size_bytes": len(file.data) + sum(sizes)}
        contract = load_policy(path).contract
        row |= {
            "robot": contract.robot,
            "control_hz": contract.control_hz,
            "inputs": {key: spec.dim for key, spec in contract.inputs.items()},
            "actions": len(contract.action.joints),
        }
    except EdgertError as error:
        row["error"] = str(error)
    return row


def _list_table(report: dict[str, Any]) -> str:
    from edgert.cli.tables import listing, rendered
    from edgert.device.host import size_text

    shown = []
    for row in report["policies"]:
        last = row["path"]
        if row["error"] is not None:
            last = f"unusable: {row['error']}"
        elif row["state"] == "available":
            last = f"not here yet, {row['licence']}: edgert policy get {row['name']}"
        inputs = None if row["inputs"] is None else " + ".join(f"{name} {dim}" for name, dim in row["inputs"].items())
        shown.append(
            (
                row["name"],
                row["robot"] or "–",
                "–" if row["control_hz"] is None else f"{row['control_hz']:g} Hz",
                "–" if inputs is None else f"{inputs} → {row['actions']}",
                (row["policy_sha256"] or "–")[:12],
                "–" if row["size_bytes"] is None else size_text(row["size_bytes"]),
                last,
            )
        )
    return rendered(listing(("policy", "robot", "rate", "inputs → actions", "sha256", "size", "path"), shown))
