"""`Machine`: all that a probe may look at: files, tools, children of this Python, packages, variables.

A probe gets a `Machine` and touches nothing else, so that a recorded one stands in for a real one. Nothing here raises
for what a machine holds: an `Answer` says why there is none. Every look is bounded in size and time, needs no root, and
changes nothing.
"""

from __future__ import annotations

import glob
import os
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import distributions
from pathlib import Path
from typing import Final, Self

from edgert.device.children import CHILDREN
from edgert.device.onnxruntime import installed_runtimes

MAX_FILE_BYTES: Final = 1 << 20
"""Most that is read of one file; /proc/cpuinfo of a large server has half of that."""
MAX_OUTPUT_BYTES: Final = 1 << 20
"""Most that a tool may print."""
MAX_NAMES: Final = 4096
"""Most paths that one pattern may match."""
TOOL_S: Final = 0.9
"""Longest that one tool may take: a probe has a second."""

PACKAGES: Final = (
    "onnxruntime", "openvino", "warp-lang", "mujoco-warp", "nvidia-ml-py", "ixrt", "mthreads-ml-py",
)  # fmt: skip
"""Distributions that probes and checks ask for, by the beginning of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a file or tool says; `problem` is why it says nothing that counts, "" where there is none."""

    text: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program: looked for on PATH, then in `folders`; `libraries` are folders that it finds its libraries in."""

    name: str
    folders: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


class Machine(ABC):
    """A computer that is looked at. Paths are absolute, as they are on that computer."""

    @abstractmethod
    def file(self, path: str) -> Answer:
        """The text of a file, its ends stripped of white space and NULs."""

    @abstractmethod
    def names(self, pattern: str) -> tuple[str, ...]:
        """The paths that a shell pattern matches, sorted; nothing where nothing may be looked at."""

    @abstractmethod
    def tool(self, tool: Tool, *arguments: str) -> Answer:
        """What a tool prints on stdout. Its text may be there beside a problem, as with a status that is not 0."""

    @abstractmethod
    def child(self, name: str) -> Answer:
        """What a script of `CHILDREN` prints, run by this Python in a process of its own."""

    @abstractmethod
    def packages(self) -> Mapping[str, str]:
        """Distributions of `PACKAGES` that are installed, with their versions."""

    @abstractmethod
    def runtimes(self) -> tuple[str, ...]:
        """Distributions that ship the module onnxruntime, with their versions."""

    @abstractmethod
    def variable(self, name: str) -> str:
        """An environment variable, "" where it is not set."""

    def by(self, deadline_s: float) -> Machine:
        """The same, whose tools have to answer by a time of `time.monotonic`."""
        return self

    def text(self, path: str) -> str:
        """The text of a file, "" where it cannot be read."""
        return self.file(path).text

    def number(self, path: str) -> int | None:
        """The integer that a file holds, None where it holds none."""
        text = self.text(path)
        digits = text.removeprefix("-")
        return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None


@dataclass(frozen=True, kw_only=True)
class LiveMachine(Machine):
    """This computer.

    Attributes:
        root: the folder that stands for "/".
        path: where tools are looked for, as in the variable PATH.
        environment: the variables that tools get.
        deadline_s: when tools have to have answered, in `time.monotonic`.
        tool_s: longest that one tool may take.
    """

    root: Path = Path("/")
    path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    deadline_s: float = float("inf")
    tool_s: float = TOOL_S

    def by(self, deadline_s: float) -> Self:
        """See `Machine.by`."""
        return replace(self, deadline_s=deadline_s)

    def file(self, path: str) -> Answer:
        """See `Machine.file`."""
        where = self._at(path)
        try:
            descriptor = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe is not waited for
            with open(descriptor, "rb", closefd=True) as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return Answer(problem="no regular file")
                data = file.read(MAX_FILE_BYTES)
        except (OSError, ValueError) as error:
            return Answer(problem=getattr(error, "strerror", None) or str(error))
        return Answer(text=cleaned(data))

    def names(self, pattern: str) -> tuple[str, ...]:
        """See `Machine.names`."""
        found = []
        for name in glob.iglob(pattern.lstrip("/"), root_dir=self.root):
            found.append(f"/{name}")
            if len(found) == MAX_NAMES:
                break
        return tuple(sorted(found))

    def tool(self, tool: Tool, *arguments: str) -> Answer:
        """See `Machine.tool`."""
        path = os.pathsep.join([self.path, *(str(self._at(folder)) for folder in tool.folders)])
        program = shutil.which(tool.name, path=path)
        if program is None:
            elsewhere = f" nor in {', '.join(tool.folders)}" if tool.folders else ""
            return Answer(problem=f"{tool.name} is not on PATH{elsewhere}")
        environment = {**self.environment, "PATH": self.path, "LC_ALL": "C"}
        if tool.libraries:
            before = environment.get("LD_LIBRARY_PATH", "")
            folders = [str(self._at(folder)) for folder in tool.libraries]
            environment["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, before] if before else folders)
        return self._run(tool.name, [program, *arguments], environment)

    def child(self, name: str) -> Answer:
        """See `Machine.child`."""
        # -P: the working folder holds files of strangers, which are not imported.
        return self._run(f"python ({name})", [sys.executable, "-P", "-c", CHILDREN[name]], dict(self.environment))

    def packages(self) -> Mapping[str, str]:
        """See `Machine.packages`."""
        return self._packages

    def runtimes(self) -> tuple[str, ...]:
        """See `Machine.runtimes`."""
        return self._runtimes

    def variable(self, name: str) -> str:
        """See `Machine.variable`."""
        return self.environment.get(name, "")

    @cached_property
    def _packages(self) -> Mapping[str, str]:
        return installed_packages()

    @cached_property
    def _runtimes(self) -> tuple[str, ...]:
        return installed_runtimes()

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _run(self, name: str, command: list[str], environment: Mapping[str, str]) -> Answer:
        left_s = min(self.tool_s, self.deadline_s - time.monotonic())
        if left_s <= 0:
            return Answer(problem=f"{name} was not asked: the time for this platform was over")
        return run_bounded(name, command, environment, left_s)


def run_bounded(name: str, command: list[str], environment: Mapping[str, str], limit_s: float) -> Answer:
    """Run a program for at most `limit_s` seconds and `MAX_OUTPUT_BYTES`; then end it with all that it started."""
    try:
        process = subprocess.Popen(  # noqa: S603  # tools by name and own scripts
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Answer(problem=f"{name} cannot be run: {getattr(error, 'strerror', None) or error}")
    try:
        printed, said, ended = _collect(process, time.monotonic() + limit_s)
        if len(printed) > MAX_OUTPUT_BYTES:
            return Answer(problem=f"{name} printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
        if not ended:
            return Answer(problem=f"{name} did not answer within {limit_s:.1f} s")
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # one that hangs in its driver cannot be ended
            process.wait(timeout=0.1)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    text = cleaned(bytes(printed))
    if process.returncode:
        lines = (cleaned(bytes(said)) or text).splitlines()
        reason = f": {lines[-1] if lines[0].startswith('Traceback') else lines[0]}" if lines else ""
        return Answer(text=text, problem=f"{name} ended with status {process.returncode}{reason}")
    return Answer(text=text)


def _collect(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[bytearray, bytearray, bool]:
    """What it prints on stdout and stderr until it ends or the time is over, and whether it ended."""
    assert process.stdout is not None
    assert process.stderr is not None
    printed, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, printed)
        selector.register(process.stderr, selectors.EVENT_READ, said)
        while len(printed) <= MAX_OUTPUT_BYTES:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return printed, said, False
            # What it started may hold the pipes open after its end, so the end is looked for as well.
            ready = selector.select(min(left_s, 0.05)) if selector.get_map() else []
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if data and (key.data is printed or len(said) < MAX_OUTPUT_BYTES):
                    key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
            if not ready:
                if not selector.get_map():
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=left_s)
                if process.poll() is not None:
                    return printed, said, True
    return printed, said, True


def cleaned(data: bytes) -> str:
    """The text of bytes from anywhere, without the NULs and white space at its ends."""
    return data.decode("utf-8", "replace").strip("\0 \t\r\n")


def installed_packages() -> dict[str, str]:
    """Names, as `PACKAGES` has them, and versions of what is installed; nothing is imported."""
    found = {}
    for distribution in distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(PACKAGES):
            found[name] = distribution.version or "unknown"
    return dict(sorted(found.items()))


class Watched(Machine):
    """A machine that notes what is looked at, for evidence and for recordings.

    Attributes:
        files: path to what it said.
        patterns: pattern to the paths that it matched.
        tools: command, by name and arguments, to what it said.
        children: name to what it said.
        variables: name to value.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.files: dict[str, Answer] = {}
        self.patterns: dict[str, tuple[str, ...]] = {}
        self.tools: dict[tuple[str, ...], Answer] = {}
        self.children: dict[str, Answer] = {}
        self.variables: dict[str, str] = {}

    def by(self, deadline_s: float) -> Watched:
        """See `Machine.by`; both note into the same places."""
        other = Watched(self._machine.by(deadline_s))
        other.files, other.patterns, other.tools = self.files, self.patterns, self.tools
        other.children, other.variables = self.children, self.variables
        return other

    def file(self, path: str) -> Answer:
        """See `Machine.file`."""
        self.files[path] = answer = self._machine.file(path)
        return answer

    def names(self, pattern: str) -> tuple[str, ...]:
        """See `Machine.names`."""
        self.patterns[pattern] = found = self._machine.names(pattern)
        return found

    def tool(self, tool: Tool, *arguments: str) -> Answer:
        """See `Machine.tool`."""
        self.tools[tool.name, *arguments] = answer = self._machine.tool(tool, *arguments)
        return answer

    def child(self, name: str) -> Answer:
        """See `Machine.child`."""
        self.children[name] = answer = self._machine.child(name)
        return answer

    def packages(self) -> Mapping[str, str]:
        """See `Machine.packages`."""
        return self._machine.packages()

    def runtimes(self) -> tuple[str, ...]:
        """See `Machine.runtimes`."""
        return self._machine.runtimes()

    def variable(self, name: str) -> str:
        """See `Machine.variable`."""
        self.variables[name] = value = self._machine.variable(name)
        return value

    def looked_at(self) -> tuple[str, ...]:
        """What was looked at and what came of it, one line each."""
        lines = [f"{pattern}: {_count(found)}" for pattern, found in self.patterns.items()]
        lines += [f"{path}: {answer.problem or 'read'}" for path, answer in self.files.items()]
        lines += [f"{' '.join(command)}: {_said(answer)}" for command, answer in self.tools.items()]
        lines += [f"python ({name}): {_said(answer)}" for name, answer in self.children.items()]
        return tuple(lines)


