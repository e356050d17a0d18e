"""Exports that state nothing but the names of inputs and outputs: rsl_rl's, and Brax's (MuJoCo Playground).

Whatever else they were trained with is baked in (the normaliser) or lost (all the rest). Where it is to be found is
said in the refusal that lists the missing facts; a `policy.toml` completes it.
"""

from __future__ import annotations

from typing import Final

from edgert.contract.foreign import observed
from edgert.contract.formats import Evidence, Reading
from edgert.contract.recurrent import state_pairs

_OBSERVATION: Final = "obs"


class Nameless:
    """A reader that knows a trainer by the names of inputs and outputs; see `edgert.contract.formats`.

    Args:
        trainer: how messages call it.
        output: the name of its action.
        said: where what they do not state is to be found.
    """

    files = ()
    generic = True

    def __init__(self, *, trainer: str, output: str, said: str) -> None:
        self.trainer = trainer
        self.output = output
        self.said = said

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        pairs = state_pairs(tuple(found.inputs), tuple(found.outputs))
        given = [name for name in found.outputs if name not in pairs.values()]
        taken = observed(found)
        if given != [self.output] or _OBSERVATION not in taken:
            return ""
        memory = f", memory {', '.join(pairs)}" if pairs else ""
        return f"inputs {', '.join(taken)} and output {self.output}{memory}"

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        why = f"{self.trainer} exports state nothing: {self.said}"
        return Reading(document={}, source=self.trainer, reasons={f"inputs.{_OBSERVATION}.terms": why})


RSL_RL: Final = Nameless(
    trainer="rsl_rl",
    output="actions",
    said="its normaliser is inside the network, all else in the trainer's configuration",
)
BRAX: Final = Nameless(
    trainer="Brax",
    output="continuous_actions",
    said="normaliser and tanh are inside the network, the order of terms and a gait clock in the environment's code",
)
