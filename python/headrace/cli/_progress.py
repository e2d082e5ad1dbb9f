"""Progress of a run: one line per finished trial, and below a bar with the rate and time left."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text
from typing_extensions import override

from headrace.cli._console import err
from headrace.engine.live import NodeLive, TrialLive
from headrace.labels import plain
from headrace.plan.trial import Trial
from headrace.units import format_seconds

_MARKS = {
    "done": "green",
    "invalid": "yellow",
    "failed": "red",
    "unsupported": "yellow",
    "skipped": "dim",
}


_INDENT = 13
"""Columns before the text of a trial's lines."""
_SPAN_S = 0.5
"""Shortest time over which bytes per second are shown."""
_NODE_LINES = 16
"""Nodes shown at most: those that are lost first."""


class _NodesProgress(Progress):
    """A progress bar with lines of nodes below it."""

    lines: tuple[Text, ...] = ()

    @override
    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield from self.lines


class Display:
    """An observer that displays the progress of a run. Use it as a context manager."""

    def __init__(self) -> None:
        self._progress = _NodesProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=err,
            transient=True,
            disable=not err.is_interactive,
        )
        self._task = self._progress.add_task("starting", total=None, left="")
        self._total = 0
        self._done = 0
        self._began = time.monotonic()
        self._done_at_begin = 0
        self._load = ""
        self._left_s: float | None = None
        self._last: TrialLive | None = None
        self.statuses: dict[str, int] = {}

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def started(self, trials_total: int, trials_done: int) -> None:
        """The run starts."""
        self._total, self._done, self._done_at_begin = trials_total, trials_done, trials_done
        self._began = time.monotonic()
        self._progress.update(self._task, total=trials_total, completed=trials_done)
        if trials_done:
            err.print(f"{trials_done} of {trials_total} trials are recorded already", style="dim")

    def time_left(self, seconds: float) -> None:
        """Show the time left, estimated from finished trials. Called before `trial_finished`."""
        self._left_s = seconds
        if self._done < self._total:
            self._progress.update(self._task, left=f"about {format_seconds(round(seconds))} left")

    def phase(self, text: str) -> None:
        """Show the current phase."""
        self._progress.update(self._task, description=escape(text[:60]))

    def trial_started(self, trial: Trial, jobs: int) -> None:
        """A trial's jobs are about to be released."""
        number = f"{jobs} job{'s' if jobs != 1 else ''}" if jobs else "jobs"
        self._progress.update(
            self._task, description=escape(f"{trial.workload} on {trial.target}: {number}")
        )

    def load(self, foreign_cpus: float, cpus: int) -> None:
        """Show the CPU use of other programs, from a twentieth of the CPUs up."""
        shown = foreign_cpus >= 0.05 * cpus
        self._load = f"; others use {foreign_cpus:.1f} of {cpus} CPUs" if shown else ""

    def jobs(self, done: int, running: int, events_per_s: float) -> None:
        """Show the progress of the jobs."""
        rate = f", {events_per_s:,.0f} events/s" if events_per_s else ""
        self._progress.update(
            self._task, description=f"{running} jobs running, {done} done{rate}{self._load}"
        )

    def wants_live(self, nodes: int) -> bool:
        """Return whether nodes are shown: several, in a terminal."""
        return nodes > 1 and err.is_terminal

    def live(self, trial: TrialLive) -> None:
        """Show the jobs and the bytes per second of each node."""
        self._progress.lines = node_lines(self._last, trial)
        if self._last is None or trial.elapsed_s - self._last.elapsed_s >= _SPAN_S:
            self._last = trial

    def note(self, text: str) -> None:
        """Print one line, from any thread."""
        _print(Text(text, "dim"))

    def simulated(self, virtual_s: float) -> None:
        """Show the progress of virtual time relative to real time."""
        real_s = time.monotonic() - self._began
        times = f", {virtual_s / real_s:,.0f} times as fast" if real_s > 1 else ""
        text = f"{format_seconds(virtual_s)} simulated in {format_seconds(round(real_s))}{times}"
        self._progress.update(self._task, description=text)

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        """Print the result of a trial."""
        self._done += 1
        self._progress.lines, self._last = (), None
        self.statuses[status] = self.statuses.get(status, 0) + 1
        made = self._done - self._done_at_begin
        mean_s = (time.monotonic() - self._began) / made
        left_s = mean_s * (self._total - self._done) if self._left_s is None else self._left_s
        self._progress.update(
            self._task,
            completed=self._done,
            left=f"about {format_seconds(round(left_s))} left" if self._done < self._total else "",
        )
        own = {
            factor: level
            for factor, level in trial.levels.items()
            if factor not in ("target", "workload") and level is not None
        }
        point = " ".join(
            [
                trial.target,
                trial.workload,
                *(f"{factor}={plain(level)}" for factor, level in own.items()),
            ]
        )
        colour = _MARKS.get(status, "white")
        line = Text.assemble((f"{status:>11}", colour), f"  {trial.index + 1:>4}/{self._total}  ")
        line.append(f"{point}  repeat {trial.repeat + 1}  {summary}")
        _print(line, _INDENT)
        for reason in reasons:
            style = "yellow" if status != "failed" else "red"
            _print(Text(" " * _INDENT + reason, style), _INDENT)


def _print(line: Text, indent: int = 0) -> None:
    """Print a line; in a terminal, break it between words where the terminal ends.

    In a file and for other programs it stays one line.
    """
    if not err.is_terminal:
        err.print(line)
        return
    left = line[:indent]
    for part in line[indent:].wrap(err, max(20, err.width - indent)):
        err.print(left + part)
        left = Text(" " * indent)


def node_lines(before: TrialLive | None, now: TrialLive) -> tuple[Text, ...]:
    """Return one line per node, of at most 80 columns; lost nodes first, then those without jobs.

    `before`: an earlier look at the same trial, for bytes per second.
    """
    past = {} if before is None else {node.name: node for node in before.nodes}
    span_s = now.elapsed_s - (0.0 if before is None else before.elapsed_s)
    nodes = sorted(now.nodes, key=lambda node: not node.lost)
    lines = [_node_line(node, past.get(node.name), span_s) for node in nodes[:_NODE_LINES]]
    if left := nodes[_NODE_LINES:]:
        running, done = sum(node.running for node in left), sum(node.done for node in left)
        lines.append(Text(f"  {len(left)} more nodes: {running} running, {done} done", "dim"))
    return tuple(lines)


def _node_line(node: NodeLive, past: NodeLive | None, span_s: float) -> Text:
    name = node.name if len(node.name) <= 20 else f"{node.name[:19]}…"
    line = Text(f"  {name:<20} {node.running:>4} running {node.done:>6} done", no_wrap=True)
    if node.failed:
        line.append(f" {node.failed} failed", "red")
    if node.lost:
        line.append("  lost", "bold red")
    elif span_s >= _SPAN_S:
        read = node.read_bytes - (0 if past is None else past.read_bytes)
        written = node.written_bytes - (0 if past is None else past.written_bytes)
        line.append(f" {max(0, read + written) / span_s / 1e6:>8,.0f} MB/s")
    line.truncate(80)
    return line
