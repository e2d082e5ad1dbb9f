"""Recorded jobs and block traces: what there is, and the picture and the verdict of each."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import UsageError
from headrace.serving import pages
from headrace.serving.files import files_below, listed
from headrace.serving.folders import inside
from headrace.serving.kept import KeptPages
from headrace.serving.what_if_study import PROFILES_AT_MOST, recorded_profiles
from headrace.units import format_amount

if TYPE_CHECKING:
    from headrace.catalog.tables import ProfileOutline
    from headrace.profiles.steps import Recording

TRACES_AT_MOST = 200
FILES_SHOWN = 20
_TRACE_FILE = "trace.json"
_SUFFIX = ".blktrace.0"


@dataclass(frozen=True)
class FoundTrace:
    """A trace below the folder."""

    name: str
    """Its path from the folder that is served."""
    device: str = ""
    """Of a capture of several devices."""

    @property
    def address(self) -> str:
        """The address of its page."""
        query = f"?{urlencode({'device': self.device})}" if self.device else ""
        return f"/traces/{quote(self.name)}{query}"


class CapturedPages:
    """Files are found when the list is shown; pages are kept until their file changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept = KeptPages()

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/captured", self.list),
            Route("/profiles/{name:path}/verdict", self.verdict),
            Route("/profiles/{name:path}", self.profile),
            Route("/traces/{name:path}", self.trace),
        ]

    def list(self, request: Request) -> Response:
        """Show the recorded jobs and the traces below the folder."""
        return pages.page(
            request, "captured.html.j2", "Jobs and traces", root=self._root,
            profiles=listed(recorded_profiles(self._root), PROFILES_AT_MOST),
            traces=listed(found_traces(self._root), TRACES_AT_MOST),
        )  # fmt: skip

    def profile(self, request: Request) -> Response:
        """Show what a recorded job did: its verdict, picture, files."""
        name, file = self._profile_file(request)
        part = self._kept.get(("profile", *_state(file)), lambda: _profile_part(name, file))
        return pages.page(request, "profile.html.j2", f"Job {file.stem}", part=part)

    def verdict(self, request: Request) -> Response:
        """Show the page of `headrace why --page`, from the profile alone."""
        name, file = self._profile_file(request)
        text = self._kept.get(("verdict", *_state(file)), lambda: _verdict_page(file))
        return pages.report_page(text, [(f"/profiles/{quote(name)}", f"Job {file.stem}")])

    def trace(self, request: Request) -> Response:
        """Show the page of `headrace trace plot --out NAME.html`."""
        path = inside(self._root, request.path_params["name"])
        device = request.query_params.get("device") or None
        first = path if path.exists() else path.with_name(f"{path.name}{_SUFFIX}")
        if not first.exists():
            raise UsageError(f"{path.name}: there is no such trace, or it no longer exists")
        text = self._kept.get(("trace", device, *_state(first)), lambda: _trace_page(path, device))
        return pages.report_page(text, [("/captured", "Jobs and traces")])

    def _profile_file(self, request: Request) -> tuple[str, Path]:
        name = request.path_params["name"]
        file = inside(self._root, name)
        if file.suffix != ".toml" or not file.is_file():
            raise UsageError(f"{name}: there is no such recorded job, or it no longer exists")
        return name, file


def _state(file: Path) -> tuple[object, ...]:
    """Return what changes when a file, or the files of a folder, are written anew."""
    files = sorted(file.iterdir()) if file.is_dir() else [file]
    return (str(file), *((each.name, each.stat().st_mtime_ns) for each in files))


def found_traces(root: Path) -> Iterator[FoundTrace]:
    """Yield the traces below a folder: captures, and blktrace's own files."""
    found = list(files_below(root, (_TRACE_FILE, _SUFFIX), traces_of_trials=True))
    for name, file in found:
        if file.name != _TRACE_FILE:
            continue
        try:
            described = json.loads(file.read_text(encoding="utf-8"))
            devices = [str(each) for each in described["devices"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        name = str(Path(name).parent)
        yield from (FoundTrace(name, each) for each in (devices if len(devices) > 1 else [""]))
    for name, file in found:
        if name.endswith(_SUFFIX) and not (file.parent / _TRACE_FILE).exists():
            yield FoundTrace(name.removesuffix(_SUFFIX))


def _profile_part(name: str, file: Path) -> str:
    from headrace.profiles.overview import overview_rows, overview_title
    from headrace.profiles.steps import load, profile_table
    from headrace.profiles.summary import summarise
    from headrace.verdict.recorded import verdict_of_profile

    what_if = f"/what-if?{urlencode({'job': f'file/{name}'})}"
    if (outline := profile_table(str(file))[0].outline) is not None:
        return _outline_part(outline, what_if)
    recording = load(str(file))
    summary = summarise(recording)
    files = [
        (each.path, format_amount(each.bytes), f"{each.reads:,}", format_amount(each.bytes_read),
         format_amount(each.bytes_unique), format_amount(each.bytes_written))
        for each in summary.files[:FILES_SHOWN]
    ]  # fmt: skip
    return pages.fragment(
        "profile_part.html.j2", title=overview_title(recording), files=files,
        more=len(summary.files) - len(files), rows=overview_rows(recording, summary),
        sentences=verdict_of_profile(recording).sentences, notes=recording.notes,
        picture=_picture(recording), verdict=f"/profiles/{quote(name)}/verdict",
        what_if=what_if,
    )  # fmt: skip


def _outline_part(outline: ProfileOutline, what_if: str) -> str:
    """Return what a job did as far as a watch saw it."""
    from headrace.profiles.outlined import amount, label, span

    figures = [
        (label(name), amount(name, each.value), span(name, each.low, each.high), each.source)
        for name, each in outline.figures.items()
    ]
    title = f"{outline.job}: seen from outside for {outline.duration_s:.1f} s"
    return pages.fragment(
        "outline_part.html.j2", title=title, figures=figures, unknown=outline.unknown,
        what_if=what_if,
    )  # fmt: skip


def _picture(recording: Recording) -> str:
    """Return the picture of `headrace profile show --draw` as a data URL."""
    from headrace.profiles.picture import draw

    with tempfile.TemporaryDirectory(prefix="headrace-serve-") as folder:
        file = Path(folder) / "picture.png"
        draw(recording, file)
        return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"


def _verdict_page(file: Path) -> str:
    from headrace.profiles.steps import load
    from headrace.verdict.page import render
    from headrace.verdict.recorded import verdict_of_profile

    return render(verdict_of_profile(load(str(file))))


def _trace_page(path: Path, device: str | None) -> str:
    from headrace.traces import open_trace, summarise
    from headrace.traces.pictures import page_text

    return page_text([summarise(open_trace(path, device))])
