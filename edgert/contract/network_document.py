"""Reading what makes several networks one policy: [[network]] tables, states, and what feeds what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from edgert.contract.input_document import read_input
from edgert.contract.spec import MODEL, Contract, InputSpec, NetworkSpec
from edgert.contract.terms import TermSizes
from edgert.tables import Table, show, type_name

MAX_NETWORKS: Final = 16
MAX_EVERY: Final = 10_000
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def read_networks(
    table: Table, sizes: TermSizes, joints: Sequence[str]
) -> tuple[tuple[NetworkSpec, ...], dict[str, InputSpec]]:
    """The networks in the order in which they run, and the inputs of those that are not MODEL itself."""
    if not table.has("network"):
        return (), {}
    entries = table.raw("network")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_NETWORKS:
        found = f"{type_name(entries)} {show(entries)}"
        table.fail("network", found=found, expected=f"1 to {MAX_NETWORKS} tables [[network]]")
    networks: list[NetworkSpec] = []
    inputs: dict[str, InputSpec] = {}
    for number, data in enumerate(entries):
        if not isinstance(data, Mapping):
            table.fail("network", found=f"{type_name(data)} {show(data)}", expected="tables [[network]]")
        network, own = _network(Table(data, table.where, f"network[{number}]"), sizes, joints)
        networks.append(network)
        inputs |= {network.key(name): spec for name, spec in own.items()}
    if all(network.file for network in networks):
        networks.append(MODEL)
    names = [network.name for network in networks]
    models = [network.name for network in networks if not network.file]
    if len(set(names)) < len(names):
        table.fail("network", found=", ".join(names), expected=f"each name once; '{MODEL.name}' is MODEL itself")
    if len(models) > 1:
        table.fail("network", found=f"no file for {', '.join(models)}", expected="one without a file, MODEL itself")
    return tuple(networks), inputs


def _network(table: Table, sizes: TermSizes, joints: Sequence[str]) -> tuple[NetworkSpec, dict[str, InputSpec]]:
    name, file = table.text("name"), table.text("file", "")
    if not _NAME.fullmatch(name):
        table.fail("name", found=show(name), expected="letters, digits, _ and -")
    if not file and (table.has("inputs") or table.has("recurrent")):
        table.fail(
            "file", found="none, and inputs or recurrent", expected="a file; MODEL itself has [inputs] and [recurrent]"
        )
    inputs = table.table("inputs").each(lambda _, entry: read_input(entry, sizes, joints)) if file else {}
    if file and not inputs:
        table.fail("inputs", found="no input", expected="the terms of each of its ONNX inputs")
    network = NetworkSpec(
        name=name,
        file=file,
        every=table.integer("every", 1, lo=1, hi=MAX_EVERY),
        inputs=tuple(inputs),
        recurrent=read_recurrent(table, inputs) if table.has("recurrent") else {},
    )
    table.close()
    return network, inputs


def read_recurrent(table: Table, inputs: Mapping[str, InputSpec]) -> dict[str, str]:
    """State inputs and the outputs that feed them."""
    entry = table.table("recurrent")
    pairs = {name: entry.text(name) for name in entry.data}
    for name, output in pairs.items():
        if name in inputs:
            entry.fail(name, found="the name of an observation", expected="a state input, which is not in [inputs]")
        if list(pairs.values()).count(output) > 1:
            entry.fail(name, found=show(output), expected="an output of its own")
    entry.close()
    return pairs


def check_links(contract: Contract, table: Table, own: Mapping[str, InputSpec]) -> None:
    """Refuse names that two inputs share, and numbers that cannot be known when they are asked for.

    Args:
        contract: what was read.
        table: the document, for errors.
        own: the inputs of MODEL itself.
    """
    others = [network.key(name) for network in contract.networks if network.file for name in network.inputs]
    shared = [name for name in others if name in own]
    if shared:
        table.fail("network", found=f"the input {shared[0]} twice", expected="another name for the network")
    terms = [term for spec in contract.inputs.values() for term in spec.terms]
    if contract.action.relative and any(term.stage == "target" for term in terms):
        table.fail(
            "inputs",
            found="a term last_action of stage 'target', and a relative_position action",
            expected="stage 'raw' or 'clipped', as such a target depends on what was measured",
        )
