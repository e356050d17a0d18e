"""`OnnxPolicy`: an ONNX network on ONNX Runtime, with preallocated arrays bound by pointer.

Settings are those for low latency at batch 1: one intra-op thread, sequential, no spinning (two spinning threads burn
most of a core and are no faster). The session is made so that it fails rather than falls back to another provider,
and which provider it got is read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from edgert.contract.spec import Contract
from edgert.device.device import Device, find_device
from edgert.device.onnxruntime import CPU_PROVIDER, import_onnxruntime
from edgert.errors import ContractError, DeviceError, IntegrityError, UnsupportedError
from edgert.policy.load import LoadedPolicy

Arrays = Mapping[str, npt.NDArray[Any]]
_DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
    "tensor(float16)": np.dtype(np.float16),
}
_LOG_FATAL_ONLY: Final = 4


class Policy(Protocol):
    """What acts. Arrays are mappings from ONNX name to preallocated (nworld, ...) arrays."""

    @property
    def contract(self) -> Contract:
        """What the numbers mean."""
        ...

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def nworld(self) -> int:
        """Worlds in one batch."""
        ...

    @property
    def obs(self) -> Arrays:
        """Input arrays made for the policy, the same objects for its whole life: acting on them copies nothing."""
        ...

    @property
    def out(self) -> Arrays:
        """Output arrays made for the policy, the same objects for its whole life."""
        ...

    def reset(self, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """Forget what belongs to the episode in the worlds of the mask (None: all)."""
        ...

    def act(self, obs: Arrays, out: Arrays) -> None:
        """Fill `out` from `obs`."""
        ...


class OnnxPolicy:
    """`nworld` copies of a loaded policy as one batch on one device.

    Acting on `obs` and `out` copies nothing. Other arrays of the same shapes and dtypes are bound by pointer at their
    first use and kept alive until others are.
    """

    def __init__(self, loaded: LoadedPolicy, device: Device | str = "cpu", nworld: int = 1) -> None:
        device = find_device(device) if isinstance(device, str) else device
        self.contract = loaded.contract
        self.file = loaded.file
        self.device = device
        self.nworld = nworld
        self._session = _session(loaded, device)
        self._run = self._session.run_with_iobinding
        self.provider: str = self._session.get_providers()[0]
        self.name = str(loaded.file.path)
        self.obs: Arrays = MappingProxyType(_inputs(self._session, loaded, nworld))
        self.out: Arrays = MappingProxyType(_outputs(self._session, loaded, self.obs, nworld))
        self.action: npt.NDArray[Any] = self.out[loaded.contract.action.output]
        self._own = self._bind(self.obs, self.out)
        self._other: tuple[Any, tuple[npt.NDArray[Any], ...]] = (None, ())

    def reset(self, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """See `Policy.reset`; a network without memory has nothing to forget."""

    def act(self, obs: Arrays, out: Arrays) -> None:
        """Fill `out` with the network's outputs for `obs`; both (nworld, ...), float32 unless the model differs."""
        if self._session is None:
            raise UnsupportedError(f"policy {self.name} is closed")
        try:
            if obs is self.obs and out is self.out:
                self._run(self._own)
            else:
                self._run(self._binding_of(obs, out))
        except RuntimeError as error:  # what onnxruntime raises when a node fails
            raise IntegrityError(f"policy {self.name} fails while it runs", found=error) from error

    def _binding_of(self, obs: Arrays, out: Arrays) -> Any:
        if not isinstance(obs, Mapping) or not isinstance(out, Mapping):
            raise ContractError("a policy acts on mappings from ONNX name to array", found=type(obs).__name__)
        arrays = (*(obs.get(name) for name in self.obs), *(out.get(name) for name in self.out))
        binding, bound = self._other
        if len(bound) != len(arrays) or any(a is not b for a, b in zip(arrays, bound, strict=True)):
            binding = self._bind(obs, out)
            self._other = (binding, cast(tuple[npt.NDArray[Any], ...], arrays))  # kept alive with the binding
        return binding

    def _bind(self, obs: Arrays, out: Arrays) -> Any:
        """A binding of the arrays by pointer; whoever keeps it keeps the arrays."""
        binding = self._session.io_binding()
        for given, expected, bind in ((obs, self.obs, binding.bind_input), (out, self.out, binding.bind_output)):
            for name, own in expected.items():
                array: Any = given.get(name)
                what = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                fits = isinstance(array, np.ndarray) and array.shape == own.shape and array.dtype == own.dtype
                if not fits or not array.flags.c_contiguous or not (array.flags.writeable or expected is self.obs):
                    writeable = "" if expected is self.obs else "writeable "
                    raise ContractError(
                        f"the array for '{name}' does not fit the policy",
                        found=what,
                        expected=f"{writeable}C-contiguous {own.dtype}{list(own.shape)}",
                    )
                bind(name, "cpu", 0, own.dtype.type, own.shape, array.ctypes.data)
        return binding

    def close(self) -> None:
        """Release the session."""
        self._own = self._other = self._session = self._run = None  # type: ignore[assignment]

    def __enter__(self) -> OnnxPolicy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _session(loaded: LoadedPolicy, device: Device) -> Any:
    runtime = import_onnxruntime()
    (wanted,) = device.providers
    available = runtime.get_available_providers()
    if wanted not in available:
        raise DeviceError(
            f"the installed onnxruntime cannot run on {device.name}", found=", ".join(available), expected=wanted
        )
    runtime.set_default_logger_severity(_LOG_FATAL_ONLY)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _LOG_FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if wanted != CPU_PROVIDER:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    file = loaded.file
    # A model with external data has to be opened by path, for onnxruntime to find the data beside it.
    source: Any = str(file.path) if file.external else file.data
    try:
        # Neither falls back to another provider nor takes settings from the model.
        session = runtime.InferenceSession(
            source, options, providers=[wanted], enable_fallback=0, read_config_from_model=0
        )
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise IntegrityError(
            f"onnxruntime {runtime.__version__} refuses policy {file.path}",
            found=f"{str(error).removeprefix('[ONNXRuntimeError] : ')} (opset {file.opset})",
            hint="Check the export; a newer opset needs a newer onnxruntime",
        ) from error
    if session.get_providers()[0] != wanted:
        raise DeviceError(
            f"the policy did not get the provider of {device.name}", found=session.get_providers()[0], expected=wanted
        )
    return session


