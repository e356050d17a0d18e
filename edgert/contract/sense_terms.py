"""The observation terms that hand on what a body sees of its surroundings; see `senses`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgert.contract.senses import read_picture, read_scan
from edgert.contract.state import Array
from edgert.contract.terms import Term, TermInputs

if TYPE_CHECKING:
    from edgert.contract.spec import ObservationTerm


def _seen(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    assert term.sense is not None
    return xp.astype(inputs.state.senses[term.sense], inputs.last_action.dtype, copy=False)


HEIGHT_SCAN = Term(function=_seen, dim=None, sense=read_scan, unit="m")
CAMERA = Term(function=_seen, dim=None, sense=read_picture, unit="0 to 255, or m of depth")
