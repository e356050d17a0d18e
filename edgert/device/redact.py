"""Taking out of a recorded text what tells whose machine it was: serial numbers, addresses, names, processes.

What is taken out keeps its shape, and the same text gives the same result, so that paths still fit what names them.
Where a number may be an address or a version, it is taken out unless the text calls it a version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_KEYS: Final = r"serial|uuid|unique[ _-]?id|guid|host[ _-]?name|mac[ _-]?addr\w*|asset|permanent_address|fru_id"
_KEYED: Final = re.compile(
    rf"""(?ix)
    (?P<key> ["']? [\w .()/-]{{0,60}} (?:{_KEYS}) [\w .()/-]{{0,40}} ["']? \s* [:=] \s* )
    (?P<value> "[^"\n]*" | '[^'\n]*' | [^\s,;}}\]]+ (?:[ ][^\s,;:="'}}\]]+)* )
    """
)
_SERIAL: Final = re.compile(r"(?i)\b(S/?N)(\s*[:=]\s*)([^\s,;\"']+)")
_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_MAC: Final = re.compile(r"(?<![0-9a-fA-F-])(?:[0-9a-fA-F]{2}-){5,7}[0-9a-fA-F]{2}(?![0-9a-fA-F-])")
"""With dashes; one with colons has the form of an IPv6 address."""
_IPV4: Final = re.compile(
    r"(?<![\d.])(?<!ersion: )(?<!ersion:)(?<!ersion )(?<!npu-smi )(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
)
_IPV6: Final = re.compile(
    r"(?<![0-9a-fA-F:])(?:(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6})"
    r"(?![0-9a-fA-F:])"
)
_DIGEST: Final = re.compile(r"\b[0-9a-fA-F]{32,128}\b")
"""Ids of containers and machines."""
_HOME: Final = re.compile(r"(/home/|/Users/)[^/\s:\"']+")
_PAIR: Final = re.compile(rf"(?i)\s*(\w*(?:{_KEYS})\w*\s+)(\S+)\s*")
"""A name and a number without a sign between them, as the kernel writes unique_id."""
_IDENTIFYING: Final = re.compile(rf"(?i){_KEYS}")
_PROCESSES: Final = re.compile(r"(?ms)^[ |+*]*(?:NPU +Chip +\| +Process id|Processes:).*\Z")
_HEX: Final = re.compile(r"[0-9a-fA-F]")

_COMMON: Final = frozenset({
    "localhost", "linux", "ubuntu", "debian", "fedora", "nvidia", "jetson", "tegra", "orin", "thor", "intel", "amd",
    "hygon", "ascend", "huawei", "iluvatar", "root", "user", "admin", "host", "docker", "robot", "gpu", "cpu", "npu",
    "server", "edge",
})  # fmt: skip
"""Names of hosts and users that tell nobody, and that tools print with another meaning."""
_SHORTEST_NAME: Final = 3


def redacted(text: str, names: Iterable[str] = ()) -> str:
    """A text without what identifies a machine or its owner.

    Args:
        text: of a file or tool, or a path.
        names: of the host and the user; common ones such as "ubuntu" stay.
    """
    text = _PROCESSES.sub("", text)
    text = "\n".join(_line(line) if _IDENTIFYING.search(line) else line for line in text.split("\n"))
    text = _SERIAL.sub(lambda match: match[1] + match[2] + _blank(match[3]), text)
    for pattern in (_UUID, _MAC, _DIGEST):
        text = pattern.sub(lambda match: _HEX.sub("0", match[0]), text)
    text = _IPV6.sub("::", text)
    text = _IPV4.sub("0.0.0.0", text)  # noqa: S104  # nothing is bound to it
    text = _HOME.sub(r"\1user", text)
    for name in names:
        if len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "host", text)
    return text


def _line(line: str) -> str:
    """A line that names something by which a machine is known."""
    pair = _PAIR.fullmatch(line)
    if pair is not None:
        return pair[1] + _blank(pair[2])
    return _KEYED.sub(lambda match: match["key"] + _blank(match["value"]), line)


def _blank(value: str) -> str:
    """A value of the same kind: what tools write for "unknown" stays, quotes stay."""
    inner = value.strip("\"'")
    if inner.lower().strip("[]") in ("n/a", "na", "none", "null", "0", ""):
        return value
    quote = value[0] if value[:1] in ('"', "'") else ""
    return f"{quote}removed{quote}"
