"""Whether a model can be a policy, and whether a contract is this model's: by names and shapes, before anything runs.

A refusal names what most likely went wrong: a file of another export left beside the model, one part of a pipeline
taken for the whole, a memory without a way to last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from edgert.contract.spec import MODEL, Contract, InputSpec
from edgert.errors import ContractError, EdgertError, UnsupportedError
from edgert.policy.images import flat_shape, row_size, wrong_rank
from edgert.policy.model import IMAGE_AXES, PolicyFile
from edgert.policy.refusals import check_memory, check_operators

Shape = tuple[int | str | None, ...]

_PARTS: Final = (
    (re.compile(r"latent|embed|encod"), "an encoder"),
    (re.compile(r"critic|(?<![a-z])values?(?![a-z])"), "a critic"),
    (re.compile(r"estimat"), "an estimator"),
    (re.compile(r"discrim"), "a discriminator"),
    (re.compile(r"(?<![a-z])obs(?![a-z])|observation"), "a graph that only makes observations"),
)
"""How outputs are called that are no actions, and what gives them."""
_ACTION: Final = re.compile(r"act(?!ivat)|target|(?<![a-z])(mu|mean|ctrl|control|torques?|efforts?)(?![a-z])")
_STATE: Final = re.compile(r"(h|c|hx|cx|hidden|cell|state|memory|lstm|gru|rnn)(?![a-z])")
"""How the inputs of a memory are called, at their beginning."""


def misfits(document: Mapping[str, Any], provenance: Mapping[str, str], file: PolicyFile) -> Iterator[EdgertError]:
    """Every reason for which a model cannot be run as a policy, whatever the missing facts are."""
    where = f"policy {file.path}"
    try:
        check_operators(file)
    except UnsupportedError as error:
        yield error
    for name, shape in file.input_shapes.items():
        if 0 in shape:
            yield ContractError(
                f"input '{name}' of {where} has an axis of size 0", found=_text(shape), hint="Export it again"
            )
    yield from _inputs(document, file, where)
    source = provenance.get("action.output", "model")
    if source.startswith("model") and "network" not in document:
        yield from _parts(document, file, where)


def _inputs(document: Mapping[str, Any], file: PolicyFile, where: str) -> Iterator[ContractError]:
    """Inputs that nothing in the contract can feed."""
    said = [document.get(name) for name in ("inputs", "recurrent")]
    motion = document.get("motion")
    taken = {name for table in said if isinstance(table, Mapping) for name in table}
    taken |= {motion.get("time_step")} if isinstance(motion, Mapping) else set()
    for name, shape in file.input_shapes.items():
        if name in taken:
            continue
        if _STATE.match(name.lower()) and len(file.input_shapes) > 1 and (len(shape) == 3 or name.endswith("_in")):
            output = re.sub(r"(^|[._])in(?=$|[._])", r"\1out", name)
            yield ContractError(
                f"input '{name}' of {where} is the state of a memory, and no output gives its next value",
                found=", ".join(file.outputs),
                expected=f"an output such as '{output if output != name else f'{name}_out'}'",
                hint="Export it with its state as an output, or name that output in [recurrent] of policy.toml",
            )
        elif len(shape) not in (0, 1, 2, IMAGE_AXES):
            yield ContractError(
                f"input '{name}' of {where} has {len(shape)} axes",
                found=_text(shape),
                expected="[batch, size], or [batch, channels, rows, columns] of an image",
            )


def _parts(document: Mapping[str, Any], file: PolicyFile, where: str) -> Iterator[ContractError]:
    """One part of a pipeline, by the names of all its outputs."""
    recurrent = document.get("recurrent")
    states = set(recurrent.values()) if isinstance(recurrent, Mapping) else set()
    names = [name for name in file.outputs if name not in states]
    kinds = [_part(name) for name in names]
    if kinds and all(kinds):
        yield ContractError(
            f"{where} looks like {kinds[0]}, not a policy",
            found=f"output{'s' if len(names) > 1 else ''} {', '.join(names)}",
            expected="an output that gives actions",
            hint="Name the file that holds the actor; [[network]] in policy.toml makes several files one policy, "
            "[action] output says that this is one all the same",
        )


def _part(name: str) -> str:
    """What gives an output of that name, "" for what may be actions."""
    text = name.lower()
    if _ACTION.search(text):
        return ""
    return next((what for form, what in _PARTS if form.search(text)), "")


def check_fit(contract: Contract, file: PolicyFile, networks: Mapping[str, PolicyFile]) -> None:
    """Refuse a contract that is another model's, by the sizes that the model declares; and a memory that cannot last.

    Raises:
        ContractError: a size differs.
        UnsupportedError: the network forgets everything from tick to tick.
    """
    for network in contract.networks or (MODEL,):
        recurrent = network.recurrent if network.file else contract.recurrent
        theirs = networks[network.name] if network.file else file
        inputs = contract.inputs_of(network)
        check_inputs(inputs, recurrent, contract, theirs)
        if not any(spec.history > 1 for spec in inputs.values()):
            check_memory(theirs)
    if not contract.networks:
        _check_action(contract, file)


def _check_action(contract: Contract, file: PolicyFile) -> None:
    """The outputs of MODEL side by side, where it declares the size of each."""
    outputs, joints = contract.action.outputs, len(contract.action.joints)
    strange = [name for name in outputs if name not in file.outputs]
    if strange:
        raise ContractError(
            f"policy {file.path} has no output '{strange[0]}'",
            found=", ".join(file.outputs),
            expected="the name in [action] output of the contract",
        )
    shapes = [file.output_shapes.get(name, ()) for name in outputs if "float" in file.dtypes.get(name, "")]
    sizes = [shape[1] for shape in shapes if len(shape) == 2]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) == len(outputs) and sum(numbers) != joints:
        raise ContractError(
            f"output '{', '.join(outputs)}' of policy {file.path} has another size than the contract's action",
            found=f"{joints} joints in the contract",
            expected=f"{' + '.join(map(str, numbers))}, as the model gives",
            hint=_stale(
                contract,
                ("action.joints", "joints.names"),
                "Correct [joints] names or [action] joints in policy.toml",
            ),
        )


def check_inputs(
    inputs: Mapping[str, InputSpec], recurrent: Mapping[str, str], contract: Contract, file: PolicyFile
) -> None:
    """Refuse inputs and states of one network, by their ONNX names, that are not those of its file.

    Raises:
        ContractError: a name or a size differs.
    """
    if set(file.input_shapes) != {*inputs, *recurrent}:
        raise ContractError(
            f"the contract's inputs are not those of policy {file.path}",
            found="contract: " + (", ".join((*inputs, *recurrent)) or "none"),
            expected="the model's " + ", ".join(file.inputs),
            hint=_stale(
                contract,
                tuple(f"inputs.{name}.terms" for name in inputs),
                "Name each ONNX input as [inputs.<name>] in policy.toml, and each state with its output in [recurrent]",
            ),
        )
    for name, spec in inputs.items():
        shape = file.input_shapes.get(name, ())
        flat = flat_shape(shape, spec.image)
        if flat is None:
            raise wrong_rank(name, shape, spec.image, file.path)
        size = row_size(flat)
        if size is not None and size != spec.dim:
            raise ContractError(
                f"input '{name}' of policy {file.path} has another size than the contract's terms",
                found=f"the contract has {spec.dim} = {spec.sizes()}",
                expected=f"{size}, as the model takes",
                hint=_stale(contract, (f"inputs.{name}.terms",), "Add, remove or resize terms in policy.toml"),
            )


def _stale(contract: Contract, fields: tuple[str, ...], otherwise: str) -> str:
    """The way out of a wrong size: files that were left over from another export are the usual reason."""
    sources = [contract.provenance[field] for field in fields if field in contract.provenance]
    source = sources[0] if sources else "metadata"
    if source.startswith(("metadata", "default", "model")):
        return otherwise
    name = source.partition("(")[2].rstrip(")") or source
    return f"Is {name} that of another export? Copy the pair again. {otherwise}"


def _text(shape: Shape) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
