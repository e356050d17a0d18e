"""Which network fits which environment: one input for the observation, one output for the action."""

from __future__ import annotations

from typing import Final

from edgert.errors import ContractError
from edgert.policy import OnnxModel, OnnxNetwork
from edgert.policy.refusals import check_memory
from edgert.rollout.gym_worlds import Array, GymWorlds

ACTION_NAMES: Final = ("action", "actions")


def fit(
    model: OnnxModel, worlds: GymWorlds, output: str | None, *, every_output: bool = False
) -> tuple[OnnxNetwork, str]:
    """The network for an environment, and the output that is its action.

    Args:
        model: the opened model.
        worlds: the environment.
        output: the action's name; None: the only output, the one called action, or the only one of its size.
        every_output: compute the other outputs too.

    Raises:
        ContractError: the model takes or gives other things than the environment's observations and actions.
    """
    path = model.file.path
    if len(model.inputs) != 1:
        raise ContractError(
            f"policy {path} does not take one observation",
            found=", ".join(str(entry) for entry in model.inputs.values()) or "no input",
            expected=f"one input [batch, {worlds.dim}]",
        )
    (entry,) = model.inputs.values()
    model.check_rank(entry.name)
    check_memory(model.file)
    if model.width(entry.name) not in (None, worlds.dim):
        raise ContractError(
            f"input '{entry.name}' of policy {path} has another size than an observation of '{worlds.name}'",
            found=model.width(entry.name),
            expected=worlds.dim,
            hint="Name the environment that it was trained in",
        )
    obs = model.arrays({entry.name: worlds.dim}, worlds.num_envs)
    chosen = _named_output(model, output)
    if chosen is None:
        out, left_out = model.probe(obs, (), others=True)
        fitting = [name for name in out if _fits(out[name], worlds)]
        if len(fitting) != 1:
            raise ContractError(
                f"policy {path} has {'more than one output that fits' if fitting else 'no output that fits'} the "
                f"action of '{worlds.name}'",
                found=", ".join([*(_shown(name, value) for name, value in out.items()), *left_out]),
                expected=f"one float[{worlds.num_envs}, {worlds.nact}], or one named action",
                hint="Choose one with --output",
            )
        (chosen,) = fitting
        out = out if every_output else {chosen: out[chosen]}
    else:
        out, _ = model.probe(obs, (chosen,), others=every_output)
        if not _fits(out[chosen], worlds):
            raise ContractError(
                f"output '{chosen}' of policy {path} has another size than an action of '{worlds.name}'",
                found=_shown(chosen, out[chosen]),
                expected=f"float[{worlds.num_envs}, {worlds.nact}]",
                hint="Choose another with --output" if len(model.outputs) > 1 else "",
            )
    return OnnxNetwork(model, obs, out), chosen


def _named_output(model: OnnxModel, asked: str | None) -> str | None:
    """The output that was asked for, the only one, or the one called action."""
    if asked is not None and asked not in model.outputs:
        raise ContractError(
            f"policy {model.file.path} has no output '{asked}'", expected="one of " + ", ".join(model.outputs)
        )
    named = [name for name in model.outputs if name in ACTION_NAMES or len(model.outputs) == 1]
    return asked or (named[0] if len(named) == 1 else None)


def _fits(value: Array, worlds: GymWorlds) -> bool:
    return value.shape == (worlds.num_envs, worlds.nact) and value.dtype.kind == "f"


def _shown(name: str, value: Array) -> str:
    return f"{name} {value.dtype}{list(value.shape)}"
