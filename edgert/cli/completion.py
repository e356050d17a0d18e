"""`edgert completion`: the shell's own completion of commands, options and the names of bundled data.

`complete_models` and its like go into `shell_complete=` of an argument or option. They only look into folders:
a shell asks at every Tab.
"""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from edgert import assets
from edgert.cli.main import HELP_NAMES, cli, output
from edgert.errors import EdgertError

_VARIABLE = "_EDGERT_COMPLETE"
_INSTALL = {
    "bash": 'eval "$(edgert completion bash)"  in ~/.bashrc',
    "zsh": 'eval "$(edgert completion zsh)"  in ~/.zshrc, after compinit',
    "fish": "edgert completion fish | source  in ~/.config/fish/config.fish",
}


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The bundled and downloaded models whose names begin so, else the shell's own file names."""
    from edgert.catalog import catalog

    try:
        downloaded = [name for name, policy in catalog().items() if policy.is_fetched()]
    except EdgertError:  # whoever runs one is told
        downloaded = []
    return _complete([*assets.names("models"), *downloaded], incomplete)


def complete_sims(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The bundled sims whose names begin so, else the shell's own file names."""
    return _complete(assets.names("sims"), incomplete)


def complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The formats of other trainers whose names begin so."""
    from edgert.contract.formats import FORMATS

    return [CompletionItem(name) for name in FORMATS.names() if name.startswith(incomplete)]


def _complete(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    named = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return named or [CompletionItem(incomplete, type="file")]


@click.command(context_settings=HELP_NAMES)
@click.argument("shell", metavar="SHELL", type=click.Choice(list(_INSTALL)))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete edgert's commands, options, models and sims.

    \b
    Install it for this user:
      bash  eval "$(edgert completion bash)"  in ~/.bashrc
      zsh   eval "$(edgert completion zsh)"  in ~/.zshrc, after compinit
      fish  edgert completion fish | source  in ~/.config/fish/config.fish
    """  # noqa: D301  # \b is click's mark for lines to keep
    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    script = kind(cli, {}, "edgert", _VARIABLE).source()
    with output():
        click.echo(f"{script.rstrip()}\n\n# To install it: {_INSTALL[shell]}")
