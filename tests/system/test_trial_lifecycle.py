"""Law 5 by construction: an error at any step of a trial becomes a record, the study goes on, and
nothing is left behind.

The engine runs real trials. A trace function raises at the entry of one function per trial: of
every function that a trial enters, as found in a trial without an error, so that a new step is
tried without being named here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from headrace.engine import Run
from headrace.engine.measure import Measure
from headrace.errors import InterruptedRunError
from headrace.library import Silent, environment, load_study
from headrace.plan.trial import Trial
from headrace.records.store import ResultsHeader, ResultStore
from headrace.system.cgroups import hierarchy
from machine import loops_below, mounts_below
from workspace import Workspace

pytestmark = pytest.mark.usefixtures("needs_root")

PACKAGE = str(Path(sys.modules["headrace"].__file__ or "").parent)
# A step is a function of these, or one that these call.
STEPS = tuple(
    f"{PACKAGE}/{package}/"
    for package in ("engine/measure", "launchers", "targets", "faults", "probes")
)
# The last resort, which nothing can stand in for: writing down that the trial failed.
LAST_RESORT = (
    "write_failure",
    "failure_of",
    "describe",
    "__init__",
    "recording",
    "text",
    "commit",
    "record",
)
# Threads begin here; a function that they call is a step.
THREADS = ("_run", "watch")


# What is called between trials is no step of one.
BOUNDARIES = ("run_trial", "write_outcome", *THREADS)


def within(frame: FrameType | None, names: tuple[str, ...]) -> bool:
    """Whether a function was called, at any remove, by one of these names."""
    while (frame := frame.f_back if frame is not None else None) is not None:
        if frame.f_code.co_name in names:
            return True
    return False


class InjectedError(Exception):
    """Not foreseen by anything."""


@cache
def name_of(code: CodeType) -> str | None:
    """The name of the step that a function may be; None when it is none, whoever calls it."""
    if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
        return None
    if code.co_name in LAST_RESORT or code.co_name in THREADS:
        return None
    return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}"


def is_step(frame: FrameType, boundaries: tuple[str, ...]) -> bool:
    """Whether the call of a function with a name is a step, made below one of these functions."""
    caller = frame.f_back
    ours = frame.f_code.co_filename.startswith(STEPS)
    if not ours and (caller is None or not caller.f_code.co_filename.startswith(STEPS)):
        return False
    return within(frame, boundaries)


class Injecting(Silent):
    """An observer that lets one step fail in each trial, and looks at what each trial left."""

    def __init__(
        self,
        look: Callable[[], list[str]],
        boundaries: tuple[str, ...] = BOUNDARIES,
        learns_from: int = 1,
    ) -> None:
        """`learns_from`: so many trials are left alone, and their steps noted."""
        self._look = look
        self._boundaries = boundaries
        self._learns_from = learns_from
        self._seen: dict[str, None] = {}
        self._left: list[str] = []
        self.stop = threading.Event()
        """Set when every step was tried, so that a plan may have more trials than steps."""
        self.wanted: str | None = None
        """The step that fails in the trial under way."""
        self.fired: str | None = None
        self.found: dict[str, tuple[str | None, list[str]]] = {}
        """Trial -> the step that failed in it, and what the trial left."""

    def trace(self, frame: FrameType, event: str, argument: object) -> None:
        # Called for every call of the process: what costs time comes last.
        step = name_of(frame.f_code)
        if step is None:
            return
        learning = len(self.found) < self._learns_from
        if not learning and (step != self.wanted or self.fired is not None):
            return
        if not is_step(frame, self._boundaries):
            return
        if learning:
            self._seen[step] = None
        else:
            self.fired = step
            raise InjectedError(f"injected at {step}")

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        sys.settrace(None)
        self.found[trial.id] = (self.fired, self._look())
        if len(self.found) == self._learns_from:
            self._left = list(self._seen)
        self.fired = None
        if len(self.found) >= self._learns_from and not self._left:
            self.stop.set()
        self.wanted = self._left.pop(0) if self._left else None
        sys.settrace(self.trace)

    @property
    def steps(self) -> int:
        return len(self._seen)

    @property
    def not_tried(self) -> list[str]:
        return self._left


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A small file system that a fault can fill."""
    place = tmp_path / "memory"
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "headrace-lifecycle", place], check=True
    )
    yield place
    subprocess.run(["umount", place], check=True)


