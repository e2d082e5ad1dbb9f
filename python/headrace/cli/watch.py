"""`headrace watch`: what running jobs wait for, live, without restarting them."""

from __future__ import annotations

import shutil
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._console import out
from headrace.errors import UsageError
from headrace.system.stopping import stopping_on_signals
from headrace.units import parse_seconds

if TYPE_CHECKING:
    from headrace.watching import Finder, JobSample, NodeSample
    from headrace.watching.view import Recent


def watch(
    pid: Annotated[
        list[str] | None,
        typer.Option(metavar="PID", help="a process with all that it starts; may be repeated"),
    ] = None,
    interval: Annotated[str, typer.Option(help="time between two looks")] = "1 s",
    once: Annotated[
        bool, typer.Option("--once", help="watch for one interval, show it, and end")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="print a JSON object per interval, one a line")
    ] = False,
) -> None:
    """Show what running jobs wait for: CPU, block devices, network storage, memory.

    Nothing is restarted or preloaded. As root every source is read; as the owner of the jobs those
    of /proc. Jobs that lose most time come first. Ctrl-C ends with a summary and exit code 0.
    """
    from headrace.watching import Watcher

    interval_s = _interval_s(interval)
    finder = _finder({"pid": pid or []})
    stop = threading.Event()
    show = _Show(as_json=as_json, live=out.is_terminal and not once and not as_json, once=once)
    with stopping_on_signals(stop), Watcher(finder) as watcher, show:
        while not stop.is_set():
            show.show(watcher.watch(interval_s, stop.is_set))
            if once or not watcher.living:
                break


def _interval_s(text: str) -> float:
    try:
        interval_s = parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"--interval {text}: {error}") from None
    if not 0.1 <= interval_s <= 3600:
        raise UsageError(f"--interval {text}: must be between 0.1 s and 1 h")
    return interval_s


def _finder(given: dict[str, list[str]]) -> Finder:
    from headrace.watching import finder_kinds

    chosen = {kind: names for kind, names in given.items() if names}
    options = ", ".join(f"--{kind}" for kind in given)
    if len(chosen) != 1:
        said = " and ".join(f"--{kind}" for kind in chosen) or "no jobs"
        raise UsageError(
            f"{said} given; allowed: one of {options}", hint="for example headrace watch --pid 4711"
        )
    kind, names = next(iter(chosen.items()))
    return finder_kinds()[kind](names)


class _Show:
    """Prints looks: a table kept up to date in a terminal, else blocks of lines or JSON."""

    def __init__(self, *, as_json: bool, live: bool, once: bool) -> None:
        from headrace.watching.view import Recent

        self._as_json, self._live, self._once = as_json, live, once
        self._recent: Recent = Recent()
        self._all: dict[str, JobSample] = {}
        self._last: NodeSample | None = None

    def __enter__(self) -> _Show:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Print the summary, unless an error ended the watch."""
        from headrace.watching.view import footnotes, summary

        if kind is not None or self._as_json or self._once or self._last is None:
            return
        lines = [*summary([*self._all.values()]), *footnotes(self._all.values(), ())]
        self._print(lines)

    def show(self, sample: NodeSample) -> None:
        """Show a look."""
        from headrace.watching.as_json import line

        self._last = sample
        self._all |= {job.key: job for job in sample.jobs}
        if self._as_json:
            print(line(sample), flush=True)
            return
        self._print(self._lines(sample))

    def _lines(self, sample: NodeSample) -> list[str]:
        from headrace.watching.view import footnotes, heading, table

        recent = self._recent.add(sample.jobs)
        rows = [(job, recent[job.key]) for job in sample.jobs]
        notes = footnotes(sample.jobs, sample.notes)
        size = shutil.get_terminal_size()
        most = max(1, size.lines - len(notes) - 4) if self._live else len(rows)
        return [heading(sample, sample.jobs), *table(rows, most), *notes, ""]

    def _print(self, lines: list[str]) -> None:
        # A table of rich takes ten times as long as the look itself.
        if self._live:
            width = shutil.get_terminal_size().columns
            sys.stdout.write("\x1b[H\x1b[J" + "\n".join(line[:width] for line in lines) + "\n")
        else:
            sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
