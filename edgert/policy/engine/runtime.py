"""`RuntimeEngine`: a model on ONNX Runtime, by one of its providers, and nowhere else.

Settings are those for low latency at batch 1: one intra-op thread, sequential, no spinning (two spinning threads burn
most of a core and are no faster). The session is made so that it fails rather than falls back to another provider, and
which provider got which node is read back: ONNX Runtime by itself runs on the CPU what nobody else takes, and says
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.device.device import Device
from edgert.device.onnxruntime import CPU_PROVIDER, import_onnxruntime
from edgert.errors import ContractError, DeviceError, EdgertError, UnsupportedError
from edgert.policy.engine.buffers import view_of
from edgert.policy.engine.caches import engine_folder
from edgert.policy.engine.plugins import OV_DEVICE, chips_of, matching, named_plugins, unit_of
from edgert.policy.engine.protocol import CPU, Arrays, Buffer, Node, Placement, Tensor
from edgert.policy.engine.providers import PROVIDERS, Asked, Provider
from edgert.policy.model import PolicyFile
from edgert.policy.refusals import check_operators, refused_by_runtime

_LOG_FATAL_ONLY: Final = 4
_TELL: Final = "session.record_ep_graph_assignment_info"
_PLAIN: Final = "Cpu"
"""What ONNX Runtime calls the memory that every program has."""
_MOST_NODES: Final = 8
"""Most nodes that a refusal names."""


class RuntimeEngine(Closes):
    """A model opened on ONNX Runtime; see `Engine`.

    Raises:
        DeviceError: onnxruntime is missing or cannot run on the device, or the CPU would have to compute a part.
        IntegrityError, UnsupportedError: onnxruntime refuses the model.
    """

    def __init__(
        self,
        file: PolicyFile,
        device: Device,
        provider: Provider,
        placement: Placement,
        load: Callable[[], ModuleType] = import_onnxruntime,
    ) -> None:
        runtime = load()
        check_operators(file)
        runtime.set_default_logger_severity(_LOG_FATAL_ONLY)
        self.file, self.device = file, device
        self.provider = provider.runtime
        self._session = _strict(runtime, file, device, provider, placement)
        try:
            self._check_options()
            self.nodes = _nodes(self._session)
            self._check_nodes(placement)
        except EdgertError:
            self.close()
            raise
        self.inputs = {entry.name: _tensor(entry) for entry in self._session.get_inputs()}
        self.outputs = {entry.name: _tensor(entry) for entry in self._session.get_outputs()}
        unit = unit_of(device)
        self._runtime, self._stream = runtime, placement.stream
        self._memory = (provider.memory, int(unit) if provider.memory != CPU and unit.isdecimal() else 0)
        self._special = _special(self._session)
        self._values: dict[int, Any] = {}

    def _check_options(self) -> None:
        """Refuse a session without its options: onnxruntime takes any keyword, and forgets what it does not know."""
        try:
            taken = self._session.get_session_options().get_session_config_entry(_TELL)
        except RuntimeError:
            taken = ""
        if taken != "1":
            raise DeviceError("onnxruntime opened a session without the options that keep it from falling back")

    def _check_nodes(self, placement: Placement) -> None:
        """Refuse what did not get the provider that it was opened for."""
        got = self._session.get_providers()
        if self.provider not in got:
            raise DeviceError(
                f"the policy did not get the provider of {self.device.name}", found=got[0], expected=self.provider
            )
        strays = [node for node in self.nodes if node.provider != self.provider]
        others = [node for node in strays if node.provider != CPU_PROVIDER]
        if others or (strays and not placement.allow_cpu_nodes):
            raise _partly(self.file, self.provider, others or strays, len(self.nodes))
        if self.nodes and len(strays) == len(self.nodes):
            raise DeviceError(
                f"{self.provider} takes no node of policy {self.file.path}",
                found=f"all {len(strays)} on the CPU",
                hint="Run it on the CPU and say so: --device cpu",
            )
        if self.nodes or self.provider == CPU_PROVIDER or not placement.allow_cpu_nodes:
            return
        raise UnsupportedError(
            "this onnxruntime does not tell which provider computes which node",
            expected="onnxruntime 1.23 or later",
            hint="Upgrade it, or leave out --allow-cpu-nodes",
        )

    def run(self, outputs: Sequence[str], inputs: Arrays) -> list[Any]:
        """See `Engine.run`."""
        return list(self._session.run(list(outputs), dict(inputs))) if outputs else []

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """See `Engine.array`."""
        info = self._special.get(name)
        if info is None or not _host_reads(info):
            return np.zeros(shape, dtype)
        value = self._value(name, shape, dtype)
        array: npt.NDArray[Any] = value.numpy()  # shares its memory, and keeps it
        array[...] = 0
        self._values[array.ctypes.data] = value
        return array

    def in_place(self, name: str, buffer: Buffer) -> bool:
        """See `Engine.in_place`."""
        if (buffer.memory, buffer.index) != self._memory:
            return False
        if self._memory[0] != CPU or name not in self._special:
            return True
        value = self._values.get(buffer.pointer)
        return value is not None and tuple(value.shape()) == buffer.shape

    def bind(self, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]) -> Callable[[], None]:
        """See `Engine.bind`.

        ONNX Runtime copies an input that lies elsewhere when it is bound, once, and never looks at it again. So such
        a one gets memory where the provider wants it, and is copied there before each run.
        """
        binding = self._session.io_binding()
        copies: list[Callable[[], None]] = []
        for name, each in inputs.items():
            self._check_memory(name, each)
            if not self.in_place(name, each):
                value = self._value(name, each.shape, each.dtype)
                copies.append(_copier(value, view_of(each), seen=_host_reads(self._special.get(name))))
                binding.bind_ortvalue_input(name, value)
            elif each.pointer in self._values:
                binding.bind_ortvalue_input(name, self._values[each.pointer])
            else:
                binding.bind_input(name, each.memory, each.index, each.dtype.type, each.shape, each.pointer)
        for name, each in outputs.items():
            self._check_memory(name, each)
            binding.bind_output(name, each.memory, each.index, each.dtype.type, each.shape, each.pointer)
        binding.buffers = (*inputs.values(), *outputs.values())  # ONNX Runtime keeps no memory alive that it was given
        run = partial(self._session.run_with_iobinding, binding)
        return _after(tuple(copies), run) if copies else run

    def _check_memory(self, name: str, buffer: Buffer) -> None:
        host = buffer.memory == CPU
        if (buffer.memory, buffer.index) != self._memory and (not host or self._stream is not None):
            raise ContractError(
                f"the array for '{name}' is where {self.provider} on {self.device.name} cannot use it",
                found=f"memory of {'the host' if host else f'{buffer.memory}:{buffer.index}'}",
                expected=f"that of {self._memory[0]}:{self._memory[1]}"
                + (", which shares a stream with the caller" if host else " or of the host"),
            )

    def _value(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Memory where the provider wants an input."""
        kind = self._runtime.OrtValue
        if self._memory[0] != CPU:
            return kind.ortvalue_from_shape_and_type(shape, dtype.type, *self._memory)
        return kind.ortvalue_from_shape_and_type(shape, dtype.type, memory_info=self._special[name])

    def close(self) -> None:
        """See `Engine.close`."""
        self._session = None
        self._values = {}


