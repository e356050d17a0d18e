"""One file by HTTP: bounded, resumable, and never under its name before its digest is right.

What has come lies beside the target as `NAME.part`, and the next call goes on from there. No ETag is needed for that:
the digest judges the whole, and what was put together of two calls and fails is fetched once more from its beginning.
One writer a target: callers lock. What speaks HTTP is imported when it is used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urljoin, urlsplit

from edgert.errors import EdgertError, IntegrityError, UnsupportedError
from edgert.writing import put

MAX_BYTES: Final = (1 << 31) - 1
"""Largest file that is fetched, bytes: an `.onnx` cannot be larger."""
MAX_REDIRECTS: Final = 5
TIMEOUT_S: Final = 30.0
"""Longest wait for an answer, and for each further piece of it."""
_CHUNK: Final = 1 << 18
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_SHA256: Final = re.compile("[0-9a-f]{64}")


class DownloadError(EdgertError):
    """A file could not be fetched; what has come of it is kept, and the next try goes on from there."""


def check_url(url: str) -> None:
    """Refuse what is no plain http or https address.

    Raises:
        UnsupportedError: it has another scheme, no host, a user name or password, or characters that no address has.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        plain = parts.username is None and parts.password is None and url.isascii() and url.isprintable()
    except ValueError:  # a port that is no number, brackets that do not close
        usable = plain = False
    if not usable or not plain or " " in url:
        raise UnsupportedError(
            "this address cannot be fetched",
            found=url,
            expected="http://HOST/PATH or https://HOST/PATH, in ASCII, without user name, password or blanks",
        )


def is_sha256(text: str) -> bool:
    """Whether a text is a digest as it is written here: 64 lowercase hexadecimal digits."""
    return _SHA256.fullmatch(text) is not None


def sha256_of(path: Path) -> str:
    """The digest of a file. Raises `IntegrityError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise IntegrityError(f"cannot read {path}", found=error.strerror, hint="Check its permissions") from error


def fetch(
    url: str,
    target: Path,
    *,
    sha256: str,
    size_bytes: int | None = None,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> None:
    """Fetch a file to `target`, whose folder exists.

    Args:
        url: http or https, through the proxies of the environment; redirected at most `MAX_REDIRECTS` times, never
            from https to http.
        target: where it is to lie; it appears there whole and on disk, or not at all.
        sha256: of the file, 64 lowercase hexadecimal digits.
        size_bytes: of the file, where it is known.
        progress: gets bytes that are there and bytes that there will be, None where the server does not say.

    Raises:
        UnsupportedError: the address is none to fetch.
        DownloadError: the server cannot be reached, refuses, or breaks off.
        IntegrityError: what came is another file.
        EdgertError: it cannot be written.
    """
    check_url(url)
    part = target.with_name(target.name + ".part")
    with writing(part), part.open("ab+", buffering=0) as file:  # no buffer: what has come is kept at any end
        got = _Part(file, part, MAX_BYTES if size_bytes is None else size_bytes)
        if got.sha256 != sha256:
            fits = _receive(url, got, size_bytes, progress)
            if not fits or (got.resumed and got.sha256 != sha256):
                got.clear()
                _receive(url, got, size_bytes, progress)
        if got.sha256 != sha256:
            part.unlink()
            raise IntegrityError(
                f"{url} is not the file that it should be",
                found=f"sha256 {got.sha256}",
                expected=f"sha256 {sha256}",
                hint="Nothing of it was kept; ask its publisher which of the two is right",
            )
        put(part, target)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A block that writes to the state folder; say in one line what the disk does not do."""
    try:
        yield
    except OSError as error:
        raise EdgertError(
            f"cannot write {path}",
            found=error.strerror or error,
            hint="Make room and check its permissions, or set EDGERT_HOME to another folder",
        ) from error


