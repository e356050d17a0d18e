"""The seam between a policy and whatever computes it: `Engine`, and the nouns that both sides speak of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
Precision = Literal["fp32", "fp16"]
FLOATS: Final[Mapping[str, np.dtype[Any]]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
    "tensor(float16)": np.dtype(np.float16),
}
WHOLE: Final[Mapping[str, np.dtype[Any]]] = {
    "tensor(int32)": np.dtype(np.int32),
    "tensor(int64)": np.dtype(np.int64),
}
CPU: Final = "cpu"
"""The memory of the host, in the words of `Buffer.memory`."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output as the model declares it: `type` in ONNX Runtime's words, an int for each fixed axis."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]

    def __str__(self) -> str:
        return f"{self.name}{list(self.shape)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory that a network reads or writes in place, C-contiguous.

    Attributes:
        pointer: address of the first number.
        shape: of one run of the network.
        dtype: of the numbers.
        memory: whose memory it is: "cpu", "cuda" … as ONNX Runtime calls it.
        index: of the chip that the memory belongs to.
        owner: what has to live as long as the memory is used.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    memory: str = CPU
    index: int = 0
    owner: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the graph and the provider that computes it; exporters leave many nodes without a name."""

    provider: str
    operator: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operator} '{self.name}'" if self.name else self.operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How a network is to be opened on a device.

    Attributes:
        provider: by its short name (`cpu`, `cuda`, `tensorrt` …) or ONNX Runtime's; None: the device's first one.
        allow_cpu_nodes: let the CPU compute what the provider cannot, and tell which nodes those are.
        precision: of the arithmetic. fp16 has to be asked for; nothing computes with less than fp32 otherwise.
        rows: in one run of the network, for engines that are built for exact shapes.
        caches: the folder of engines that were built; None: the one in edgert's state folder.
        stream: a stream of the device's that work is queued on, as an address, shared with who fills the inputs.
        zero_copy: refuse arrays of the caller's that would have to be copied at each run.
    """

    provider: str | None = None
    allow_cpu_nodes: bool = False
    precision: Precision = "fp32"
    rows: int = 1
    caches: Path | None = None
    stream: int | None = None
    zero_copy: bool = False


PLAIN: Final = Placement()
"""One row by the device's first provider, strictly."""


class Engine(Protocol):
    """A model opened on a device by one provider. Who opened it closes it."""

    @property
    def provider(self) -> str:
        """The provider that it was opened with, by ONNX Runtime's name."""
        ...

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """What the model takes."""
        ...

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        """What the model gives."""
        ...

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every node of the graph with the provider that computes it; empty where the engine is one piece."""
        ...

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Zeros for an input, on the host; in memory that the network reads in place where there is such."""
        ...

    def in_place(self, name: str, buffer: Buffer) -> bool:
        """Whether the network reads or writes a buffer for this input or output where it is; else it is copied."""
        ...

    def run(self, outputs: Sequence[str], inputs: Arrays) -> list[Any]:
        """What one run gives, in arrays of the host."""
        ...

    def bind(self, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]) -> Callable[[], None]:
        """One run on these buffers, as often as it is called; it keeps them alive.

        When it returns the outputs are there, unless the engine shares a stream with the caller.
        """
        ...

    def close(self) -> None:
        """Release it; what `bind` gave must not be called again."""
        ...
