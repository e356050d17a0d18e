"""A machine as a tar file: `record` writes what probes, telemetry and checks read; `replay` stands in for that machine.

The file holds `machine.json`, the files that were read below `root/`, and what tools printed below `tools/`. It comes
from strangers: only plain members of bounded number and size are taken, nothing is unpacked onto the disk, and a folder
of the same layout serves as well. Serial numbers, addresses and names are taken out before anything is written.
"""

from __future__ import annotations

import getpass
import io
import json
import os
import socket
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final

from edgert.device.advice import device_checks
from edgert.device.machine import (
    MAX_FILE_BYTES,
    MAX_OUTPUT_BYTES,
    Answer,
    LiveMachine,
    Machine,
    Tool,
    Watched,
    cleaned,
)
from edgert.device.redact import redacted
from edgert.device.survey import Survey, survey
from edgert.errors import IntegrityError
from edgert.files import read_regular
from edgert.tables import Table, read_json

SCHEMA: Final = 1
INDEX: Final = "machine.json"
MAX_RECORDING_BYTES: Final = 32 << 20
MAX_MEMBERS: Final = 20_000
_EXPECTED: Final = "a file that edgert device record wrote"
_ABSENT: Final = os.strerror(2)


class RecordedMachine(Machine):
    """A machine that was recorded. It answers what was asked when it was recorded, and nothing else.

    Attributes:
        title: what it is.
        source: where what it says comes from.
        synthetic: whether its texts were made up, so that it proves nothing about a chip.
    """

    def __init__(self, index: Table, members: Mapping[str, bytes]) -> None:
        index.integer("schema", lo=SCHEMA, hi=SCHEMA)
        self.title = index.text("machine", "")
        self.source = index.text("source", "")
        self.synthetic = index.flag("synthetic", False)
        index.text("edgert", "")
        self._files = {
            f"/{name.removeprefix('root/')}": Answer(text=cleaned(data[:MAX_FILE_BYTES]))
            for name, data in members.items()
            if name.startswith("root/")
        }
        for path, problem in _texts(index, "problems").items():
            self._files[path] = Answer(problem=problem)
        self._nodes = index.names("nodes", ())
        self._packages = _texts(index, "packages")
        self._runtimes = index.names("runtimes", ())
        self._variables = _texts(index, "variables")
        self._tools: dict[tuple[str, ...], Answer] = {}
        for entry in _tables(index, "tools"):
            command = entry.raw("command")
            if not isinstance(command, list) or not command or not all(isinstance(part, str) for part in command):
                entry.fail("command", found=type(command).__name__, expected="a list of texts")
            self._tools[tuple(command)] = _answer(entry, members)
        self._children: dict[str, Answer] = {}
        for entry in _tables(index, "children"):
            name = entry.text("name")
            self._children[name] = _answer(entry, members)
        index.close()

    def file(self, path: str) -> Answer:
        """See `Machine.file`."""
        return self._files.get(path, Answer(problem=_ABSENT))

    def names(self, pattern: str) -> tuple[str, ...]:
        """See `Machine.names`."""
        parts = pattern.strip("/").split("/")
        return tuple(
            f"/{'/'.join(path)}"
            for path in self._paths.get(len(parts), ())
            if all(fnmatchcase(name, part) for name, part in zip(path, parts, strict=True))
        )

    def tool(self, tool: Tool, *arguments: str) -> Answer:
        """See `Machine.tool`."""
        answer = self._tools.get((tool.name, *arguments))
        if answer is not None:
            return answer
        if any(command[0] == tool.name for command in self._tools):
            return Answer(problem=f"{tool.name} was not asked that when the machine was recorded")
        return Answer(problem=f"{tool.name} is not on PATH")

    def child(self, name: str) -> Answer:
        """See `Machine.child`."""
        return self._children.get(name, Answer(problem=f"python ({name}) was not run when the machine was recorded"))

    def packages(self) -> Mapping[str, str]:
        """See `Machine.packages`."""
        return self._packages

    def runtimes(self) -> tuple[str, ...]:
        """See `Machine.runtimes`."""
        return self._runtimes

    def variable(self, name: str) -> str:
        """See `Machine.variable`."""
        return self._variables.get(name, "")

    @cached_property
    def _paths(self) -> Mapping[int, tuple[tuple[str, ...], ...]]:
        """Every path that is known to exist, and the folders around it, sorted, by how many parts it has."""
        known: dict[int, set[tuple[str, ...]]] = {}
        for path in (*self._files, *self._nodes):
            parts = tuple(path.strip("/").split("/"))
            if path not in self._files or self._files[path].problem != _ABSENT:
                for depth in range(1, len(parts) + 1):
                    known.setdefault(depth, set()).add(parts[:depth])
        return {depth: tuple(sorted(paths)) for depth, paths in known.items()}


