"""`OnnxNetwork`: a batch of an opened model that acts, on preallocated arrays bound by pointer, whatever they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.errors import ContractError, IntegrityError, UnsupportedError
from edgert.policy.onnx_model import Arrays, Mask, Memory, OnnxModel


class OnnxNetwork(Closes):
    """A batch of an opened model that acts.

    Acting on `obs` and `out` copies nothing. Other arrays of the same shapes and dtypes are bound by pointer at their
    first use and kept alive until others are.

    Args:
        model: the opened model; the network closes it.
        obs: arrays for its inputs, from `OnnxModel.arrays`.
        out: arrays for the outputs to compute, from `OnnxModel.probe`.
        optional: those of `out` that other mappings than `out` may lack.
        memory: state inputs; a network with some runs once for each world.

    Attributes:
        obs, out: the arrays, the same objects for the network's whole life.
        nworld: rows of each.
        runs: how often the network runs for one `act`: more than once if its batch is fixed to fewer rows.
        provider: the inference provider that runs it.
        name: how messages call it.
    """

    def __init__(
        self,
        model: OnnxModel,
        obs: Arrays,
        out: Arrays,
        optional: Sequence[str] = (),
        memory: Mapping[str, Memory] = MappingProxyType({}),
    ) -> None:
        self.file = model.file
        self.device = model.device
        self.provider = model.provider
        self.name = str(model.file.path)
        self.obs: Arrays = MappingProxyType(dict(obs))
        self.out: Arrays = MappingProxyType(dict(out))
        self.nworld = len(next(iter(obs.values())))
        self._memory = dict(memory)
        self._rows = 1 if memory else model.rows(obs, self.nworld)
        self.runs = self.nworld // self._rows
        self._optional = frozenset(optional)
        self._model = model
        self._session = model.session
        self._run = model.session.run_with_iobinding
        self._own = self._bind(self.obs, self.out)
        self._other: tuple[list[Any], tuple[npt.NDArray[Any], ...]] = ([], ())

    def act(self, obs: Arrays, out: Arrays, due: Mask | None = None) -> None:
        """Fill `out` with the network's outputs for `obs`; both (nworld, ...), float32 unless the model differs.

        The memory of worlds outside `due` (None: all) stays as it is.
        """
        if self._session is None:
            raise UnsupportedError(f"policy {self.name} is closed")
        try:
            for binding in self._own if obs is self.obs and out is self.out else self._bindings_of(obs, out):
                self._run(binding)
        except RuntimeError as error:  # what onnxruntime raises when a node fails
            raise IntegrityError(f"policy {self.name} fails while it runs", found=error) from error
        for memory in self._memory.values():
            if due is None:
                memory.now[:] = memory.next
            else:
                memory.now[due] = memory.next[due]

    def forget(self, mask: Mask | None = None) -> None:
        """Set the memory of the worlds of the mask (None: all) to zero."""
        for memory in self._memory.values():
            memory.now[slice(None) if mask is None else mask] = 0.0

    def _bindings_of(self, obs: Arrays, out: Arrays) -> list[Any]:
        if not isinstance(obs, Mapping) or not isinstance(out, Mapping):
            raise ContractError("a policy acts on mappings from ONNX name to array", found=type(obs).__name__)
        arrays = (*(obs.get(name) for name in self.obs), *(out.get(name) for name in self.out))
        bindings, bound = self._other
        if len(bound) != len(arrays) or any(a is not b for a, b in zip(arrays, bound, strict=True)):
            bindings = self._bind(obs, out)
            self._other = (bindings, cast(tuple[npt.NDArray[Any], ...], arrays))  # kept alive with the bindings
        return bindings

    def _bind(self, obs: Arrays, out: Arrays) -> list[Any]:
        """Bindings of the arrays by pointer, one a run; whoever keeps them keeps the arrays."""
        bindings = [self._session.io_binding() for _ in range(self.runs)]
        for given, expected in ((obs, self.obs), (out, self.out)):
            for name, own in expected.items():
                array: Any = given.get(name)
                if array is None and expected is self.out and name in self._optional:
                    continue
                check_array(name, array, own, written=expected is self.out)
                if expected is self.obs:
                    shape = self._model.run_shape(name, self._rows, own.shape[1])
                else:
                    shape = self._model.run_shapes.get(name, (self._rows, *own.shape[1:]))
                for run, binding in enumerate(bindings):
                    bind = binding.bind_input if expected is self.obs else binding.bind_output
                    first = array[run * self._rows :]
                    bind(name, "cpu", 0, own.dtype.type, shape, first.ctypes.data)
        for name, memory in self._memory.items():
            for now, after, binding in zip(memory.now, memory.next, bindings, strict=True):
                binding.bind_input(name, "cpu", 0, now.dtype.type, now.shape, now.ctypes.data)
                binding.bind_output(memory.output, "cpu", 0, after.dtype.type, after.shape, after.ctypes.data)
        return bindings

    def close(self) -> None:
        """Release the session."""
        self._own = self._other = self._session = self._run = self._model = None  # type: ignore[assignment]


def check_array(name: str, array: Any, own: npt.NDArray[Any], *, written: bool) -> None:
    """Refuse an array of the caller that cannot stand in for a policy's own."""
    what = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
    fits = isinstance(array, np.ndarray) and array.shape == own.shape and array.dtype == own.dtype
    if not fits or not array.flags.c_contiguous or not (array.flags.writeable or not written):
        writeable = "writeable " if written else ""
        raise ContractError(
            f"the array for '{name}' does not fit the policy",
            found=what,
            expected=f"{writeable}C-contiguous {own.dtype}{list(own.shape)}",
        )
