"""Recognising the memory of a network by the names of its inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_FORMS: Final = (
    (re.compile(r"memory\.(.+)\.in"), "memory.{}.out"),  # Exploy
    (re.compile(r"(.+)_in"), "{}_out"),  # rsl_rl: h_in and c_in
    (re.compile(r"(.+)\.in"), "{}.out"),
    (re.compile(r"in_(.+)"), "out_{}"),
)


def state_pairs(inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """State inputs and the outputs that give their next value, as exporters name them."""
    pairs = {}
    for name in inputs:
        for form, output in _FORMS:
            found = form.fullmatch(name)
            if found and output.format(found[1]) in outputs:
                pairs[name] = output.format(found[1])
                break
    return pairs
