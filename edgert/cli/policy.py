"""`edgert policy`: the bundled policies, and what an .onnx file and its contract hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgert import assets
from edgert.cli.completion import complete_models, complete_sims
from edgert.cli.main import HELP_NAMES, say, write
from edgert.cli.policy_get import get, rows
from edgert.cli.running import contract_option, format_option, json_option, path_of
from edgert.errors import EdgertError

if TYPE_CHECKING:
    from edgert.contract.spec import Contract


@click.group(context_settings=HELP_NAMES)
def policy() -> None:
    """Look at policies: those that are bundled or known, and any .onnx file; download those that are known."""


policy.add_command(get)


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


@policy.command(context_settings=HELP_NAMES)
@click.argument("model", shell_complete=complete_models)
@contract_option
@click.option("--sim", shell_complete=complete_sims, help="The robot it runs on, whose joints some formats need.")
@format_option
@json_option
def inspect(model: str, contract: str | None, sim: str | None, wanted: str | None, as_json: bool) -> None:
    """Print what MODEL, an .onnx file or a bundled policy, holds, and what its numbers mean; it is not run.

    The meaning is read as by `edgert run policy`: from the model's metadata and from policy.toml beside it, or from
    the file that --contract names. A model without any is described all the same.
    """
    from edgert.policy.describe import describe_model
    from edgert.policy.judge import MissingFactsError
    from edgert.policy.load import load_policy, locate
    from edgert.policy.model import read_policy
    from edgert.task.place import place_of

    report: dict[str, Any] = {"contract": None, "contract_missing": None, "contract_sha256": None}
    report |= {"contract_sources": [], "contract_overrides": [], "contract_provenance": {}}
    try:
        loaded = load_policy(
            model, path_of(contract), joints=() if sim is None else place_of(sim).joints, wanted=wanted
        )
    except MissingFactsError as error:
        write(describe_model(read_policy(locate(model))) | report | {"contract_missing": str(error)}, as_json, _model)
        return
    for note in loaded.notes:
        say(note)
    report |= {
        "contract": loaded.contract.to_document(),
        "contract_sha256": loaded.contract.sha256(),
        "contract_sources": list(loaded.sources),
        "contract_overrides": list(loaded.overrides),
        "contract_provenance": dict(loaded.contract.provenance),
    }
    write(
        describe_model(loaded.file) | report,
        as_json,
        lambda shown: "\n\n".join((_model(shown), _meaning(loaded.contract, shown))),
    )


def _model(report: dict[str, Any]) -> str:
    """What the file holds."""
    from edgert.cli.tables import facts, rendered
    from edgert.device.host import size_text

    left_out = report["left_out"]

    def more(name: str) -> str:
        return f" and {left_out[name]} more" if name in left_out else ""

    rows = [
        ("policy", report["path"]),
        ("sha256", report["policy_sha256"]),
        ("size", size_text(report["size_bytes"])),
    ]
    rows += [(" data", f"{entry['name']}, {size_text(entry['size_bytes'])}") for entry in report["external_data"]]
    opsets = ", ".join(f"{domain} {number}" for domain, number in report["opsets"].items())
    rows.append(("onnx", f"IR {report['ir_version']}, opset {opsets}, producer {report['producer'] or 'not given'}"))
    for kind in ("input", "output"):
        rows += [(kind, f"{entry['name']}{_shape(entry['shape'])} {entry['dtype']}") for entry in report[f"{kind}s"]]
        if more(f"{kind}s"):
            rows.append((kind, more(f"{kind}s").strip()))
    operators = ", ".join(f"{count} {name}" for name, count in report["operators"].items())
    rows.append(
        ("network", f"{report['parameters']:,} parameters, {report['nodes']} nodes: {operators}{more('operators')}")
    )
    keys = ", ".join(f"{entry['key']} ({entry['characters']} characters)" for entry in report["metadata"])
    rows.append(("metadata", f"{keys or 'none'}{more('metadata')}"))
    if report["contract_missing"] is not None:
        rows.append(("contract", f"none: {report['contract_missing']}"))
    return rendered(facts(rows))


def _shape(shape: Sequence[Any] | None) -> str:
    return "" if shape is None else f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"


def _meaning(contract: Contract, report: dict[str, Any]) -> str:
    """What the numbers mean, and who says so."""
    from edgert.cli.contract import tables
    from edgert.cli.tables import facts, rendered

    rows = [("sha256", report["contract_sha256"])]
    rows += [("source", source) for source in report["contract_sources"]]
    rows += [("overridden", override) for override in report["contract_overrides"]]
    origins: dict[str, list[str]] = {}
    for field, source in report["contract_provenance"].items():
        origins.setdefault(source, []).append(field)
    origin_rows = [(source, ", ".join(names)) for source, names in origins.items()]
    return rendered("contract", *tables(contract, also=rows), "\nfields by source", facts(origin_rows))
