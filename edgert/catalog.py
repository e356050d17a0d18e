"""Policies of others: the catalogue of those that are known, and the folders of those that were fetched.

Each lies in a folder of its own below the state folder, named after what is in it: another version of the catalogue or
of a file is another folder, and nothing there is ever overwritten. A folder appears whole, by one rename.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from edgert import assets
from edgert.download import MAX_BYTES, check_url, fetch, is_sha256, sha256_of, writing
from edgert.errors import EdgertError, IntegrityError, UnknownNameError, UnsupportedError
from edgert.files import read_regular
from edgert.tables import MAX_FILE_BYTES, Table, read_toml, show
from edgert.writing import sync

SCHEMA: Final = 1
MODEL: Final = "policy.onnx"
CONTRACT: Final = "policy.toml"
_NAME: Final = re.compile("[a-z][a-z0-9_]{0,63}")
"""A bare word, so that no name is ever taken for a path."""
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

Progress = Callable[[str, int, int | None], None]
"""Gets the name of a file, bytes that are there, and bytes that there will be, None where nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """One file of a policy: its name in the folder, its address, digest, and size where it is known."""

    name: str
    url: str
    sha256: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePolicy:
    """A policy that can be fetched. One of its files is `policy.onnx`.

    `contract` is the text of the policy.toml that its files lack, b"" where they need none; `expect` says what it does
    when it is run right.
    """

    name: str
    files: tuple[RemoteFile, ...]
    title: str = ""
    robot: str = ""
    licence: str = ""
    source: str = ""
    expect: str = ""
    contract: bytes = b""

    def folder(self) -> Path:
        """Where it lies once it is fetched. Raises `EdgertError` where there is no state folder."""
        parts = [*(f"{file.name} {file.sha256}" for file in self.files), hashlib.sha256(self.contract).hexdigest()]
        key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
        return assets.state_folder()[0] / "policies" / f"{self.name}-{key}"

    def is_fetched(self) -> bool:
        """Whether its folder is there; what is in it is not looked at."""
        try:
            return self.folder().is_dir()
        except (EdgertError, OSError):  # no state folder, or one that cannot be looked into
            return False


def catalog() -> Mapping[str, RemotePolicy]:
    """The known policies by name; none where an installation carries no catalogue.

    Raises:
        ContractError: the catalogue, `catalog.toml` among the models, is malformed.
    """
    path = assets.root("models") / "catalog.toml"
    if not os.path.lexists(path):
        return {}
    table = Table(read_toml(path, kind="catalogue"), str(path))
    if table.integer("schema", lo=1) != SCHEMA:
        table.fail("schema", found=table.raw("schema"), expected=SCHEMA, hint="Update edgert")
    policies = table.table("policies")
    table.close()
    return policies.each(lambda name, entry: _entry(name, entry, path.parent / "catalog" / f"{name}.toml", policies))


def locate(name: str) -> Path | None:
    """The `policy.onnx` of a known policy, None if the catalogue has none of that name.

    Raises:
        UnknownNameError: it is known, and not fetched yet.
    """
    policy = catalog().get(name)
    if policy is None:
        return None
    if not policy.is_fetched():
        raise UnknownNameError(f"policy '{name}' is not downloaded", hint=f"Run: edgert policy get {name}")
    return policy.folder() / MODEL


def from_address(address: str) -> RemotePolicy:
    """The policy of one file that an address with its digest names: `URL#sha256=HEX`.

    Raises:
        UnsupportedError: the address cannot be fetched, or has no digest.
    """
    url, _, fragment = address.partition("#")
    check_url(url)
    sha256 = fragment.removeprefix("sha256=").lower()
    if not fragment.startswith("sha256=") or not is_sha256(sha256):
        raise UnsupportedError(
            "an address without its digest is not fetched",
            found=f"#{fragment}" if fragment else "no #sha256=",
            expected=f"{url}#sha256= and the 64 hexadecimal digits of the file",
            hint="Whoever publishes the file can tell them; of a file that you trust, sha256sum prints them",
        )
    last = url.partition("?")[0].rpartition("/")[2].removesuffix(".onnx")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_")[:64] or "policy"
    return RemotePolicy(name=name, files=(RemoteFile(name=MODEL, url=url, sha256=sha256),))


