"""The table of speed: what each row was in version 0.1, its goal, its limit, peers, and what it is.

The figures are those of one run of `python benchmarks`. The generated section of
docs/performance.md keeps the last table, with date and machine.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from figures import Figure

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- table of speed: begin -->\n", "<!-- table of speed: end -->\n"


@dataclass(frozen=True)
class Row:
    """One row; `unit` is one of `UNITS`."""

    title: str
    before: str
    """In version 0.1."""
    goal: str
    limit: str
    unit: str


UNITS = {
    "M/s": lambda value: f"{value / 1e6:.2f} M/s",
    "s": lambda value: f"{value:.2f} s",
    "times": lambda value: f"{value:.2f} times",
    "us": lambda value: f"{value:.1f} us",
    "%": lambda value: f"{value:+.1%}",
}

ROWS = {
    "disk randwrite depth 32": Row(
        "disk, random writes, depth 32, requests per CPU second",
        "1.7 M/s", "5 M/s", "look-ups in the write cache", "M/s",
    ),
    "disk randread depth 32": Row(
        "disk, random reads, depth 32, requests per CPU second",
        "3.2 M/s", "6 M/s", "the choice among waiting requests", "M/s",
    ),
    "ssd randwrite depth 32": Row(
        "SSD, random writes, depth 32, requests per CPU second",
        "1.9 M/s at 4 GiB", "8 M/s", "cache misses of the tables", "M/s",
    ),
    "cluster hour": Row(
        "1 000 nodes of 24 slots on a shared server, one hour, CPU time",
        "81 to 149 s", "40 s on 2 cores", "events per request", "s",
    ),
    "cluster ratio": Row(
        "cost per request, 1 000 nodes over 10", "1.4 to 2.3 times", "1.3 times",
        "cache misses", "times",
    ),
    "sweep": Row(
        "1 000 studies of 36 trials, wall time", "not run", "300 s",
        "the core, 3 of 5 ms per trial", "s",
    ),
    "trace": Row(
        "block trace, summary, events per CPU second", "17 to 23 M/s", "40 M/s",
        "one pass over the events, 45 M/s", "M/s",
    ),
    "start --help": Row(
        "`headrace --help`, CPU time", "1.2 s", "0.15 s", "imports of typer and rich", "s"
    ),
    "start validate": Row(
        "`headrace validate`, CPU time", "1.2 s", "0.15 s",
        "imports of typer, rich and pydantic, 0.14 s", "s",
    ),
    "report": Row(
        "report of 10 000 trials, CPU time", "6.8 s", "3 s",
        "imports 1.2 s, reading the records 1.2 s", "s",
    ),
    "recorder analysis": Row(
        "recorded analysis, CPU time over that without", "+7 to +14 %", "+3 %",
        "a clock call per read", "%",
    ),
    "recorder read": Row(
        "recorded read of 4 KiB, CPU time over that without", "2.8 times (dd, 512 B)",
        "1.5 times", "a system call", "times",
    ),
    "emulated floor": Row(
        "emulated device, floor, alone", "15 to 20 us", "15 us",
        "the bare loop device, 10 us", "us",
    ),
    "emulated floor beside jobs": Row(
        "emulated device, floor, beside 3 computing jobs", "51 us", "15 us",
        "two wake-ups of other CPUs", "us",
    ),
    "emulated SSD beside jobs": Row(
        "emulated SSD, mean response over the model's, beside a computing job per CPU",
        "-", "10 %, or not trusted", "-", "%",
    ),
    "reproduce": Row(
        "`headrace reproduce`, all four studies, wall time", "48 to 65 s", "25 s",
        "the core, 118 s of CPU time", "s",
    ),
}  # fmt: skip
"""By the row of the figures."""


def table(figures: Mapping[str, Figure]) -> list[str]:
    """Return the lines of the table, with the figures of peers; a row without figure says so."""
    lines = [
        "| what | version 0.1 | goal | peers | limit | now |",
        "|---|---|---|---|---|---|",
    ]
    for key, row in ROWS.items():
        shown, figure = UNITS[row.unit], figures.get(key)
        now = "not run" if figure is None else shown(figure.value)
        peers = {} if figure is None else figure.peers
        beside = ", ".join(f"{name} {shown(value)}" for name, value in peers.items()) or "-"
        lines.append(
            f"| {row.title} | {row.before} | {row.goal} | {beside} | {row.limit} | {now} |"
        )
    return lines


def machine() -> str:
    """Return the date and the machine as a sentence."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    load = " to ".join(f"{each:.1f}" for each in sorted({*os.getloadavg()[::2]}))
    today = datetime.datetime.now(datetime.UTC).date()
    return f"{today}, {os.cpu_count()} CPUs ({model}), load average {load}."


def write(lines: Sequence[str]) -> None:
    """Replace the generated section of docs/performance.md."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    text = "\n".join(["", machine(), "", *lines, "", ""])
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}")