def _inputs(session: Any, loaded: LoadedPolicy, nworld: int) -> dict[str, npt.NDArray[Any]]:
    contract, path = loaded.contract, loaded.file.path
    have = {entry.name: entry for entry in session.get_inputs()}
    if set(have) != set(contract.inputs):
        raise ContractError(
            f"the contract's inputs are not those of policy {path}",
            found="contract: " + ", ".join(contract.inputs),
            expected="the model's " + ", ".join(f"{name}{entry.shape}" for name, entry in have.items()),
            hint="Name each ONNX input as [inputs.<name>] in policy.toml; recurrent state, time_step and images are "
            "not supported by this version",
        )
    arrays = {}
    for name, spec in contract.inputs.items():
        entry = have[name]
        dtype = _dtype(entry, path)
        shape = entry.shape
        if len(shape) != 2:
            raise ContractError(
                f"input '{name}' of policy {path} has the wrong rank", found=shape, expected="[batch, size]"
            )
        if isinstance(shape[1], int) and shape[1] != spec.dim:
            terms = " + ".join(f"{term.name} {term.dim}" for term in spec.terms)
            raise ContractError(
                f"input '{name}' of policy {path} has another size than the contract's terms",
                found=f"the contract has {spec.dim} = {terms}",
                expected=f"{shape[1]}, as the model takes",
                hint="Add, remove or resize terms in policy.toml",
            )
        _check_batch(name, shape[0], nworld, path)
        arrays[name] = np.zeros((nworld, spec.dim), dtype)
    return arrays


def _outputs(session: Any, loaded: LoadedPolicy, obs: Arrays, nworld: int) -> dict[str, npt.NDArray[Any]]:
    """An array for the action, of the shape that one run on zeros gives; other outputs are not computed."""
    contract, path = loaded.contract, loaded.file.path
    names = [entry.name for entry in session.get_outputs()]
    action = contract.action
    if action.output not in names:
        raise ContractError(
            f"policy {path} has no output '{action.output}'",
            found=", ".join(names),
            expected="the name in [action] output of the contract",
        )
    try:
        (value,) = session.run([action.output], dict(obs))
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise IntegrityError(f"policy {path} fails on its first run", found=error, hint="Check the export") from error
    found = value if isinstance(value, np.ndarray) else np.zeros(0)
    shape: tuple[int, ...] = found.shape
    if shape != (nworld, len(action.joints)) or found.dtype.kind != "f":
        raise ContractError(
            f"output '{action.output}' of policy {path} has another size than the contract's action",
            found=f"{found.dtype}{list(shape)}",
            expected=f"float[{nworld}, {len(action.joints)}], one number for each joint of the action",
            hint="Correct [joints] names or [action] joints in policy.toml",
        )
    return {action.output: np.zeros(found.shape, found.dtype)}


def _dtype(entry: Any, path: Any) -> np.dtype[Any]:
    try:
        return _DTYPES[entry.type]
    except KeyError:
        raise ContractError(
            f"input '{entry.name}' of policy {path} has a type that observations cannot have",
            found=entry.type,
            expected="one of " + ", ".join(_DTYPES),
        ) from None


def _check_batch(name: str, batch: object, nworld: int, path: Any) -> None:
    if isinstance(batch, int) and batch != nworld:
        raise ContractError(
            f"input '{name}' of policy {path} has a fixed batch",
            found=batch,
            expected=f"{nworld} or a dynamic one",
            hint="Export it with a dynamic batch axis",
        )
