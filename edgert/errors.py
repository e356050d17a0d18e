"""The exception tree. Every refusal says what, found, expected and what to do next.

Everything that edgert refuses on purpose is an `EdgertError`; the command line prints it as one line and exits 2.
Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_WORD = 40
"""Characters of a name that is not cut in two."""


class EdgertError(Exception):
    """A refusal with fields as well as text.

    Attributes:
        what: what is wrong, with the name of the file, key or object.
        found: what was there, or "" when that says nothing.
        expected: what would have been right, or "".
        hint: the next step for the user, or "".
        line_chars: longest part of the line; a kind of error that has to list everything has a larger one.
    """

    line_chars = 600

    def __init__(self, what: str, *, found: object = "", expected: object = "", hint: str = "") -> None:
        self.what = what
        self.found = str(found)
        self.expected = str(expected)
        self.hint = hint
        super().__init__(self._line())

    def _line(self) -> str:
        details = [
            f"{label} {one_line(text, self.line_chars)}"
            for label, text in (("found", self.found), ("expected", self.expected))
            if text
        ]
        line = one_line(self.what) + (": " + ", ".join(details) if details else "")
        return f"{line}. {one_line(self.hint)}" if self.hint else line


class ContractError(EdgertError):
    """A contract is malformed, incomplete, or does not fit its model or robot."""


class UnknownNameError(EdgertError):
    """A name that is in no table; `expected` lists the valid ones."""


class UnsupportedError(EdgertError):
    """Something this version or this host cannot do."""


class DeviceError(EdgertError):
    """A device or inference provider is missing, ambiguous or did not do what was asked."""


class IntegrityError(EdgertError):
    """A file is damaged, truncated or not what it claims to be."""


class RobotError(EdgertError):
    """A body, simulated or real, cannot do what the policy needs, or its scene cannot be used."""


def one_line(text: str, limit: int = EdgertError.line_chars) -> str:
    """Any text as one printable line, whatever file it came from; a longer one than `limit` is cut in the middle."""
    line = " ".join(text.split())
    if not line.isprintable():  # names out of files may hold terminal controls, or surrogates that no stream encodes
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if len(line) <= limit:
        return line
    half = limit // 2
    head, tail = line[:half], line[-half:]
    if " " in head[-_WORD:]:  # between words, where they are no longer than names are
        head = head.rpartition(" ")[0]
    if " " in tail[:_WORD]:
        tail = tail.partition(" ")[2]
    return f"{head} … {tail}"


def some(names: Sequence[str], limit: int = 6) -> str:
    """The first few names, for a message."""
    shown = ", ".join(one_line(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


@contextmanager
def importing(
    module: str,
    *,
    what: str = "",
    missing: str = "",
    install: str,
    mend: str = "Reinstall it for this Python",
    refusal: type[EdgertError] = UnsupportedError,
) -> Iterator[None]:
    """A block that imports a package; refuse if it is not installed, or does not load here.

    Args:
        module: its name.
        what: how people call it, by default the module's name.
        missing: what to say where it is not installed.
        install: the hint there.
        mend: the hint where it does not load.
        refusal: the error to raise.
    """
    try:
        yield
    except Exception as error:  # a package with native libraries may fail in any way
        interrupted_by(error)
        what = what or module
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise refusal(missing or f"{what} is not installed", hint=install) from error
        raise refusal(f"{what} cannot be imported", found=str(error) or type(error).__name__, hint=mend) from error


def interrupted_by(error: BaseException) -> None:
    """Raise KeyboardInterrupt if that is what an import really failed of: native modules hide it."""
    if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
        raise KeyboardInterrupt from error
