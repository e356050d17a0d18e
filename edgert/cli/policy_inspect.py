"""`edgert policy inspect`: what an .onnx file holds, and all that is known of what its numbers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from edgert.cli.completion import complete_models, complete_sims
from edgert.cli.main import HELP_NAMES, say, write
from edgert.cli.running import contract_option, format_option, json_option, path_of
from edgert.errors import EdgertError

if TYPE_CHECKING:
    from edgert.contract.spec import Contract
    from edgert.policy.facts import Facts
    from edgert.task.place import Place

_OF_NETWORK = ("path", "policy_sha256", "size_bytes", "inputs", "outputs", "parameters")
"""What is told of each further network."""
_NAMED = 3
"""Names of a list that are shown before only its ends are."""


@click.command(context_settings=HELP_NAMES)
@click.argument("model", shell_complete=complete_models)
@contract_option
@click.option(
    "--sim", shell_complete=complete_sims, help="The robot it runs on: some formats need its joints; is it suited?"
)
@format_option
@json_option
def inspect(model: str, contract: str | None, sim: str | None, format: str | None, as_json: bool) -> None:
    """Print what MODEL, an .onnx file or a bundled policy, holds, and what its numbers mean; it is not run.

    The meaning is read as by `edgert run policy`. Every fact is shown with its source, complete or not, and with what
    is missing, assumed or doubtful about it; --sim also compares the contract with a robot.

    \b
    Examples:
      edgert policy inspect quadruped
      edgert policy inspect their.onnx --sim their_robot.xml --contract policy.toml
    """  # noqa: D301  # \b is click's mark for lines to keep
    from edgert.contract.formats import NO_BODY
    from edgert.policy.companions import digested
    from edgert.policy.describe import describe_model
    from edgert.policy.facts import read_facts
    from edgert.policy.load import locate

    place = None
    if sim is not None:  # MuJoCo is loaded for this alone
        from edgert.task.place import place_of

        place = place_of(sim)
    facts = read_facts(locate(model), path_of(contract), NO_BODY if place is None else place.body, format)
    meant, report = _meaning(facts, place)
    for note in report["notes"]:
        say(note)
    model_report = describe_model(digested(facts.file, facts.networks))
    model_report["networks"] = [
        {"name": name, **{key: value for key, value in describe_model(each).items() if key in _OF_NETWORK}}
        for name, each in facts.networks.items()
    ]
    write(model_report | report, as_json, lambda shown: _text(shown, meant))


def _meaning(facts: Facts, place: Place | None) -> tuple[Contract | None, dict[str, Any]]:
    """The contract, if it is complete, and what there is to report of it."""
    from edgert.policy.doubts import doubts, early_doubts
    from edgert.policy.fields import contract_fields
    from edgert.policy.motion import make_motion
    from edgert.policy.motion_file import read_track

    contract, unfit = facts.judged()
    notes = list(facts.notes)
    if contract is not None and contract.motion is not None and contract.motion.file:
        try:
            notes += make_motion(
                read_track(facts.file.path, contract.motion, contract), contract.motion, contract
            ).notes
        except EdgertError as error:
            unfit = (*unfit, error)
    missing = facts.refusal()
    if contract is not None:
        doubtful = list(doubts(contract, facts.document))
    else:
        listed = {each.field for each in facts.missing()}
        doubtful = [doubt for doubt in early_doubts(facts.document) if doubt.field not in listed]
    if contract is not None and place is not None:
        from edgert.task.suits import doubts_of

        doubtful += doubts_of(contract, place)
    fields = contract_fields(facts, contract, doubtful)
    return contract, {
        "contract": None if contract is None else contract.to_document(),
        "contract_missing": None if missing is None else str(missing),
        "contract_sha256": None if contract is None else contract.sha256(),
        "contract_sources": list(facts.sources),
        "contract_overrides": list(facts.overrides),
        "contract_provenance": dict(facts.provenance if contract is None else contract.provenance),
        "fields": [asdict(field) for field in fields],
        "missing": [{"field": each.field, "what": each.what} for each in (missing.missing if missing else ())],
        "assumed": [{"field": each.name, "source": each.source} for each in fields if each.state == "assumed"],
        "doubtful": [asdict(doubt) for doubt in doubtful],
        "unfit": [str(error) for error in unfit],
        "notes": notes,
    }


def _text(report: dict[str, Any], contract: Contract | None) -> str:
    """The model, every field of its contract, and the terms and joints of a complete one."""
    from edgert.cli.contract import details
    from edgert.cli.tables import facts, listing, rendered

    rows = [("sha256", report["contract_sha256"])] if contract is not None else []
    rows += [("source", source) for source in report["contract_sources"]]
    rows += [("overridden", override) for override in report["contract_overrides"]]
    rows += [("unfit", reason) for reason in report["unfit"]]
    if report["missing"]:
        count = len(report["missing"])
        what = "1 fact is missing: write it" if count == 1 else f"{count} facts are missing: write them"
        rows.append(("incomplete", f"{what} into policy.toml beside it"))
    table = listing(
        ("field", "value", "unit", "from", "state"),
        (
            (
                field["name"],
                "–" if field["value"] is None else _value(field["name"], field["value"], contract is not None),
                field["unit"],
                field["source"] or "–",
                f"{field['state']}: {field['reason']}" if field["reason"] else field["state"],
            )
            for field in report["fields"]
        ),
    )
    parts = [] if contract is None else details(contract)
    return "\n\n".join((_model(report), rendered("contract", facts(rows), "", table, *parts)))


def _value(name: str, value: Any, detailed: bool) -> str:
    """A value in a cell; what the tables below show in full only by its length."""
    from edgert.cli.tables import value_text

    if isinstance(value, Mapping):
        return value_text(list(value.values()))
    if not isinstance(value, list) or not any(isinstance(entry, (str, Mapping)) for entry in value):
        return value_text(value)
    names = [str(entry.get("name", "?")) if isinstance(entry, Mapping) else str(entry) for entry in value]
    if len(names) <= _NAMED or (not detailed and name.startswith("inputs.")):
        return ", ".join(names)
    return f"{len(names)}: {names[0]} … {names[-1]}"


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
    for each in report["networks"]:
        takes, gives = (
            ", ".join(f"{entry['name']}{_shape(entry['shape'])}" for entry in each[kind])
            for kind in ("inputs", "outputs")
        )
        rows.append(("also", f"{each['name']}: {each['path']}, {takes} → {gives}"))
    return rendered(facts(rows))


def _shape(shape: Sequence[Any] | None) -> str:
    return "" if shape is None else f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"