def _texts(index: Table, key: str) -> dict[str, str]:
    table = index.table(key, {})
    found = {name: table.text(name) for name in table.data}
    table.close()
    return found


def _tables(index: Table, key: str) -> list[Table]:
    entries = index.raw(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        index.fail(key, found=type(entries).__name__, expected="a list of objects")
    return [Table(entry, index.where, f"{index.key(key)}[{number}]") for number, entry in enumerate(entries)]


def _answer(entry: Table, members: Mapping[str, bytes]) -> Answer:
    output, problem = entry.text("output", ""), entry.text("problem", "")
    if output and output not in members:
        entry.fail("output", found=output, expected="the name of a file in the recording")
    entry.close()
    return Answer(text=cleaned(members[output][:MAX_OUTPUT_BYTES]) if output else "", problem=problem)


def replay(path: Path) -> RecordedMachine:
    """The machine that a recording holds: a tar file, or a folder of the same layout.

    Raises:
        EdgertError: it cannot be read, is too large, or holds what no recording holds.
    """
    members = _of_folder(path) if path.is_dir() else _of_tar(path)
    if INDEX not in members:
        raise IntegrityError(f"{path} is no recorded machine", found=f"no {INDEX} in it", expected=_EXPECTED)
    where = f"{INDEX} in {path}"
    try:
        text = members[INDEX].decode("utf-8")
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{where} is not UTF-8 text", found=error.reason) from error
    return RecordedMachine(Table(read_json(text, where=where), where), members)


def _of_tar(path: Path) -> dict[str, bytes]:
    data = read_regular(path, "recording", MAX_RECORDING_BYTES, expected=_EXPECTED)
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for count, member in enumerate(archive):
                if count == MAX_MEMBERS:
                    raise IntegrityError(f"recording {path} has too many files", expected=f"at most {MAX_MEMBERS}")
                if member.isdir():
                    continue
                _check(member.name, path, kind_ok=member.isreg() and not member.issparse())
                if member.name in members:
                    raise IntegrityError(f"recording {path} holds a file twice", found=member.name)
                file = archive.extractfile(member)
                assert file is not None  # it is a regular one
                members[member.name] = file.read(min(member.size, MAX_OUTPUT_BYTES) + 1)
                _check_size(member.name, len(members[member.name]), path)
    except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError) as error:
        raise IntegrityError(f"{path} is no tar file", found=str(error) or "damaged", expected=_EXPECTED) from error
    return members


def _of_folder(path: Path) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for folder, _, names in os.walk(path):  # which follows no links to folders
        for name in names:
            file = Path(folder) / name
            member = file.relative_to(path).as_posix()
            if len(members) == MAX_MEMBERS:
                raise IntegrityError(f"recording {path} has too many files", expected=f"at most {MAX_MEMBERS}")
            _check(member, path, kind_ok=not file.is_symlink())
            members[member] = read_regular(file, "file of a recording", MAX_OUTPUT_BYTES)
    return members


