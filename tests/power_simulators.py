"""Power meters that tests read: they speak the real protocols, and follow a known load profile."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import select
import threading
import time
import tty
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Profile = Callable[[float], float]
"""Seconds since the start -> watts."""


def steady(watts: float) -> Profile:
    """Noise makes no reading equal to the one before, as on real meters."""
    return lambda time_s: watts * (1 + 0.01 * ((time_s * 7919) % 1 - 0.5))


class Advanced:
    """Something that a thread advances while the block lasts."""

    _thread: threading.Thread
    _stop: threading.Event

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class PowercapTree(Advanced):
    """A folder like /sys/class/powercap, whose counters a thread advances."""

    def __init__(self, folder: Path, zones: dict[str, tuple[str, Profile]], range_uj: int) -> None:
        self.folder = folder
        self._zones = zones
        self._range_uj = range_uj
        self._stop = threading.Event()
        self._begin_s = time.monotonic()
        self._energy_j = dict.fromkeys(zones, 0.0)
        folder.mkdir(parents=True)
        for zone, (name, _) in zones.items():
            (folder / zone).mkdir()
            (folder / zone / "name").write_text(f"{name}\n")
            (folder / zone / "max_energy_range_uj").write_text(f"{range_uj}\n")
        # A package that has counted up to shortly before its end wraps while jobs run.
        self._start_uj = range_uj - 1_000_000
        self._write()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _write(self) -> None:
        for zone in self._zones:
            counted = self._start_uj + int(1e6 * self._energy_j[zone])
            # In place: a meter keeps the file open, as that of sysfs. Of one width: a reader
            # never sees half a number.
            path = self.folder / zone / "energy_uj"
            with path.open("r+b" if path.exists() else "wb", buffering=0) as file:
                file.write(b"%015d\n" % (counted % self._range_uj))

    def _run(self) -> None:
        last_s = time.monotonic()
        while not self._stop.wait(0.005):
            now_s = time.monotonic()
            for zone, (_, profile) in self._zones.items():
                self._energy_j[zone] += profile(now_s - self._begin_s) * (now_s - last_s)
            last_s = now_s
            self._write()


# -- meters over HTTP --

Answer = Callable[[str, dict[str, str], str], tuple[int, Any, dict[str, str]]]
"""Path, parameters and Authorization of a request -> status, JSON value, further headers."""


@contextlib.contextmanager
def http_meter(answer: Answer) -> Iterator[str]:
    """Serve answers; yields the address. They are JSON, as these devices send it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
            authorization = self.headers.get("Authorization", "")
            status, value, headers = answer(parts.path, parameters, authorization)
            body = json.dumps(value).encode()
            self.send_response(status)
            for name, text in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def shelly_plug(power: Callable[[], float], generation: int, password: str = "") -> Answer:
    """Answers as shelly-api-docs.shelly.cloud shows them, with the authentication of each."""

    def answer(path: str, given: dict[str, str], authorization: str) -> tuple[int, Any, Any]:
        if path == "/shelly":
            if generation == 1:
                return 200, {"type": "SHPLG-S", "mac": "2CF4", "auth": bool(password)}, {}
            return 200, {"id": "shellyplugsg3-1", "gen": generation, "app": "PlugSG3"}, {}
        if password and generation == 1:
            if authorization != f"Basic {base64.b64encode(f'admin:{password}'.encode()).decode()}":
                return 401, {}, {"WWW-Authenticate": 'Basic realm="SHPLG-S"'}
        elif password and not _digest_fits(authorization, path, given, password):
            ask = 'Digest qop="auth", realm="shellyplugsg3-1", nonce="61", algorithm=SHA-256'
            return 401, {}, {"WWW-Authenticate": ask}
        if generation == 1 and path == "/status":
            meter = {"power": power(), "overpower": 0.0, "is_valid": True, "total": 123}
            return 200, {"relays": [{"ison": True}], "meters": [meter], "uptime": 7}, {}
        if generation > 1 and path == "/rpc/Switch.GetStatus" and given.get("id") == "0":
            status = {"id": 0, "output": True, "apower": power(), "voltage": 229.8}
            return 200, {**status, "aenergy": {"total": 6.532, "by_minute": [45.1, 47.1]}}, {}
        return 404, {"code": 404, "message": "No handler"}, {}

    return answer


