"""A Redfish service over TLS, as a server's BMC has one, with the properties of DMTF's schemas."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

USER, PASSWORD = "reader", "s3cret word"
SESSIONS = "/redfish/v1/SessionService/Sessions"


def certificate(folder: Path, *, expired: bool = False) -> Path:
    """Make a self-signed certificate (and its key beside it) with openssl.

    An expired one has no name of the host either, as those that BMCs come with.
    """
    key, found = folder / "bmc.key", folder / "bmc.pem"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]
    if not expired:
        name = "subjectAltName=IP:127.0.0.1"
        _openssl(folder, "req", "-x509", *new, "-subj", "/CN=bmc", "-addext", name, "-out", found)
        return found
    (folder / "ca.cnf").write_text(
        "[ca]\ndefault_ca = own\n[own]\ndatabase = index.txt\nserial = serial\n"
        "new_certs_dir = .\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n"
    )
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("01\n")
    _openssl(folder, "req", "-new", *new, "-subj", "/CN=bmc", "-out", "request")
    dates = ["-startdate", "20200101000000Z", "-enddate", "20210101000000Z"]
    sign = ["-batch", "-selfsign", "-notext", "-keyfile", key, "-in", "request", "-out", found]
    _openssl(folder, "ca", "-config", "ca.cnf", *dates, *sign)
    return found


def _openssl(folder: Path, *arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], cwd=folder, check=True, capture_output=True)


def link(url: str) -> dict[str, str]:
    return {"@odata.id": url}


def sensor(name: str, reading: Any, units: str = "W", kind: str = "Power", **more: Any) -> Any:
    """A Sensor resource; `reading` may be a function."""
    return {
        "@odata.type": "#Sensor.v1_6_0.Sensor",
        "Id": name,
        "Name": name,
        "ReadingType": kind,
        "Reading": reading,
        "ReadingUnits": units,
        "Status": {"State": "Enabled", "Health": "OK"},
        **more,
    }


def chassis(
    name: str,
    *,
    environment: Any = None,
    control: Any = None,
    sensors: tuple[Any, ...] = (),
    within: str | None = None,
) -> dict[str, Any]:
    """A Chassis and its resources by URL.

    `environment` is the reading of EnvironmentMetrics, `control` that of each part of Power.
    """
    url = f"/redfish/v1/Chassis/{name}"
    made: dict[str, Any] = {"@odata.id": url, "Id": name, "ChassisType": "RackMount", "Links": {}}
    found: dict[str, Any] = {url: made}
    if within is not None:
        made["Links"]["ContainedBy"] = link(f"/redfish/v1/Chassis/{within}")
    if environment is not None:
        made["EnvironmentMetrics"] = link(f"{url}/EnvironmentMetrics")
        source = f"{url}/Sensors/TotalPower"
        found[f"{url}/EnvironmentMetrics"] = {
            "@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
            "TemperatureCelsius": {"Reading": 39},
            "PowerWatts": {"Reading": environment, "DataSourceUri": source},
        }
    if control is not None:
        made["Power"] = link(f"{url}/Power")
        found[f"{url}/Power"] = {
            "@odata.type": "#Power.v1_7_1.Power",
            "PowerControl": [
                {
                    "MemberId": str(index),
                    "Name": part,
                    "PowerConsumedWatts": reading,
                    "PowerMetrics": {"IntervalInMin": 30, "AverageConsumedWatts": 319},
                }
                for index, (part, reading) in enumerate(control.items())
            ],
        }
    if sensors:
        made["Sensors"] = link(f"{url}/Sensors")
        urls = [f"{url}/Sensors/{each['Id']}" for each in sensors]
        found[f"{url}/Sensors"] = {"Members": [link(each) for each in urls]}
        found |= dict(zip(urls, sensors, strict=True))
    return found


@dataclass
class Service:
    """What the service has, and what it was asked."""

    resources: dict[str, Any] = field(default_factory=dict[str, Any])
    address: str = ""
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    """Token -> URL of the session."""
    logins: int = 0
    has_sessions: bool = True

    def add(self, *parts: dict[str, Any]) -> Service:
        """Add chassis."""
        for part in parts:
            self.resources |= part
        names = [url for url in self.resources if url.count("/") == 4 and "/Chassis/" in url]
        self.resources["/redfish/v1/Chassis"] = {"Members": [link(name) for name in names]}
        self.resources["/redfish/v1/"] = {
            "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot",
            "RedfishVersion": "1.15.0",
            "Chassis": link("/redfish/v1/Chassis"),
            "SessionService": link("/redfish/v1/SessionService"),
            "Links": {"Sessions": link(SESSIONS)},
        }
        return self

    def allows(self, headers: Any) -> bool:
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return (
            headers.get("X-Auth-Token") in self.sessions
            or headers.get("Authorization") == f"Basic {basic}"
        )


@contextlib.contextmanager
def redfish(certificate: Path, *parts: dict[str, Any]) -> Iterator[Service]:
    """Serve chassis over TLS; yields the service with its address."""
    service = Service().add(*parts)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path != "/redfish/v1/" and not service.allows(self.headers):
                return self._answer(401, {"error": {"code": "Base.1.15.NoValidSession"}})
            if self.path not in service.resources:
                return self._answer(404, {"error": {"code": "Base.1.15.ResourceMissingAtURI"}})
            return self._answer(200, _present(service.resources[self.path]))

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != SESSIONS or not service.has_sessions:
                return self._answer(404, {"error": {"code": "Base.1.15.ResourceMissingAtURI"}})
            if given != {"UserName": USER, "Password": PASSWORD}:
                return self._answer(401, {"error": {"code": "Base.1.15.NoValidSession"}})
            service.logins += 1
            token, url = f"token-{service.logins}", f"{SESSIONS}/{service.logins}"
            service.sessions[token] = url
            return self._answer(
                201, {"Id": str(service.logins)}, {"X-Auth-Token": token, "Location": url}
            )

        def do_DELETE(self) -> None:
            token = self.headers.get("X-Auth-Token", "")
            if service.sessions.get(token) != self.path:
                return self._answer(401, {})
            del service.sessions[token]
            return self._answer(204, None)

        def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
            body = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            for name, text in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    service.address = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _present(value: Any) -> Any:
    """Return a resource with the present values of its functions."""
    if isinstance(value, dict):
        return {name: _present(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_present(each) for each in value]
    return value() if isinstance(value, Callable) else value