def _check(name: str, path: Path, *, kind_ok: bool) -> None:
    parts = PurePosixPath(name).parts
    if not kind_ok:
        raise IntegrityError(f"recording {path} holds a link or a device", found=name, expected="plain files")
    odd = name.startswith("/") or ".." in parts or "\0" in name or len(name) > 4096
    if odd or (name != INDEX and parts[:1] not in (("root",), ("tools",))):
        raise IntegrityError(
            f"recording {path} holds a file that no recording has",
            found=name,
            expected=f"{INDEX}, and files below root/ and tools/",
        )


def _check_size(name: str, size: int, path: Path) -> None:
    if size > MAX_OUTPUT_BYTES:
        raise IntegrityError(
            f"a file in recording {path} is too large", found=name, expected=f"at most {MAX_OUTPUT_BYTES} bytes"
        )


def record(version: str, tool_s: float = 10.0) -> tuple[bytes, Survey]:
    """Record this machine: all that probes, telemetry and checks read, and what they found.

    Args:
        version: of edgert, which is noted.
        tool_s: longest that one tool is waited for, longer than probes do: what is slow is worth recording.
    """
    watched = Watched(LiveMachine(tool_s=tool_s))
    found = survey(watched, probe_s=2 * tool_s, limit_s=3 * tool_s)
    for device in found.devices:
        with suppress(Exception):  # what a plug-in raises is no reason to record nothing
            found.platform_of(device).read(watched, device)
    device_checks(watched, found)
    title = ", ".join(dict.fromkeys(device.chip for device in found.devices))
    return recording_of(watched, version=version, title=title), found


def recording_of(watched: Watched, *, version: str, title: str = "") -> bytes:
    """The tar file of what was looked at, without what identifies the machine or its owner."""
    names = identities()
    members: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    nodes: set[str] = set()
    for path, answer in sorted(dict(watched.files).items()):
        shown = redacted(path, names)
        if not answer.problem:
            members[f"root{shown}"] = redacted(answer.text, names).encode()
        elif answer.problem != _ABSENT:
            problems[shown] = redacted(answer.problem, names)
    for found in list(watched.patterns.values()):
        nodes.update(redacted(path, names) for path in found)
    tools = [
        {"command": [redacted(part, names) for part in command], **_noted(answer, members, names)}
        for command, answer in sorted(dict(watched.tools).items())
    ]
    children = [
        {"name": name, **_noted(answer, members, names)} for name, answer in sorted(dict(watched.children).items())
    ]
    index: dict[str, Any] = {
        "schema": SCHEMA,
        "machine": redacted(title, names),
        "source": "recorded on the machine",
        "synthetic": False,
        "edgert": version,
        "nodes": sorted(path for path in nodes if f"root{path}" not in members and path not in problems),
        "problems": problems,
        "packages": dict(watched.packages()),
        "runtimes": list(watched.runtimes()),
        "variables": {name: redacted(value, names) for name, value in watched.variables.items()},
        "tools": tools,
        "children": children,
    }
    text = json.dumps(index, indent=1, ensure_ascii=False, sort_keys=False) + "\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in {INDEX: text.encode("utf-8", "replace"), **members}.items():
            member = tarfile.TarInfo(name)  # owner, group and times stay 0
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _noted(answer: Answer, members: dict[str, bytes], names: tuple[str, ...]) -> dict[str, str]:
    entry = {}
    if answer.text:
        entry["output"] = f"tools/{len([name for name in members if name.startswith('tools/')])}.txt"
        members[entry["output"]] = redacted(answer.text, names).encode("utf-8", "replace")
    if answer.problem:
        entry["problem"] = redacted(answer.problem, names)
    return entry


def identities() -> tuple[str, ...]:
    """Names of this host and user, which no recording may hold."""
    found = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with suppress(OSError, KeyError):  # a user without a name
        found.add(getpass.getuser())
    return tuple(sorted(found - {""}))
