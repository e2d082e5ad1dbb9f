"""Who may see the pages: those with the token of the link, or with the password.

Every request is checked before any page sees it: the Host header (DNS rebinding), the cookie, and
for those that change something the form's own token (CSRF). Every answer forbids other sites to
embed it, and the page to ask any other machine for anything.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import RefusedError
from headrace.serving.listening import Listening

FORM_AT_MOST = 100_000
"""Bytes of a form."""
_WRONG_PASSWORD_S = 1.0
"""Wait after a wrong password, before the next one is looked at."""
POLICY = (
    "default-src 'none'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src data:; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Refuse = Callable[[Request, int, str, str], Response]
"""Makes a page of a status, a message and a remedy."""
Form = dict[str, str]


class Visitors:
    """The secrets of one server: all are made anew at every start."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        # Browsers share cookies between the ports of a host.
        self.cookie = f"headrace-{listening.port}"
        self._one_at_a_time = asyncio.Lock()

    @property
    def link(self) -> str:
        """The link to print: with the token, unless there is a password."""
        if self.listening.password is not None:
            return f"{self.listening.origin}/"
        return f"{self.listening.origin}/?{urlencode({'token': self.token})}"

    @property
    def form_token(self) -> str:
        """What every form has to carry; another site cannot read it."""
        return hmac.new(self._session.encode(), b"form", hashlib.sha256).hexdigest()

    def known(self, request: Request) -> bool:
        """Return whether a request has the cookie of this server."""
        return _same(request.cookies.get(self.cookie, ""), self._session)

    def has_token(self, request: Request) -> bool:
        """Return whether the link that was opened has the token."""
        given = request.query_params.get("token", "")
        return self.listening.password is None and _same(given, self.token)

    async def has_password(self, given: str) -> bool:
        """Return whether a password is right; guesses are looked at one after the other."""
        async with self._one_at_a_time:
            if _same(given, self.listening.password or secrets.token_urlsafe()):
                return True
            await asyncio.sleep(_WRONG_PASSWORD_S)
            return False

    def let_in(self, target: str) -> Response:
        """Answer with the cookie, and lead to a page."""
        answer = RedirectResponse(target, status_code=303)
        answer.set_cookie(
            self.cookie, self._session, httponly=True, samesite="lax",
            secure=self.listening.certificate is not None,
        )  # fmt: skip
        return answer

    async def checked_form(self, request: Request) -> Form:
        """Return the fields of a form of this server's own pages.

        Raises RefusedError for any other (CSRF): it must not change anything.
        """
        form = await form_of(request)
        if self.same_origin(request) and _same(form.get("form_token", ""), self.form_token):
            return form
        raise RefusedError(
            "The form is not of this server's pages, or of one that was started anew since.",
            hint="Go back, load the page again, and send it once more.",
        )

    def host_is_known(self, request: Request) -> bool:
        """Return whether the Host header is a name of this server, with its port."""
        return self._names_us(request.headers.get("host", ""))

    def same_origin(self, request: Request) -> bool:
        """Return whether a form was sent from a page of this server, as far as the browser tells.

        With `Referrer-Policy: no-referrer` browsers send the origin `null` with forms.
        """
        origin = request.headers.get("origin", "null")
        return origin == "null" or self._names_us(urlsplit(origin).netloc)

    def _names_us(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host.lower()}")
            port = parts.port or (443 if self.listening.certificate else 80)
        except ValueError:
            return False
        name = parts.hostname or ""
        return name in self.listening.hosts and port == self.listening.port


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


async def form_of(request: Request) -> Form:
    """Return the fields of a form, the last of each name; empty when it is too large."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_AT_MOST:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=500)
    return {name: values[-1] for name, values in fields.items()}


class Doorkeeper:
    """The ASGI layer before the pages."""

    def __init__(self, app: ASGIApp, access: Visitors, refuse: Refuse) -> None:
        self._app, self._access, self._refuse = app, access, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may not pass; hand the others on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = self._answer(request) or self._app

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _protect(MutableHeaders(scope=message))
            await send(message)

        await answer(scope, receive, guarded)

    def _answer(self, request: Request) -> Response | None:
        access = self._access
        if not access.host_is_known(request):
            return self._refuse(
                request, 403, "This address is not one of the server's.",
                f"Open {access.listening.origin}/ as the server printed it.",
            )  # fmt: skip
        path = request.url.path
        if path in ("/login", "/favicon.ico") or path.startswith("/assets/"):
            return None
        if "token" in request.query_params and access.has_token(request):
            kept = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
            return access.let_in(path + (f"?{urlencode(kept)}" if kept else ""))
        if access.known(request) and "token" not in request.query_params:
            return None
        if access.listening.password is not None:
            return RedirectResponse("/login", status_code=303)
        wrong = "token" in request.query_params
        return self._refuse(
            request, 403,
            "The token in this link is wrong." if wrong else "This page needs the token.",
            "Open the link that headrace serve printed when it started; each start makes a new "
            "one.",
        )  # fmt: skip


def _protect(headers: MutableHeaders) -> None:
    for name, value in _HEADERS.items():
        headers[name] = value
    headers.setdefault("Content-Security-Policy", POLICY.format(hashes=""))
    headers.setdefault("Cache-Control", "no-store")
