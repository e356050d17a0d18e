"""`OnnxModel`: an ONNX file opened on an engine, and what it declares and gives."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.device.device import Device
from edgert.errors import ContractError, EdgertError, IntegrityError
from edgert.policy.engine import Engine, Placement, Tensor, open_engine
from edgert.policy.engine.protocol import FLOATS, PLAIN, WHOLE, Arrays
from edgert.policy.images import Image, Shape, flat_shape, row_size, run_shape, wrong_rank
from edgert.policy.model import PolicyFile

Mask = npt.NDArray[np.bool_]
_NUMBERS: Final = {*FLOATS} | {f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)}
MAX_WIDTH: Final = 1 << 20
"""Most numbers of one output in one row that are kept beside the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One state of a network: its value now and at the next tick, (nworld, …), and the output that gives that."""

    output: str
    now: npt.NDArray[Any]
    next: npt.NDArray[Any]


class OnnxModel:
    """A model opened on a device, and what it declares.

    Args:
        file: the model.
        device: where it runs.
        images: inputs that are images, which are handed over in rows like all others.
        placement: by which provider, and how strictly.

    Raises:
        DeviceError: the device cannot run it, or not all of it.
        IntegrityError: the engine refuses the model.
    """

    def __init__(
        self,
        file: PolicyFile,
        device: Device,
        images: Mapping[str, Image] = MappingProxyType({}),
        placement: Placement = PLAIN,
    ) -> None:
        self.file = file
        self.device = device
        self.placement = placement
        self.engine: Engine = open_engine(file, device, placement)
        self.provider = self.engine.provider
        self.inputs = self.engine.inputs
        self.outputs = self.engine.outputs
        self._images = images
        self._flat = {name: flat_shape(entry.shape, images.get(name)) for name, entry in self.inputs.items()}
        self.run_shapes: dict[str, tuple[int, ...]] = {}
        """Shapes of the outputs of one run, known after the first."""

    def arrays(self, sizes: Mapping[str, int], nworld: int, whole: Container[str] = ()) -> dict[str, npt.NDArray[Any]]:
        """Zeros (nworld, size) of the model's own type for each input; those of `whole` may be integers.

        Raises:
            ContractError: an input is no float [batch, size], or its batch is fixed to another number.
        """
        arrays = {}
        for name, size in sizes.items():
            entry = self.inputs[name]
            types = {**FLOATS, **WHOLE} if name in whole else FLOATS
            if entry.type not in types:
                raise ContractError(
                    f"input '{name}' of policy {self.file.path} has a type that observations cannot have",
                    found=entry.type,
                    expected="one of " + ", ".join(types),
                )
            self.check_rank(name)
            shape = self._rows_of(name)
            batch = shape[0] if len(shape) == 2 else None
            if isinstance(batch, int) and (batch < 1 or nworld % batch or batch != self.rows(sizes, nworld)):
                raise ContractError(
                    f"input '{name}' of policy {self.file.path} has a fixed batch",
                    found=batch,
                    expected=f"{nworld}, a divisor of it, or a dynamic one",
                    hint="Export it with a dynamic batch axis",
                )
            arrays[name] = self.engine.array(name, (nworld, size), types[entry.type])
        return arrays

    def rows(self, observed: Iterable[str], nworld: int) -> int:
        """Rows of one run of the network: all of them, or as many as the fixed batch of the observed inputs.

        An input without a batch axis is that of one world.
        """
        shapes = [self._rows_of(name) for name in observed]
        if any(self._unbatched(shape) for shape in shapes):
            return 1
        fixed = [shape[0] for shape in shapes if isinstance(shape[0], int)]
        return fixed[0] if fixed else nworld

    @staticmethod
    def _unbatched(shape: Sequence[int | str | None]) -> bool:
        return len(shape) == 0 or (len(shape) == 1 and isinstance(shape[0], int))

    def _rows_of(self, name: str) -> Shape:
        """The shape of an input, that of an image as rows of numbers."""
        return self._flat[name] or self.inputs[name].shape

    def width(self, name: str) -> int | None:
        """Numbers of one world that an input takes; None where the model does not say."""
        return row_size(self._rows_of(name))

    def run_shape(self, name: str, rows: int, size: int) -> tuple[int, ...]:
        """The shape of an input of one run."""
        shape = self.inputs[name].shape
        if len(shape) > 2:
            return run_shape(shape, self._images[name], rows)
        if len(shape) == 1:
            return (size,) if self._unbatched(shape) else (rows,)
        return (rows, size) if shape else ()

    def memory(self, pairs: Mapping[str, str], obs: Arrays) -> dict[str, Memory]:
        """The states of a network with memory: `pairs` of a state input and the output that is its next value.

        Raises:
            ContractError: a state is no tensor of floats of a fixed size, or its output does not fit it.
            IntegrityError: the first run fails.
        """
        missing = [output for output in pairs.values() if output not in self.outputs]
        if missing:
            raise ContractError(
                f"policy {self.file.path} has no output '{missing[0]}', which its memory needs",
                found=", ".join(self.outputs),
            )
        nworld = len(next(iter(obs.values())))
        now = {name: self._state(name, nworld) for name in pairs}
        after = self.first_run(obs, tuple(pairs.values()), now) if pairs else {}
        for name, output in pairs.items():
            given, wanted = after[output], now[name][0]
            if given.shape != wanted.shape or given.dtype != wanted.dtype:
                raise ContractError(
                    f"output '{output}' of policy {self.file.path} is no next value of its input '{name}'",
                    found=f"{given.dtype}{list(given.shape)}",
                    expected=f"{wanted.dtype}{list(wanted.shape)}",
                    hint="Correct [recurrent] in policy.toml",
                )
        return {name: Memory(output=pairs[name], now=now[name], next=np.zeros_like(now[name])) for name in pairs}

    def _state(self, name: str, nworld: int) -> npt.NDArray[Any]:
        """Zeros (nworld, …) for a state input, each row in the model's shape for one world."""
        entry = self.inputs[name]
        open_axes = [size for size in entry.shape if not isinstance(size, int)]
        if entry.type not in FLOATS or not entry.shape or len(open_axes) > 1:  # that of the batch may be open
            raise ContractError(
                f"input '{name}' of policy {self.file.path} cannot be the state of a network with memory",
                found=f"{entry.type} {list(entry.shape)}",
                expected="floats of a fixed size, but for the batch",
            )
        shape = [size if isinstance(size, int) else 1 for size in entry.shape]
        return np.zeros((nworld, *shape), FLOATS[entry.type])

    def check_rank(self, name: str) -> None:
        """Refuse an input that is not [batch, size], nor [size], nor a single number, nor the image it has to be."""
        if self._flat[name] is None:
            raise wrong_rank(name, self.inputs[name].shape, self._images.get(name), self.file.path)

    def probe(
        self,
        obs: Arrays,
        outputs: Sequence[str],
        *,
        others: bool = False,
        memory: Mapping[str, Memory] = MappingProxyType({}),
    ) -> tuple[dict[str, npt.NDArray[Any]], tuple[str, ...]]:
        """Arrays for the named outputs, of the shapes that one run gives, and for the others if those are wanted too.

        Of the others only numbers (nworld, …) can be kept; why one was left out is the second result. An output whose
        size is not declared may change it from run to run, so it is left out as well.

        Raises:
            ContractError: a named output is no tensor of numbers.
            IntegrityError: the run fails.
        """
        states = {name: each.now for name, each in memory.items()}
        known = {*outputs, *(each.output for each in memory.values())}
        rest = [entry for entry in self.outputs.values() if others and entry.name not in known]
        nworld = len(next(iter(obs.values())))
        rows = 1 if states else self.rows(obs, nworld)
        values = self.first_run(obs, [*outputs, *(entry.name for entry in rest if entry.type in _NUMBERS)], states)
        left_out = []
        for entry in rest:
            reason = _unfit(entry, values.get(entry.name), rows)
            if reason:
                values.pop(entry.name, None)
                left_out.append(f"{entry.name}: {reason}")
        batched = not all(self._unbatched(self._rows_of(name)) for name in obs)
        return {name: _for_all(value, rows if batched else -1, nworld) for name, value in values.items()}, tuple(
            left_out
        )

    def first_run(self, obs: Arrays, outputs: Sequence[str], states: Arrays) -> dict[str, npt.NDArray[Any]]:
        """What one run gives, of the first world where the network has states (nworld, …).

        Raises:
            ContractError: an output is no tensor of numbers.
            IntegrityError: the run fails.
        """
        for name in outputs:
            if self.outputs[name].type not in _NUMBERS:
                raise ContractError(
                    f"output '{name}' of policy {self.file.path} is no array of numbers",
                    found=self.outputs[name].type,
                    expected="a tensor of floats",
                )
        rows = 1 if states else self.rows(obs, len(next(iter(obs.values()))))
        first = {name: array[:rows].reshape(self.run_shape(name, rows, array.shape[1])) for name, array in obs.items()}
        first |= {name: array[0] for name, array in states.items()}
        try:
            values = dict(zip(outputs, self.engine.run(outputs, first), strict=True))
        except EdgertError:
            raise
        except Exception as error:  # onnxruntime has no common base class for its errors
            raise IntegrityError(
                f"policy {self.file.path} fails on its first run", found=error, hint="Check the export"
            ) from error
        self.run_shapes |= {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)}
        return values


