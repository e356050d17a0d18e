"""Fetching one file from servers that are good, broken and hostile."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_server import Handler, Server, serving

from edgert import download
from edgert.download import DownloadError, check_url, fetch
from edgert.errors import EdgertError, IntegrityError, UnsupportedError

DATA = bytes(range(256)) * 4096  # 1 MiB, more than one piece
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        running.files["/walk.onnx"] = DATA
        yield running


def part_of(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def refused(error: type[EdgertError], url: str, target: Path, *, sha256: str = DIGEST, size: int | None = None) -> str:
    with pytest.raises(error) as caught:
        fetch(url, target, sha256=sha256, size_bytes=size)
    assert not target.exists()
    return str(caught.value).replace(url, "URL")


@pytest.mark.parametrize("size", [None, len(DATA)])
def test_a_file_arrives_whole(server, tmp_path, size):
    seen = []
    target = tmp_path / "walk.onnx"
    fetch(
        f"{server.url}/walk.onnx",
        target,
        sha256=DIGEST,
        size_bytes=size,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert target.read_bytes() == DATA
    assert os.listdir(tmp_path) == ["walk.onnx"]
    assert seen[0] == (0, len(DATA))
    assert seen[-1] == (len(DATA), len(DATA))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_an_empty_file_is_a_file(server, tmp_path):
    server.files["/empty"] = b""
    fetch(f"{server.url}/empty", tmp_path / "empty", sha256=hashlib.sha256(b"").hexdigest())
    assert (tmp_path / "empty").read_bytes() == b""


def test_it_goes_on_where_the_connection_was_cut(server, tmp_path):
    target = tmp_path / "walk.onnx"
    server.odd["/walk.onnx"] = lambda to: to.answer(200, DATA[:300_000], length=len(DATA))
    text = refused(DownloadError, f"{server.url}/walk.onnx", target)
    assert text == "URL broke off: found 300000 of 1048576 bytes. Run it again: it goes on from there"
    assert part_of(target).read_bytes() == DATA[:300_000]
    del server.odd["/walk.onnx"]
    fetch(f"{server.url}/walk.onnx", target, sha256=DIGEST)
    assert target.read_bytes() == DATA
    assert [wanted for _, wanted in server.asked] == [None, "bytes=300000-"]


def test_a_reset_connection_keeps_what_came(server, tmp_path):
    target = tmp_path / "walk.onnx"

    def reset(to: Handler) -> None:
        to.answer(200, DATA[:5000], length=len(DATA))
        to.wfile.flush()
        to.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        to.connection.shutdown(socket.SHUT_WR)

    server.odd["/walk.onnx"] = reset
    assert "broke off" in refused(DownloadError, f"{server.url}/walk.onnx", target)
    assert DATA.startswith(part_of(target).read_bytes())


def test_chunks_that_stop_are_no_end(server, tmp_path):
    def chunks(to: Handler) -> None:
        to.answer(200, b"5\r\n" + DATA[:5] + b"\r\n", length=None, **{"Transfer-Encoding": "chunked"})

    server.odd["/walk.onnx"] = chunks
    target = tmp_path / "walk.onnx"
    assert "URL cannot be reached, or broke off: found " in refused(DownloadError, f"{server.url}/walk.onnx", target)
    assert part_of(target).read_bytes() == DATA[:5]


def test_without_a_length_a_known_size_tells_that_it_broke_off(server, tmp_path):
    server.odd["/walk.onnx"] = lambda to: to.answer(200, DATA[:9], length=None)
    text = refused(DownloadError, f"{server.url}/walk.onnx", tmp_path / "w", size=len(DATA))
    assert text == "URL broke off: found 9 of 1048576 bytes. Run it again: it goes on from there"


@pytest.mark.parametrize(
    "answer",
    [
        lambda to: to.answer(200, DATA),
        lambda to: to.answer(206, DATA, **{"Content-Range": f"bytes 0-{len(DATA) - 1}/{len(DATA)}"}),
        lambda to: to.answer(416),
        lambda to: to.answer(206, DATA[1:]),
    ],
    ids=["ignores ranges", "another range", "no such range", "no range said"],
)
def test_a_server_that_does_not_go_on_begins_again(server, tmp_path, answer):
    target = tmp_path / "walk.onnx"
    part_of(target).write_bytes(DATA[:1000])
    server.odd["/walk.onnx"] = lambda to: answer(to) if to.headers.get("Range") else to.serve(DATA, None)
    fetch(f"{server.url}/walk.onnx", target, sha256=DIGEST)
    assert target.read_bytes() == DATA
    assert server.asked[0] == ("/walk.onnx", "bytes=1000-")


def test_a_beginning_of_another_file_is_fetched_again(server, tmp_path):
    """As where the file at the address was replaced between two calls."""
    target = tmp_path / "walk.onnx"
    part_of(target).write_bytes(b"old" * 1000)
    fetch(f"{server.url}/walk.onnx", target, sha256=DIGEST)
    assert target.read_bytes() == DATA
    assert [wanted for _, wanted in server.asked] == ["bytes=3000-", None]


def test_a_whole_part_needs_no_network(tmp_path):
    target = tmp_path / "walk.onnx"
    part_of(target).write_bytes(DATA)
    fetch("http://127.0.0.1:1/walk.onnx", target, sha256=DIGEST)
    assert target.read_bytes() == DATA


@pytest.mark.parametrize("size", [None, 5])
def test_a_part_that_is_too_large_is_thrown_away(server, tmp_path, monkeypatch, size):
    monkeypatch.setattr(download, "MAX_BYTES", 5)
    server.files["/small"] = b"12345"
    part_of(tmp_path / "small").write_bytes(DATA)
    fetch(f"{server.url}/small", tmp_path / "small", sha256=hashlib.sha256(b"12345").hexdigest(), size_bytes=size)
    assert server.asked == [("/small", None)]


def test_a_wrong_digest_names_both_and_touches_nothing_else(server, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    text = refused(IntegrityError, f"{server.url}/walk.onnx", tmp_path / "walk.onnx", sha256="0" * 64)
    assert text == (
        f"URL is not the file that it should be: found sha256 {DIGEST}, expected sha256 {'0' * 64}. "
        "Nothing of it was kept; ask its publisher which of the two is right"
    )
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_a_wrong_digest_keeps_an_older_file_of_the_name(server, tmp_path):
    target = tmp_path / "walk.onnx"
    target.write_bytes(b"older")
    with pytest.raises(IntegrityError):
        fetch(f"{server.url}/walk.onnx", target, sha256="0" * 64)
    assert target.read_bytes() == b"older"


@pytest.mark.parametrize(
    ("status", "reason", "step"),
    [
        (404, "Not Found", "Check the address"),
        (403, "Forbidden", "Check the address"),
        (503, "Service Unavailable", "Try again later"),
        (429, "Too Many Requests", "Try again later"),
        (304, "Not Modified", "Check the address"),
        (206, "Partial Content", "Check the address"),
    ],
)
def test_other_answers_are_refused(server, tmp_path, status, reason, step):
    server.odd["/walk.onnx"] = lambda to: to.answer(status)
    text = refused(DownloadError, f"{server.url}/walk.onnx", tmp_path / "w")
    assert text == f"URL is not to be had: found HTTP {status} {reason}. {step}"


def test_a_redirection_is_followed_with_its_range(server, tmp_path):
    part_of(tmp_path / "w").write_bytes(DATA[:10])
    server.odd["/from"] = lambda to: to.answer(302, Location="/via")
    server.odd["/via"] = lambda to: to.answer(307, Location=f"{server.url}/walk.onnx")
    fetch(f"{server.url}/from", tmp_path / "w", sha256=DIGEST)
    assert (tmp_path / "w").read_bytes() == DATA
    assert server.asked == [(path, "bytes=10-") for path in ("/from", "/via", "/walk.onnx")]


def test_a_loop_of_redirections_ends(server, tmp_path):
    server.odd["/walk.onnx"] = lambda to: to.answer(302, Location="/walk.onnx")
    text = refused(DownloadError, f"{server.url}/walk.onnx", tmp_path / "w")
    assert text == "URL redirects for ever: found over 5 redirections. Check the address"
    assert len(server.asked) == 6


@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://h/x", "data:,x", "//[", "http://u:p@h/"])
def test_a_redirection_leads_to_http_only(server, tmp_path, where):
    server.odd["/walk.onnx"] = lambda to: to.answer(301, Location=where)
    text = refused(UnsupportedError, f"{server.url}/walk.onnx", tmp_path / "w")
    assert text == f"URL redirects to what cannot be fetched: found {where}, expected an http or https address"


def test_a_redirection_to_nowhere_is_a_loop(server, tmp_path):
    server.odd["/walk.onnx"] = lambda to: to.answer(301)
    assert "redirects for ever" in refused(DownloadError, f"{server.url}/walk.onnx", tmp_path / "w")


def test_no_redirection_leaves_https():
    with pytest.raises(UnsupportedError) as caught:
        download._next("https://h/a", "https://h/a", "http://h/b")
    assert str(caught.value) == "https://h/a redirects from https to http: found http://h/b, expected an https address"
    assert download._next("http://h/a", "http://h/a", "https://h/b") == "https://h/b"


@pytest.mark.parametrize("length", ["99999999999999", str(download.MAX_BYTES + 1)])
def test_a_huge_length_is_refused_before_anything_is_read(server, tmp_path, length):
    server.odd["/walk.onnx"] = lambda to: to.answer(200, b"x", length=length)
    text = refused(IntegrityError, f"{server.url}/walk.onnx", tmp_path / "w")
    assert text == f"URL is too large: found {length} bytes, expected at most 2147483647 bytes"


def test_another_size_than_the_known_one_is_refused_before_anything_is_read(server, tmp_path):
    text = refused(IntegrityError, f"{server.url}/walk.onnx", tmp_path / "w", size=7)
    assert text == "URL is not the file that it should be: found 1048576 bytes, expected 7 bytes"
    assert part_of(tmp_path / "w").stat().st_size == 0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "URL is too large: found over 1000000 bytes, expected at most 1000000 bytes"),
        (70, "URL is not the file that it should be: found over 70 bytes, expected 70 bytes"),
    ],
)
def test_a_body_without_end_is_cut(server, tmp_path, monkeypatch, size, text):
    monkeypatch.setattr(download, "MAX_BYTES", 1_000_000)
    ended = threading.Event()

    def endless(to: Handler) -> None:
        to.answer(200, length=None)
        try:
            while True:
                to.wfile.write(bytes(10_000))
        except ConnectionError:
            ended.set()

    server.odd["/walk.onnx"] = endless
    assert refused(IntegrityError, f"{server.url}/walk.onnx", tmp_path / "w", size=size) == text
    assert ended.wait(30)


def test_a_server_that_says_nothing_is_left(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_S", 0.05)
    go_on = threading.Event()
    server.odd["/walk.onnx"] = lambda to: go_on.wait(30)
    text = refused(DownloadError, f"{server.url}/walk.onnx", tmp_path / "w")
    go_on.set()
    assert text == (
        "URL cannot be reached, or broke off: found timed out. "
        "Check the network and run it again: it goes on where it stopped"
    )


@pytest.mark.parametrize(
    "noise", [b"no http at all\r\n\r\n", b"HTTP/1.1 2\0 OK\r\n\r\n", b"", b"HTTP/1.1 200 " + b"x" * 99_999]
)
def test_what_is_no_http_is_said(server, tmp_path, noise):
    server.odd["/walk.onnx"] = lambda to: to.wfile.write(noise)
    text = refused(DownloadError, f"{server.url}/walk.onnx", tmp_path / "w")
    assert text.startswith("URL cannot be reached, or broke off: found ")


def test_nobody_there(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        text = refused(DownloadError, f"http://127.0.0.1:{taken.getsockname()[1]}/w", tmp_path / "w")
    assert text == (
        "URL cannot be reached, or broke off: found Connection refused. "
        "Check the network and run it again: it goes on where it stopped"
    )


def test_a_proxy_that_cannot_be_used_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    text = refused(DownloadError, "http://policies.example/w", tmp_path / "w")
    assert text.startswith("URL cannot be reached, or broke off: found unknown url type: socks5.")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/x",
        "data:,x",
        "walk.onnx",
        "http:///x",
        "https://user:secret@host/x",
        "http://host:port/x",
        "http://host:99999/x",
        "http://host:0/x",
        "http://[::1/x",
        "http://host/a b",
        "http://host/\r\nHost: other",
        "http://höst/x",
        "",
    ],
)
def test_only_plain_http_addresses_are_fetched(url, tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        fetch(url, tmp_path / "w", sha256=DIGEST)
    assert str(caught.value).startswith("this address cannot be fetched: ")
    assert str(caught.value).endswith(
        "expected http://HOST/PATH or https://HOST/PATH, in ASCII, without user name, password or blanks"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["http://h/x", "https://h:8443/a/b.onnx?x=1", "http://[::1]:80/x", "HTTPS://H/x"])
def test_plain_http_addresses_are_taken(url):
    check_url(url)


def test_a_folder_that_is_not_there_is_said(server, tmp_path):
    text = refused(EdgertError, f"{server.url}/walk.onnx", tmp_path / "no" / "w")
    assert text == (
        f"cannot write {tmp_path}/no/w.part: found No such file or directory. "
        "Make room and check its permissions, or set EDGERT_HOME to another folder"
    )


def test_a_full_disk_is_no_broken_network(server, tmp_path, monkeypatch):
    written: list[int] = []

    class Full:
        def __init__(self, file: object) -> None:
            self.file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

        def write(self, chunk: bytes) -> int:
            if written:
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(len(chunk))
            return self.file.write(chunk)  # type: ignore[attr-defined,no-any-return]

    make = download._Part.__init__
    monkeypatch.setattr(download._Part, "__init__", lambda self, file, *rest: make(self, Full(file), *rest))
    target = tmp_path / "walk.onnx"
    text = refused(EdgertError, f"{server.url}/walk.onnx", target)
    assert text == (
        f"cannot write {target}.part: found No space left on device. "
        "Make room and check its permissions, or set EDGERT_HOME to another folder"
    )
    assert part_of(target).read_bytes() == DATA[: written[0]]


def test_ctrl_c_keeps_what_came(server, tmp_path):
    target = tmp_path / "walk.onnx"

    def interrupt(done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(f"{server.url}/walk.onnx", target, sha256=DIGEST, progress=interrupt)
    kept = part_of(target).read_bytes()
    assert 0 < len(kept) <= len(DATA)
    assert DATA.startswith(kept)
    fetch(f"{server.url}/walk.onnx", target, sha256=DIGEST)
    assert target.read_bytes() == DATA
