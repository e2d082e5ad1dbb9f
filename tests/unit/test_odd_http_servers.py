"""HTTP servers that answer otherwise than they were asked, read by fsspec's client."""

from __future__ import annotations

import gzip
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from headrace.errors import HeadraceError
from headrace.readers.counted_source import counted_source
from headrace.readers.counts import ReadCounts

FILE = bytes(range(256)) * 64


class Files(BaseHTTPRequestHandler):
    """A server with one file."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[str] = "ranges"

    def do_HEAD(self) -> None:
        self._answer(FILE, {"Content-Length": str(len(FILE))})

    def do_GET(self) -> None:
        body, headers, status = FILE, dict[str, str](), 200
        wanted = self.headers.get("Range", "")
        if self.path.startswith("/moved"):
            there = f"http://localhost:{self.server.server_address[1]}/there"
            self._answer(b"", {"Location": there, "Content-Length": "0"}, 307)
            return
        if wanted and self.answers in ("ranges", "no size"):
            first, last = (int(each) for each in wanted.removeprefix("bytes=").split("-"))
            body, status = FILE[first : last + 1], 206
            headers["Content-Range"] = f"bytes {first}-{last}/{len(FILE)}"
        if self.answers == "gzip":
            body = gzip.compress(body)
            headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(body))
        self._answer(body, headers, status)

    def _answer(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        if self.answers == "no size" and status == 200:
            del headers["Content-Length"]
            headers["Connection"] = "close"
            self.close_connection = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Files, "answers", "ranges")
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as made:
        threading.Thread(target=made.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()


def test_ranges_and_redirects_to_another_host(server: str) -> None:
    counts = ReadCounts()
    source = counted_source(f"{server}/moved", "pread", counts)(f"{server}/moved")
    source.chunk(0, 400)
    chunks = source.chunks([(1000, 1100), (1100, 1300), (9000, 9001)], queue.Queue())
    assert [bytes(chunk.raw_data) for chunk in chunks] == [
        FILE[1000:1100],
        FILE[1100:1300],
        FILE[9000:9001],
    ]
    assert source.num_bytes == len(FILE)


@pytest.mark.parametrize("answers", ["whole", "gzip"])
def test_a_server_that_ignores_ranges(
    server: str, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    """The file was said to be damaged."""
    monkeypatch.setattr(Files, "answers", answers)
    source = counted_source(f"{server}/a", "pread", ReadCounts())(f"{server}/a")
    said = rf"{server}/a: cannot be read: the server sent {len(FILE)} bytes for a request of 400"
    with pytest.raises(HeadraceError, match=said):
        source.chunk(0, 400)


def test_a_server_that_does_not_state_the_size(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Files, "answers", "no size")
    source = counted_source(f"{server}/a", "pread", ReadCounts())(f"{server}/a")
    source.chunk(0, 400)
    with pytest.raises(HeadraceError, match="does not state the size of the file"):
        _ = source.num_bytes
