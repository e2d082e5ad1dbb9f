"""Probes of monitoring services: which values count, and what a stop asks for."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.meters import MeterError
from headrace.meters.prometheus import Prometheus, PrometheusOptions
from headrace.probes import Watch
from headrace.probes.ganglia import GangliaOptions, GangliaProbe
from headrace.probes.prometheus import PrometheusProbe, PrometheusProbeOptions
from headrace.system.waiting import wait_until

NOTHING = Watch((), (), None, Path())


class Gmond:
    """Answers like gmond, on loopback, with one metric for each age of its last report."""

    def __init__(self, server: socket.socket, ages_s: tuple[int, ...]) -> None:
        self.address = f"127.0.0.1:{server.getsockname()[1]}"
        self.asked = 0
        self._server, self._ages_s = server, ages_s

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.asked += 1
            metrics = "".join(
                f"<METRIC NAME='m{age}' VAL='{age}' TN='{age}' TMAX='99' UNITS=''/>"
                for age in self._ages_s
            )
            text = f"<CLUSTER LOCALTIME='{int(time.time())}'><HOST NAME='a'>{metrics}</HOST>"
            with connection:
                connection.sendall(f"<GANGLIA_XML>{text}</CLUSTER></GANGLIA_XML>".encode())


@contextmanager
def gmond(*ages_s: int) -> Iterator[Gmond]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Gmond(server, ages_s)
        thread = threading.Thread(target=made.serve)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def probe_of(server: Gmond, names: tuple[str, ...]) -> GangliaProbe:
    # The interval is longer than any test: only the first and the last question are asked.
    return GangliaProbe(GangliaOptions(address=server.address, metrics=names, interval=3600.0))


def test_values_from_before_the_trial_are_no_part_of_its_totals() -> None:
    with gmond(0, 30) as server:
        probe = probe_of(server, ("m0", "m30"))
        probe.start(NOTHING)
        assert wait_until(lambda: server.asked == 1 and probe.samples, 30, 0.01)
        begun_s = probe.samples[0].time_s
        # gmond states whole seconds, so its newest value may seem older than the start.
        assert wait_until(lambda: time.monotonic() > begun_s + 3, 30, 0.05)
        totals = probe.finish().values["hosts"]["a"]
    assert totals["m30"] == {"unit": "", "samples": 0, "mean": None, "min": None, "max": None}
    assert totals["m0"]["samples"] >= 1 and totals["m0"]["mean"] == 0.0
    assert {row["metric"] for row in probe.sample()} == {"m0", "m30"}, "the series has both"


def test_a_stop_asks_nothing_more() -> None:
    with gmond(0) as server:
        for ask, asked in ((True, 2), (False, 1)):
            server.asked = 0
            probe = probe_of(server, ("m0",))
            probe.start(NOTHING)
            assert wait_until(lambda: server.asked == 1, 30, 0.01)
            probe.stop(ask=ask)
            probe.stop(ask=True)
            assert server.asked == asked


def test_a_stop_asks_no_prometheus_server() -> None:
    with gmond() as server:
        options = PrometheusProbeOptions(address=f"http://{server.address}", metrics={"x": "up"})
        probe = PrometheusProbe(options)
        probe.start(NOTHING)
        probe.stop(ask=False)
        assert server.asked == 0
        probe.stop()
        assert server.asked == 1 and probe.lost == 1, "it is not Prometheus"


@contextmanager
def prometheus() -> Generator[tuple[str, list[float]]]:
    """Yield the address of a server with the right time, and the starts that it is asked for."""
    wall_less_monotonic_s = time.time() - time.monotonic()
    starts_s: list[float] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            starts_s.extend(map(float, query.get("start", ())))
            now_s = wall_less_monotonic_s + time.monotonic()
            result = [] if "start" in query else [now_s, str(now_s)]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"status": "success", "data": {"result": result}}).encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", starts_s
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("step_s", [-60.0, 60.0])
def test_a_clock_that_is_set_during_a_trial_moves_no_values(
    step_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back by a minute, the first minute of a trial was missing from the means."""
    with prometheus() as (address, starts_s):
        options = PrometheusProbeOptions(address=address, metrics={"x": "up"})
        probe = PrometheusProbe(options)
        begun_s = time.time()
        probe.start(NOTHING)
        wall_s = time.time
        monkeypatch.setattr(time, "time", lambda: wall_s() + step_s)
        probe.stop()
        monkeypatch.undo()
    assert probe.lost == 0 and starts_s == [pytest.approx(begun_s, abs=5)]
    assert probe.clock() == (pytest.approx(0, abs=5), pytest.approx(0, abs=5))