def get(policy: RemotePolicy, *, progress: Progress, say: Callable[[str], None]) -> bool:
    """Fetch a policy to its folder, if it is not there yet; whether anything was fetched.

    Args:
        policy: what to fetch.
        progress: see `Progress`.
        say: gets a line for people while another process fetches the same.

    Raises:
        IntegrityError: what came, or what lies there, is not what it should be.
        DownloadError: a server cannot be reached, refuses, or breaks off; the next call goes on from there.
        UnsupportedError: an address is none to fetch.
        EdgertError: it cannot be written.
    """
    folder = policy.folder()
    if policy.is_fetched():
        _verify(policy, folder)
        return False
    with writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f".{folder.name}.lock"), f"another process fetches {policy.name}: waiting", say):
        if policy.is_fetched():  # by whoever had the lock
            _verify(policy, folder)
            return False
        staging = folder.with_name(f".{folder.name}.part")
        with writing(staging):
            staging.mkdir(exist_ok=True)
        for file in policy.files:
            target = staging / file.name
            if not target.is_file() or sha256_of(target) != file.sha256:
                fetch(
                    file.url,
                    target,
                    sha256=file.sha256,
                    size_bytes=file.size_bytes,
                    progress=partial(progress, file.name),
                )
        with writing(staging):
            if policy.contract:
                (staging / CONTRACT).write_bytes(policy.contract)
                sync(staging / CONTRACT)
            sync(staging)
            staging.rename(folder)
            sync(folder.parent)
    return True


def _verify(policy: RemotePolicy, folder: Path) -> None:
    """Refuse a folder whose files are no longer what was fetched; nothing in it is touched."""
    expected = {file.name: file.sha256 for file in policy.files}
    if policy.contract:
        expected[CONTRACT] = hashlib.sha256(policy.contract).hexdigest()
    for name, sha256 in expected.items():
        path = folder / name
        found = sha256_of(path) if os.path.lexists(path) else None
        if found != sha256:
            raise IntegrityError(
                f"{path} is not what was fetched",
                found="nothing" if found is None else f"sha256 {found}",
                expected=f"sha256 {sha256}",
                hint=f"Delete {folder} and run it again; a contract of your own is named with --contract",
            )


@contextmanager
def _locked(path: Path, waiting: str, say: Callable[[str], None]) -> Iterator[None]:
    """A block that one process at a time is in. The lock's file goes with whoever is done."""
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with writing(path):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(waiting)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        # Those that wait for this file find the folder when they wake, and later ones before they lock.
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _entry(name: str, table: Table, contract: Path, parent: Table) -> RemotePolicy:
    """One policy of the catalogue, judged."""
    if not _NAME.fullmatch(name):
        parent.fail(name, found="such a name", expected="a small letter, then small letters, digits and _")
    entries = table.raw("files")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        table.fail("files", found=show(entries), expected="a list of tables")
    files = []
    for number, entry in enumerate(entries):
        one = Table(entry, table.where, f"{table.key('files')}[{number}]")
        files.append(_file(one))
        one.close()
    names = [file.name for file in files]
    if MODEL not in names or len(set(names)) < len(names) or CONTRACT in names:
        table.fail("files", found=", ".join(names), expected=f"{MODEL} and others beside it, each once, no {CONTRACT}")
    return RemotePolicy(
        name=name,
        files=tuple(files),
        **{key: table.text(key) for key in ("title", "robot", "licence", "source", "expect")},
        contract=read_regular(contract, "contract", MAX_FILE_BYTES) if os.path.lexists(contract) else b"",
    )


def _file(table: Table) -> RemoteFile:
    name, url, sha256 = (table.text(key) for key in ("name", "url", "sha256"))
    if not _FILE_NAME.fullmatch(name) or name.endswith(".part"):
        table.fail("name", found=show(name), expected="the name of a file in a folder, of letters, digits, _ . and -")
    if not is_sha256(sha256):
        table.fail("sha256", found=show(sha256), expected="64 lowercase hexadecimal digits")
    try:
        check_url(url)
    except UnsupportedError as error:
        table.fail("url", found=show(url), expected=error.expected)
    size = table.integer("size_bytes", lo=1, hi=MAX_BYTES) if table.has("size_bytes") else None
    return RemoteFile(name=name, url=url, sha256=sha256, size_bytes=size)
