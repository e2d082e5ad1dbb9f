"""How `headrace watch` shows looks: a table kept up to date, blocks of lines, or JSON."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.watching import JobSample, NodeSample
    from headrace.watching.view import Recent


class Show:
    """Prints looks: a table kept up to date in a terminal, else blocks of lines or JSON."""

    def __init__(self, *, as_json: bool, live: bool, once: bool) -> None:
        from headrace.watching.view import Recent

        self._as_json, self._live, self._once = as_json, live, once
        self._recent: Recent = Recent()
        self._all: dict[str, JobSample] = {}
        self._last: NodeSample | None = None

    def __enter__(self) -> Show:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Print the summary, unless an error ended the watch."""
        from headrace.watching.view import footnotes, summary

        if kind is not None or self._as_json or self._once or self._last is None:
            return
        lines = [*summary([*self._all.values()]), *footnotes(self._all.values(), ())]
        self._print(lines)

    def add(self, sample: NodeSample) -> None:
        """Show a look."""
        from headrace.watching.as_json import line

        self._last = sample
        self._all |= {job.key: job for job in sample.jobs}
        if self._as_json:
            print(line(sample), flush=True)
            return
        self._print(self._lines(sample))

    def _lines(self, sample: NodeSample) -> list[str]:
        from headrace.watching.view import clients, footnotes, foreign, heading, table

        recent = self._recent.add(sample.jobs)
        rows = [(job, recent[job.key]) for job in sample.jobs]
        notes = [*clients(sample), *foreign(sample), *footnotes(sample.jobs, sample.notes)]
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
