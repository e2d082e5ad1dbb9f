"""One entry for all report files: writes them beside the records, each whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.analysis.findings import Findings
from headrace.errors import ExitCode, HeadraceError

FORMATS = ("html", "csv", "latex", "parquet")


class UnknownFormatError(HeadraceError):
    """A format was asked for that there is none of."""

    exit_code = ExitCode.BAD_INPUT


def _html(results: Path, findings: Findings, series_trials: tuple[str, ...]) -> list[Path]:
    from headrace.report.html import render

    return [
        _write(
            results / "report.html",
            lambda file: file.write_text(render(findings, results, series_trials), encoding="utf-8"),
        )
    ]


def _csv(results: Path, findings: Findings, _series_trials: tuple[str, ...]) -> list[Path]:
    from headrace.report.csv import write_csv
    from headrace.report.tidy import tidy_table

    return [_write(results / "report.csv", lambda file: write_csv(tidy_table(findings), file))]


def _parquet(results: Path, findings: Findings, _series_trials: tuple[str, ...]) -> list[Path]:
    from headrace.report.parquet import write_parquet
    from headrace.report.tidy import tidy_table

    return [_write(results / "report.parquet", lambda file: write_parquet(tidy_table(findings), file))]


def _latex(results: Path, findings: Findings, _series_trials: tuple[str, ...]) -> list[Path]:
    from headrace.report.latex import write_latex

    return write_latex(findings, results / "report.tex")


_WRITERS: dict[str, Callable[[Path, Findings, tuple[str, ...]], list[Path]]] = {
    "html": _html,
    "csv": _csv,
    "latex": _latex,
    "parquet": _parquet,
}


def _write(file: Path, write: Callable[[Path], object]) -> Path:
    """Writes beside the place and renames into it, so that an old report stays whole until the new one is."""
    beside = file.with_name(f".{file.name}.part")
    try:
        write(beside)
        beside.replace(file)
    except OSError as error:
        raise HeadraceError(
            f"{file} cannot be written: {error.strerror or error}", hint="the records are unharmed"
        ) from None
    finally:
        if beside.is_file():
            beside.unlink()
    return file


def write_report(
    results: Path, findings: Findings, formats: Sequence[str] = ("html",), series_trials: Sequence[str] = ()
) -> list[Path]:
    """Writes the report in these formats into the results folder; returns the files, in the order of the formats.

    `series_trials` are ids of trials whose device series stand in the page beside the few that it picks itself. Raises
    UnknownFormatError before anything is written; HeadraceError when a file cannot be.
    """
    unknown = [name for name in formats if name not in _WRITERS]
    if unknown:
        raise UnknownFormatError(
            f"there is no report format {unknown[0]!r}", hint=f"there are: {', '.join(FORMATS)}"
        )
    missing = [trial for trial in series_trials if not (results / "trials" / trial).is_dir()]
    if missing:
        raise UnknownFormatError(
            f"{results} has no trial {missing[0]!r}", hint=f"their names: ls {results / 'trials'}"
        )
    return [
        file
        for name in dict.fromkeys(formats)
        for file in _WRITERS[name](results, findings, tuple(series_trials))
    ]
