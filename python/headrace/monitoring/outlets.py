"""Where metrics go: an HTTP endpoint, a text file, a push gateway.

A file is written and a gateway is told every few seconds from a thread of its own, and once more
when the run ends.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import (
    CollectorRegistry,
    generate_latest,
    push_to_gateway,
    start_http_server,
)
from prometheus_client.exposition import basic_auth_handler, default_handler
from prometheus_client.registry import Collector

from headrace.errors import RefusedError, UsageError, system_words
from headrace.whole_file import leads_nowhere, whole

FILE_INTERVAL_S = 5.0
PUSH_INTERVAL_S = 10.0
_PUSH_PATIENCE_S = 10.0
_OWN_HEAD = b"# HELP headrace_"
"""Begin of a file of metrics that Headrace wrote."""
USER_VARIABLE, PASSWORD_VARIABLE = "HEADRACE_PUSH_USER", "HEADRACE_PUSH_PASSWORD"

Tell = Callable[[str], object]


def _registry(metrics: Collector) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    return registry


# -- HTTP --


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, [IPv6]:PORT, or PORT. Raises UsageError."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(
            f"--openmetrics {text}: not HOST:PORT",
            hint="for example 127.0.0.1:9109, or 9109 alone for this machine only",
        )
    return host, int(port)


def on_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address. Names count when they are local."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def served(metrics: Collector, address: str, tell: Tell) -> Generator[None]:
    """Serve metrics over HTTP. Raises UsageError when nothing can listen at the address."""
    host, port = address_of(address)
    try:
        server, thread = start_http_server(port, host, _registry(metrics))
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"--openmetrics {address}: cannot listen there: "
            f"{getattr(error, 'strerror', None) or error}",
            hint="another program may use the port; port 0 takes any free one",
        ) from None
    shown = f"[{host}]" if ":" in host else host
    warning = "" if on_loopback(host) else "; readable without a password from other machines"
    tell(f"metrics at http://{shown}:{server.server_port}/metrics{warning}")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_PUSH_PATIENCE_S)


# -- again and again --


@dataclass
class Attempts:
    """What becomes of something that is done again and again."""

    problem: str = ""
    """Why the last attempt failed; empty if it did not."""
    told: bool = False


@contextmanager
def _repeated(
    what: str, do: Callable[[], None], interval_s: float, tell: Tell
) -> Generator[Attempts]:
    """Do something every so often, and once at the end. An error is told once."""
    stop, attempts = threading.Event(), Attempts()

    def attempt() -> None:
        try:
            do()
            attempts.problem = ""
        except Exception as error:  # urllib, http.client and the file system have many
            words = system_words(error) if isinstance(error, OSError) else str(error)
            attempts.problem = f"{what}: {words}"
            if not attempts.told:
                attempts.told = True
                tell(f"{attempts.problem}; the run continues and tries again")

    def run() -> None:
        attempt()
        while not stop.wait(interval_s):
            attempt()
        attempt()

    thread = threading.Thread(target=run, name=f"headrace-{what}", daemon=True)
    thread.start()
    try:
        yield attempts
    finally:
        stop.set()
        thread.join(3 * _PUSH_PATIENCE_S)


# -- a file --


def check_file(path: Path, option: str = "--openmetrics-file") -> None:
    """Raise UsageError for a file that cannot be written or that the textfile collector would not
    read, RefusedError for a file that is there and has other metrics: it would be replaced."""
    hint = f"name another file with {option}"
    if path.suffix != ".prom":
        raise UsageError(
            f"{option} {path}: its name must end in .prom",
            hint="the textfile collector of node_exporter reads no other files",
        )
    try:
        # What a link leads to is replaced, never the link.
        place = path.resolve()
        # Files are written under a longer name first (whole_file.py).
        place.with_name(f".{place.name}.part").exists()
        found, regular = place.exists(), place.is_file()
    except (OSError, RuntimeError) as error:  # too long a name, a loop of links
        words = system_words(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{option} {path}: {words}", hint=hint) from None
    if (problem := leads_nowhere(path)) is not None:
        raise RefusedError(f"{path} {problem}", hint=hint)
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK):
        raise UsageError(f"{option} {path}: {place.parent} is not a folder that can be written to")
    if found and not regular:
        what = "a folder" if place.is_dir() else "a device or a pipe"
        raise UsageError(f"{option} {path}: is {what}, not a file", hint=hint)
    if found and not _is_own(place):
        raise RefusedError(f"{path} already exists", hint=hint)


def _is_own(file: Path) -> bool:
    """Return whether a file is empty, or begins with a metric of Headrace."""
    try:
        with file.open("rb") as stream:
            head = stream.read(len(_OWN_HEAD))
    except OSError:
        return False
    return head in (b"", _OWN_HEAD)


@contextmanager
def written(metrics: Collector, path: Path, tell: Tell) -> Generator[Attempts]:
    """Keep a text file up to date. It is replaced whole, and stays after the run.

    When the context has ended, `problem` is that of the last time it was written.
    """
    registry = _registry(metrics)

    def write() -> None:
        whole(path, lambda part: part.write_bytes(generate_latest(registry)))

    with _repeated(
        f"metrics file {path}",
        write,
        FILE_INTERVAL_S,
        tell,
    ) as attempts:
        yield attempts


# -- a push gateway --


def check_push(url: str) -> None:
    """Raise UsageError for a URL that is not https or loopback, or that has a password in it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"--push-gateway {url}: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "--push-gateway: the URL has a user or password in it",
            hint=f"set {USER_VARIABLE} and {PASSWORD_VARIABLE} in the environment",
        )
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(
            f"--push-gateway {url}: not a URL", hint="for example https://push.example.org:9091"
        )
    if parts.scheme == "http" and not on_loopback(host):
        raise UsageError(
            f"--push-gateway {url}: beyond this machine only https",
            hint="metrics and password would travel unencrypted",
        )


@contextmanager
def pushed(metrics: Collector, url: str, study: str, tell: Tell) -> Generator[None]:
    """Push metrics to a gateway, in the group of this host and study."""
    registry, key = _registry(metrics), {"instance": socket.gethostname(), "study": study}
    user, password = os.environ.get(USER_VARIABLE), os.environ.get(PASSWORD_VARIABLE, "")

    def handler(
        url: str,
        method: str,
        timeout: float | None,
        headers: list[tuple[str, str]],
        data: bytes,
    ) -> Callable[[], None]:
        if user is None:
            return default_handler(url, method, timeout, headers, data)
        return basic_auth_handler(url, method, timeout, headers, data, user, password)

    def push() -> None:
        push_to_gateway(url, "headrace", registry, key, _PUSH_PATIENCE_S, handler)

    with _repeated(f"push gateway {url}", push, PUSH_INTERVAL_S, tell):
        yield
