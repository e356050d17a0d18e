"""mjlab from 1.6 on: lists of each term's history, scale and clip; velocities measured at the IMU."""

from __future__ import annotations

from typing import Any, Final

from edgert.contract.foreign import Draft
from edgert.contract.formats import Evidence, Reading
from edgert.contract.managers import has_motion, histories, lists_of, metadata_keys, read_managers, say_scan, term_names
from edgert.contract.metadata import Metadata
from edgert.contract.senses import HeightScan
from edgert.errors import ContractError

SOURCE: Final = "metadata of mjlab"
_PREFIX: Final = "observation_terms_"
_SCAN: Final = HeightScan(height_offset=0.0, above=0.0, miss=5.0)
"""That of its velocity tasks: from the body itself, and what is farther than 5 m counts as 5 m."""


class Mjlab:
    """The reader; see `edgert.contract.formats`."""

    files = ()
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        keys = metadata_keys(found)
        more = sorted(key for key in found.metadata if key.startswith(_PREFIX))
        if not keys or (not more and has_motion(found) and not found.wanted):
            return ""  # BeyondMimic's have the same keys
        return f"metadata {', '.join((*keys, *more))}"

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        values = lists_of(found)
        names = term_names(found, values)
        terms = [{"name": name} | extra for name, extra in zip(names, _extras(values, len(names)), strict=True)]
        sites = _sites(values, len(names))
        for term, site in zip(terms, sites, strict=True):
            if term["name"] == "base_lin_vel" and (site or found.velocity_site):
                term["point"] = f"site:{site or found.velocity_site}"
            if term["name"] == "height_scan":
                term.update({key: getattr(_SCAN, key) for key in ("dim", "height_offset", "above", "miss")})
        draft = read_managers(found, terms)
        _say(draft, terms, sites, found.velocity_site)
        if "height_scan" in names:
            say_scan(draft, SOURCE, _SCAN)
        return draft.reading(SOURCE)


MJLAB: Final = Mjlab()


def _extras(values: Metadata, count: int) -> list[dict[str, Any]]:
    """History, scale and clip of each term. mjlab clips before it scales, and flattens a history term by term."""
    extras: list[dict[str, Any]] = [{} for _ in range(count)]
    key = f"{_PREFIX}flatten_history_dim"
    flat = values.flags(key, count) if values.has(key) else [True] * count
    for extra, length, flattened in zip(extras, histories(values), flat, strict=True):
        extra["history"] = length
        if length > 1 and not flattened:
            raise ContractError(
                f"{values.where(key)} is wrong",
                found="a history that is not flattened",
                expected="one axis of numbers: histories as an axis of their own are not supported",
            )
    for key in (f"{_PREFIX}scale", f"{_PREFIX}scales"):
        if values.has(key):
            for extra, scale in zip(extras, values.scales(key, count), strict=True):
                extra["scale"] = scale
    for key in (f"{_PREFIX}clip", f"{_PREFIX}clips"):
        if values.has(key):
            for extra, clip in zip(extras, values.bounds(key, count), strict=True):
                if clip is not None:
                    extra |= {"clip": clip, "clip_first": True}
    return extras


def _sites(values: Metadata, count: int) -> list[str]:
    """The site that each term is measured at, "" where the file does not say."""
    key = f"{_PREFIX}sensor_site"
    sites = values.texts(key, count) if values.has(key) else [""] * count
    if len(sites) != count:
        values.fail(key, found=f"{len(sites)} items", expected=f"{count}, one for each observation")
    return sites


def _say(draft: Draft, terms: list[dict[str, Any]], sites: list[str], assumed: str) -> None:
    place = f"site {assumed}, where the scene has its IMU" if assumed else "the base's origin"
    for term, site in zip(terms, sites, strict=True):
        if term["name"] == "base_lin_vel" and not site:
            draft.notes.append(
                f"base_lin_vel is taken at {place}: mjlab measures it at the site of an IMU, which the file "
                'does not name; if the robot turns badly, give point = "site:<name>" in the terms of policy.toml'
            )
            for name in draft.document.get("inputs", ()):
                draft.sources[f"inputs.{name}.terms"] = f"{SOURCE}, assumed: base_lin_vel at {place}"
        elif term["name"] == "base_ang_vel" and site:
            draft.notes.append(f"base_ang_vel was measured at site {site} and is taken in the frame of the base")