def test_a_service_that_fails_during_a_trial_keeps_what_it_said() -> None:
    with gmond(0) as server:
        probe = GangliaProbe(
            GangliaOptions(address=server.address, metrics=("m0",), interval=0.5, timeout=1.0)
        )
        probe.start(NOTHING)
        assert wait_until(lambda: probe.samples, 30, 0.01)
    assert wait_until(lambda: probe.lost >= 2, 30, 0.05), "it goes on to ask"
    totals = probe.finish().values
    assert totals["lost"] >= 3 and "m0" in totals["hosts"]["a"]


class Guarded(BaseHTTPRequestHandler):
    """An exporter behind a proxy that wants a login, redirects, or refuses."""

    def do_GET(self) -> None:
        status, headers = 200, {"Content-Type": "text/plain"}
        if self.path.startswith("/moved"):
            status, headers = 301, {"Location": "http://elsewhere/metrics"}
        elif self.path.startswith("/busy"):
            status, headers = 429, {"Retry-After": "7"}
        elif self.path.startswith("/guarded") and "Authorization" not in self.headers:
            status = 401
        elif self.path.startswith("/plain"):
            status = 400
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"load 0.5\n" if status == 200 else b"<html>no</html>")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def guarded(secure: ssl.SSLContext | None = None) -> Generator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        if secure is not None:
            server.socket = secure.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def exporter(address: str) -> PrometheusProbe:
    options = {"address": address, "metrics": {"load": "load"}}
    return PrometheusProbe(PrometheusProbeOptions.model_validate(options))


@pytest.mark.parametrize(
    ("path", "said", "remedy"),
    [
        ("moved", r"answers 301 .*it leads to http://elsewhere/metrics", "name that address"),
        ("busy", r"answers 429 .*left alone for: 7", "a longer interval"),
        ("guarded", "answers 401", "USER:PASSWORD"),
        ("plain", "answers 400", "start the service"),
    ],
)
def test_a_proxy_that_answers_for_an_exporter(path: str, said: str, remedy: str) -> None:
    """The message was the number of the status, or that HTML is no metric."""
    with guarded() as port:
        (problem,) = exporter(f"http://127.0.0.1:{port}/{path}/metrics").check()
    assert re.search(said, problem.what) and remedy in problem.remedy


def test_a_password_in_the_address_is_in_no_record_and_no_message() -> None:
    """The record had it in the name of the host."""
    with guarded() as port:
        probe = exporter(f"http://me:hush@127.0.0.1:{port}/guarded/metrics")
        assert probe.check() == []
        (sample,) = probe.ask()
        assert sample.host == f"127.0.0.1:{port}"
        (problem,) = exporter(f"http://me:hush@127.0.0.1:{port}/moved/metrics").check()
    assert f"http://me@127.0.0.1:{port}" in problem.what and "hush" not in problem.what


def test_authorities_of_the_environment_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither SSL_CERT_FILE nor the machine's authorities were: a site's own could not be used."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made_by = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made_by, *names, *files], check=True, capture_output=True)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate, key)
    options = PrometheusOptions.model_validate(
        {"address": "https://localhost", "query": "up", "unit": "W"}
    )
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with guarded(secure) as port:
        address = f"https://localhost:{port}"
        meter = Prometheus("meter", options.model_copy(update={"address": address}))
        (problem,) = exporter(f"{address}/metrics").check()
        assert "is not trusted: self-signed certificate" in problem.what
        assert "SSL_CERT_FILE" in problem.remedy
        with pytest.raises(MeterError, match="not trusted") as caught:
            meter.read()
        assert "SSL_CERT_FILE" in (caught.value.hint or "")
        meter.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert exporter(f"{address}/metrics").check() == []
        with pytest.raises(MeterError, match="does not answer in JSON"):
            meter.read()
        meter.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing"))
    (problem,) = exporter("https://localhost:1/metrics").check()
    assert f"SSL_CERT_FILE names no certificates: {tmp_path / 'nothing'}" in problem.what
