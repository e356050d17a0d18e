"""`edgert run`: a policy against a body, or against many."""

from __future__ import annotations

import click

from edgert.cli.main import HELP_NAMES
from edgert.cli.run_policy import policy
from edgert.cli.run_rollouts import rollouts


@click.group(context_settings=HELP_NAMES)
def run() -> None:
    """Run a policy on one simulated body in time, or in many worlds at once."""


run.add_command(policy)
run.add_command(rollouts)
