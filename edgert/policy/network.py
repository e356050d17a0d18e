"""`OnnxNetwork`: a batch of an opened model that acts, on preallocated arrays bound by pointer, whatever they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from edgert.closing import Closes
from edgert.errors import ContractError, IntegrityError, UnsupportedError
from edgert.policy.engine.buffers import fitting
from edgert.policy.engine.protocol import Arrays, Buffer
from edgert.policy.onnx_model import Mask, Memory, OnnxModel

Run = Callable[[], None]
"""One run of the network on arrays that are bound."""


class OnnxNetwork(Closes):
    """A batch of an opened model that acts.

    Other arrays than `obs` and `out`, of the same shapes and dtypes, are bound by pointer at their first use and kept
    alive until others are: numpy's, and whatever speaks DLPack (torch, cupy, Warp). Where the device does not use an
    array where it lies it is copied at each run, which `Placement.zero_copy` refuses.

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
        nodes: of the graph, each with the provider that computes it.
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
        self.nodes = model.engine.nodes
        self.name = str(model.file.path)
        self.obs: Arrays = MappingProxyType(dict(obs))
        self.out: Arrays = MappingProxyType(dict(out))
        self.nworld = len(next(iter(obs.values())))
        self._memory = dict(memory)
        self._rows = 1 if memory else model.rows(obs, self.nworld)
        self.runs = self.nworld // self._rows
        self._optional = frozenset(optional)
        self._model = model
        self._engine = model.engine
        self._zero_copy = model.placement.zero_copy
        self._own: list[Run] | None = None
        self._other: tuple[list[Run], tuple[Any, ...], tuple[int, ...]] = ([], (), ())

    def act(self, obs: Arrays, out: Arrays, due: Mask | None = None) -> None:
        """Fill `out` with the network's outputs for `obs`; both (nworld, ...), float32 unless the model differs.

        The memory of worlds outside `due` (None: all) stays as it is.
        """
        if self._engine is None:
            raise UnsupportedError(f"policy {self.name} is closed")
        try:
            runs = self._own if obs is self.obs and out is self.out else self._runs_on(obs, out)
            if runs is None:
                runs = self._own = self._bind(obs, out)
            for run in runs:
                run()
        except RuntimeError as error:  # what onnxruntime raises when a node fails
            raise IntegrityError(f"policy {self.name} fails while it runs", found=error) from error
        for memory in self._memory.values():
            if due is None:
                memory.now[:] = memory.next
            else:
                memory.now[due] = memory.next[due]

    def reset(self, mask: Mask | None = None) -> None:
        """Set the memory of the worlds of the mask (None: all) to zero."""
        for memory in self._memory.values():
            memory.now[slice(None) if mask is None else mask] = 0.0

    def _runs_on(self, obs: Arrays, out: Arrays) -> list[Run]:
        if not isinstance(obs, Mapping) or not isinstance(out, Mapping):
            raise ContractError("a policy acts on mappings from ONNX name to array", found=type(obs).__name__)
        arrays = (*(obs.get(name) for name in self.obs), *(out.get(name) for name in self.out))
        runs, bound, places = self._other
        if (
            len(bound) != len(arrays)
            or any(a is not b for a, b in zip(arrays, bound, strict=True))
            or places != tuple(map(_place, arrays))
        ):
            runs = self._bind(obs, out)
            self._other = (runs, arrays, tuple(map(_place, arrays)))
        return runs

    def _bind(self, obs: Arrays, out: Arrays) -> list[Run]:
        """What runs the network on the arrays, by pointer, one a run; each keeps its arrays alive."""
        inputs: list[dict[str, Buffer]] = [{} for _ in range(self.runs)]
        outputs: list[dict[str, Buffer]] = [{} for _ in range(self.runs)]
        for given, expected, buffers in ((obs, self.obs, inputs), (out, self.out, outputs)):
            for name, own in expected.items():
                array: Any = given.get(name)
                if array is None and expected is self.out and name in self._optional:
                    continue
                facts = fitting(name, array, own, written=expected is self.out)
                if expected is self.obs:
                    shape = self._model.run_shape(name, self._rows, own.shape[1])
                else:
                    shape = self._model.run_shapes.get(name, (self._rows, *own.shape[1:]))
                for run, each in enumerate(buffers):
                    each[name] = facts.buffer(shape, run * self._rows * own[0].size)
                    if self._zero_copy and not self._engine.in_place(name, each[name]):
                        raise ContractError(
                            f"the array for '{name}' would be copied at each run of policy {self.name}",
                            found=f"{facts}, which {self.provider} does not use where it is",
                            expected="memory of the device, or the arrays that the policy made, as zero_copy asks",
                        )
        for name, memory in self._memory.items():
            for now, after, before, given_back in zip(memory.now, memory.next, inputs, outputs, strict=True):
                before[name], given_back[memory.output] = _buffer(now), _buffer(after)
        return [self._engine.bind(*both) for both in zip(inputs, outputs, strict=True)]

    def close(self) -> None:
        """Release the engine."""
        if self._engine is not None:
            self._engine.close()
        self._own = self._other = self._engine = self._model = None  # type: ignore[assignment]


def _buffer(array: npt.NDArray[Any]) -> Buffer:
    return Buffer(pointer=array.ctypes.data, shape=array.shape, dtype=array.dtype, owner=array)


def _place(array: Any) -> int:
    """Where a tensor's numbers lie now: torch lets the same object get other memory."""
    place = getattr(array, "data_ptr", None)
    return place() if place is not None else 0
