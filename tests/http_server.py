"""A local HTTP server that serves files well, or in whatever bad way a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Server(ThreadingHTTPServer):
    """Serves `files` by path, with ranges; `odd` answers a path in its place. `asked` has each path and its Range."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.odd: dict[str, Callable[[Handler], None]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are no error here."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        self.close_connection = True
        with suppress(ConnectionError):
            if self.path in self.server.odd:
                self.server.odd[self.path](self)
            elif self.path not in self.server.files:
                self.answer(404)
            else:
                self.serve(self.server.files[self.path], wanted)

    def serve(self, data: bytes, wanted: str | None) -> None:
        if wanted is None:
            self.answer(200, data)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(data):
            self.answer(416, **{"Content-Range": f"bytes */{len(data)}"})
        else:
            self.answer(206, data[start:], **{"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"})

    def answer(self, status: int, body: bytes = b"", *, length: int | str | None = -1, **headers: str) -> None:
        """`length` is what is claimed: by default the truth, None for nothing."""
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(len(body) if length == -1 else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Not on stderr."""


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
