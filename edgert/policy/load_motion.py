"""The reference motion of a policy, from the file beside it or from its own network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from edgert.contract.motion import Motion, check_motion
from edgert.contract.observe import whole_inputs
from edgert.contract.spec import Contract, MotionSpec
from edgert.device.device import find_device
from edgert.errors import ContractError
from edgert.policy.load import LoadedPolicy
from edgert.policy.motion import Track, make_motion
from edgert.policy.motion_file import read_track
from edgert.policy.motion_network import read_network
from edgert.policy.onnx_model import OnnxModel


def load_motion(loaded: LoadedPolicy) -> Motion | None:
    """The motion that the contract names; None for a policy without one.

    A motion in the network is read on the CPU, wherever the policy acts: it is a table, and no digit of it may change.

    Raises:
        ContractError: the motion cannot be used, or lacks what the contract's terms read.
        IntegrityError: the network fails.
    """
    contract = loaded.contract
    spec = contract.motion
    motion = None if spec is None else make_motion(_track(loaded, spec), spec, contract)
    check_motion(contract, motion)
    return motion


def _track(loaded: LoadedPolicy, spec: MotionSpec) -> Track:
    if spec.file:
        return read_track(loaded.file.path, spec, loaded.contract)
    model = OnnxModel(loaded.file, find_device("cpu"))  # of its own: it needs outputs that no tick of a run does
    missing = [name for name in spec.outputs.values() if name not in model.outputs]
    if missing or spec.time_step not in model.inputs:
        raise ContractError(
            f"policy {loaded.file.path} does not hold its motion where [motion] says",
            found=f"no output '{missing[0]}'" if missing else f"no input '{spec.time_step}'",
            expected=f"one of {', '.join(model.outputs if missing else model.inputs)}",
            hint="Correct [motion] in policy.toml",
        )
    return read_network(_runs(model, loaded.contract, spec), spec, loaded.contract.control_hz)


def _runs(model: OnnxModel, contract: Contract, spec: MotionSpec) -> Any:
    """See `motion_network.Run`."""
    inputs = {name: each for name, each in contract.inputs.items() if name in model.inputs}
    sizes = {name: each.dim for name, each in inputs.items()}
    rows = model.rows(sizes, 1)
    obs = model.arrays(sizes, rows, whole_inputs(inputs))
    states = {name: memory.now for name, memory in model.memory(contract.recurrent, obs).items()}
    names = tuple(spec.outputs.values())

    def run(step: int, observation: float) -> Mapping[str, npt.NDArray[Any]]:
        for name, array in obs.items():
            array[:] = step if name == spec.time_step else observation
        return {name: value[:1] if rows > 1 else value for name, value in model.first_run(obs, names, states).items()}

    return run
