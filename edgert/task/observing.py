"""`Observations`: what the policy of many worlds sees, input by input, with the noise and the histories of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.contract.history import History
from edgert.contract.observe import Observer
from edgert.contract.spec import Contract
from edgert.contract.terms import TermInputs
from edgert.sim.protocol import Floats, Mask
from edgert.task.draws import Generators

Observation = dict[str, npt.NDArray[Any]]
"""By ONNX input: (n, dim)."""


class Observations:
    """The inputs of `contract` in `nworld` worlds.

    Args:
        contract: whose inputs they are.
        inputs: live arrays of every world.
        generators: of the noise, one tick of all inputs side by side, as wide as `noise_scale` says.
        types: of each input; float32 where nothing is said.
    """

    def __init__(
        self,
        contract: Contract,
        inputs: TermInputs,
        generators: Generators,
        types: Mapping[str, np.dtype[Any]] = MappingProxyType({}),
    ) -> None:
        nworld = len(inputs.last_action)
        self._inputs, self._generators = inputs, generators
        self._observers = {name: Observer(contract, name, inputs.last_action) for name in contract.inputs}
        self._types = {name: types.get(name, np.dtype(np.float32)) for name in contract.inputs}
        self._histories: dict[str, tuple[History, npt.NDArray[Any]]] = {}
        for name, spec in contract.inputs.items():
            if spec.history > 1:
                seen = np.zeros((nworld, spec.dim), self._types[name])
                self._histories[name] = History(spec, seen), seen

    def reset(self, mask: Mask | None) -> None:
        """The next observation of the worlds of the mask (None: all) is the first of an episode."""
        for history, _ in self._histories.values():
            history.reset(mask)

    def __call__(self, mask: Mask | None, lost: Mask | None) -> Observation:
        """What the worlds of the mask (None: all) see now; those of `lost` see zeros where numbers are not finite."""
        noise, start = self._generators.noise(mask), 0
        if mask is not None and lost is not None:
            lost = lost[mask]
        result = {}
        for name, observer in self._observers.items():
            frame = observer(self._inputs)
            if mask is not None:
                frame = frame[mask]
            part = None if noise is None else noise[:, start : start + observer.dim]
            start += observer.dim
            result[name] = self._seen(name, _typed(frame, part, self._types[name], lost), mask)
        return result

    def _seen(self, name: str, frame: npt.NDArray[Any], mask: Mask | None) -> npt.NDArray[Any]:
        if name not in self._histories:
            return frame
        history, seen = self._histories[name]
        history.push(frame, mask)
        return seen.copy() if mask is None else seen[mask]


def _typed(frame: Floats, noise: Floats | None, dtype: np.dtype[Any], lost: Mask | None) -> npt.NDArray[Any]:
    """The frame (n, dim) with noise in the type of the network; rows of `lost` (n,) that are not finite are 0."""
    result = np.empty(frame.shape, dtype)
    if noise is None:
        result[:] = frame
    else:
        np.add(frame, noise, out=result, casting="unsafe")  # added in float64, then rounded
    if lost is not None:
        result[lost & ~np.isfinite(result).all(axis=1)] = 0
    return result


def noise_scale(contract: Contract, half_widths: Mapping[str, float]) -> Floats:
    """Half the width of the noise of each number of one tick, all inputs side by side, from that of each term."""
    terms = [term for spec in contract.inputs.values() for term in spec.terms]
    return np.array([half_widths.get(term.name, 0.0) * abs(scale) for term in terms for scale in term.scale])


def observation_bytes(contract: Contract) -> int:
    """What the observations of a world take at least: the network's inputs, what is handed to them, and histories."""
    return sum(
        8 * spec.dim + 8 * spec.frame_dim + (4 * (spec.history * spec.frame_dim + spec.dim) if spec.history > 1 else 0)
        for spec in contract.inputs.values()
    )
