"""Arrays of others as memory that a network reads or writes in place: numpy, torch, cupy, Warp, whoever speaks DLPack.

Nothing is copied here, and nothing that would need it is taken: another dtype, strides, memory that may not be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.errors import ContractError
from edgert.policy.engine.protocol import CPU, Buffer

_HOST: Final = (1, 3, 11)
"""Kinds of memory of DLPack that the host reads: its own, and what is pinned for CUDA or ROCm."""
_CHIP: Final = {2: "cuda", 10: "cuda", 13: "cuda"}
"""Others: of CUDA, of ROCm, which imitates it, and CUDA's managed memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Where an array lies, and how.

    Attributes:
        pointer: address of the first number.
        shape, dtype: as numpy has them.
        contiguous: in C order, without gaps.
        writeable: whether it may be written.
        memory, index: see `Buffer`.
        owner: what keeps the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    contiguous: bool
    writeable: bool
    memory: str = CPU
    index: int = 0
    owner: Any = None

    def buffer(self, shape: tuple[int, ...], skip: int = 0) -> Buffer:
        """A part of it in the shape of one run, after `skip` numbers."""
        pointer = self.pointer + skip * self.dtype.itemsize
        return Buffer(
            pointer=pointer, shape=shape, dtype=self.dtype, memory=self.memory, index=self.index, owner=self.owner
        )

    def __str__(self) -> str:
        where = "" if self.memory == CPU else f" on {self.memory}:{self.index}"
        return f"{self.dtype}{list(self.shape)}{where}"


def facts_of(array: Any) -> Facts | None:
    """The facts of an array, None for what is none that edgert can read in place."""
    if isinstance(array, np.ndarray):
        return _of_numpy(array, array, writeable=bool(array.flags.writeable))
    try:
        kind, index = (int(number) for number in array.__dlpack_device__())
        if kind in _HOST:
            # numpy takes the memory of those who cannot say otherwise for read-only; torch's never is
            return _of_numpy(np.from_dlpack(array), array, writeable=True)
        if kind in _CHIP:
            return _of_chip(array.__cuda_array_interface__, array, _CHIP[kind], index)
    except Exception:  # whatever a stranger's array raises, as torch does for a tensor with gradients
        return None
    return None


def _of_numpy(view: npt.NDArray[Any], owner: Any, *, writeable: bool) -> Facts:
    return Facts(
        pointer=view.ctypes.data,
        shape=view.shape,
        dtype=view.dtype,
        contiguous=bool(view.flags.c_contiguous),
        writeable=writeable,
        owner=(owner, view),
    )


def _of_chip(interface: dict[str, Any], owner: Any, memory: str, index: int) -> Facts:
    """By CUDA's array interface, version 2 or 3."""
    dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    strides = interface.get("strides")
    dense = tuple(int(dtype.itemsize * np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    pointer, read_only = interface["data"]
    return Facts(
        pointer=int(pointer),
        shape=shape,
        dtype=dtype,
        contiguous=strides is None or tuple(strides) == dense,
        writeable=not read_only,
        memory=memory,
        index=index,
        owner=owner,
    )


def fitting(name: str, array: Any, own: npt.NDArray[Any], *, written: bool) -> Facts:
    """The facts of an array of the caller's that stands in for a policy's own.

    Raises:
        ContractError: it cannot, without being copied.
    """
    facts = facts_of(array)
    if (
        facts is not None
        and (facts.shape, facts.dtype) == (own.shape, own.dtype)
        and facts.contiguous
        and (facts.writeable or not written)
    ):
        return facts
    writeable = "writeable " if written else ""
    raise ContractError(
        f"the array for '{name}' does not fit the policy",
        found=type(array).__name__ if facts is None else facts,
        expected=f"{writeable}C-contiguous {own.dtype}{list(own.shape)}",
    )


def on_host(name: str, array: Any, own: npt.NDArray[Any], *, written: bool) -> npt.NDArray[Any]:
    """The same as `fitting`, as a view for numpy; for policies that hand their arrays on, and so copy them anyway.

    Raises:
        ContractError: it does not fit, or is not in the host's memory.
    """
    facts = fitting(name, array, own, written=written)
    if facts.memory != CPU:
        raise ContractError(
            f"the array for '{name}' does not fit the policy",
            found=facts,
            expected="one in the host's memory, where a policy of several networks hands its numbers on",
        )
    return array if isinstance(array, np.ndarray) else view_of(facts.buffer(facts.shape))


def view_of(buffer: Buffer) -> npt.NDArray[Any]:
    """A buffer in the host's memory as an array, which keeps its owner alive."""
    interface = {
        "version": 3,
        "data": (buffer.pointer, False),
        "shape": buffer.shape,
        "typestr": buffer.dtype.str,
    }
    return np.asarray(_Interface(interface, buffer.owner))


@dataclass(frozen=True)
class _Interface:
    __array_interface__: dict[str, Any]
    owner: Any