class _Part:
    """The file that grows, and the digest of what is in it.

    Args:
        file: open for reading and appending, without a buffer.
        path: its name in messages.
        limit: most bytes that it may hold; what is there beyond that is thrown away.
    """

    def __init__(self, file: BinaryIO, path: Path, limit: int) -> None:
        self._file, self._path, self.limit = file, path, limit
        self._digest, self.size = hashlib.sha256(), 0
        file.seek(0)
        while self.size <= limit and (chunk := file.read(_CHUNK)):
            self._count(chunk)
        if self.size > limit:
            self.clear()
        self.resumed = self.size > 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def clear(self) -> None:
        self._file.truncate(0)
        self._digest, self.size, self.resumed = hashlib.sha256(), 0, False

    def add(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        with writing(self._path):  # here, so that a full disk is not taken for a broken network
            while view:
                view = view[self._file.write(view) :]
        self._count(chunk)

    def _count(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self.size += len(chunk)


def _receive(url: str, got: _Part, exact: int | None, progress: Callable[[int, int | None], None]) -> bool:
    """Append what the server has beyond what is there; False if its answer does not go on from there."""
    with _asked(url, got.size) as answer:
        if got.size and answer.status in (206, 416):
            if not answer.headers.get("Content-Range", "").startswith(f"bytes {got.size}-"):
                return False
        elif answer.status == 200:
            got.clear()
        else:
            later = answer.status in (408, 425, 429) or answer.status >= 500
            raise DownloadError(
                f"{url} is not to be had",
                found=f"HTTP {answer.status} {answer.reason}".strip(),
                hint="Try again later" if later else "Check the address",
            )
        total = exact if answer.length is None else got.size + answer.length
        if total is not None and (total > got.limit or total != (exact or total)):
            raise _wrong_size(url, f"{total} bytes", got, exact)
        progress(got.size, total)
        while chunk := answer.read1(_CHUNK):
            if got.size + len(chunk) > got.limit:
                raise _wrong_size(url, f"over {got.limit} bytes", got, exact)
            got.add(chunk)
            progress(got.size, total)
    if got.size < (total or 0):
        raise DownloadError(
            f"{url} broke off", found=f"{got.size} of {total} bytes", hint="Run it again: it goes on from there"
        )
    return True


def _wrong_size(url: str, found: str, got: _Part, exact: int | None) -> IntegrityError:
    got.clear()
    return IntegrityError(
        f"{url} is not the file that it should be" if exact else f"{url} is too large",
        found=found,
        expected=f"{exact} bytes" if exact else f"at most {got.limit} bytes",
    )


@contextmanager
def _asked(url: str, start: int) -> Iterator[Any]:
    """The server's answer to a request for the bytes from `start` on, after redirections."""
    from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, UnknownHandler

    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), UnknownHandler()):  # none for file:, ftp: or data:
        opener.add_handler(handler)
    headers = {"User-Agent": "edgert", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    address = url
    with _connected(url):
        for _ in range(MAX_REDIRECTS + 1):
            with opener.open(Request(address, headers=headers), timeout=TIMEOUT_S) as answer:  # noqa: S310  # checked
                if answer.status not in _REDIRECTS:
                    yield answer
                    return
                address = _next(url, address, answer.headers.get("Location", ""))
    many = f"over {MAX_REDIRECTS} redirections"
    raise DownloadError(f"{url} redirects for ever", found=many, hint="Check the address")


def _next(url: str, address: str, location: str) -> str:
    """Where a redirection leads, if it may be followed."""
    try:
        target = urljoin(address, location)
        check_url(target)
    except (ValueError, UnsupportedError) as error:
        raise UnsupportedError(
            f"{url} redirects to what cannot be fetched", found=location, expected="an http or https address"
        ) from error
    if address.startswith("https:") and not target.startswith("https:"):
        raise UnsupportedError(f"{url} redirects from https to http", found=target, expected="an https address")
    return target


@contextmanager
def _connected(url: str) -> Iterator[None]:
    """A block that talks to a server; say in one line what the network does not do."""
    from http.client import HTTPException
    from urllib.error import URLError

    try:
        yield
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a host that no name service takes
        reason = error.reason if isinstance(error, URLError) else error
        raise DownloadError(
            f"{url} cannot be reached, or broke off",
            found=getattr(reason, "strerror", None) or str(reason) or type(reason).__name__,
            hint="Check the network and run it again: it goes on where it stopped",
        ) from error
