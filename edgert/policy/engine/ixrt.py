"""`IxrtEngine`: Iluvatar's IxRT behind the seam. Not yet run on hardware.

Written to the vendor's public samples (IxRT 0.9 and 1.0, CoreX 4.x), whose Python API follows TensorRT 8; memory of the
chip comes from the vendor's CUDA Python. An engine is built once, for exact shapes, and kept by the digest of the
model, the version of IxRT and the chip. What it computes is compared with the CPU before it drives anything, as the
vendor does not say that it keeps to float32.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.device.device import Device
from edgert.errors import ContractError, DeviceError, EdgertError, IntegrityError, importing, interrupted_by
from edgert.files import read_regular
from edgert.policy.engine.caches import engine_folder
from edgert.policy.engine.plugins import unit_of
from edgert.policy.engine.protocol import CPU, FLOATS, WHOLE, Arrays, Buffer, Node, Placement, Tensor
from edgert.policy.engine.providers import IXRT, provider
from edgert.policy.model import PolicyFile
from edgert.writing import part_of, put

MAX_ENGINE_BYTES: Final = 8 << 30
_MEMORY: Final = "cuda"
_TYPES: Final = {dtype: word for word, dtype in (*FLOATS.items(), *WHOLE.items())}


class IxrtEngine(Closes):
    """A model as an IxRT engine on one chip; see `Engine`.

    Raises:
        DeviceError: IxRT is missing or fails, or has no memory left.
        IntegrityError: it does not take the model.
    """

    def __init__(self, file: PolicyFile, device: Device, placement: Placement) -> None:
        self._ixrt, self._cuda = _modules()
        self.provider = IXRT
        self.nodes: tuple[Node, ...] = ()
        self._memory = (_MEMORY, int(unit_of(device)))
        self._path = file.path
        self._stream = placement.stream
        self._chip_memory: list[int] = []
        self._context = self._engine = self._runtime = None
        if placement.allow_cpu_nodes:
            raise DeviceError(f"{IXRT} has no CPU to give nodes to", hint="Leave out --allow-cpu-nodes")
        try:
            with self._translated(f"open policy {file.path} on {device.name}"):
                if self._memory[1]:
                    self._call("cudaSetDevice", self._memory[1])
                self._logger = self._ixrt.Logger(self._ixrt.Logger.WARNING)
                self._open(file, device, placement)
                self._describe(file, placement)
        except BaseException:
            self.close()
            raise

    def _open(self, file: PolicyFile, device: Device, placement: Placement) -> None:
        kept = engine_folder(file.sha256, provider(IXRT), device, placement) / "engine.ixrt"
        self._runtime = self._ixrt.Runtime(self._logger)
        if kept.exists():
            self._engine = self._load(read_regular(kept, "engine", MAX_ENGINE_BYTES))
        if self._engine is None:  # none was kept, or it is damaged
            data = self._build(file, placement, kept.parent)
            self._engine = self._load(data)
            if self._engine is None:
                raise DeviceError(f"{IXRT} does not read the engine that it built for policy {file.path}")
            _write(kept, data)
        self._context = self._engine.create_execution_context()
        if self._context is None:
            raise DeviceError(f"{IXRT} cannot make ready to run policy {file.path}", hint="Is its memory full?")

    def _load(self, data: bytes) -> Any | None:
        assert self._runtime is not None
        return self._runtime.deserialize_cuda_engine(data)

    def _build(self, file: PolicyFile, placement: Placement, folder: Path) -> bytes:
        """The serialised engine of a model, for exactly the shapes of one run."""
        ixrt = self._ixrt
        builder = ixrt.Builder(self._logger)
        network = builder.create_network(1 << int(ixrt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
        config = builder.create_builder_config()
        if placement.precision == "fp16":
            config.set_flag(ixrt.BuilderFlag.FP16)
        parser = ixrt.OnnxParser(network, self._logger)
        with _on_disk(file, folder) as path:
            if not parser.parse_from_file(str(path)):
                raise IntegrityError(
                    f"{IXRT} does not take policy {file.path}",
                    found="; ".join(_errors(parser)) or "no reason",
                    hint="Run it on the host instead: --device cpu",
                )
        open_shapes = {name: shape for name, shape in file.input_shapes.items() if not _fixed(shape)}
        if open_shapes:
            profile = builder.create_optimization_profile()
            for name, shape in open_shapes.items():
                exact = ixrt.Dims(list(_exact(file, name, shape, placement.rows)))
                profile.set_shape(name, exact, exact, exact)
            config.add_optimization_profile(profile)
        data = builder.build_serialized_network(network, config)
        if data is None:
            raise DeviceError(f"{IXRT} cannot build an engine for policy {file.path}", hint="Is its memory full?")
        return bytes(data)

    def _describe(self, file: PolicyFile, placement: Placement) -> None:
        """Learn what the engine takes and gives, in its own order, and get memory of the chip for each."""
        assert self._engine is not None
        assert self._context is not None
        names = [str(self._engine.get_binding_name(i)) for i in range(self._engine.num_bindings)]
        inputs = [bool(self._engine.binding_is_input(i)) for i in range(len(names))]
        for index, name in enumerate(names):
            shape = file.input_shapes.get(name)
            if inputs[index] and shape is not None and not _fixed(shape):
                exact = _exact(file, name, shape, placement.rows)
                self._context.set_binding_shape(index, self._ixrt.Dims(list(exact)))
        self._index = {name: index for index, name in enumerate(names)}
        self._dtypes = [np.dtype(self._ixrt.nptype(self._engine.get_binding_dtype(i))) for i in range(len(names))]
        self._shapes = [tuple(int(n) for n in self._context.get_binding_shape(i)) for i in range(len(names))]
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        for kind, declared, wanted in (
            (self.inputs, file.input_shapes, True),
            (self.outputs, file.output_shapes, False),
        ):
            own = {name for name, is_input in zip(names, inputs, strict=True) if is_input is wanted}
            if own != set(declared):
                raise IntegrityError(
                    f"{IXRT} made other {'inputs' if wanted else 'outputs'} of policy {file.path}",
                    found=", ".join(sorted(own)) or "none",
                    expected=", ".join(declared),
                )
            for name, shape in declared.items():
                dtype = self._dtypes[self._index[name]]
                kind[name] = Tensor(name, _TYPES.get(dtype, f"tensor({dtype})"), shape)
        for shape, dtype in zip(self._shapes, self._dtypes, strict=True):
            if any(size < 0 for size in shape):
                raise DeviceError(f"{IXRT} does not tell the sizes of policy {file.path}", found=list(shape))
            self._chip_memory.append(int(self._call("cudaMalloc", max(1, prod(shape) * dtype.itemsize))))

    def run(self, outputs: Sequence[str], inputs: Arrays) -> list[Any]:
        """See `Engine.run`."""
        given = {
            name: _host(np.ascontiguousarray(array, self._dtypes[self._index[name]])) for name, array in inputs.items()
        }
        made = [np.zeros(self._shapes[self._index[name]], self._dtypes[self._index[name]]) for name in outputs]
        self.bind(given, {name: _host(array) for name, array in zip(outputs, made, strict=True)})()
        return made

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """See `Engine.array`."""
        return np.zeros(shape, dtype)

    def in_place(self, name: str, buffer: Buffer) -> bool:
        """See `Engine.in_place`."""
        return (buffer.memory, buffer.index) == self._memory

    def bind(self, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]) -> Callable[[], None]:
        """See `Engine.bind`. Memory of the host is copied to the chip and back at each run."""
        pointers = list(self._chip_memory)
        before: list[tuple[Any, ...]] = []
        after: list[tuple[Any, ...]] = []
        kinds = self._cuda.cudaMemcpyKind
        for buffers, copies, kind in (
            (inputs, before, kinds.cudaMemcpyHostToDevice),
            (outputs, after, kinds.cudaMemcpyDeviceToHost),
        ):
            for name, each in buffers.items():
                index = self._index[name]
                if each.shape != self._shapes[index] or each.dtype != self._dtypes[index]:
                    raise DeviceError(
                        f"the engine of policy {self._path} was built for another size of '{name}'",
                        found=f"{each.dtype}{list(each.shape)}",
                        expected=f"{self._dtypes[index]}{list(self._shapes[index])}",
                    )
                if self.in_place(name, each):
                    pointers[index] = each.pointer
                    continue
                if each.memory != CPU:
                    raise ContractError(
                        f"the array for '{name}' is where {IXRT} cannot use it",
                        found=f"{each.memory}:{each.index}",
                        expected=f"{self._memory[0]}:{self._memory[1]} or the host",
                    )
                size, there = prod(each.shape) * each.dtype.itemsize, self._chip_memory[index]
                ends = (there, each.pointer) if buffers is inputs else (each.pointer, there)
                copies.append((*ends, size, kind))
        if self._stream is not None and (before or after):
            raise DeviceError(
                f"{IXRT} shares a stream, so everything that it reads and writes has to be on the chip",
                found="memory of the host",
            )

        def run() -> None:
            assert self._context is not None, "the engine is closed"
            with self._translated(f"run policy {self._path}"):
                for copy in before:
                    self._call("cudaMemcpy", *copy)
                if self._stream is None:
                    done = self._context.execute_v2(pointers)
                else:
                    done = self._context.execute_async_v2(pointers, self._stream)
                if not done:
                    raise IntegrityError(f"{IXRT} fails while it runs policy {self._path}")
                for copy in after:
                    self._call("cudaMemcpy", *copy)

        run.buffers = (*inputs.values(), *outputs.values())  # type: ignore[attr-defined]  # kept alive with it
        return run

    def _call(self, name: str, *arguments: Any) -> Any:
        """What a function of the CUDA runtime gives beside its error code."""
        error, *results = getattr(self._cuda, name)(*arguments)
        if int(error):
            raise DeviceError(f"{name} fails on {_MEMORY}:{self._memory[1]}", found=error, hint="Run: edgert doctor")
        return results[0] if results else None

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except EdgertError:
            raise
        except Exception as error:  # a vendor's library may raise anything
            interrupted_by(error)
            raise DeviceError(f"{IXRT} cannot {what}", found=f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """See `Engine.close`. What runs goes before what it was made from, and both before the memory."""
        self._context = None
        self._engine = None
        self._runtime = None
        while self._chip_memory:
            with suppress(DeviceError):  # at the end nothing is left to do about it
                self._call("cudaFree", self._chip_memory.pop())


def _modules() -> tuple[ModuleType, ModuleType]:
    install = f"{provider(IXRT).install}, and put /usr/local/corex/lib64 into LD_LIBRARY_PATH"
    with importing("ixrt", what=IXRT, install=install, mend=install, refusal=DeviceError):
        ixrt = import_module("ixrt")
    with importing("cuda", what="CoreX' CUDA Python", install=install, mend=install, refusal=DeviceError):
        cudart = import_module("cuda.cudart")
    return ixrt, cudart


@contextmanager
def _on_disk(file: PolicyFile, folder: Path) -> Iterator[Path]:
    """A path to the bytes that were digested; a model with external data is read where that lies."""
    if file.external:
        yield file.path
        return
    path = folder / f"{secrets.token_hex(8)}.onnx"
    try:
        path.write_bytes(file.data)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    """Keep an engine; one that cannot be kept is built again the next time."""
    with suppress(OSError), part_of(path) as part:
        part.write_bytes(data)
        put(part, path)


def _errors(parser: Any) -> list[str]:
    return [str(parser.get_error(i)) for i in range(min(int(getattr(parser, "num_errors", 0)), 8))]


def _fixed(shape: tuple[int | str | None, ...]) -> bool:
    return all(isinstance(size, int) for size in shape)


def _exact(file: PolicyFile, name: str, shape: tuple[int | str | None, ...], rows: int) -> tuple[int, ...]:
    exact = [size if isinstance(size, int) else rows if axis == 0 else 0 for axis, size in enumerate(shape)]
    if 0 in exact:
        raise IntegrityError(
            f"{IXRT} builds engines for exact shapes, which policy {file.path} does not state",
            found=f"{name}{list(shape)}",
            hint="Export it with fixed sizes, all but the batch",
        )
    return tuple(exact)


def _host(array: Any) -> Buffer:
    return Buffer(pointer=array.ctypes.data, shape=array.shape, dtype=array.dtype, owner=array)
