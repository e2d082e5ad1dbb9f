"""Write all report files, each one whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.errors import ExitCode, HeadraceError
from headrace.report.own_files import NAMES
from headrace.whole_file import write_errors, write_whole

if TYPE_CHECKING:
    from headrace.analysis.findings import Findings

FORMATS = ("html", "csv", "latex", "parquet")


class UnknownFormatError(HeadraceError):
    """The requested format does not exist."""

    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True)
class _Request:
    """What is written, and where."""

    results: Path
    """The results folder; only read."""
    output: Path
    """Folder of the files."""
    findings: Findings
    series_trials: tuple[str, ...]

    @property
    def trials(self) -> str:
        """The trials' folder, for links in the files."""
        if self.output.resolve() == self.results.resolve():
            return "trials"
        return quote(os.path.relpath(self.results.resolve() / "trials", self.output.resolve()))


def _html(request: _Request) -> list[Path]:
    from headrace.report.html import render

    def write(file: Path) -> None:
        page = render(request.findings, request.results, request.series_trials, request.trials)
        file.write_text(page, encoding="utf-8")

    return [_write(request.output / NAMES["html"], write)]


def _csv(request: _Request) -> list[Path]:
    from headrace.report.csv import write_csv
    from headrace.report.tidy import tidy_table

    table = tidy_table(request.findings)
    return [_write(request.output / NAMES["csv"], lambda file: write_csv(table, file))]


def _parquet(request: _Request) -> list[Path]:
    from headrace.report.parquet import write_parquet
    from headrace.report.tidy import tidy_table

    table = tidy_table(request.findings)
    return [_write(request.output / NAMES["parquet"], lambda file: write_parquet(table, file))]


def _latex(request: _Request) -> list[Path]:
    from headrace.report.latex import write_latex

    with write_errors(request.output / NAMES["latex"], HINT):
        return write_latex(request.findings, request.output / NAMES["latex"])


_WRITERS: dict[str, Callable[[_Request], list[Path]]] = {
    "html": _html,
    "csv": _csv,
    "latex": _latex,
    "parquet": _parquet,
}


HINT = "the records are unharmed; --output FOLDER writes the report elsewhere"


def _write(file: Path, write: Callable[[Path], object]) -> Path:
    return write_whole(file, write, HINT)


def check_request(results: Path, formats: Sequence[str], series_trials: Sequence[str]) -> None:
    """Raise UnknownFormatError for a format that does not exist or a trial that the results do
    not have."""
    unknown = [name for name in formats if name not in _WRITERS]
    if unknown:
        raise UnknownFormatError(
            f"there is no report format {unknown[0]!r}", hint=f"there are: {', '.join(FORMATS)}"
        )
    missing = [
        trial
        for trial in series_trials
        if not (results / "trials" / trial / "trial.json").is_file()
    ]
    if missing:
        raise UnknownFormatError(
            f"{results} has no trial {missing[0]!r}", hint=f"their names: ls {results / 'trials'}"
        )


def write_report(
    results: Path,
    findings: Findings,
    formats: Sequence[str] = ("html",),
    series_trials: Sequence[str] = (),
    output: Path | None = None,
) -> list[Path]:
    """Write the report in these formats; return the files, in the order of the formats.

    The files go into the results folder, or into `output`, which is created when missing; nothing
    is then written to the results folder. `series_trials` are ids of trials whose device series the
    page shows in addition to the few it selects itself. Raises UnknownFormatError before anything
    is written; HeadraceError when a file cannot be written.
    """
    check_request(results, formats, series_trials)
    folder = results if output is None else output
    with write_errors(folder, HINT):
        folder.mkdir(parents=True, exist_ok=True)
    request = _Request(results, folder, findings, tuple(series_trials))
    return [file for name in dict.fromkeys(formats) for file in _WRITERS[name](request)]
