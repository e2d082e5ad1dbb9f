"""What results say: records, reports, comparisons, the gate, and the error of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import (
    HeadraceError,
    UsageError,
)
from headrace.records.place import check_place
from headrace.units import parse_share

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.analysis.model_error import ModelErrors
    from headrace.library.shown import ShownComparison, ShownFindings, ShownGate


def records(results: str | Path) -> Any:
    """Return every job of a results folder with the levels of its trial, as a DuckDB relation.

    `.df()` converts the relation to a data frame.
    """
    from headrace.analysis.read import read

    return read(Path(results)).relation()


def report(
    results: str | Path,
    formats: str | Sequence[str] = ("html",),
    console: Console | None = None,
    *,
    series: Sequence[str] = (),
    output: str | Path | None = None,
) -> tuple[ShownFindings, list[Path]]:
    """Return the findings of a results folder and the report files.

    Prints the report first if a console is given. The files are written next to the records, or
    into the folder `output` (created if needed), so that results may be read-only. `series` lists
    trials whose device series the HTML page shows in addition to those that it selects itself.
    Needs neither an engine nor root. Raises UsageError when the folder holds no results,
    RefusedError for an unknown version or a file that Headrace did not write, which would be
    replaced, HeadraceError when a file cannot be written.
    """
    from headrace.analysis.find import find
    from headrace.analysis.read import read
    from headrace.library.shown import ShownFindings, shown
    from headrace.report.own_files import check_reports
    from headrace.report.terminal import print_report
    from headrace.report.write import check_request, write_report

    root = Path(results)
    formats = (formats,) if isinstance(formats, str) else formats
    if output is not None:
        check_place(Path(output), "--output")
    check_request(root, formats, series)
    check_reports(root if output is None else Path(output), formats)
    findings = shown(ShownFindings, find(read(root)))
    folder = None if output is None else Path(output)
    return findings, write_then_print(
        lambda: write_report(root, findings, formats, series, folder),
        lambda: None if console is None else print_report(findings, console),
    )


def report_text(results: str | Path) -> str:
    """Return the answer of a results folder as plain text for a ticket; writes nothing."""
    from headrace.analysis.find import find
    from headrace.analysis.read import read
    from headrace.report.ticket import ticket_text

    return ticket_text(find(read(Path(results))))


Written = TypeVar("Written")


def write_then_print(write: Callable[[], Written], show: Callable[[], object]) -> Written:
    """Write files, print, and return what was written.

    In this order, because a reader that closes its pipe (`| head`) ends the command while it
    prints. What cannot be written is printed all the same, before the error.
    """
    try:
        written = write()
    except HeadraceError:
        show()
        raise
    show()
    return written


def compare(
    a: str | Path,
    b: str | Path,
    console: Console | None = None,
    *,
    html: Path | None = None,
    force: bool = False,
) -> ShownComparison:
    """Compare two result sets cell by cell. Raises RefusedError when they are not comparable."""
    from headrace.analysis.compare import compare as compare_records
    from headrace.analysis.read import read
    from headrace.library.shown import ShownComparison, shown
    from headrace.report.comparison import print_comparison, write_comparison

    comparison = shown(ShownComparison, compare_records(read(Path(a)), read(Path(b)), force=force))
    write_then_print(
        lambda: None if html is None else write_comparison(comparison, html, Path(a), Path(b)),
        lambda: None if console is None else print_comparison(comparison, console),
    )
    return comparison


def gate(
    results: str | Path,
    against: str | Path,
    console: Console | None = None,
    *,
    metric: str | None = None,
    tolerance: float | str = 0.05,
    force: bool = False,
) -> ShownGate:
    """Judge results against a baseline: which cells got worse, better, or neither.

    `metric`: that of the baseline's study when None. `tolerance`: a relative change that does not
    matter, 0.05 or "5 %". Raises NotJudgedError when no cell can be compared, RefusedError when one
    is measured and the other simulated and `force` is not given, UsageError for an unknown metric.
    """
    from headrace.analysis.gate import gate as judge
    from headrace.analysis.read import read
    from headrace.library.shown import ShownGate, shown
    from headrace.report.gate import print_gate

    try:
        share = parse_share(tolerance)
    except ValueError as error:
        raise UsageError(f"--tolerance {tolerance}: {error}") from None
    judged = judge(
        read(Path(against)), read(Path(results)), metric=metric, tolerance=share, force=force
    )
    found = shown(ShownGate, judged)
    if console is not None:
        print_gate(found, console)
    return found


def model_errors(a: str | Path, b: str | Path, console: Console | None = None) -> ModelErrors:
    """Compare a simulation with the measurement of the same study.

    Raises RefusedError when the two are not such a pair.
    """
    from headrace.analysis.model_error import model_errors as compare_times
    from headrace.analysis.read import read
    from headrace.report.model_error import print_model_errors

    found = compare_times(read(Path(a)), read(Path(b)))
    if console is not None:
        print_model_errors(found, console)
    return found
