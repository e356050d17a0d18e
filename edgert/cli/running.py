"""What the commands that run something share: options, Ctrl-C, and the places that they write to."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgert.cli.completion import complete_formats, complete_models, complete_sims
from edgert.cli.main import EXIT_INTERRUPTED, EXIT_SAFETY, say
from edgert.errors import DeviceError, importing

if TYPE_CHECKING:
    from edgert.rollout.closed_loop import RolloutSession
    from edgert.runtime import Session

EXIT_CODES = {
    "completed": 0,
    "fell": EXIT_SAFETY,
    "safety_stop": EXIT_SAFETY,
    "interrupted": EXIT_INTERRUPTED,
}


class FilePath(click.Path):
    """A path as the shell completes it. An empty one, as of a variable that is not set, is no name of this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType.convert`."""
        if not value or "\0" in value:
            self.fail("the path holds a NUL" if value else "the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class Numbers(click.types.FloatParamType):
    """One of several numbers of an option; a refusal says how many there have to be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType.convert`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            if param is None:
                raise
            count = {2: "two", 3: "three"}[param.nargs]
            self.fail(f"{count} numbers are wanted, {param.metavar}, and '{value}' is none", param, ctx)


model_argument = click.argument("model", default="quadruped", shell_complete=complete_models)
sim_option = click.option(
    "--sim",
    shell_complete=complete_sims,
    help="A bundled sim, a folder with a task.toml, or a scene (.xml).  [default: the sim of a bundled model's name, "
    "else quadruped]",
)
contract_option = click.option(
    "--contract", type=FilePath(), metavar="FILE", help="What the policy's numbers mean (policy.toml)."
)
format_option = click.option(
    "--format",
    metavar="NAME",
    shell_complete=complete_formats,
    help="How another trainer exported the policy, where several formats fit.",
)
command_option = click.option(
    "--command",
    type=Numbers(),
    nargs=3,
    metavar="VX VY WZ",
    help="m/s forward, m/s to the left, rad/s anticlockwise; or X Y Z of a goal, m.  [default: 0.5 0 0, or the middle "
    "of the goals; rollouts draw what the task says]",
)
env_option = click.option(
    "--env", metavar="ID", help="A Gymnasium environment instead of a sim, such as HalfCheetah-v5."
)
output_option = click.option("--output", metavar="NAME", help="The ONNX output that is the action, with --env.")
motion_loop_option = click.option(
    "--motion-loop/--no-motion-loop",
    default=None,
    help="Begin a reference motion again after its last frame, or hold that.  [default: as the contract says]",
)


def chip_options(command: Callable[..., int]) -> Callable[..., int]:
    """Options that say on which chips a command computes; see `edgert.policy.where`."""
    options = (
        click.option(
            "--device", default="cpu", show_default=True, help="Chip of the network, and of the physics where it can."
        ),
        click.option("--policy-device", metavar="NAME", help="Chip of the network.  [default: as --device]"),
        click.option("--physics-device", metavar="NAME", help="Chip of the physics.  [default: as --device, else cpu]"),
        click.option(
            "--provider",
            metavar="NAME",
            help="Inference provider: cpu, openvino, cuda, tensorrt, cann … or auto for the fastest on this model.  "
            "[default: the chip's first]",
        ),
        click.option(
            "--allow-cpu-nodes", is_flag=True, help="Let the CPU compute what the provider cannot, and say so."
        ),
        click.option(
            "--precision",
            type=click.Choice(["fp32", "fp16"]),
            default="fp32",
            show_default=True,
            help="Of the network's arithmetic.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


record_option = click.option("--record", type=FilePath(), metavar="DIR", help="Record every step into this folder.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def check_mujoco() -> None:
    """Refuse to go on without MuJoCo, with the reason."""
    install, mend = "Run: pip install edgert", "Check the variable MUJOCO_GL"
    with importing("mujoco", what="MuJoCo", install=install, mend=mend, refusal=DeviceError):
        import mujoco  # noqa: F401


def refuse_beside(option: str, names: Sequence[str], why: str) -> None:
    """Refuse options that would count for nothing beside another one; say so of those that the project file sets."""
    context = click.get_current_context()
    off = {name for name in names if context.params.get(name) is False}
    flags = {
        param.name: (param.secondary_opts if param.name in off and param.secondary_opts else param.opts)[0]
        for param in context.command.params
    }
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [flags[name] for name, source in sources.items() if source is ParameterSource.COMMANDLINE]
    if given:
        raise click.UsageError(f"{', '.join(given)} cannot go with {option}: {why}")
    for name, source in sources.items():
        if source is ParameterSource.DEFAULT_MAP:
            say(f"{flags[name]} of edgert.toml does not count with {option}: {why}")


def path_of(name: str | None) -> Path | None:
    """A path that the user named, if one was."""
    return None if name is None else Path(name)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C, or another polite end, into a question that the loop asks; the second one ends at once."""
    asked = False

    def ask(signum: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    # Who ignores the end of a terminal, as nohup does, goes on ignoring it.
    polite = [kind for kind in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(kind) is not signal.SIG_IGN]
    before = {kind: signal.signal(kind, ask) for kind in (signal.SIGINT, *polite)}
    try:
        yield lambda: asked
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextmanager
def quiet_stdout() -> Iterator[None]:
    """Whatever an environment prints, or what it runs prints, goes to stderr: stdout is for results."""
    before, kept = sys.stdout, None
    sys.stdout = sys.stderr
    with suppress(OSError):  # where one of them is closed there is nothing to keep apart
        kept = os.dup(1)
        os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout = before
        if kept is not None:
            with suppress(OSError, AttributeError):  # AttributeError: there is no stdout
                before.flush()
            os.dup2(kept, 1)
            os.close(kept)


@contextmanager
def disclosing(
    session: Session | RolloutSession, wanted: bool, timing: str, counts: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """How the numbers of a simulated run come about, for a report; empty where nobody will read it.

    Args:
        session: what runs in the block, at whose end the block is filled.
        wanted: whether it is for a machine to read.
        timing: from where to where it is timed.
        counts: how many samples of what.
    """
    block: dict[str, Any] = {}
    if not wanted:
        yield block
        return
    from edgert.device.disclosure import Disclosure, telling
    from edgert.rollout.provenance import scene_sha256

    header, policy = session.header(), session.policy
    with telling([session.device, session.physics_device]) as told:
        yield block
    block["disclosure"] = Disclosure(
        kind="simulated",
        devices=told,
        model=header["policy"],
        model_sha256=header["policy_sha256"],
        scene=header["scene"],
        scene_sha256=scene_sha256(Path(header["scene"])),
        shapes={name: array.shape for name, array in (*policy.obs.items(), *policy.out.items())},
        precision=session.placed.precision,
        seed=session.options.seed,
        timing=timing,
        warm_up="a few ticks before the first one, not counted",
        counts=counts,
    ).report()
