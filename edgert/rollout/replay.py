"""Replaying recorded episodes: the recorded observations through the policy again, action against action."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from edgert.contract import Contract, parse_contract
from edgert.device import Device, find_device
from edgert.device.onnxruntime import installed_runtimes
from edgert.errors import ContractError, IntegrityError
from edgert.policy import LoadedPolicy, OnnxModel, OnnxPolicy
from edgert.policy.engine import Placement
from edgert.policy.load import load_as, locate
from edgert.policy.model import PolicyFile, read_policy
from edgert.policy.network import OnnxNetwork
from edgert.rollout.recording import Episode

MAX_BATCH_BYTES: Final = 1 << 30
MAX_WAVE: Final = 256
"""Most episodes whose observations are held at once."""
Array = npt.NDArray[Any]
_Read = TypeVar("_Read", PolicyFile, LoadedPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One episode against the policy that acts now."""

    episode: Episode
    steps: int
    different: int
    """Steps whose action has another bit anywhere."""
    max_difference: float | None
    """Largest difference of any number of an action, in the raw network output's unit; None where none is finite."""
    first: int | None
    """First step that differs."""
    provider: str
    ran_on: str
    """Provider, runtime and chip that it ran on now."""
    recorded_on: str
    """Those that it ran on when it was recorded."""

    @property
    def same(self) -> bool:
        """Whether every action is the same, bit for bit."""
        return self.different == 0


def replay(
    episodes: Sequence[Episode],
    model: str | Path | None = None,
    *,
    device: str = "cpu",
    provider: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Replay]:
    """Feed recorded observations to the policy and compare its actions with the recorded ones.

    The network gets a batch of the size that it had, each world in its own row: arithmetic on a batch of another size
    may round differently.

    Args:
        episodes: of one recording.
        model: another policy; None: the one that was recorded, which must still have its digest.
        device: where it runs.
        provider: by which one; None: the device's first.
        progress: called with (steps done, steps in all).

    Raises:
        EdgertError: the policy is not there, is another one, or does not take these observations.
    """
    total, done = sum(episode.steps for episode in episodes), 0
    if total == 0:
        raise IntegrityError("there is nothing to replay", found=f"{len(episodes)} episodes without a step")
    results: dict[int, Replay] = {}
    where = find_device(device), Placement(provider=provider)
    with ExitStack() as resources:
        actors: dict[tuple[str, int], _Actor] = {}
        for wave in _waves(episodes):
            key = wave[0].header["epoch"], _batch(wave[0])
            if key not in actors:
                actors[key] = _actor(wave[0], model, *where)
                resources.enter_context(actors[key].network)
            replays = _replayed(wave, actors[key])
            results |= {each.episode.index: each for each in replays}
            done += sum(each.steps for each in replays)
            progress(done, total)
    return [results[episode.index] for episode in episodes]


def _waves(episodes: Sequence[Episode]) -> Iterator[list[Episode]]:
    """Episodes of one run that can share a batch: at most one a world, each in the row of its world."""
    waiting: dict[tuple[str, int], list[list[Episode]]] = {}
    for episode in episodes:
        nworld, world = _batch(episode), episode.info.get("world", 0)
        if isinstance(world, bool) or not isinstance(world, int) or not 0 <= world < nworld:
            raise IntegrityError(f"episode {episode.index} is in no world", found=world, expected=f"0 to {nworld - 1}")
        waves = waiting.setdefault((episode.header["epoch"], nworld), [])
        for wave in waves:
            if len(wave) < MAX_WAVE and all(other.info.get("world", 0) != world for other in wave):
                wave.append(episode)
                break
        else:
            waves.append([episode])
    yield from (wave for waves in waiting.values() for wave in waves)


def _replayed(wave: list[Episode], actor: _Actor) -> list[Replay]:
    network = actor.network
    actor.forget()
    seen, wanted = [episode.observation for episode in wave], [episode.action for episode in wave]
    for episode, observations, actions in zip(wave, seen, wanted, strict=True):
        if any(len(array) < len(actions) for array in observations.values()):
            raise IntegrityError(
                f"episode {episode.index} has actions without observations", found=f"{len(actions)} actions"
            )
    worlds = [episode.info.get("world", 0) for episode in wave]
    given = [np.empty_like(actions) for actions in wanted]
    for step in range(max(map(len, wanted))):
        live = [i for i, actions in enumerate(wanted) if step < len(actions)]
        for name, array in network.obs.items():
            for i in live:
                array[worlds[i]] = seen[i][name][step]
        network.act(network.obs, network.out)
        for i in live:
            given[i][step] = actor.action[worlds[i]]
    return [_compared(*each, network) for each in zip(wave, wanted, given, strict=True)]


