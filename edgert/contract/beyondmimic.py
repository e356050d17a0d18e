"""BeyondMimic (whole_body_tracking): a reference motion inside the network, joints in the order of Isaac Lab."""

from __future__ import annotations

from typing import Any, Final

from edgert.contract.formats import Evidence, Reading
from edgert.contract.managers import has_motion, metadata_keys, read_managers, term_names
from edgert.contract.metadata import Metadata

_HISTORY: Final = "observation_history_lengths"
MAX_HISTORY: Final = 1_000


class BeyondMimic:
    """The reader; see `edgert.contract.formats`."""

    files = ()
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        keys = metadata_keys(found)
        if not keys or not has_motion(found) or any(key.startswith("observation_terms_") for key in found.metadata):
            return ""
        more = [key for key in (_HISTORY, "anchor_body_name") if key in found.metadata]
        takes = ", input time_step" if "time_step" in found.inputs else ""
        return f"metadata {', '.join((*keys, *more))}{takes}"

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        values = Metadata(found.metadata, found.model)
        names = term_names(found, values)
        terms: list[dict[str, Any]] = []
        for name, length in zip(names, _histories(values), strict=True):
            point = {"point": "com"} if name == "base_lin_vel" else {}
            terms.append({"name": name, "history": length} | point)
        draft = read_managers(found, terms)
        if "base_lin_vel" in names:
            draft.notes.append("base_lin_vel is that of the base's centre of mass, as Isaac Lab measures it")
        return draft.reading("metadata of BeyondMimic")


BEYONDMIMIC: Final = BeyondMimic()


def _histories(values: Metadata) -> list[int]:
    """Samples of each term; a list in the order of the terms, or a table by their names."""
    names = values.names("observation_names")
    if not values.has(_HISTORY):
        return [1] * len(names)
    if isinstance(values.value(_HISTORY), dict):
        table = values.table(_HISTORY)
        return [max(1, table.integer(name, 1, lo=0, hi=MAX_HISTORY)) for name in names]
    return [max(1, length) for length in values.integers(_HISTORY, len(names), MAX_HISTORY)]
