"""A stand-in for Iluvatar's `ixrt` and its CUDA Python, with the API of the vendor's public samples and host memory.

It computes by the ONNX reference evaluator and is stricter than any driver: memory that was not allocated, is freed
twice or before what uses it, and bindings without a shape raise. Bindings are in an order of their own, outputs
first, as an engine need not keep the model's.
"""

from __future__ import annotations

import ctypes
import json
import weakref
from enum import IntEnum
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator


class Chip:
    """What happened on the chip, and what it should do wrong.

    Attributes:
        calls: names of what was called, in order.
        allocated: address to memory that is in use.
        fails: name of a function to the error that it gives.
        broken: names of calls that give nothing.
        precision: "fp32" or "fp16": how the engine computes.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.allocated: dict[int, Any] = {}
        self.freed = 0
        self.fails: dict[str, int] = {}
        self.broken: set[str] = set()
        self.alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def note(self, name: str) -> bool:
        self.calls.append(name)
        return name not in self.broken


def modules(chip: Chip) -> dict[str, ModuleType]:
    """`ixrt`, `cuda` and `cuda.cudart`, for `sys.modules`."""
    ixrt, cuda, cudart = (ModuleType(name) for name in ("ixrt", "cuda", "cuda.cudart"))
    for module in (ixrt, cuda, cudart):
        module.__spec__ = ModuleSpec(module.__name__, None)
    ixrt.__version__ = "1.0.0"  # type: ignore[attr-defined]
    for name, value in _ixrt(chip).items():
        setattr(ixrt, name, value)
    for name, value in _cudart(chip).items():
        setattr(cudart, name, value)
    cuda.cudart = cudart  # type: ignore[attr-defined]
    return {"ixrt": ixrt, "cuda": cuda, "cuda.cudart": cudart}


class Kind(IntEnum):
    """As in CUDA."""

    cudaMemcpyHostToDevice = 1  # noqa: N815
    cudaMemcpyDeviceToHost = 2  # noqa: N815


def _cudart(chip: Chip) -> dict[str, Any]:
    def error(name: str) -> int:
        chip.note(name)
        return chip.fails.get(name, 0)

    def malloc(size: int) -> tuple[int, int]:
        code = error("cudaMalloc")
        memory = ctypes.create_string_buffer(size)
        if not code:
            chip.allocated[ctypes.addressof(memory)] = memory
        return code, ctypes.addressof(memory)

    def free(pointer: int) -> tuple[int]:
        code = error("cudaFree")
        assert not chip.alive, f"memory is freed while {list(chip.alive)} may use it"
        del chip.allocated[pointer]
        chip.freed += 1
        return (code,)

    def memcpy(to: int, source: int, size: int, kind: Kind) -> tuple[int]:
        code = error(f"cudaMemcpy {kind.name.removeprefix('cudaMemcpy')}")
        there = to if kind is Kind.cudaMemcpyHostToDevice else source
        assert size <= len(chip.allocated[there]), "out of bounds"
        ctypes.memmove(to, source, size)
        return (code,)

    def set_device(index: int) -> tuple[int]:
        return (error(f"cudaSetDevice {index}"),)

    return {
        "cudaMemcpyKind": Kind, "cudaMalloc": malloc, "cudaFree": free, "cudaMemcpy": memcpy,
        "cudaSetDevice": set_device,
    }  # fmt: skip


def _ixrt(chip: Chip) -> dict[str, Any]:
    class Logger:
        WARNING = 2

        def __init__(self, level: int) -> None:
            assert level == Logger.WARNING

    class Flag(IntEnum):
        FP16 = 0
        INT8 = 1

    class Creation(IntEnum):
        EXPLICIT_BATCH = 0

    class Dims(tuple[int, ...]):
        __slots__ = ()

    class Network:
        data = b""

    class Profile:
        def __init__(self) -> None:
            self.shapes: dict[str, Dims] = {}

        def set_shape(self, name: str, low: Dims, best: Dims, high: Dims) -> None:
            assert all(isinstance(each, Dims) for each in (low, best, high))
            assert low == best == high, "not exact"
            chip.note(f"set_shape {name} {list(low)}")
            self.shapes[name] = low

    class Config:
        def __init__(self) -> None:
            self.flags: list[Flag] = []
            self.profiles: list[Profile] = []

        def set_flag(self, flag: Flag) -> None:
            chip.note(f"set_flag {flag.name}")
            self.flags.append(flag)

        def add_optimization_profile(self, profile: Profile) -> int:
            self.profiles.append(profile)
            return 0

    class Builder:
        def __init__(self, logger: Logger) -> None:
            assert isinstance(logger, Logger)
            chip.note("Builder")

        def create_network(self, flags: int) -> Network:
            assert flags == 1 << int(Creation.EXPLICIT_BATCH)
            return Network()

        def create_builder_config(self) -> Config:
            return Config()

        def create_optimization_profile(self) -> Profile:
            return Profile()

        def build_serialized_network(self, network: Network, config: Config) -> bytes | None:
            if not chip.note("build_serialized_network"):
                return None
            shapes = config.profiles[0].shapes if config.profiles else {}
            head = {"shapes": shapes, "half": Flag.FP16 in config.flags}
            return b"IXRT" + json.dumps(head).encode() + b"\0" + network.data

    class OnnxParser:
        def __init__(self, network: Network, logger: Logger) -> None:
            self._network = network
            self.num_errors = 0

        def parse_from_file(self, path: str) -> bool:
            if not chip.note("parse_from_file"):
                self.num_errors = 1
                return False
            with open(path, "rb") as file:
                self._network.data = file.read()
            return True

        def get_error(self, index: int) -> str:
            return f"In node {index}: unsupported"

    class Context:
        def __init__(self, engine: Engine) -> None:
            self._engine = engine
            self._shapes = {i: shape for i, shape in enumerate(engine.shapes) if -1 not in shape}
            chip.alive.add(self)

        def set_binding_shape(self, index: int, dims: Dims) -> bool:
            assert isinstance(dims, Dims)
            chip.note(f"set_binding_shape {self._engine.names[index]} {list(dims)}")
            assert self._engine.binding_is_input(index)
            assert self._engine.head["shapes"][self._engine.names[index]] == list(dims), "outside the profile"
            self._shapes[index] = dims
            return True

        def get_binding_shape(self, index: int) -> Dims:
            engine = self._engine
            if index not in self._shapes and not engine.binding_is_input(index):
                rows = {self._shapes[i][0] for i in range(engine.num_bindings) if engine.binding_is_input(i)}
                return Dims((rows.pop(), *engine.shapes[index][1:]))
            return Dims(self._shapes[index])

        def execute_v2(self, pointers: list[int]) -> bool:
            if not chip.note("execute_v2"):
                return False
            return self._execute(pointers)

        def execute_async_v2(self, pointers: list[int], stream: int) -> bool:
            chip.note(f"execute_async_v2 {stream}")
            return self._execute(pointers)

        def _execute(self, pointers: list[int]) -> bool:
            engine = self._engine
            assert len(pointers) == engine.num_bindings
            arrays = {}
            for index, (name, pointer) in enumerate(zip(engine.names, pointers, strict=True)):
                shape, dtype = self.get_binding_shape(index), engine.dtypes[index]
                assert pointer in chip.allocated, f"{name} is at an address that was not allocated"
                count = int(np.prod(shape))
                memory = chip.allocated[pointer]
                assert count * dtype.itemsize <= len(memory)
                arrays[name] = np.frombuffer(memory, dtype, count).reshape(shape)
            feeds = {name: arrays[name] for i, name in enumerate(engine.names) if engine.binding_is_input(i)}
            outputs = [name for i, name in enumerate(engine.names) if not engine.binding_is_input(i)]
            for name, value in zip(outputs, engine.evaluator.run(outputs, feeds), strict=True):
                arrays[name][...] = value.astype(np.float16) if engine.head["half"] else value
            return True

    class Engine:
        def __init__(self, data: bytes) -> None:
            head, _, model = data.removeprefix(b"IXRT").partition(b"\0")
            self.head = json.loads(head)
            proto = onnx.load_model_from_string(model)
            self.evaluator = ReferenceEvaluator(proto)
            self._inputs = [entry.name for entry in proto.graph.input]
            entries = [*proto.graph.output, *reversed(proto.graph.input)]
            self.names = [entry.name for entry in entries]
            self.dtypes = [onnx.helper.tensor_dtype_to_np_dtype(e.type.tensor_type.elem_type) for e in entries]
            self.shapes = [
                tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in e.type.tensor_type.shape.dim)
                for e in entries
            ]
            chip.alive.add(self)

        @property
        def num_bindings(self) -> int:
            return len(self.names)

        def binding_is_input(self, index: int) -> bool:
            return self.names[index] in self._inputs

        def get_binding_name(self, index: int) -> str:
            return self.names[index]

        def get_binding_dtype(self, index: int) -> tuple[str, np.dtype[Any]]:
            return "dtype", self.dtypes[index]

        def create_execution_context(self) -> Context | None:
            return Context(self) if chip.note("create_execution_context") else None

    class Runtime:
        def __init__(self, logger: Logger) -> None:
            assert isinstance(logger, Logger)

        def deserialize_cuda_engine(self, data: bytes) -> Engine | None:
            good = chip.note("deserialize_cuda_engine") and data.startswith(b"IXRT") and len(data) > 40
            return Engine(data) if good else None

    return {
        "Logger": Logger, "Builder": Builder, "OnnxParser": OnnxParser, "Runtime": Runtime, "Dims": Dims,
        "BuilderFlag": Flag, "NetworkDefinitionCreationFlag": Creation, "nptype": lambda dtype: dtype[1].type,
    }  # fmt: skip
