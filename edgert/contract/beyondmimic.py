"""BeyondMimic (whole_body_tracking): a reference motion inside the network, joints in the order of Isaac Lab."""

from __future__ import annotations

from typing import Any, Final

from edgert.contract.formats import Evidence, Reading
from edgert.contract.managers import (
    HISTORY,
    has_motion,
    histories,
    lists_of,
    metadata_keys,
    read_managers,
    say_scan,
    term_names,
)
from edgert.contract.senses import HeightScan

SOURCE: Final = "metadata of BeyondMimic"
_SCAN: Final = HeightScan()
"""That of Isaac Lab, on which it trains."""


class BeyondMimic:
    """The reader; see `edgert.contract.formats`."""

    files = ()
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        keys = metadata_keys(found)
        newer = any(key.startswith("observation_terms_") for key in found.metadata) and not found.wanted
        if not keys or not has_motion(found) or newer:
            return ""
        more = [key for key in (*HISTORY, "anchor_body_name") if key in found.metadata]
        takes = ", input time_step" if "time_step" in found.inputs else ""
        return f"metadata {', '.join((*keys, *more))}{takes}"

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        values = lists_of(found)
        names = term_names(found, values)
        terms: list[dict[str, Any]] = []
        for name, length in zip(names, histories(values), strict=True):
            own: dict[str, Any] = {"point": "com"} if name == "base_lin_vel" else {}
            own |= {"dim": _SCAN.dim} if name == "height_scan" else {}
            terms.append({"name": name, "history": length} | own)
        draft = read_managers(found, terms)
        if "base_lin_vel" in names:
            draft.notes.append("base_lin_vel is that of the base's centre of mass, as Isaac Lab measures it")
        if "height_scan" in names:
            say_scan(draft, SOURCE, _SCAN)
        return draft.reading(SOURCE)


BEYONDMIMIC: Final = BeyondMimic()