def run(workspace: Workspace, text: str, observer: Injecting) -> None:
    """What `headrace run` does, in this process."""
    loaded = load_study(workspace.study(text))
    plan = loaded.plan()
    header = ResultsHeader(loaded.study.hash, "lifecycle", "measure", str(workspace.place), "", "0")
    store = ResultStore.create(
        workspace.place / "results", loaded.text, header, plan, environment()
    )
    threading.settrace(observer.trace)
    sys.settrace(observer.trace)
    try:
        with pytest.raises(InterruptedRunError):
            Measure().run(
                Run(
                    loaded.study,
                    plan,
                    store,
                    observer,
                    cache_dir=workspace.cache,
                    stop=observer.stop,
                )
            )
    finally:
        sys.settrace(None)
        threading.settrace(None)  # pyright: ignore[reportArgumentType]
        store.close()


def threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [
        name
        for name in names
        if name in ("headrace-faults", "headrace-sampler", "headrace-witness")
    ]


def groups() -> list[str]:
    place = hierarchy("memory")
    assert place is not None
    return [str(path) for path in place.own.glob(f"headrace-{os.getpid()}-*")]


@pytest.fixture
def workspace(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(tmp_path / "journal"))
    # Each trial writes here what empties the page cache of the machine, which others use.
    drop = tmp_path / "drop_caches"
    drop.touch()
    monkeypatch.setattr("headrace.system.page_cache._DROP", drop)
    return Workspace(tmp_path, tmp_path_factory.mktemp("cache"))


TRIALS = """
headrace = 1
title = "lifecycle"
[target.here]
kind = "path"
path = "memory"
[workload.works]
kind = "command"
command = ["sleep", "0.12"]
[[fault]]
what = "disk-full"
free = "1 MB"
[factors]
timeout = [{levels}]
[plan]
repeats = {{ min = 1 }}
[run]
slots = 1
cache = "cold"
shortest = 0
memory_limit = "500 MB"
series_interval = 0.05
"""


def test_an_error_at_any_step_of_a_trial_is_a_record(workspace: Workspace, memory: Path) -> None:
    def left() -> list[str]:
        scratch = [str(path) for path in memory.rglob("*") if path.is_file()]
        return [*threads(), *groups(), *scratch]

    trials = 500  # more than steps: the run is stopped after the last of them
    observer = Injecting(left)
    levels = ", ".join(str(100 + number) for number in range(trials))
    run(workspace, TRIALS.format(levels=levels), observer)
    assert observer.steps > 80 and not observer.not_tried, "give the study more trials"
    records = {trial["id"]: trial for trial in workspace.trials()}
    assert len(records) == observer.steps + 1 == len(observer.found)
    for name, (step, found) in observer.found.items():
        trial = records[name]
        if step is None:
            assert trial["status"] == "done" and found == [], trial["cause"]
            continue
        said = str(
            [trial["cause"], trial["faults"], trial["teardown_errors"], trial.get("probes_failed")]
        )
        assert "injected at" in said, f"{step}: nothing of it in the record"
        assert trial["teardown_errors"] or found == [], step
        if trial["cause"] is not None:
            assert (workspace.place / "results/trials" / name / "error.txt").exists() or trial[
                "teardown_errors"
            ]
    assert left() == []
    assert list((workspace.place / "journal").glob("*.jsonl")) == []


TARGETS = """
headrace = 1
title = "lifecycle"
[target.disk]
kind = "block"
image = "disk.img"
size = "20 MB"
scheduler = "none"
[workload.works]
kind = "command"
command = ["true"]
[plan]
repeats = {{ min = {repeats} }}
[run]
slots = 1
cache = "as-is"
shortest = 0
"""


# The set-up of a whole plot, and each step of its tear-down; what lies deeper is a step of its own
# in the journal.
OF_A_TARGET = ("set_up", "_attempt")


def test_an_error_at_any_step_of_a_target_is_a_record(workspace: Workspace) -> None:
    """Each trial is a whole plot of its own.

    The target is set up before it and torn down after it.
    """

    def left() -> list[str]:
        return [*threads(), *groups()]

    repeats = 130
    observer = Injecting(left, OF_A_TARGET, learns_from=2)
    run(workspace, TARGETS.format(repeats=repeats), observer)
    assert observer.steps > 50 and not observer.not_tried, "give the study more repeats"
    records: list[dict[str, Any]] = workspace.trials()
    assert len(records) == observer.steps + 2 == len(observer.found)
    for trial in records:
        step, found = observer.found[trial["id"]]
        assert found == [], step
        # What fails after a record was written is told by no record; the next whole plot does not
        # notice.
        assert trial["status"] == "done" or "injected at" in trial["cause"], (step, trial["cause"])
    failed = sum(trial["status"] == "failed" for trial in records)
    assert 10 < failed < observer.steps
    assert loops_below(workspace.place) == [] and mounts_below(workspace.place) == []
    assert not (workspace.place / "disk.img").exists()
    assert list((workspace.place / "journal").glob("*.jsonl")) == []
