"""`OnnxPolicy`: an ONNX network whose numbers have a contract, and the `Policy` protocol that it follows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgert.contract.spec import Contract
from edgert.device.device import Device, find_device
from edgert.errors import ContractError
from edgert.policy.load import LoadedPolicy
from edgert.policy.network import Arrays, OnnxModel, OnnxNetwork


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


class OnnxPolicy(OnnxNetwork):
    """`nworld` copies of a loaded policy as one batch on one device.

    Args:
        loaded: the model and its contract.
        device: where it runs.
        nworld: worlds in one batch.
        every_output: compute every other output with numbers (nworld, …) as well as the action; mappings of your own
            need not hold them.

    Attributes:
        action: (nworld, nact) the action's array in `out`.
        left_out: outputs that `every_output` could not give, as "name: reason".

    Raises:
        ContractError: the model's inputs or its action are not those of the contract.
        DeviceError, IntegrityError: onnxruntime or the model cannot be used.
    """

    def __init__(
        self, loaded: LoadedPolicy, device: Device | str = "cpu", nworld: int = 1, *, every_output: bool = False
    ) -> None:
        model = OnnxModel(loaded.file, find_device(device) if isinstance(device, str) else device)
        obs = model.arrays(_sizes(model, loaded), nworld)
        action = loaded.contract.action.output
        if action not in model.outputs:
            raise ContractError(
                f"policy {loaded.file.path} has no output '{action}'",
                found=", ".join(model.outputs),
                expected="the name in [action] output of the contract",
            )
        memory = model.memory(loaded.contract.recurrent, obs)
        out, left_out = model.probe(obs, (action,), others=every_output, memory=memory)
        _check_action(out[action], loaded, nworld)
        super().__init__(model, obs, out, optional=[name for name in out if name != action], memory=memory)
        self.contract = loaded.contract
        self.left_out = left_out
        self.action: npt.NDArray[Any] = self.out[action]

    def reset(self, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """See `Policy.reset`."""
        self.forget(mask)


def _sizes(model: OnnxModel, loaded: LoadedPolicy) -> dict[str, int]:
    """The contract's size of each input, where those are the model's inputs and sizes."""
    contract, path = loaded.contract, loaded.file.path
    if set(model.inputs) != {*contract.inputs, *contract.recurrent}:
        raise ContractError(
            f"the contract's inputs are not those of policy {path}",
            found="contract: " + ", ".join((*contract.inputs, *contract.recurrent)),
            expected="the model's " + ", ".join(str(entry) for entry in model.inputs.values()),
            hint="Name each ONNX input as [inputs.<name>] in policy.toml, and each state with its output in "
            "[recurrent]; time_step and images are not supported by this version",
        )
    for name, spec in contract.inputs.items():
        model.check_rank(name)
        size = model.inputs[name].shape[1]
        if isinstance(size, int) and size != spec.dim:
            raise ContractError(
                f"input '{name}' of policy {path} has another size than the contract's terms",
                found=f"the contract has {spec.dim} = {spec.sizes()}",
                expected=f"{size}, as the model takes",
                hint="Add, remove or resize terms in policy.toml",
            )
    return {name: spec.dim for name, spec in contract.inputs.items()}


def _check_action(found: npt.NDArray[Any], loaded: LoadedPolicy, nworld: int) -> None:
    action = loaded.contract.action
    if found.shape != (nworld, len(action.joints)) or found.dtype.kind != "f":
        raise ContractError(
            f"output '{action.output}' of policy {loaded.file.path} has another size than the contract's action",
            found=f"{found.dtype}{list(found.shape)}",
            expected=f"float[{nworld}, {len(action.joints)}], one number for each joint of the action",
            hint="Correct [joints] names or [action] joints in policy.toml",
        )
