"""Object stores that answer otherwise than they were asked, by the protocol's real client."""

from __future__ import annotations

import datetime
import queue
import re
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.errors import HeadraceError
from headrace.jobs import JobInput
from headrace.protocols import PATIENCE
from headrace.protocols.repeats import REPEAT, REPEATED, Pauses
from headrace.readers.counted_source import counted_source
from headrace.readers.counts import ReadCounts
from headrace.readers.uproot_reader import readable
from headrace.targets.upload import try_writing
from headrace.workloads.fio.streaming import Stream

OBJECT = bytes(range(256)) * 256
RECORD = 16 << 10
BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
DELETED = b"<DeleteResult></DeleteResult>"
PAGE = b"<html>Forbidden by a proxy</html>"


class Store(BaseHTTPRequestHandler):
    """A bucket whose objects are all alike."""

    protocol_version = "HTTP/1.1"
    heeds_ranges: ClassVar[bool] = True
    answers: ClassVar[str] = "whole"
    refusals: ClassVar[list[tuple[int, str]]] = []
    """Status and Retry-After of the first answers."""
    ended: ClassVar[threading.Event]
    requests: ClassVar[list[str]]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.answers == "nothing":
            self.ended.wait()
        elif self.answers.startswith("http"):
            self._send_head(307, 0, Location=f"{self.answers}{self.path}")
        elif self.refusals:
            status, after = self.refusals.pop(0)
            self._send_head(status, len(BUSY), **({"Retry-After": after} if after else {}))
            self.wfile.write(BUSY)
        elif self.answers == "denied":
            self._send_head(403, len(PAGE))
            self.wfile.write(PAGE)
        else:
            self._send_object()

    def _send_head(self, status: int, size: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _send_object(self) -> None:
        whole = self._object()
        first, last = 0, len(whole) - 1
        if self.heeds_ranges and (asked := self.headers.get("Range")):
            first, last = (int(each) for each in asked.removeprefix("bytes=").split("-"))
        body = whole[first : last + 1]
        if self.answers == "less":
            body = body[: len(body) // 2]
        ranged = {"Content-Range": f"bytes {first}-{last}/{len(whole)}"}
        partial = len(body) < len(whole)
        self._send_head(206 if partial else 200, len(body), **(ranged if partial else {}))
        if self.answers == "half":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.ended.wait()
        else:
            self.wfile.write(body)

    def _object(self) -> bytes:
        return OBJECT

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Kept(Store):
    """A bucket with one object, the last that was written; it knows no "100 Continue"."""

    content: ClassVar[list[bytes]] = []

    def handle_expect_100(self) -> bool:
        return True

    def do_PUT(self) -> None:
        self.content[:] = [self.rfile.read(int(self.headers["Content-Length"]))]
        self._send_head(200, 0)

    def do_HEAD(self) -> None:
        self._send_head(200, len(self.content[0]))

    def do_POST(self) -> None:
        """Answer a DeleteObjects."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._send_head(200, len(DELETED))
        self.wfile.write(DELETED)

    def _object(self) -> bytes:
        return self.content[0]


@contextmanager
def serving(kind: type[Store] = Store) -> Generator[tuple[type[Store], str]]:
    """Yield a store and its URL."""

    class Own(kind):
        ended = threading.Event()
        requests: ClassVar[list[str]] = []
        refusals: ClassVar[list[tuple[int, str]]] = []

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Own, f"http://127.0.0.1:{server.server_port}"
    finally:
        Own.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def used(monkeypatch: pytest.MonkeyPatch, kind: type[Store]) -> Generator[type[Store]]:
    """Yield a store to which URLs lead."""
    with serving(kind) as (own, url):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield own


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Store]]:
    with used(monkeypatch, Store) as own:
        yield own


@pytest.fixture
def writable(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Store]]:
    monkeypatch.setenv(PATIENCE, "2")
    with used(monkeypatch, Kept) as own:
        yield own


def test_a_server_that_knows_no_expect(writable: type[Store]) -> None:
    """The client waited for its "100 Continue" without end."""
    try_writing("s3://bucket/a")


def test_the_trial_write_finds_a_server_that_ignores_ranges(writable: type[Store]) -> None:
    writable.heeds_ranges = False
    with pytest.raises(OSError, match="sent 8 bytes for a request of 2 bytes: it ignores ranges"):
        try_writing("s3://bucket/a")


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


def test_a_server_that_sends_less_than_the_range(store: type[Store], tmp_path: Path) -> None:
    """Readers called the file damaged."""
    store.answers = "less"
    with pytest.raises(HeadraceError, match=r"sent 8192 bytes .* request of 16384 bytes"):
        streamed(tmp_path)
    with pytest.raises(HeadraceError, match=r"sent 200 bytes \(0-399/65536\) for a request of 400"):
        fetched((0, 100))


def fetched(*ranges: tuple[int, int], counts: ReadCounts | None = None) -> None:
    """Fetch ranges of an object as a reader of events does."""
    url = "s3://bucket/events.root"
    source = counted_source(url, "pread", counts or ReadCounts())(url)
    source.chunk(0, 400)
    source.chunks(list(ranges), queue.Queue())


def test_neighbouring_ranges_of_a_server_that_ignores_them(store: type[Store]) -> None:
    """They are fetched by one request, and were cut out of the beginning of the object."""
    fetched((1000, 1100), (1100, 1200))
    store.heeds_ranges = False
    with pytest.raises(HeadraceError, match=r"s3://bucket/events\.root.*it ignores ranges"):
        fetched((1000, 1100), (1100, 1200))


def test_a_silent_server_is_given_up_after_five_attempts(
    store: type[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read made 50: with the patience of 60 s it took 50 minutes."""
    monkeypatch.setenv(PATIENCE, "0.2")
    store.answers = "nothing"
    said = r"cannot be read: no answer from http://\S+ in 5 attempts of 0\.2"
    with pytest.raises(HeadraceError, match=said):
        fetched((0, 100))
    assert len(store.requests) == 5


def test_an_answer_that_stops_half_way(
    store: type[Store], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PATIENCE, "0.2")
    store.answers = "half"
    with pytest.raises(HeadraceError, match=r"cannot be read: no answer in time"):
        fetched((0, 100))
    with pytest.raises(HeadraceError, match=r"data: no answer in time: Read timeout"):
        streamed(tmp_path)


def test_a_redirect_to_a_server_that_denies_access(store: type[Store]) -> None:
    """It was shown as wrong credentials: a signature is not sent to another server."""
    with serving() as (other, url):
        other.answers, store.answers = "denied", url
        said = rf"redirects to {url}, which answers with HTTP status 403: name that server"
        with pytest.raises(HeadraceError, match=said):
            fetched((0, 100))


def test_a_refusal_without_an_error_of_s3(store: type[Store]) -> None:
    store.answers = "denied"
    with pytest.raises(HeadraceError, match=r"HTTP status 403 Forbidden"):
        fetched((0, 100))


def test_a_busy_server_is_asked_again_after_growing_pauses(store: type[Store]) -> None:
    """The request failed after two quick attempts of each of which s3fs made five."""
    store.refusals[:] = [(503, "")] * 3 + [(429, ""), (500, "")]
    before, begun_s = REPEATED.requests, time.monotonic()
    counts = ReadCounts()
    fetched((0, 100), counts=counts)
    took_s = time.monotonic() - begun_s
    assert REPEATED.requests - before == 5
    assert took_s > 0.5 * (0.1 + 0.2 + 0.4 + 0.8 + 1.6)
    waited_s = counts.open_s + counts.read_wait_s
    assert waited_s > 0.5 * (0.1 + 0.2 + 0.4 + 0.8 + 1.6), "waiting for storage"


def test_the_time_that_a_busy_server_asks_for_is_heeded(store: type[Store]) -> None:
    store.refusals[:] = [(503, "1")]
    begun_s = time.monotonic()
    fetched((0, 100))
    assert time.monotonic() - begun_s >= 1 and store.refusals == []


@pytest.mark.parametrize(("bound", "after"), [("0", ""), ("0.3", ""), ("30", "31")])
def test_a_server_that_stays_busy_is_given_up(
    store: type[Store], monkeypatch: pytest.MonkeyPatch, bound: str, after: str
) -> None:
    monkeypatch.setenv(REPEAT, bound)
    store.refusals[:] = [(503, after)] * 100
    begun_s = time.monotonic()
    said = r"cannot be read: http://\S+ is busy: HTTP status 503 \(SlowDown\) after [0-9]+ repeats"
    with pytest.raises(HeadraceError, match=said) as error:
        fetched((0, 100))
    assert time.monotonic() - begun_s < 10
    assert 100 - len(store.refusals) == 1 + int(
        re.findall(r"([0-9]+) repeats", str(error.value))[0]
    )
    assert ("Retry-After" in str(error.value)) == bool(after)


def test_pauses_grow_are_bounded_and_never_beyond_what_is_left() -> None:
    pauses = Pauses(100)
    made = [each for each in (pauses.next("") for _ in range(30)) if each is not None]
    assert len(made) == pauses.made < 30 and abs(sum(made) - 100) < 1e-9
    for number, each in enumerate(made[:-1]):
        longest_s = min(20, 0.1 * 2**number)
        assert longest_s / 2 <= each <= longest_s
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=30)
    asked_s = Pauses(60).next(format_datetime(soon, usegmt=True))
    assert asked_s is not None and 28 < asked_s <= 30
    assert Pauses(60).next("61") is None and Pauses(0).next("") is None
    assert (Pauses(60).next("nonsense") or 1) <= 0.1


def test_an_error_of_the_server_is_no_damage() -> None:
    said = r"a\.root: cannot be read: Service Unavailable"
    with pytest.raises(HeadraceError, match=said), readable("a.root"):
        raise OSError(16, "Service Unavailable")
    with pytest.raises(HeadraceError, match=r"a\.root: damaged"), readable("a.root"):
        raise OSError("expected Chunk of length 5")
