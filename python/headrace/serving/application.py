"""The pages by their addresses."""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headrace.errors import HeadraceError, UsageError, describe
from headrace.report import bokeh_json
from headrace.serving import pages
from headrace.serving.access import Doorkeeper, Visitors, form_of
from headrace.serving.captured_pages import CapturedPages
from headrace.serving.history_pages import HistoryPages
from headrace.serving.live import Live
from headrace.serving.results_pages import ResultsPages
from headrace.serving.run_pages import RunPages
from headrace.serving.watch_pages import WatchPages
from headrace.serving.what_if_pages import WhatIfPages
from headrace.serving.what_if_study import WrongValueError
from headrace.serving.worker import WhatIfWorker

_DAY_S = 86400


def make_application(root: Path, access: Visitors, live: Live, worker: WhatIfWorker) -> Starlette:
    """Return the application over a folder."""
    results = ResultsPages(root, live)
    what_if = WhatIfPages(root, access, live, worker)
    runs = RunPages(root, access, live)
    login = _Login(access)
    return Starlette(
        routes=[
            Route("/login", login.show, methods=["GET"]),
            Route("/login", login.check, methods=["POST"]),
            Route("/assets/{name}", _asset),
            *what_if.routes(),
            *runs.routes(),
            *CapturedPages(root).routes(),
            *HistoryPages(root).routes(),
            *WatchPages(live).routes(),
            *results.routes(),
        ],
        middleware=[Middleware(Doorkeeper, access=access, refuse=pages.message)],
        exception_handlers={
            404: _not_found,
            405: _not_found,
            HeadraceError: _user_error,
            OSError: _changed,
            Exception: _defect,
        },
    )


class _Login:
    """The page that asks for the password."""

    def __init__(self, access: Visitors) -> None:
        self._access = access

    def show(self, request: Request) -> Response:
        """Ask for the password."""
        return pages.page(request, "login.html.j2", "Password", message="", links=())

    async def check(self, request: Request) -> Response:
        """Let in with the right password."""
        if not self._access.same_origin(request):
            return pages.message(request, 403, "The form was sent by another site.")
        form = await form_of(request)
        if await self._access.has_password(form.get("password", "")):
            return self._access.let_in("/")
        return pages.page(
            request, "login.html.j2", "Password", 403, message="The password is wrong.", links=()
        )


def _asset(request: Request) -> Response:
    """Answer with the style, a script, or Bokeh's script."""
    made = {
        "style.css": (pages.style, "text/css"),
        "serve.js": (lambda: pages.own_asset("serve.js"), "text/javascript"),
        "bokeh.js": (bokeh_json.script, "text/javascript"),
    }.get(request.path_params["name"])
    if made is None:
        return PlainTextResponse("not found", status_code=404)
    text, kind = made
    keep = f"private, max-age={_DAY_S}" if kind.endswith("script") else "no-cache"
    return Response(text(), media_type=kind, headers={"Cache-Control": keep})


def _not_found(request: Request, _: Exception) -> Response:
    return pages.message(request, 404, "There is no such page.", "The list of results: /")


def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadraceError)
    status = 404 if isinstance(error, UsageError) else 409
    if isinstance(error, WrongValueError):
        status = 400
    return pages.message(request, status, error.message, error.hint or "")


_LACKS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors that stay when the page is loaded again."""


def _changed(request: Request, error: Exception) -> Response:
    if isinstance(error, OSError) and error.errno in _LACKS:
        return pages.message(
            request, 409, f"{describe(error)}.",
            "headrace serve needs a folder that it may read and write, with space left.",
        )  # fmt: skip
    return pages.message(
        request, 409, f"The folder changed while it was read: {describe(error)}.",
        "Load the page again.",
    )  # fmt: skip


def _defect(request: Request, error: Exception) -> Response:
    traceback.print_exception(error, file=sys.stderr)
    return pages.message(
        request, 500, f"Headrace has a defect here: {describe(error)}.",
        "The terminal of headrace serve shows more.",
    )  # fmt: skip
