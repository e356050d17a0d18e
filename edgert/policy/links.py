"""What networks of one policy hand to each other: terms "network_output" of inputs, filled when the policy acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.contract.observe import affine
from edgert.contract.spec import MODEL, Contract, InputSpec, NetworkSpec, ObservationTerm, output_place
from edgert.errors import ContractError
from edgert.policy.engine.protocol import Arrays

Link = Callable[[], None]


def links_of(contract: Contract, obs: Arrays, out: Arrays, previous: dict[str, npt.NDArray[Any]]) -> list[list[Link]]:
    """For each network the copies that come before its run.

    Args:
        contract: whose terms name the outputs.
        obs: the policy's inputs, by the contract's names.
        out: its outputs, likewise.
        previous: filled with arrays for those outputs of which the value of the tick before is asked for.

    Raises:
        ContractError: an output has another size than its term.
    """
    specs = contract.networks or (MODEL,)
    links: list[list[Link]] = [[] for _ in specs]
    for name, spec in contract.inputs.items():
        place = _network_of(specs, name)
        start = 0
        for term in spec.terms:
            if term.of:
                number, output = output_place(specs, term.of)
                key = specs[number].key(output)
                source = out[key]
                if term.previous or number >= place:
                    source = previous.setdefault(key, np.zeros_like(out[key]))
                _check(term, name, source, len(obs[name]))
                links[place].append(_link(term, spec, start, source, obs[name]))
            start += term.dim * (term.history if spec.layout == "term" else 1)
    return links


def _network_of(specs: tuple[NetworkSpec, ...], key: str) -> int:
    """The number of the network that an input of the contract belongs to."""
    for number, spec in enumerate(specs):
        if spec.file and any(spec.key(name) == key for name in spec.inputs):
            return number
    return next(number for number, spec in enumerate(specs) if not spec.file)


def _check(term: ObservationTerm, name: str, source: npt.NDArray[Any], nworld: int) -> None:
    width = source.shape[1] if source.ndim == 2 and len(source) == nworld else -1
    wanted = max(term.index) + 1 if term.index is not None else term.dim
    if width < wanted or (term.index is None and width != wanted):
        raise ContractError(
            f"output '{term.of}' does not fit term 'network_output' of input '{name}'",
            found=f"{source.dtype}{list(source.shape)}",
            expected=f"[{nworld}, {wanted}{'' if term.index is None else ' or more'}]",
            hint=f"Correct {'dim' if term.index is None else 'index'} in policy.toml",
        )


def _link(
    term: ObservationTerm, spec: InputSpec, start: int, source: npt.NDArray[Any], target: npt.NDArray[Any]
) -> Link:
    slot = target[:, start : start + term.dim]
    scale, offset, low, high = (np.array(values) for values in affine(InputSpec(terms=(term,), layout=spec.layout)))
    plain = not (scale != 1.0).any() and not offset.any() and term.clip is None
    index = None if term.index is None else np.array(term.index)

    def copy() -> None:
        value = source if index is None else source[:, index]
        slot[:] = value if plain else np.clip(value * scale + offset, low, high)

    return copy