def _for_all(value: Any, rows: int, nworld: int) -> npt.NDArray[Any]:
    """Zeros for all worlds in the shape of what one run gave; `rows` is -1 for a network without a batch axis."""
    if value.shape[:1] == (rows,) or (rows == -1 and value.ndim > 1 and len(value) == 1):
        return np.zeros((nworld, *value.shape[1:]), value.dtype)  # the latter gave itself an axis of one row
    return np.zeros((nworld, *value.shape) if rows in (1, -1) else value.shape, value.dtype)


def _unfit(entry: Tensor, value: Any, nworld: int) -> str:
    """Why an output is not one array with a row a world, or ""."""
    if entry.type not in _NUMBERS:
        return f"{entry.type} is no tensor of numbers"
    if value.shape[:1] != (nworld,):
        return f"found [{', '.join(map(str, value.shape))}], not [{nworld}, …]"
    if len(entry.shape) != value.ndim or not all(isinstance(size, int) for size in entry.shape[1:]):
        return f"the model does not fix its size: {list(entry.shape)}"
    if any(isinstance(size, int) and size != given for size, given in zip(entry.shape, value.shape, strict=True)):
        return f"found {list(value.shape)}, but the model says {list(entry.shape)}"
    if not 0 < prod(value.shape[1:]) <= MAX_WIDTH:
        return f"found {prod(value.shape[1:])} numbers a row, not 1 to {MAX_WIDTH}"
    return ""
