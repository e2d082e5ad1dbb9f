"""The history of one study: its results folders on an axis of time, with changes marked."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import HeadraceError, UsageError, describe
from headrace.serving import pages
from headrace.serving.folders import ResultsFolder, results_folders
from headrace.serving.kept import KeptPages
from headrace.serving.time_axis import CellFigure, TimedValue
from headrace.units import parse_share

if TYPE_CHECKING:
    from headrace.analysis.findings import EnvironmentDifference
    from headrace.analysis.history import CellHistory, HistoryRun, StudyHistory
    from headrace.analysis.read import Records

RUNS_AT_MOST = 100
_STEP = RUNS_AT_MOST - 1
"""The first run of a page is also the last one of the page before it, where it is judged."""
FIGURES_AT_MOST = 12
TOLERANCES = ("1 %", "2 %", "5 %", "10 %", "20 %")
_CHANGES_SHOWN = 6


class HistoryPages:
    """Results of one title and one engine are the runs of one study, whatever was changed in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept = KeptPages()

    def routes(self) -> list[Route]:
        """Return the address of the page."""
        return [Route("/history", self.show)]

    def show(self, request: Request) -> Response:
        """Show the history of a study, of the one with most results when none is named."""
        studies = _studies(results_folders(self._root))
        asked = request.query_params
        name = asked.get("study", "") or next(iter(studies), "")
        tolerance = asked.get("tolerance", "5 %")
        if tolerance not in TOLERANCES:
            raise UsageError(f"tolerance {tolerance}: allowed: {', '.join(TOLERANCES)}")
        if name and name not in studies:
            raise UsageError(
                f"{name}: no study with this title has two results folders, or it no longer exists"
            )
        newer = _newer(asked.get("newer", "0"), len(studies.get(name, ())))
        chosen = asked.get("metric", ""), tolerance, newer
        part = "" if not name else self._part(studies, name, *chosen)
        return pages.page(request, "history.html.j2", "History", part=part, root=self._root)

    def _part(
        self, studies: Mapping[str, list[ResultsFolder]], name: str, metric: str, tolerance: str,
        newer: int,
    ) -> str:  # fmt: skip
        folders = studies[name][newer : newer + RUNS_AT_MOST]
        query = {"study": name, "metric": metric, "tolerance": tolerance}
        form = {
            "study": name, "metric": metric, "tolerance": tolerance, "tolerances": TOLERANCES,
            "studies": [(each, len(found)) for each, found in studies.items()],
            "newer": newer, "earlier": len(studies[name]) - newer - len(folders),
            "to_newer": urlencode({**query, "newer": max(0, newer - _STEP)}),
            "to_earlier": urlencode({**query, "newer": newer + _STEP}),
        }  # fmt: skip
        key = (str(form), *(part for each in folders for part in each.fingerprint))
        return self._kept.get(key, lambda: _made(folders, metric, tolerance, form))


def _newer(given: str, runs: int) -> int:
    """Return the number of newer runs that a page leaves out."""
    most = max(0, runs - 1)
    if not (given.isascii() and given.isdigit() and int(given[:9]) <= most):
        raise UsageError(f"newer {given}: allowed: 0 to {most}")
    return int(given)


def _studies(folders: Sequence[ResultsFolder]) -> dict[str, list[ResultsFolder]]:
    """Return the results by study, newest first, of those that have two; most results first."""
    found: dict[str, list[ResultsFolder]] = {}
    for each in folders:
        if not each.damage and each.recorded:
            found.setdefault(f"{each.title}, {each.kind}", []).append(each)
    several = [pair for pair in found.items() if len(pair[1]) > 1]
    return dict(sorted(several, key=lambda pair: -len(pair[1])))


