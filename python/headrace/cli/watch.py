"""`headrace watch`: what running jobs wait for, live, without restarting them."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.cli._console import err, out
from headrace.cli._notes import print_notes
from headrace.cli._option_values import seconds
from headrace.cli._watch_options import (
    AsJson,
    Cgroup,
    Condor,
    Everything,
    Interval,
    Metrics,
    Once,
    Pid,
    Profile,
    Record,
    Slurm,
    Textfile,
    User,
    Window,
)
from headrace.cli._watch_show import Show
from headrace.errors import HeadraceError, RefusedError, UsageError
from headrace.system.stopping import stopping_on_signals

if TYPE_CHECKING:
    from headrace.watching import Finder, NodeSample
    from headrace.watching.recording import Recorder


def watch(
    pid: Pid = None,
    cgroup: Cgroup = None,
    user: User = None,
    slurm: Slurm = None,
    condor: Condor = None,
    everything: Everything = False,
    interval: Interval = "1 s",
    once: Once = False,
    as_json: AsJson = False,
    record: Record = None,
    window: Window = None,
    openmetrics: Metrics = None,
    textfile: Textfile = None,
    profile: Profile = None,
) -> None:
    """Show what running jobs wait for: CPU, block devices, network storage, memory.

    The jobs are not restarted, and nothing is loaded into them. Root can read all sources, and the
    owner of the jobs those in /proc. Jobs that wait most come first. Ctrl-C prints a summary and
    ends with exit code 0.
    """
    from headrace.watching import Watcher

    interval_s = seconds(interval, "--interval", 0.1, day=True)
    if window is not None and record is None:
        raise UsageError(f"--window {window}: goes with --record")
    window_s = 0.0
    if record is not None:
        window_s = seconds(window or "1 min", "--window", interval_s, day=True)
    given = {"pid": pid, "cgroup": cgroup, "user": user, "slurm": slurm, "condor": condor}
    finder = _finder({**given, "all": ["all"] if everything else []})
    stop = threading.Event()
    show = Show(as_json=as_json, live=out.is_terminal and not once and not as_json, once=once)
    outlets: list[Outlet] = [show]
    with ExitStack() as stack:
        stack.enter_context(stopping_on_signals(stop))
        if profile is not None:
            outlets.append(stack.enter_context(_profiled(profile, finder)))
        # The table does not show pressure.
        pressure = as_json or openmetrics is not None or textfile is not None
        watcher = stack.enter_context(Watcher(finder, pressure=pressure))
        if openmetrics is not None or textfile is not None:
            outlets.append(stack.enter_context(_metrics(openmetrics, textfile, once)))
        # Last of what can be refused: a new folder would be refused the next time.
        if record is not None:
            outlets.append(stack.enter_context(_recorder(record, window_s)))
        stack.enter_context(show)
        while not stop.is_set():
            sample = watcher.watch(interval_s, stop.is_set)
            for outlet in outlets:
                outlet.add(sample)
            if once or (not watcher.living and finder.ends):
                break


@contextmanager
def _profiled(path: Path, finder: Finder) -> Generator[Outlet]:
    """Write the outline of the one job at the end, and say what is unknown in it."""
    from headrace.cli._output_files import check_folder_of
    from headrace.outline import JobOutline
    from headrace.profiles.places import profile_to_write

    path = profile_to_write(path, "job", "--profile")
    check_folder_of(path, "--profile")
    jobs = finder.find()
    if len(jobs) != 1:
        raise UsageError(
            f"--profile: {len(jobs)} jobs are watched; a profile is of one",
            hint="for example headrace watch --pid 4711 --profile job.toml",
        )
    making = JobOutline(jobs[0], path)
    with making:
        yield making
    if making.outline is not None:
        print_notes(making.outline.unknown, "unknown")
    err.print(f"profile: {path}", markup=False)


class Outlet(Protocol):
    """What becomes of looks."""

    def add(self, sample: NodeSample) -> None:
        """Take a look."""


def _recorder(folder: Path, window_s: float) -> Recorder:
    from headrace.records.place import check_place
    from headrace.watching.recording import Recorder

    check_place(folder, "--record")
    try:
        return Recorder(folder, window_s)
    except RefusedError as error:
        raise RefusedError(error.message, hint="name a new folder with --record") from None


@contextmanager
def _metrics(address: str | None, textfile: Path | None, once: bool) -> Generator[Outlet]:
    """Yield what shows metrics. Raises HeadraceError at the end if the file is not up to date."""
    from headrace.monitoring.outlets import check_file, served, written
    from headrace.watching.metrics import WatchMetrics

    def tell(text: str) -> None:
        err.print(text, style="dim", markup=False)

    metrics, file = WatchMetrics(), None
    with ExitStack() as stack:
        if textfile is not None:
            check_file(textfile, "--textfile")
            # A watch that looks once says at its end what failed, and does not try again.
            file = stack.enter_context(written(metrics, textfile, len if once else tell))
        if address is not None:
            stack.enter_context(served(metrics, address, tell))
        yield metrics
    if file is not None and file.problem:
        raise HeadraceError(f"{file.problem}; it does not hold what was seen last")


def _finder(given: Mapping[str, list[str] | None]) -> Finder:
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
