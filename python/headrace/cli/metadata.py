"""`headrace metadata FILE…`: metadata rates of Headrace, mdtest and IOR side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from headrace.cli._console import complain, err, out
from headrace.errors import ExitCode, HeadraceError

if TYPE_CHECKING:
    from headrace.workloads.mdtest.rates import Imported

_COLUMN_WIDTH = 20
"""Width of a result in the table: numbers are never shortened, headings may wrap."""


def metadata(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="results folders of Headrace, or files with the output of mdtest or IOR"
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print rates of metadata tests of Headrace, mdtest and IOR side by side, and their ratios to
    the first.

    A phase that was not run is blank. A phase whose output has no number (nan) is "not known". If a
    file cannot be read, the command says so, shows the others, and ends with exit code 2.
    """
    from headrace.workloads.mdtest.imported import read_results
    from headrace.workloads.mdtest.phases import TITLES

    found: list[tuple[Path, Imported]] = []
    refused = False
    for file in files:
        try:
            found += [(file, each) for each in read_results(file)]
        except HeadraceError as error:
            refused = True
            complain(error)
    for file, problem in _problems(found):
        err.print(f"{file}: {problem}", style="yellow", markup=False)
    if as_json:
        typer.echo(
            json.dumps([{"file": str(file), **asdict(each)} for file, each in found], indent=1)
        )
    else:
        for unit, titles in (("ops/s", TITLES), ("bytes/s", {"write": "Write", "read": "Read"})):
            having = [(file, each) for file, each in found if each.rates or each.unknown]
            _show([(file, each) for file, each in having if each.unit == unit], unit, titles)
    if refused:
        raise typer.Exit(int(ExitCode.BAD_INPUT))


def _problems(found: Sequence[tuple[Path, Imported]]) -> Iterator[tuple[Path, str]]:
    """Yield what is not in the outputs, and what does not count."""
    for file in dict.fromkeys(file for file, each in found if not each.whole):
        yield file, "ends before its program had finished; phases may be missing"
    for file, each in found:
        if each.unknown:
            phases = ", ".join(each.unknown)
            why = "the output has nan or inf for at least one iteration"
            yield file, f"{each.program}: no rate of {phases}: {why}"
        if each.highest:
            phases = ", ".join(each.highest)
            yield (
                file,
                f"{each.program}: {phases}: the highest of all repetitions, no mean is given",
            )
        if each.left_out:
            trials = "1 trial" if each.left_out == 1 else f"{each.left_out} trials"
            yield file, f"{each.program}: {trials} left out: failed or invalid"


def _show(results: Sequence[tuple[Path, Imported]], unit: str, titles: dict[str, str]) -> None:
    """Print the results in as many tables as the terminal's width requires."""
    if not results:
        return
    heading = "Operations per second" if unit == "ops/s" else "Rates"
    heading += " until the last client is done, means"
    heading += "; × the first result" if len(results) > 1 else ""
    phases = [
        phase
        for phase in titles
        if any(phase in (*each.rates, *each.unknown) for _, each in results)
    ]
    names = _numbered(_short_names([file for file, _ in results]))
    at_once = max(1, (out.width - _COLUMN_WIDTH) // (_COLUMN_WIDTH + 3))
    for start in range(0, len(results), at_once):
        table = Table("", title=heading if start == 0 else None)
        for (_, each), name in list(zip(results, names, strict=True))[start : start + at_once]:
            table.add_column(_heading(name, each), justify="right", overflow="fold")
        for phase in phases:
            cells = [
                _cell(each, results[0][1], phase, unit)
                for _, each in results[start : start + at_once]
            ]
            table.add_row(titles[phase], *cells)
        out.print(table)


def _short_names(files: Sequence[Path]) -> list[str]:
    """Return the last components of the paths, as many as needed to distinguish the files."""
    different = len(set(files))
    for parts in range(1, max(len(file.parts) for file in files) + 1):
        names = ["/".join(file.parts[-parts:]) for file in files]
        if len(set(names)) == different:
            return names
    return [str(file) for file in files]


def _numbered(names: Sequence[str]) -> list[str]:
    """Return the names, with the number of the run where one file holds several."""
    return [
        f"{name}, run {names[: at + 1].count(name)}" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]


def _heading(name: str, result: Imported) -> str:
    nodes = (
        "" if result.nodes is None else f", {result.nodes} node{'s' if result.nodes != 1 else ''}"
    )
    clients = "" if result.clients is None else f"\n{_clients(result.clients)}{nodes}"
    return escape(f"{name}\n{result.program}{clients}")


def _clients(number: int) -> str:
    return "1 client" if number == 1 else f"{number} clients"


def _cell(result: Imported, first: Imported, phase: str, unit: str) -> str:
    from headrace.units import format_bytes_per_s

    rate, beside = result.rates.get(phase), first.rates.get(phase)
    if rate is None:
        return "not known" if phase in result.unknown else ""
    number = f"{rate.mean:,.0f}" if rate.mean >= 100 else f"{rate.mean:.3g}"
    text = number if unit == "ops/s" else format_bytes_per_s(rate.mean)
    if result is first or beside is None or not beside.mean:
        return text
    ratio = rate.mean / beside.mean
    return f"{text}\n{ratio:.2f}×" if ratio >= 0.1 else f"{text}\n{ratio:.2g}×"