class Once(Machine):
    """A machine of one moment: each tool and child is run once, and what it said stands for every device that asks."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._said: dict[tuple[str, ...], Answer] = {}

    def file(self, path: str) -> Answer:
        """See `Machine.file`."""
        return self._machine.file(path)

    def names(self, pattern: str) -> tuple[str, ...]:
        """See `Machine.names`."""
        return self._machine.names(pattern)

    def tool(self, tool: Tool, *arguments: str) -> Answer:
        """See `Machine.tool`."""
        key = (tool.name, *arguments)
        if key not in self._said:
            self._said[key] = self._machine.tool(tool, *arguments)
        return self._said[key]

    def child(self, name: str) -> Answer:
        """See `Machine.child`."""
        if ("", name) not in self._said:
            self._said["", name] = self._machine.child(name)
        return self._said["", name]

    def packages(self) -> Mapping[str, str]:
        """See `Machine.packages`."""
        return self._machine.packages()

    def runtimes(self) -> tuple[str, ...]:
        """See `Machine.runtimes`."""
        return self._machine.runtimes()

    def variable(self, name: str) -> str:
        """See `Machine.variable`."""
        return self._machine.variable(name)


def _count(found: tuple[str, ...]) -> str:
    return f"{len(found)} found" if found else "none"


def _said(answer: Answer) -> str:
    return answer.problem or f"{len(answer.text.splitlines())} lines"
