"""Log in to a Redfish service, and decide which certificates of it are trusted (DMTF DSP0266)."""

from __future__ import annotations

import ssl
from collections.abc import Generator

import httpx

from headrace.meters import MeterError

_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME (openssl/x509_vfy.h): certificates of BMCs are often out of date."""


class SessionLogin(httpx.Auth):
    """A session: logs in when there is none, and once again when the service has ended it."""

    def __init__(self, sessions_url: str, user: str, password: str) -> None:
        self.session_url = ""
        """The session's resource, to be deleted at the end; empty without a session."""
        self.again = True
        """Whether to log in again when the service has ended the session."""
        self._sessions_url = sessions_url
        self._credentials = {"UserName": user, "Password": password}
        self._token = ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the login first if necessary; its refusal is then the answer."""
        had_token = bool(self._token)
        if not had_token and not (yield from self._log_in()):
            return
        request.headers["X-Auth-Token"] = self._token
        answer = yield request
        ended = answer.status_code == 401 and had_token
        if ended and self.again and (yield from self._log_in()):
            request.headers["X-Auth-Token"] = self._token
            yield request

    def _log_in(self) -> Generator[httpx.Request, httpx.Response, bool]:
        self._token = self.session_url = ""
        answer = yield httpx.Request("POST", self._sessions_url, json=self._credentials)
        if not answer.is_success and answer.status_code not in (401, 403):
            raise MeterError(
                f"{self._sessions_url} gives no sessions: it answers {answer.status_code}",
                hint='state login = "basic", or end other sessions of this user',
            )
        self._token = answer.headers.get("X-Auth-Token", "")
        self.session_url = answer.headers.get("Location", "")
        return answer.is_success and bool(self._token)


def trusted(certificate: str | None, ca: str | None) -> ssl.SSLContext:
    """Return what verifies a service: its own certificate, a CA, or the CAs of this machine.

    Its own certificate is trusted whatever its name and dates are. Raises MeterError.
    """
    try:
        context = ssl.create_default_context(cafile=certificate or ca)
    except (OSError, ssl.SSLError) as error:
        raise MeterError(
            f"the certificate file {certificate or ca} cannot be read: {error}",
            hint="it has the PEM form, and begins with -----BEGIN CERTIFICATE-----",
        ) from None
    if certificate is not None:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
    return context
