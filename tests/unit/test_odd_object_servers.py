"""Object stores that answer otherwise than they were asked, by the protocol's real client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.errors import HeadraceError
from headrace.jobs import JobInput
from headrace.readers.uproot_reader import readable
from headrace.workloads.fio.streaming import Stream

OBJECT = bytes(range(256)) * 256
RECORD = 16 << 10


class Store(BaseHTTPRequestHandler):
    """A bucket whose objects are all alike."""

    protocol_version = "HTTP/1.1"
    heeds_ranges: ClassVar[bool] = True

    def do_GET(self) -> None:
        first, last = 0, len(OBJECT) - 1
        if self.heeds_ranges and (asked := self.headers.get("Range")):
            first, last = (int(each) for each in asked.removeprefix("bytes=").split("-"))
        body = OBJECT[first : last + 1]
        self.send_response(206 if len(body) < len(OBJECT) else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Store]]:
    class Own(Store):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    yield Own
    server.shutdown()
    thread.join()
    server.server_close()


def streamed(place: Path) -> int:
    job = JobInput((), None, place, slot=0, slots=1, seed=1)
    stream = Stream("read", len(OBJECT), RECORD)
    return stream.run(job, "s3://bucket/a b%20ü.data", "").result.read.bytes


def test_ranges_are_read_once_each(store: type[Store], tmp_path: Path) -> None:
    assert streamed(tmp_path) == len(OBJECT)


def test_a_server_that_ignores_ranges(store: type[Store], tmp_path: Path) -> None:
    """It sends whole objects, which counted as what was requested: a rate many times too high."""
    store.heeds_ranges = False
    with pytest.raises(HeadraceError, match=f"sent {len(OBJECT)} bytes for a request of {RECORD}"):
        streamed(tmp_path)


def test_an_error_of_the_server_is_no_damage() -> None:
    said = r"a\.root: cannot be read: Service Unavailable"
    with pytest.raises(HeadraceError, match=said), readable("a.root"):
        raise OSError(16, "Service Unavailable")
    with pytest.raises(HeadraceError, match=r"a\.root: damaged"), readable("a.root"):
        raise OSError("expected Chunk of length 5")
