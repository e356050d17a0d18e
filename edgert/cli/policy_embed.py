"""`edgert policy embed`: a contract into the metadata of a copy of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgert.cli.completion import complete_models, complete_sims
from edgert.cli.main import HELP_NAMES, say, write
from edgert.cli.running import FilePath, contract_option, format_option, json_option, path_of
from edgert.errors import EdgertError


@click.command(context_settings=HELP_NAMES)
@click.argument("model", shell_complete=complete_models)
@click.option("-o", "--out", required=True, type=FilePath(), metavar="OUT", help="The .onnx file to write.")
@contract_option
@click.option("--sim", shell_complete=complete_sims, help="The robot it runs on, whose joints some formats need.")
@format_option
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is there, even if it is MODEL itself.")
@json_option
def embed(
    model: str, out: str, contract: str | None, sim: str | None, format: str | None, overwrite: bool, as_json: bool
) -> None:
    """Write a copy of MODEL with its complete contract in its metadata, so that it never gets lost again.

    The contract is what `edgert run policy` would take; one that is incomplete is refused. Weights, further networks
    and a motion are copied beside OUT, but never onto other files. The network itself stays as it is.

    \b
    Examples:
      edgert policy embed their.onnx --contract policy.toml -o ours.onnx
      edgert policy embed exported/policy.onnx --sim g1.xml -o walk.onnx
    """  # noqa: D301  # \b is click's mark for lines to keep
    from edgert.contract.formats import NO_BODY
    from edgert.policy.companions import digested
    from edgert.policy.embed import embed as embed_contract
    from edgert.policy.load import load_policy
    from edgert.policy.model import read_policy

    body = NO_BODY
    if sim is not None:  # MuJoCo is loaded for this alone
        from edgert.task.place import place_of

        body = place_of(sim).body
    loaded = load_policy(model, path_of(contract), body=body, format=format)
    for note in loaded.notes:
        say(note)
    path = Path(out)
    result = embed_contract(loaded, path, overwrite=overwrite)
    try:
        if load_policy(path).contract.sha256() != loaded.contract.sha256():
            say(f"policy.toml beside {path} is laid over what was embedded: take it away, or it goes on to count")
    except EdgertError as error:  # what was written is sound, so that it is for a file beside it
        say(f"{path} was written, but what lies beside it does not fit: {error}")
    report = {
        "path": str(path),
        "written": result.written,
        "copied": list(result.copied),
        "contract_sha256": loaded.contract.sha256(),
        "policy_sha256": digested(read_policy(path), loaded.networks).sha256,
        "contract_sources": list(loaded.sources),
        "assumed": [
            {"field": field, "source": source}
            for field, source in loaded.contract.provenance.items()
            if "assumed" in source
        ],
        "notes": list(loaded.notes),
    }
    write(report, as_json, _table)


def _table(report: dict[str, Any]) -> str:
    from edgert.cli.tables import facts, rendered

    rows = [
        ("policy", report["path"] + ("" if report["written"] else " (was there already, the same)")),
        ("sha256", report["policy_sha256"]),
        ("contract", report["contract_sha256"]),
        *(("source", source) for source in report["contract_sources"]),
        *(("copied", name) for name in report["copied"]),
        *(("assumed", f"{each['field']}: {each['source']}") for each in report["assumed"]),
    ]
    return rendered(facts(rows))
