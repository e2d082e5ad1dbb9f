"""Requests to meters over HTTP: with a time limit, verified certificates, and one clear error."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import httpx
from pydantic import Field

from headrace.errors import HeadraceError
from headrace.meters import MeterError, MeterOptions
from headrace.system.authorities import REMEDY, trusted, why_not_trusted
from headrace.text_file import encoding_of
from headrace.units import Seconds


class HttpOptions(MeterOptions):
    """Fields of meters that are reached over HTTP."""

    path_fields = ("password_file",)
    address: str = Field(
        min_length=1, description='name, address or URL of the meter: "192.168.1.20"'
    )
    timeout: Seconds = Field(3.0, gt=0, le=60, description="longest wait for an answer")
    user: str | None = None
    password_file: str | None = Field(
        None, description="file whose first line is the password; never in the study itself"
    )


def password_of(file: str | None) -> str:
    """Return the first line of a password file; empty without a file. Raises MeterError."""
    if file is None:
        return ""
    try:
        raw = Path(file).read_bytes()
        # Editors of Windows write a byte order mark or UTF-16.
        lines = raw.decode(encoding_of(raw)).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"the password file {file} cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise MeterError(
            f"the password file {file} is empty", hint="its first line is the password"
        )
    return lines[0]


class HttpConnection:
    """A connection to one meter that is kept open between readings."""

    def __init__(
        self,
        options: HttpOptions,
        *,
        digest: bool = False,
        auth: httpx.Auth | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`auth` replaces that of user and password; `tls` says which certificates are trusted."""
        self._options = options
        self._digest, self._auth, self._tls = digest, auth, tls
        self._client: httpx.Client | None = None
        self._built: dict[tuple[object, ...], httpx.Request] = {}
        """Requests by method, path and parameters: a meter sends the same ones again and again."""

    def get(self, path: str, **parameters: str) -> Any:
        """Return the JSON value of an answer. Raises MeterError."""
        options = self._options
        answer = self.request("GET", path, **parameters)
        if answer.status_code in (401, 403):
            raise MeterError(
                f"{options.address} refuses user and password",
                hint="state user and password_file in the study",
            )
        if not answer.is_success:
            there = f": it leads to {answer.headers['location']}" if answer.is_redirect else ""
            raise MeterError(f"{options.address}{path} answers {answer.status_code}{there}")
        try:
            return answer.json()
        except ValueError:
            raise MeterError(f"{options.address}{path} does not answer in JSON") from None

    def request(self, method: str, path: str, **parameters: str) -> httpx.Response:
        """Return the answer, whatever its status. Raises MeterError without one."""
        options = self._options
        try:
            client = self._opened()
            key = (method, path, *parameters.items())
            if key not in self._built:  # a quarter of the CPU time of a reading
                self._built[key] = client.build_request(method, path, params=parameters or None)
            return client.send(self._built[key])
        except httpx.TimeoutException:
            raise MeterError(
                f"{options.address} gave no answer within {options.timeout:g} s",
                hint="check its address and the network",
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            if why := why_not_trusted(error):
                own = "see docs/energy.md: state the file of its certificate, or of its CA"
                raise MeterError(
                    f"the certificate of {options.address} is not trusted: {why}",
                    hint=REMEDY if self._tls is None else own,
                ) from None
            raise MeterError(
                f"{options.address} is not reachable: {error}",
                hint="check its address and the network",
            ) from None

    def _opened(self) -> httpx.Client:
        if self._client is None:
            options = self._options
            address = options.address if "://" in options.address else f"http://{options.address}"
            auth = self._auth
            if auth is None and options.user is not None:
                password = password_of(options.password_file)
                kind = httpx.DigestAuth if self._digest else httpx.BasicAuth
                auth = kind(options.user, password)
            # Proxies of the environment are for the internet, not for a meter on the local network.
            self._client = httpx.Client(
                base_url=address,
                timeout=options.timeout,
                auth=auth,
                verify=self._verified(address),
                trust_env=False,
            )
        return self._client

    def _verified(self, address: str) -> ssl.SSLContext | bool:
        if self._tls is not None or not address.startswith("https"):
            return self._tls or True
        try:
            return trusted()
        except HeadraceError as error:
            raise MeterError(error.message) from None

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        client, self._client = self._client, None
        self._built.clear()
        if client is not None:
            client.close()
