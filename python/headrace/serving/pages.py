"""Pages of the server as HTML: its own templates, and the report's with a way back."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse

from headrace.errors import as_word
from headrace.report.html import asset, environment
from headrace.serving.access import POLICY
from headrace.serving.folders import HERE
from headrace.units import format_bytes, format_seconds

NAVIGATION = (
    ("/", "Results"),
    ("/history", "History"),
    ("/captured", "Jobs and traces"),
    ("/what-if", "What if"),
    ("/studies", "Studies"),
    ("/watch", "Watch"),
)
_SCRIPT = re.compile(r'<script(?: type="text/javascript")?>(.*?)</script>', re.DOTALL)


def address_of(name: str) -> str:
    """Return the address of the report of a results folder."""
    return f"/results/{quote(name)}/"


def _name_of(name: str) -> str:
    """Return the name of a results folder for people."""
    return "this folder" if name == HERE else name


def _when(utc: str) -> str:
    """Return a time of records without its seconds and zone."""
    return utc[:16].replace("T", " ") or "–"


@cache
def _templates() -> Environment:
    made = environment()
    assert made.loader is not None
    made.loader = ChoiceLoader([PackageLoader("headrace.serving"), made.loader])
    shared: Any = made.globals
    shared.update(
        address_of=address_of,
        path_of=quote,
        word_of=as_word,
        name_of=_name_of,
        when=_when,
        format_bytes=format_bytes,
        format_seconds=format_seconds,
    )
    return made


def fragment(template: str, **values: object) -> str:
    """Return a part of a page."""
    return _templates().get_template(template).render(**values)


def page(
    request: Request, template: str, heading: str, status: int = 200, **values: object
) -> HTMLResponse:
    """Answer with a whole page."""
    given = {"links": NAVIGATION, "here": request.url.path, **values}
    return HTMLResponse(fragment(template, heading=heading, **given), status_code=status)


@dataclass(frozen=True)
class Again:
    """A button that tries the same with other fields."""

    action: str
    fields: Mapping[str, str]
    text: str


def message(
    request: Request, status: int, text: str, remedy: str = "", again: Again | None = None
) -> HTMLResponse:
    """Answer with a page that says what is wrong and what to do."""
    heading = {
        400: "Wrong value",
        403: "No access",
        404: "Not found",
        409: "Not possible",
        500: "Defect",
    }
    return page(
        request, "message.html.j2", heading.get(status, "Not possible"), status, message=text,
        remedy=remedy, again=again,
    )  # fmt: skip


def report_page(text: str, further: Sequence[tuple[str, str]]) -> HTMLResponse:
    """Answer with a page of the report, with links back; only its own scripts may run."""
    bar = fragment("navigation.html.j2", links=(*NAVIGATION, *further), here="")
    text = text.replace("<body>", f"<body>\n{bar}", 1)
    text = text.replace("</head>", f"<style>\n{_own_style()}</style>\n</head>", 1)
    hashes = "".join(f" '{_hash(script)}'" for script in _SCRIPT.findall(text))
    return HTMLResponse(text, headers={"Content-Security-Policy": POLICY.format(hashes=hashes)})


def _hash(script: str) -> str:
    # The browser hashes what its parser hands on, where each line ends with one character.
    text = script.replace("\r\n", "\n").replace("\r", "\n").encode()
    return f"sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}"


def own_asset(name: str) -> str:
    """Return a file of the server's templates unchanged."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


@cache
def _own_style() -> str:
    return own_asset("serve.css")


@cache
def style() -> str:
    """Return the style of the report, and what the server's own pages add."""
    ledger = fragment("ledger.css.j2")
    return f"{asset('report.css')}\n{ledger}\n{_own_style()}"