def _compared(episode: Episode, wanted: Array, given: Array, network: OnnxNetwork | OnnxPolicy) -> Replay:
    header = episode.header
    bits = f"u{wanted.dtype.itemsize}"
    steps = np.flatnonzero((wanted.view(bits) != given.view(bits)).any(axis=1)) if len(wanted) else np.zeros(0, int)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(wanted.astype(np.float64) - given)
    finite = difference[np.isfinite(difference)]
    return Replay(
        episode=episode,
        steps=len(wanted),
        different=len(steps),
        max_difference=float(finite.max()) if len(finite) else None,
        first=int(steps[0]) if len(steps) else None,
        provider=network.provider,
        ran_on=_where(network.provider, ", ".join(installed_runtimes()), network.device.chip),
        recorded_on=_where(header.get("provider"), header.get("runtime"), header.get("device_chip")),
    )


def _where(provider: object, runtime: object, chip: object) -> str:
    return f"{provider} of {runtime or 'an unknown onnxruntime'} on {chip}"


def _located(episode: Episode, model: str | Path | None) -> Path:
    """The policy that an episode names, or another one that the user names."""
    name = episode.header.get("policy")
    if model is not None:
        return locate(model) if isinstance(model, str) else model
    if not isinstance(name, str):
        raise IntegrityError("the recording does not name its policy", hint="Name one with --policy")
    return Path(name)


def _checked(episode: Episode, model: str | Path | None, read: Callable[[Path], _Read]) -> _Read:
    """What `read` makes of the policy, which must have its recorded digest unless the user names another one."""
    path = _located(episode, model)
    if model is not None:
        return read(path)
    try:
        found = read(path)
    except IntegrityError as error:
        hint = "Name the policy that was recorded with --policy"
        raise IntegrityError(error.what, found=error.found, expected=error.expected, hint=hint) from error
    file = found.file if isinstance(found, LoadedPolicy) else found
    if file.sha256 != episode.header.get("policy_sha256"):
        raise IntegrityError(
            f"policy {file.path} is not the one that was recorded",
            found=f"sha256 {file.sha256[:12]}…",
            expected=f"{str(episode.header.get('policy_sha256'))[:12]}…",
            hint="Name the right file with --policy, or the present one to compare it",
        )
    return found


def _batch(episode: Episode) -> int:
    """Worlds of the run. Each of them has a row in its first step, so there are no more of them than rows."""
    nworld, rows = episode.header.get("num_envs", 1), episode.rows_of_run
    if isinstance(nworld, bool) or not isinstance(nworld, int) or not 1 <= nworld <= rows:
        raise IntegrityError(
            "the recording tells no usable number of worlds", found=nworld, expected=f"1 to {rows}, its rows"
        )
    return nworld


def _output(episode: Episode) -> str:
    contract = episode.header.get("contract")
    action = contract.get("action") if isinstance(contract, Mapping) else None
    name = episode.header.get("output", action.get("output") if isinstance(action, Mapping) else None)
    if not isinstance(name, str):
        raise IntegrityError("the recording does not tell which network output its actions are")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Actor:
    """What acts again: its arrays, the action that was recorded, and how it forgets an episode."""

    network: OnnxNetwork | OnnxPolicy
    action: Array
    forget: Callable[[], None]


def _actor(episode: Episode, model: str | Path | None, device: Device, placement: Placement) -> _Actor:
    """The policy as a batch of the recorded size that gives the recorded action."""
    contract: Any = episode.header.get("contract")
    action = contract.get("action") if isinstance(contract, Mapping) else None
    several = isinstance(action, Mapping) and (isinstance(action.get("output"), list) or "added" in action)
    if isinstance(contract, Mapping) and (several or "network" in contract or _sees(contract)):
        return _composed(episode, parse_contract(contract, "contract of the recording"), model, device, placement)
    return _single(episode, model, device, placement)


