"""Pictures of traces: a PNG, an SVG or an interactive page, by file suffix."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import FileProblem, StudyError
from headrace.traces.statistics import Statistics
from headrace.traces.tiles import DrawableTrace, prepare_traces
from headrace.whole_file import whole, write_errors

KINDS = ("png", "svg", "html")
RUNS_AT_MOST = 6
COLUMNS = 480
ROWS = 110
"""A cell is then more than two pixels of a PNG: a single request stays visible at half size."""


def kind_of(out: Path, traces: int) -> str:
    """Return the kind of a picture of so many traces. Raises StudyError for an unknown suffix, or
    too many traces: also before they are read, which may take minutes."""
    kind = out.suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise StudyError(
            [
                FileProblem(
                    out,
                    0,
                    "--out",
                    out.suffix or out.name,
                    "is not a kind of picture",
                    ", ".join(f".{each}" for each in KINDS),
                )
            ]
        )
    if traces > RUNS_AT_MOST:
        given = str(traces)
        raise StudyError(
            [
                FileProblem(
                    out,
                    0,
                    "traces",
                    given,
                    "are too many for one picture",
                    f"at most {RUNS_AT_MOST}",
                )
            ]
        )
    return kind


def draw(all_statistics: list[Statistics], out: Path, labels: list[str] | None = None) -> list[str]:
    """Draw one trace, or several stacked on one time axis; return what the picture omits, in words.

    `labels`: names of the traces, their file names if None. Raises StudyError for a trace without
    times, an unknown suffix or too many traces, HeadraceError for a file that cannot be written.
    """
    kind = kind_of(out, len(all_statistics))
    runs = _cells(all_statistics, labels, 2 if kind == "html" else 1)

    def write(part: Path) -> None:
        if kind == "html":
            from headrace.traces.page import render

            part.write_text(render(runs), encoding="utf-8")
        else:
            from headrace.traces.stills import save

            save(runs, part, kind)

    with write_errors(out, "name another file with --out"):
        whole(out, write, seeks=kind != "html")
    return [f"{run.label}: {note}" for run in runs for note in run.notes()]


def page_text(all_statistics: list[Statistics]) -> str:
    """Return the interactive page as text. Raises StudyError for a trace without times."""
    from headrace.traces.page import render

    return render(_cells(all_statistics, None, 2))


def _cells(
    all_statistics: list[Statistics], labels: list[str] | None, finer: int
) -> list[DrawableTrace]:
    """Return traces as cells; those of a page, into which users can zoom, are finer."""
    names = labels or [each.trace.name for each in all_statistics]
    return prepare_traces(all_statistics, names, finer * COLUMNS, finer * ROWS)