def _copier(value: Any, source: npt.NDArray[Any], *, seen: bool) -> Callable[[], None]:
    """What copies an array of the host's to where the provider reads."""
    return partial(np.copyto, value.numpy(), source) if seen else partial(value.update_inplace, source)


def _after(copies: tuple[Callable[[], None], ...], run: Callable[[], None]) -> Callable[[], None]:
    def copy_and_run() -> None:
        for copy in copies:
            copy()
        run()

    return copy_and_run


def _special(session: Any) -> dict[str, Any]:
    """Where the provider wants inputs that it does not take from plain memory of the host."""
    tell = getattr(session, "get_input_memory_infos", None)
    infos = tell() if tell is not None else ()
    found = zip((entry.name for entry in session.get_inputs()), infos, strict=False)
    return {name: info for name, info in found if info is not None and info.name != _PLAIN}


def _host_reads(info: Any) -> bool:
    return info is not None and str(info.device_mem_type).endswith("HOST_ACCESSIBLE")


def _strict(runtime: ModuleType, file: PolicyFile, device: Device, provider: Provider, placement: Placement) -> Any:
    """A session of that provider alone; see the module's text."""
    try:
        return _session(runtime, file, device, provider, placement, fallback=placement.allow_cpu_nodes)
    except EdgertError:
        raise
    except Exception as error:  # onnxruntime has no common base class for its errors
        if provider.runtime == CPU_PROVIDER:
            raise refused_by_runtime(file, error, runtime.__version__) from error
        refusal = _refusal(runtime, file, device, provider, placement, error)
        raise refusal from error