def _sees(contract: Mapping[str, Any]) -> bool:
    """Whether an input may be an image, whose shape the contract knows."""
    inputs = contract.get("inputs")
    specs = inputs.values() if isinstance(inputs, Mapping) else ()
    lists = [spec.get("terms") for spec in specs if isinstance(spec, Mapping)]
    terms = [term for terms in lists if isinstance(terms, list) for term in terms if isinstance(term, Mapping)]
    return any(term.get("name") in ("camera", "height_scan") for term in terms)


def _composed(
    episode: Episode, contract: Contract, model: str | Path | None, device: Device, placement: Placement
) -> _Actor:
    """A policy of several networks, of images, or whose action is made of several outputs: by its recorded contract."""
    loaded = _checked(episode, model, lambda path: load_as(path, contract))
    seen = {name: array.shape[1:] for name, array in episode.observation.items()}
    _check_room(episode, sum(spec.dim for spec in contract.inputs.values()))
    policy = OnnxPolicy(loaded, device, _batch(episode), placement=placement)
    takes = {name: array.shape[1:] for name, array in policy.obs.items()}
    if seen != takes or policy.action.shape[1:] != episode.action.shape[1:]:
        policy.close()
        raise ContractError(
            f"policy {loaded.file.path} does not take the recorded observations, or gives another action",
            found=", ".join(f"{name} of {list(shape)}" for name, shape in seen.items()) or "none",
            expected=", ".join(f"{name} of {list(shape)}" for name, shape in takes.items()),
        )
    return _Actor(network=policy, action=policy.action, forget=policy.reset)


def _single(episode: Episode, model: str | Path | None, device: Device, placement: Placement) -> _Actor:
    """One network of which one output is the action: no more of the contract is asked for than that."""
    file, output = _checked(episode, model, read_policy), _output(episode)
    seen, actions = episode.observation, episode.action
    contract: Any = episode.header.get("contract")
    told: Any = contract.get("recurrent", {}) if isinstance(contract, Mapping) else {}
    pairs = {name: str(output) for name, output in told.items()} if isinstance(told, Mapping) else {}
    onnx = OnnxModel(file, device, placement=replace(placement, rows=1 if pairs else _batch(episode)))
    fits = set(onnx.inputs) == {*seen, *pairs} and all(_takes(onnx, name, array) for name, array in seen.items())
    if not fits:
        raise ContractError(
            f"policy {file.path} does not take the recorded observations",
            found=", ".join(f"{name} of {list(array.shape[1:])}" for name, array in seen.items()) or "none",
            expected=", ".join(str(entry) for entry in onnx.inputs.values()),
            hint="Name the policy that was recorded with --policy",
        )
    if output not in onnx.outputs:
        raise ContractError(
            f"policy {file.path} has no output '{output}'", found=", ".join(onnx.outputs), expected="the recorded one"
        )
    _check_room(episode, sum(array.shape[1] for array in seen.values()))
    whole = [name for name, array in seen.items() if array.dtype.kind == "i"]
    obs = onnx.arrays({name: array.shape[1] for name, array in seen.items()}, _batch(episode), whole)
    memory = onnx.memory(pairs, obs)
    out, _ = onnx.probe(obs, (output,), memory=memory)
    if out[output].shape[1:] != actions.shape[1:] or out[output].dtype != actions.dtype:
        raise ContractError(
            f"output '{output}' of policy {file.path} is no action of this recording",
            found=f"{out[output].dtype}{list(out[output].shape[1:])}",
            expected=f"{actions.dtype}{list(actions.shape[1:])}",
        )
    network = OnnxNetwork(onnx, obs, out, memory=memory)
    return _Actor(network=network, action=network.out[output], forget=network.reset)


def _check_room(episode: Episode, width: int) -> None:
    needed = width * 4 * _batch(episode)
    if needed > MAX_BATCH_BYTES:
        raise IntegrityError(
            "the recording asks for too large a batch", found=f"{needed} bytes", expected=f"at most {MAX_BATCH_BYTES}"
        )


def _takes(onnx: OnnxModel, name: str, array: Array) -> bool:
    return array.ndim == 2 and len(onnx.inputs[name].shape) <= 2 and onnx.width(name) in (None, array.shape[1])
