"""A whole run on an object store that is busy: requests are repeated, and the record says so.

The store is a real gateway behind a proxy that refuses some requests.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from headrace.system.own_programs import own_program
from headrace.system.waiting import wait_until
from ports import free_port
from workspace import Workspace

KEYS = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "secret-of-someone"}
STUDY = """
headrace = 1
title = "a busy store"
[target.store]
kind = "s3"
endpoint = "http://127.0.0.1:{port}"
bucket = "bucket"
repeat = "20 s"
[workload.scan]
kind = "scan"
data = {{ events = 2000, files = 1 }}
[plan]
repeats = {{ min = 1 }}
[run]
slots = 1
cache = "as-is"
foreign_load = "warning"
shortest = 0
"""
REFUSED = 4


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on, and refuses the first ranges of files of events."""

    protocol_version = "HTTP/1.1"
    behind: ClassVar[int]
    left: ClassVar[int] = REFUSED

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "Range" in self.headers and ".root" in self.path and Proxy.left > 0:
            Proxy.left -= 1
            self._send(503, {"Retry-After": "0"}, b"<Error><Code>SlowDown</Code></Error>")
            return
        there = http.client.HTTPConnection("127.0.0.1", self.behind, timeout=60)
        there.request(self.command, self.path, body, dict(self.headers.items()))
        answer = there.getresponse()
        found = {k: v for k, v in answer.getheaders() if k.lower() != "transfer-encoding"}
        self._send(answer.status, found, answer.read())
        there.close()

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on  # noqa: N815 - names of http.server

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "date", "server", "connection"):
                self.send_header(name, value)
        size = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", size)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(workspace: Workspace) -> Iterator[int]:
    """The port of a proxy before a gateway with a bucket."""
    gateway_port = free_port()
    root = workspace.place / "root"
    (root / "bucket").mkdir(parents=True)
    environment = {
        **os.environ, "ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
        "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"],
    }  # fmt: skip
    words = [str(own_program("versitygw")), "--port", f"127.0.0.1:{gateway_port}", "posix"]
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server,
        subprocess.Popen(
            [*words, str(root)], env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as gateway,
    ):  # fmt: skip
        Proxy.behind, Proxy.left = gateway_port, REFUSED
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert wait_until(lambda: answers(gateway_port), 30, 0.1)
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
            gateway.terminate()


def answers(port: int) -> bool:
    there = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        there.request("GET", "/")
        there.getresponse()
    except OSError:
        return False
    finally:
        there.close()
    return True


def test_repeats_are_in_the_record_and_their_waits_are_the_storages(
    workspace: Workspace, proxy: int
) -> None:
    import pyarrow.parquet as pq

    workspace.environment |= KEYS
    ended = workspace.measure(workspace.study(STUDY.format(port=proxy)))
    (trial,) = workspace.trials()
    assert trial["status"] == "done", ended.stdout + ended.stderr
    assert trial["sums"]["request_repeats"] == REFUSED
    warnings = {each["code"]: each["text"] for each in trial["validity"]["warnings"]}
    assert warnings["requests-repeated"] == (
        f"requests were sent again {REFUSED} times: the server was busy, or did not answer"
    )
    (file,) = (workspace.place / "results" / "trials").glob("*/jobs.parquet")
    (job,) = pq.read_table(file).to_pylist()
    job: dict[str, Any]
    assert job["request_repeats"] == REFUSED
    paused_s = 0.5 * (0.1 + 0.2 + 0.4 + 0.8)
    assert job["wait_network_s"] > paused_s, "the pauses are waiting for the storage"
