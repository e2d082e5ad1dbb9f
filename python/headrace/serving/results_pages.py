"""Pages of what is recorded: the list, reports, trials, comparisons, and the progress of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headrace.errors import IncomparableError, RefusedError, UsageError
from headrace.serving import pages
from headrace.serving.folders import (
    ResultsFolder,
    folders_and_left_out,
    inside,
    named_folder,
)
from headrace.serving.kept import KeptPages
from headrace.serving.live import Live, Look
from headrace.serving.pace import pace_of
from headrace.serving.trial_files import TRIAL_FILES
from headrace.units import format_bytes, format_bytes_per_s

if TYPE_CHECKING:
    from headrace.records.trial_record import TrialRecord

_LIST_S, _PROGRESS_S = 2.0, 1.0
_TRIALS_SHOWN = 12
_PIECE_BYTES = 1 << 18


class ResultsPages:
    """Everything is read when it is shown; a folder may change, or go, at any time."""

    def __init__(self, root: Path, live: Live) -> None:
        self._root, self._live = root, live
        self._kept = KeptPages()

    def routes(self) -> list[Route]:
        """Return the addresses of these pages."""
        return [
            Route("/", self.list),
            Route("/compare", self.compare),
            Route("/events/results", self.list_events),
            Route("/events/progress/{name:path}", self.progress_events),
            Route("/progress/{name:path}", self.progress),
            Route("/results/{name:path}/trials/{trial}/", self.trial),
            Route("/results/{name:path}/trials/{trial}/{file:path}", self.file),
            Route("/results/{name:path}/", self.report),
        ]

    def list(self, request: Request) -> Response:
        """Show the results folders."""
        folders, left_out = folders_and_left_out(self._root)
        choices = [each for each in folders if not each.damage]
        return pages.page(
            request, "list.html.j2", "Results", folders=folders, choices=choices, root=self._root,
            left_out=left_out,
        )  # fmt: skip

    def list_events(self, _: Request) -> Response:
        """Send the rows of the list whenever they change."""

        def look() -> Look:
            folders, left_out = folders_and_left_out(self._root, anew=False)
            rows = pages.fragment(
                "rows.html.j2", folders=folders, root=self._root, left_out=left_out
            )
            return Look({"folders": rows})

        return self._live.stream(look, _LIST_S)

    def report(self, request: Request) -> Response:
        """Show the report of a results folder: the page that `headrace report` writes."""
        folder = named_folder(self._root, request.path_params["name"])
        text = self._kept.get(("report", *folder.fingerprint), lambda: _report(folder))
        progress = (f"/progress/{quote(folder.name)}", f"Progress ({folder.state})")
        return pages.report_page(text, [progress])

    def compare(self, request: Request) -> Response:
        """Show the comparison of two: the page that `headrace compare --html` writes."""
        asked = request.query_params
        a, b = (named_folder(self._root, asked.get(side, "")) for side in ("a", "b"))
        force = asked.get("force") == "1"
        key = ("compare", force, *a.fingerprint, *b.fingerprint)
        try:
            text = self._kept.get(key, lambda: _comparison(a, b, force))
        except RefusedError as error:
            fields = {"a": a.name, "b": b.name, "force": "1"}
            # Force cannot help where nothing can be compared.
            hopeless = force or isinstance(error, IncomparableError)
            again = None if hopeless else pages.Again("/compare", fields, "Compare all the same")
            return pages.message(request, 409, error.message, "", again)
        reports = [
            (pages.address_of(each.name), f"Report of {side}, {each.name}")
            for side, each in (("A", a), ("B", b))
        ]
        return pages.report_page(text, reports)

    def progress(self, request: Request) -> Response:
        """Show how far a run is."""
        folder = named_folder(self._root, request.path_params["name"])
        return pages.page(
            request, "progress.html.j2", folder.title, folder=folder, trials=_last_trials(folder),
            pace=pace_of(folder),
        )  # fmt: skip

    def progress_events(self, request: Request) -> Response:
        """Send how far a run is, until it has ended."""
        name = request.path_params["name"]

        def look() -> Look:
            folder = named_folder(self._root, name, anew=False)
            part = pages.fragment(
                "progress_part.html.j2", folder=folder, trials=_last_trials(folder),
                pace=pace_of(folder),
            )  # fmt: skip
            return Look({"progress": part}, "" if folder.running else "Nothing is running here.")

        return self._live.stream(look, _PROGRESS_S)

    def trial(self, request: Request) -> Response:
        """Show the record of a trial and its files."""
        from headrace.report.tables import flatten

        folder, path = self._trial_of(request)
        try:
            fields = flatten(msgspec.json.decode((path / "trial.json").read_bytes(), type=dict))
        except msgspec.DecodeError as error:  # cut short, or no JSON
            fields, damage = [], str(error)
        else:
            damage = ""
        files = [
            (str(file.relative_to(path)), format_bytes(file.stat().st_size))
            for file in sorted(path.rglob("*"))
            if file.is_file()
        ]
        return pages.page(
            request, "trial.html.j2", f"Trial {path.name}", folder=folder, fields=fields,
            files=files, damage=damage,
        )  # fmt: skip

    def file(self, request: Request) -> Response:
        """Send a file of a trial, to be kept, not shown."""
        _, path = self._trial_of(request)
        file = inside(path, request.path_params["file"])
        if not file.is_file():
            raise UsageError(f"{file.name}: the trial has no such file")
        # Opened now: a file that goes meanwhile is still sent whole.
        name = f"attachment; filename*=UTF-8''{quote(file.name)}"
        return StreamingResponse(
            _pieces(file.open("rb")), media_type="application/octet-stream",
            headers={"Content-Disposition": name},
        )  # fmt: skip

    def _trial_of(self, request: Request) -> tuple[ResultsFolder, Path]:
        folder = named_folder(self._root, request.path_params["name"])
        path = inside(folder.path / "trials", request.path_params["trial"])
        if not (path / "trial.json").is_file():
            raise UsageError(f"{folder.name} has no trial {path.name}, or has it no longer")
        return folder, path


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _report(folder: ResultsFolder) -> str:
    from headrace.analysis.find import find
    from headrace.analysis.read import read
    from headrace.report.html import render

    return render(find(read(folder.path)), folder.path)


def _comparison(a: ResultsFolder, b: ResultsFolder, force: bool) -> str:
    from headrace.analysis.compare import compare
    from headrace.analysis.read import read
    from headrace.report.comparison import render_comparison

    made = compare(read(a.path), read(b.path), force=force)
    return render_comparison(made, *(pages.address_of(each.name).rstrip("/") for each in (a, b)))


class TrialLine(msgspec.Struct):
    """A trial in the list of the last ones."""

    id: str
    what: str
    verdict: str
    rate: str = "–"
    bytes: str = "–"
    """Moved by the device, per second."""
    efficiency: str = "–"
    why: str = ""


def _last_trials(folder: ResultsFolder) -> list[TrialLine]:
    try:
        files = TRIAL_FILES.of(folder.path)
    except OSError:
        return []  # the page says what is damaged
    trials = [(at_ns, file) for file, at_ns in files.items() if at_ns]
    found: list[TrialLine] = []
    for at_ns, file in nlargest(_TRIALS_SHOWN, trials):
        with contextlib.suppress(OSError):  # set aside since it was listed
            found.append(_line_of(file, at_ns))
    return found


@lru_cache(maxsize=1000)
def _line_of(file: Path, _at_ns: int) -> TrialLine:
    from headrace.records.trial_record import decode

    try:
        return _line(file.parent.name, decode(file.read_bytes()))
    except ValueError:
        return TrialLine(file.parent.name, "", "damaged", why="trial.json is damaged")


def _line(trial: str, record: TrialRecord) -> TrialLine:
    from headrace.metrics import values_of
    from headrace.report.numbers import number, percent
    from headrace.report.wording import levels_text

    values = values_of(record)
    levels = levels_text(
        {k: v for k, v in record.levels.items() if k not in ("target", "workload")}
    )
    what = f"{record.target.name}, {record.workload.name}{f': {levels}' if levels else ''}"
    return TrialLine(
        trial, what, "valid" if record.verdict == "done" else record.verdict,
        _shown(values, "events_per_s", number),
        _shown(values, "device_bytes_per_s", format_bytes_per_s),
        _shown(values, "efficiency", lambda share: percent(share, 3)), "; ".join(record.why),
    )  # fmt: skip


def _shown(values: Mapping[str, float], name: str, text: Callable[[float], str]) -> str:
    value = values.get(name)
    return "–" if value is None else text(value)
