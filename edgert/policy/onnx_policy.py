"""`OnnxPolicy`: one or several ONNX networks whose numbers have a contract, and the `Policy` protocol."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.contract.motion import Motion
from edgert.contract.observe import whole_inputs
from edgert.contract.spec import MODEL, Contract, InputSpec, NetworkSpec, output_place
from edgert.device.device import Device, find_device
from edgert.errors import ContractError, UnsupportedError
from edgert.policy.engine.buffers import on_host
from edgert.policy.engine.protocol import PLAIN, Arrays, Placement
from edgert.policy.fit import check_inputs
from edgert.policy.links import Link, links_of
from edgert.policy.load import LoadedPolicy
from edgert.policy.load_motion import load_motion
from edgert.policy.model import PolicyFile
from edgert.policy.network import OnnxNetwork
from edgert.policy.onnx_model import Mask, OnnxModel

MAX_COUNT: Final = 10_000_000
"""Most ticks or frames that an input of integers counts; no run is longer."""


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

    @property
    def action(self) -> npt.NDArray[Any]:
        """(nworld, nact) the raw action of the last `act` on `obs` and `out`, the same object for its whole life."""
        ...

    def reset(self, mask: Mask | None = None) -> None:
        """Forget what belongs to the episode in the worlds of the mask (None: all)."""
        ...

    def act(self, obs: Arrays, out: Arrays) -> None:
        """Fill `out` from `obs`."""
        ...


class OnnxPolicy(Closes):
    """`nworld` copies of a loaded policy as one batch on one device.

    Args:
        loaded: the model, or several, and the contract.
        device: where it runs.
        nworld: worlds in one batch.
        every_output: compute every other output with numbers (nworld, …) as well as the action; mappings of your own
            need not hold them.
        placement: by which provider, and how strictly.

    Attributes:
        obs, out: arrays by the names of the contract; those of another network than MODEL as "network.name".
        action: (nworld, nact) the raw action: the array of its output, or made of several.
        nworld: rows of each.
        runs: how often a network runs for one `act`: more than once if its batch is fixed to fewer rows.
        provider: the inference provider that runs it.
        nodes: of every network, each with the provider that computes it.
        left_out: outputs that `every_output` could not give, as "name: reason".
        motion: the reference motion of a tracking policy.

    Raises:
        ContractError: a model's inputs, its motion or the action are not those of the contract.
        DeviceError, IntegrityError: onnxruntime or a model cannot be used.
    """

    def __init__(
        self,
        loaded: LoadedPolicy,
        device: Device | str = "cpu",
        nworld: int = 1,
        *,
        every_output: bool = False,
        placement: Placement = PLAIN,
    ) -> None:
        self.contract = contract = loaded.contract
        self.file = loaded.file
        self.device = find_device(device) if isinstance(device, str) else device
        self.name = str(loaded.file.path)
        self.nworld = nworld
        self._closed = False
        self._zero_copy = placement.zero_copy
        specs = contract.networks or (MODEL,)
        wanted = _wanted_outputs(contract, specs)
        unused = [spec.name for spec, outputs in zip(specs, wanted, strict=True) if not outputs]
        if unused:
            raise ContractError(
                f"nothing uses what network '{unused[0]}' of policy {self.name} gives",
                expected="one of its outputs in [action] output, or in a term network_output",
            )
        obs: dict[str, npt.NDArray[Any]] = {}
        out: dict[str, npt.NDArray[Any]] = {}
        left_out: list[str] = []
        self._members: list[_Member] = []
        with ExitStack() as resources:
            for spec, outputs in zip(specs, wanted, strict=True):
                opened = _open(spec, loaded, self.device, placement, nworld, outputs, every_output=every_output)
                network, missing = resources.enter_context(opened[0]), opened[1]
                obs |= {spec.key(name): array for name, array in network.obs.items()}
                out |= {spec.key(name): array for name, array in network.out.items()}
                left_out += [spec.key(name) for name in missing]
                self._members.append(_Member(spec, network, nworld))
            self.obs: Arrays = MappingProxyType({name: obs[name] for name in contract.inputs})
            self.out: Arrays = MappingProxyType(out)
            self.left_out = tuple(left_out)
            self.provider = self._members[-1].network.provider
            self.nodes = tuple(node for member in self._members for node in member.network.nodes)
            self.runs = max(member.network.runs for member in self._members)
            self._previous: dict[str, npt.NDArray[Any]] = {}
            links = links_of(contract, self.obs, self.out, self._previous)
            for member, own in zip(self._members, links, strict=True):
                member.links = own
            self._parts = [out[_key(specs, name)] for name in contract.action.outputs]
            self._added = [out[_key(specs, name)] for name in contract.action.added]
            self.action = _action(loaded, self._parts, self._added, nworld)
            one_array = len(self._parts) == 1 and not self._added
            alone = len(self._members) == 1 and one_array and not self._members[0].links
            if alone:
                network = self._members[0].network
                self.obs, self.out = network.obs, network.out  # which it knows to be bound already
                self.act = network.act  # type: ignore[method-assign]  # a tick goes straight to it
            self._made = not one_array
            self._ticks = np.zeros(nworld, np.int64)
            self.motion: Motion | None = load_motion(loaded)
            self._resources = resources.pop_all()

    def act(self, obs: Arrays, out: Arrays) -> None:
        """See `Policy.act`."""
        if self._closed:
            raise UnsupportedError(f"policy {self.name} is closed")
        if (obs is not self.obs or out is not self.out) and self._zero_copy:
            raise ContractError(
                f"policy {self.name} hands its numbers on between its parts, and would copy yours",
                expected="its own arrays, as zero_copy asks",
            )
        if obs is not self.obs:
            self._take(obs)
        for member in self._members:
            for link in member.links:
                link()
            member.act(self._ticks)
        if self._made:
            self._make_action()
        for key, before in self._previous.items():
            before[:] = self.out[key]
        self._ticks += 1
        if out is not self.out:
            self._give(out)

    def reset(self, mask: Mask | None = None) -> None:
        """See `Policy.reset`."""
        worlds = slice(None) if mask is None else mask
        for member in self._members:
            member.network.reset(mask)
        for before in self._previous.values():
            before[worlds] = 0
        self._ticks[worlds] = 0

    def _make_action(self) -> None:
        start = 0
        for part in self._parts:
            self.action[:, start : start + part.shape[1]] = part
            start += part.shape[1]
        for part in self._added:
            self.action += part

    def _take(self, obs: Arrays) -> None:
        if not isinstance(obs, Mapping):
            raise ContractError("a policy acts on mappings from ONNX name to array", found=type(obs).__name__)
        for name, own in self.obs.items():
            own[:] = on_host(name, obs.get(name), own, written=False)

    def _give(self, out: Arrays) -> None:
        if not isinstance(out, Mapping):
            raise ContractError("a policy acts on mappings from ONNX name to array", found=type(out).__name__)
        for name, own in self.out.items():
            if name in out:
                on_host(name, out[name], own, written=True)[...] = own

    def close(self) -> None:
        """Release the sessions."""
        self._closed = True
        self._resources.close()


class _Member:
    """One of the networks, with what other networks feed it."""

    def __init__(self, spec: NetworkSpec, network: OnnxNetwork, nworld: int) -> None:
        self.network = network
        self.links: list[Link] = []
        self._every = spec.every
        self._held = [(array, array.copy()) for array in network.out.values()] if spec.every > 1 else []

    def act(self, ticks: npt.NDArray[np.int64]) -> None:
        """Run in the worlds whose turn it is; in the others every output stays as it was."""
        network = self.network
        if self._every == 1:
            network.act(network.obs, network.out)
            return
        due = ticks % self._every == 0
        if not due.any():
            return
        for array, held in self._held:
            held[:] = array
        network.act(network.obs, network.out, due)
        for array, held in self._held:
            array[~due] = held[~due]


def _key(specs: tuple[NetworkSpec, ...], name: str) -> str:
    number, output = output_place(specs, name)
    return specs[number].key(output)


def _wanted_outputs(contract: Contract, specs: tuple[NetworkSpec, ...]) -> list[list[str]]:
    """The ONNX outputs that are needed of each network, each once."""
    terms = [term.of for spec in contract.inputs.values() for term in spec.terms if term.of]
    wanted: list[dict[str, None]] = [{} for _ in specs]
    for name in (*contract.action.outputs, *contract.action.added, *terms):
        number, output = output_place(specs, name)
        wanted[number][output] = None
    return [list(names) for names in wanted]


def _open(
    spec: NetworkSpec,
    loaded: LoadedPolicy,
    device: Device,
    placement: Placement,
    nworld: int,
    wanted: list[str],
    *,
    every_output: bool,
) -> tuple[OnnxNetwork, tuple[str, ...]]:
    """One network with the outputs that are wanted, and why others could not be given."""
    contract = loaded.contract
    file = loaded.networks[spec.name] if spec.file else loaded.file
    inputs = contract.inputs_of(spec)
    recurrent = spec.recurrent if spec.file else contract.recurrent
    if not inputs:
        raise ContractError(
            f"policy {file.path} observes nothing",
            found=f"inputs {', '.join(file.inputs)}" if file.inputs else "no input",
            expected="an input of the contract besides its states",
            hint="Name it as [inputs.<name>], or under inputs of its [[network]], in policy.toml",
        )
    check_inputs(inputs, recurrent, contract, file)  # a contract that was not read beside the model may be another's
    images = {name: each.image for name, each in inputs.items() if each.image is not None}
    model = OnnxModel(file, device, images, replace(placement, rows=1 if recurrent else nworld))
    with ExitStack() as resources:
        resources.callback(model.engine.close)
        obs = model.arrays({name: each.dim for name, each in inputs.items()}, nworld, whole_inputs(inputs))
        for name, array in obs.items():
            if array.dtype.kind == "i":
                _check_whole(name, inputs[name], array.dtype, file)
        missing = [name for name in wanted if name not in model.outputs]
        if missing:
            raise ContractError(
                f"policy {file.path} has no output '{missing[0]}'",
                found=", ".join(model.outputs),
                expected="the name in [action] output of the contract"
                if missing[0] in (*contract.action.outputs, *contract.action.added)
                else "an output that a term network_output names",
            )
        memory = model.memory(recurrent, obs)
        out, left_out = model.probe(obs, wanted, others=every_output, memory=memory)
        network = OnnxNetwork(model, obs, out, optional=[n for n in out if n not in wanted], memory=memory)
        resources.pop_all()
    return network, left_out


def _check_whole(name: str, spec: InputSpec, dtype: np.dtype[Any], file: PolicyFile) -> None:
    """Refuse terms that are no whole numbers of that type all through a run."""
    for term in spec.terms:
        numbers = (*term.scale, *term.offset, *(term.clip or ()))
        most = max(abs(s) * MAX_COUNT + abs(o) for s, o in zip(term.scale, term.offset, strict=True))
        if any(number != round(number) for number in numbers) or most > np.iinfo(dtype).max:
            raise ContractError(
                f"term '{term.name}' does not fit input '{name}' of policy {file.path}, which takes whole numbers",
                found=f"scale {max(term.scale, key=abs):g}, offset {max(term.offset, key=abs):g}",
                expected=f"whole ones that leave {MAX_COUNT:,} ticks within {dtype}",
                hint="Correct the term in policy.toml",
            )


def _action(
    loaded: LoadedPolicy, parts: list[npt.NDArray[Any]], added: list[npt.NDArray[Any]], nworld: int
) -> npt.NDArray[Any]:
    """The array of the raw action: that of its one output, or zeros for what several make."""
    action = loaded.contract.action
    nact = len(action.joints)
    names = (*action.outputs, *action.added)
    for name, part in zip(names, (*parts, *added), strict=True):
        if part.ndim != 2 or len(part) != nworld or part.dtype.kind != "f":
            _refuse_action(loaded, name, part, nworld, nact)
    width = sum(part.shape[1] for part in parts)
    if width != nact:
        _refuse_action(loaded, " + ".join(action.outputs), parts[0], nworld, nact)
    for name, part in zip(action.added, added, strict=True):
        if part.shape[1] != nact:
            _refuse_action(loaded, name, part, nworld, nact)
    return parts[0] if len(parts) == 1 and not added else np.zeros((nworld, nact), np.result_type(*parts, *added))


def _refuse_action(loaded: LoadedPolicy, name: str, found: npt.NDArray[Any], nworld: int, nact: int) -> None:
    raise ContractError(
        f"output '{name}' of policy {loaded.file.path} has another size than the contract's action",
        found=f"{found.dtype}{list(found.shape)}",
        expected=f"float[{nworld}, {nact}], one number for each joint of the action",
        hint="Correct [joints] names or [action] joints in policy.toml",
    )
