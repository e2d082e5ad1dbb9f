"""Probes of monitoring services: which values count, and what a stop asks for."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

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
