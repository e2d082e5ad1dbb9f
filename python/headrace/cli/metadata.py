"""`headrace metadata FILE…`: metadata rates of Headrace, mdtest and IOR side by side."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from headrace.cli._console import out


def metadata(
    files: Annotated[
        list[Path],
        typer.Argument(help="results folders of Headrace, or files with the output of mdtest or IOR"),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print rates of metadata tests side by side: of Headrace, mdtest and IOR, each beside the first."""
    from headrace.units import format_bytes_per_s
    from headrace.workloads.mdtest.imported import read_results
    from headrace.workloads.mdtest.phases import TITLES

    found = [(file, each) for file in files for each in read_results(file)]
    if as_json:
        typer.echo(json.dumps([{"file": str(file), **asdict(each)} for file, each in found], indent=1))
        return
    for unit, titles in (("ops/s", TITLES), ("bytes/s", {"write": "Write", "read": "Read"})):
        shown = [each for _, each in found if each.unit == unit]
        if not shown:
            continue
        heading = "Operations a second" if unit == "ops/s" else "Rates"
        table = Table("", title=f"{heading} until the last client is done, means; × the first")
        for each in shown:
            clients = "" if each.clients is None else f"\n{each.clients} clients, {each.nodes} nodes"
            table.add_column(f"{each.program}{clients}", justify="right")
        for phase, title in titles.items():
            if not any(phase in each.rates for each in shown):
                continue
            first = shown[0].rates.get(phase)
            cells: list[str] = []
            for number, each in enumerate(shown):
                rate = each.rates.get(phase)
                if rate is None:
                    cells.append("–")
                    continue
                text = f"{rate.mean:,.0f}" if unit == "ops/s" else format_bytes_per_s(rate.mean)
                ratio = f"\n{rate.mean / first.mean:.2f}×" if number and first and first.mean else ""
                cells.append(text + ratio)
            table.add_row(title, *cells)
        out.print(table)