def _made(
    folders: Sequence[ResultsFolder], metric: str, tolerance: str, form: Mapping[str, object]
) -> str:
    from headrace.analysis.history import history
    from headrace.analysis.read import read
    from headrace.metrics.shown import show

    records: list[Records] = []
    damaged: list[str] = []
    by_root: dict[Path, ResultsFolder] = {}
    for folder in folders:
        try:
            records.append(read(folder.path))
            by_root[folder.path] = folder
        except (HeadraceError, OSError) as error:
            damaged.append(f"{folder.name}: {describe(error)}")
    made = history(records, metric=metric or None, tolerance=parse_share(tolerance))
    if metric and metric not in made.metrics:
        raise UsageError(f"metric {metric}: these results have {', '.join(made.metrics)}")
    names = [by_root[run.records.root] for run in made.runs]
    return pages.fragment(
        "history_part.html.j2", runs=_runs(made, names), damaged=damaged,
        metrics=[(name, show(name).title) for name in made.metrics],
        figures=[_figure(cell, made) for cell in made.cells[:FIGURES_AT_MOST]],
        left_out=max(0, len(made.cells) - FIGURES_AT_MOST),
        rows=[row for cell in made.cells for row in _rows(cell)], **form,
    )  # fmt: skip


@dataclass(frozen=True)
class _RunRow:
    number: int
    folder: ResultsFolder
    changes: list[str]
    verdict: str
    word: str
    """The verdict in one word, for its colour."""
    compare: str
    """Address of the comparison with the run before; empty for the first."""


def _runs(made: StudyHistory, folders: Sequence[ResultsFolder]) -> list[_RunRow]:
    rows: list[_RunRow] = []
    for number, (run, folder) in enumerate(zip(made.runs, folders, strict=True), 1):
        verdict, word = _verdict(run)
        before = folders[number - 2] if number > 1 else None
        query = "" if before is None else urlencode({"a": before.name, "b": folder.name})
        rows.append(
            _RunRow(
                number, folder, _changes(run.changes), verdict, word, query and f"/compare?{query}"
            )
        )
    return rows


def _verdict(run: HistoryRun) -> tuple[str, str]:
    if run.gate is None:
        return run.not_judged or "–", ""
    words = [
        f"{count} {verdict}"
        for verdict in ("worse", "better", "unchanged", "undecided")
        if (count := run.gate.count(verdict))
    ]
    word = "worse" if run.gate.count("worse") else "better" if run.gate.count("better") else ""
    return f"{', '.join(words)} of {len(run.gate.cells)}", word


def _changes(found: Sequence[EnvironmentDifference]) -> list[str]:
    texts = [
        f"{each.name}: {', '.join(each.a) or 'none'} → {', '.join(each.b) or 'none'}"
        for each in found
    ]
    more = len(texts) - _CHANGES_SHOWN
    return [*texts[:_CHANGES_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _time(run: HistoryRun) -> datetime.datetime:
    try:
        made = datetime.datetime.fromisoformat(run.records.header.created_utc)
    except ValueError:
        # Of a damaged header; 1970 would press all other runs together.
        return _changed(run.records.root / "results.json")
    return made if made.tzinfo else made.replace(tzinfo=datetime.UTC)


def _changed(file: Path) -> datetime.datetime:
    """Return when a file was changed; now, if it is gone."""
    try:
        return datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC)
    except OSError:
        return datetime.datetime.now(datetime.UTC)


def _figure(cell: CellHistory, made: StudyHistory) -> CellFigure:
    from headrace.metrics.shown import show

    times = [_time(run) for run in made.runs]
    shown = show(cell.metric, max(each.value.value for each in cell.points))
    values = [
        TimedValue(
            each.run + 1,
            times[each.run],
            each.value.value / shown.divisor,
            (each.value.value if each.value.low is None else each.value.low) / shown.divisor,
            (each.value.value if each.value.high is None else each.value.high) / shown.divisor,
            each.verdict or "",
        )
        for each in cell.points
    ]
    changes = [(n, times[n - 1]) for n, run in enumerate(made.runs, 1) if run.changes]
    return CellFigure(f"{cell.cell}: {shown.heading}", values, changes, min(times), max(times))


def _rows(cell: CellHistory) -> list[dict[str, object]]:
    from headrace.metrics.shown import show
    from headrace.report.numbers import interval_text, value_text

    shown = show(cell.metric, max(each.value.value for each in cell.points))
    return [
        {
            "cell": cell.cell,
            "metric": shown.heading,
            "run": each.run + 1,
            "value": value_text(each.value, shown),
            "interval": interval_text(each.value, shown) or "–",
            "verdict": each.verdict or "–",
        }
        for each in cell.points
    ]