def _refusal(
    runtime: ModuleType,
    file: PolicyFile,
    device: Device,
    provider: Provider,
    placement: Placement,
    error: Exception,
) -> EdgertError:
    """Why a provider did not open a model: the model itself, nodes that it cannot compute, or its own reason."""
    try:
        _session(runtime, file, device, PROVIDERS[CPU_PROVIDER], placement, fallback=True)
    except Exception as reason:  # onnxruntime has no common base class for its errors
        return refused_by_runtime(file, reason, runtime.__version__)
    try:
        with_help = _session(runtime, file, device, provider, placement, fallback=True)
        strays = [node for node in _nodes(with_help) if node.provider != provider.runtime]
        if strays:
            return _partly(file, provider.runtime, strays, len(_nodes(with_help)))
    except Exception as again:  # onnxruntime has no common base class for its errors
        error = again
    return DeviceError(
        f"{provider.runtime} cannot open policy {file.path} on {device.name}",
        found=str(error).removeprefix("[ONNXRuntimeError] : "),
        hint="Run: edgert doctor",
    )


def _partly(file: PolicyFile, provider: str, strays: Sequence[Node], count: int) -> DeviceError:
    others = ", ".join(sorted({node.provider for node in strays}))
    return DeviceError(
        f"{provider} computes only a part of policy {file.path}",
        found=f"{len(strays)} of {count} nodes on {others}: {listed(strays)}",
        expected=f"all of them on {provider}",
        hint="Allow it with --allow-cpu-nodes" if others == CPU_PROVIDER else "",
    )


def listed(nodes: Iterable[Node]) -> str:
    """Nodes for people: those with a name one by one, the others counted by operator."""
    counts = Counter(map(str, nodes))
    texts = [f"{text} ×{count}" if count > 1 else text for text, count in counts.items()]
    more = len(texts) - _MOST_NODES
    return ", ".join(texts[:_MOST_NODES]) + (f" and {more} more" if more > 0 else "")


def _session(
    runtime: ModuleType, file: PolicyFile, device: Device, provider: Provider, placement: Placement, *, fallback: bool
) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _LOG_FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry(_TELL, "1")
    arguments: dict[str, Any] = {}
    if provider.runtime == CPU_PROVIDER:
        arguments["providers"] = [CPU_PROVIDER]
    else:
        if not fallback:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        chip = _plugin_chip(runtime, provider, device)
        if chip is not None:
            unit = dict(chip.ep_metadata).get(OV_DEVICE, unit_of(device))
            options.add_provider_for_devices([chip], provider.options(_asked(file, provider, placement, device, unit)))
        else:
            own = provider.options(_asked(file, provider, placement, device, unit_of(device)))
            arguments["providers"] = [(provider.runtime, own)]
    # A model with external data has to be opened by path, for onnxruntime to find the data beside it.
    source: Any = str(file.path) if file.external else file.data
    # Neither falls back to another provider nor takes settings from the model.
    return runtime.InferenceSession(source, options, enable_fallback=0, read_config_from_model=0, **arguments)


def _plugin_chip(runtime: ModuleType, provider: Provider, device: Device) -> Any | None:
    """ONNX Runtime's device of the plug-in that brings a provider; None for a provider that is built in."""
    plugin = named_plugins()[0].get(provider.runtime)
    if plugin is not None:
        chip = matching(chips_of(runtime, plugin), device)
        if chip is not None:
            return chip
    if provider.runtime not in runtime.get_available_providers():  # it would warn, and run on the CPU
        raise DeviceError(
            f"the installed onnxruntime cannot run on {device.name}",
            found=", ".join(runtime.get_available_providers()),
            expected=provider.runtime,
            hint=provider.install,
        )
    return None


def _asked(file: PolicyFile, provider: Provider, placement: Placement, device: Device, unit: str) -> Asked:
    shapes = {}
    for name, shape in file.input_shapes.items():
        first = [placement.rows if not isinstance(size, int) else size for size in shape[:1]]
        shapes[name] = (*first, *(size if isinstance(size, int) else None for size in shape[1:]))
    cache = partial(engine_folder, file.sha256, provider, device, placement)
    return Asked(unit=unit, placement=placement, shapes=shapes, cache=cache)


def _nodes(session: Any) -> tuple[Node, ...]:
    """Which provider computes which node; nothing where this onnxruntime does not tell."""
    tell = getattr(session, "get_provider_graph_assignment_info", None)
    if tell is None:
        return ()
    return tuple(Node(part.ep_name, node.op_type, node.name) for part in tell() for node in part.get_nodes())


def _tensor(entry: Any) -> Tensor:
    return Tensor(entry.name, entry.type, tuple(entry.shape))