def _digest_fits(authorization: str, path: str, given: dict[str, str], password: str) -> bool:
    """RFC 7616 with SHA-256 and qop auth."""
    found = {
        name: a or b for name, a, b in re.findall(r'(\w+)=(?:"([^"]*)"|([^,\s]+))', authorization)
    }
    if not authorization.startswith("Digest "):
        return False

    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    first = sha(f"admin:{found['realm']}:{password}")
    second = sha(f"GET:{found['uri']}")
    middle = f"{found['nonce']}:{found['nc']}:{found['cnonce']}:auth"
    return found["response"] == sha(f"{first}:{middle}:{second}")


def tasmota_plug(power: Callable[[], Any], password: str = "") -> Answer:
    """Answers as tasmota.github.io shows them for Status 8."""

    def answer(path: str, given: dict[str, str], _: str) -> tuple[int, Any, Any]:
        if password and given.get("password") != password:
            return 200, {"WARNING": "Need user=<username>&password=<password>"}, {}
        if path != "/cm" or given.get("cmnd") != "Status 8":
            return 200, {"Command": "Unknown"}, {}
        energy = {"Total": 3.185, "Power": power(), "ApparentPower": 999, "Factor": 0.92}
        return 200, {"StatusSNS": {"Time": "2026-11-23T04:00:00", "ENERGY": energy}}, {}

    return answer


def prometheus_server(series: Callable[[str], list[tuple[dict[str, str], float]]]) -> Answer:
    """Instant queries as prometheus.io/docs/prometheus/latest/querying/api shows them."""

    def answer(path: str, given: dict[str, str], _: str) -> tuple[int, Any, Any]:
        if path != "/api/v1/query":
            return 404, {"status": "error"}, {}
        result = [
            {"metric": labels, "value": [time.time(), str(value)]}
            for labels, value in series(given["query"])
        ]
        return 200, {"status": "success", "data": {"resultType": "vector", "result": result}}, {}

    return answer


# -- a serial line --


@contextlib.contextmanager
def watts_up(power: Callable[[], float], every_s: float = 0.2) -> Iterator[str]:
    """A pseudo-terminal that speaks the protocol of Watts Up? Pro; yields its name."""
    ours, theirs = os.openpty()
    tty.setraw(ours)
    tty.setraw(theirs)
    stop = threading.Event()

    def run() -> None:
        said, logging = b"", False
        while not stop.is_set():
            if select.select([ours], [], [], every_s)[0]:
                said += os.read(ours, 256)
                logging = said.rfind(b"#L,W,3,E,,1;") > said.rfind(b"#L,W,0;")
            elif logging:
                watts = round(10 * power())
                packet = f"#d,-,18,{watts},2298,402,11,_,_,_,_,_,_,_,_,_,97,_,500,941;\r\n"
                os.write(ours, packet.encode())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield os.ttyname(theirs)
    finally:
        stop.set()
        thread.join()
        os.close(ours)
        os.close(theirs)


# -- a log --


class PowerLogger(Advanced):
    """A meter that logs the power of a profile (of monotonic time) by a clock that is ahead."""

    def __init__(
        self, file: Path, profile: Profile, ahead_s: float, interval_s: float = 0.2
    ) -> None:
        self._file, self._profile = file, profile
        self._ahead_s, self._interval_s = ahead_s, interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with self._file.open("w", buffering=1) as log:
            log.write("Date;Time;Power (W)\n")
            while True:
                watts = self._profile(time.monotonic())
                moment = datetime.fromtimestamp(time.time() + self._ahead_s, UTC)
                log.write(f"{moment:%d.%m.%Y;%H:%M:%S.%f};{watts:.3f}\n")
                if self._stop.wait(self._interval_s):
                    return


class KnownLoad(Advanced):
    """A file like /proc/stat of a machine with two CPUs, whose load a thread advances."""

    def __init__(self, file: Path, share: Profile) -> None:
        self.file = file
        self._share = share
        """Monotonic time -> share of the CPUs that is busy."""
        self._stop = threading.Event()
        self._busy = self._idle = 0.0
        self._write()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _write(self) -> None:
        with self.file.open("r+b" if self.file.exists() else "wb", buffering=0) as file:
            file.write(b"cpu  %012d 0 0 %012d 0 0 0 0 0 0\n" % (self._busy, self._idle))

    def _run(self) -> None:
        last_s = time.monotonic()
        while not self._stop.wait(0.01):
            now_s = time.monotonic()
            share = self._share((last_s + now_s) / 2)
            self._busy += 200 * share * (now_s - last_s)
            self._idle += 200 * (1 - share) * (now_s - last_s)
            last_s = now_s
            self._write()
