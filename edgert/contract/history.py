"""`History`: the samples of the latest control ticks, laid out as a network wants them.

At the first tick of an episode every sample is that of this tick, unless the network was trained with zeros there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.contract.spec import InputSpec

Mask = npt.NDArray[np.bool_]


class History:
    """The history of one ONNX input for many worlds.

    Args:
        spec: its terms, their lengths of history and the layout.
        out: (nworld, dim) the network's input, written by `push`.
    """

    def __init__(self, spec: InputSpec, out: npt.NDArray[Any]) -> None:
        self._out = out
        self._zeros = spec.fill == "zero"
        self._frames = np.zeros((len(out), spec.history, spec.frame_dim), out.dtype)  # oldest first
        self._flat = self._frames.reshape(len(out), -1)
        self._index = _index(spec)
        self._fresh = np.ones(len(out), np.bool_)
        self._any_fresh = True

    def reset(self, mask: Mask | None = None) -> None:
        """The next frame of the worlds of the mask (None: all) is the first of an episode."""
        self._fresh[slice(None) if mask is None else mask] = True
        self._any_fresh = True

    def push(self, frames: npt.NDArray[Any], mask: Mask | None = None) -> None:
        """Take the frames (n, frame_dim) of the worlds of the mask (None: all), and write these rows of `out`."""
        if mask is None:
            self._frames[:, :-1] = self._frames[:, 1:]
            self._frames[:, -1] = frames
        else:
            self._frames[mask, :-1] = self._frames[mask, 1:]
            self._frames[mask, -1] = frames
        if self._any_fresh:
            fresh = self._fresh if mask is None else self._fresh & mask
            self._frames[fresh, :-1] = 0.0 if self._zeros else self._frames[fresh, -1:]
            self._fresh[fresh] = False
            self._any_fresh = bool(self._fresh.any())
        if mask is None:
            np.take(self._flat, self._index, axis=1, out=self._out, mode="clip")  # "raise" would copy twice
        else:
            self._out[mask] = self._flat[mask][:, self._index]


def _index(spec: InputSpec) -> npt.NDArray[np.intp]:
    """Where each number of the input lies in the frames (history, frame_dim), flattened."""
    places = np.arange(spec.history * spec.frame_dim).reshape(spec.history, spec.frame_dim)
    onward = 1 if spec.newest == "last" else -1
    if spec.layout == "frame":
        return places[::onward].reshape(-1)
    parts, start = [], 0
    for term in spec.terms:
        parts.append(places[spec.history - term.history :, start : start + term.dim][::onward].reshape(-1))
        start += term.dim
    return np.concatenate(parts)
