"""Captures block requests by a kernel interface and a recorder that writes blktrace files.

Each device has its own set of files. `trace.json` in the trace's directory describes the trace and
says whether it is complete; `blkparse -i NAME` reads the files.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import select
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, RefusedError
from headrace.system.devices import name_of, parent_disk
from headrace.system.journal import Journal
from headrace.system.own_programs import own_program
from headrace.system.owned import work_directory
from headrace.system.processes import Started, start_process
from headrace.system.tracefs import TracedDevice
from headrace.traces.means import Means, means

SCHEMA = 1
TRACE_FILE = "trace.json"
_CLASS = Path("/sys/class/block")


@dataclass(frozen=True)
class Captured:
    """Result of a capture; the contents of `trace.json`."""

    directory: Path
    devices: tuple[str, ...]
    files: tuple[str, ...]
    events: int
    lost: int
    """Events that the kernel dropped for lack of space; a trace that lost events is incomplete."""
    begin_monotonic_ns: int
    duration_s: float
    begin_utc: str
    moved: dict[str, int] = field(default_factory=dict[str, int])
    """Requests that other disks completed meanwhile, by name: a hint if the trace is empty."""
    command: tuple[str, ...] = ()
    recorder_cpu_s: float = 0.0
    """CPU time of the recording process."""
    by: str = "tracefs"
    """The kernel interface that captured it: tracefs or blktrace."""


def traced_device(given: str) -> TracedDevice:
    """Return a device by path or kernel name. Raises HeadraceError if there is no such block
    device."""
    path = Path(given) if "/" in given else Path("/dev") / given
    try:
        found = path.stat()
    except OSError:
        raise HeadraceError(
            f"{path}: no such device", hint=f"block devices here: {', '.join(_disks()) or 'none'}"
        ) from None
    name = (
        name_of(f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}")
        if path.is_block_device()
        else None
    )
    if name is None:
        raise HeadraceError(
            f"{path} is not a block device", hint="name one such as /dev/sda or sda"
        )
    disk = parent_disk(name)
    parts = [
        entry for entry in (_CLASS / (disk or name)).iterdir() if (entry / "partition").exists()
    ]
    also = tuple(_number(part.name) for part in parts)
    if disk is None:
        return TracedDevice(name, _number(name), also)
    start, size = (int((_CLASS / name / attribute).read_text()) for attribute in ("start", "size"))
    return TracedDevice(disk, _number(disk), also, (start, start + size))


def _number(name: str) -> tuple[int, int]:
    major, _, minor = (_CLASS / name / "dev").read_text().strip().partition(":")
    return int(major), int(minor)


def _disks() -> list[str]:
    return sorted(
        entry.name
        for entry in _CLASS.iterdir()
        if not (entry / "partition").exists() and int((entry / "size").read_text()) > 0
    )


def _requests_by_disk() -> dict[str, int]:
    """Return the requests completed since boot, by disk (Documentation/block/stat.rst)."""
    counts: dict[str, int] = {}
    for name in _disks():
        with contextlib.suppress(OSError):
            words = (_CLASS / name / "stat").read_text().split()
            counts[name] = int(words[0]) + int(words[4])
    return counts


class Capture:
    """One capture: `start`, then `finish`. `finish` is safe after a `start` that failed halfway.

    `by`: tracefs or blktrace; None uses tracefs, or blktrace if tracefs is unavailable.
    """

    def __init__(
        self, journal: Journal, devices: list[TracedDevice], directory: Path, by: str | None = None
    ) -> None:
        self._journal = journal
        self._devices = devices
        self.directory = directory
        self._by = by
        self._means: Means | None = None
        self._recorder: Started | None = None
        self._work: Path | None = None
        self._entries: list[Any] = []
        self._made: list[Path] = []
        self._begin_ns = 0
        self._begin_utc = ""
        self._before: dict[str, int] = {}
        self._complaints = Path()

    def start(self) -> None:
        """Start to record. Raises MissingError, HeadraceError; RefusedError if the directory
        already contains a trace."""
        if (self.directory / TRACE_FILE).exists() or any(self.directory.glob("*.blktrace.*")):
            raise RefusedError(f"{self.directory} holds a trace already", hint="name a new folder")
        chosen = means(self._by)
        self._make_directory()
        self._work, entry = work_directory(self._journal)
        self._entries.append(entry)
        mountpoint = self._work / "tracing"
        mountpoint.mkdir()
        before = {each.number for each in self._journal.open_entries}
        try:
            wanted = chosen.prepare(
                self._journal, mountpoint, self._devices, self.directory.resolve()
            )
        finally:
            self._entries += [
                each for each in self._journal.open_entries if each.number not in before
            ]
        task = self._work / "task.json"
        task.write_text(json.dumps({chosen.name: wanted}))
        self._complaints = self._work / "recorder.log"
        self._before = _requests_by_disk()
        begin_ns = time.monotonic_ns()
        with self._complaints.open("wb") as complaints:
            self._recorder = start_process(
                self._journal,
                [str(own_program("headrace-blocktrace")), str(task)],
                output=subprocess.PIPE,
                errors=complaints,
            )
        if self._said(10.0) != "ready":
            raise HeadraceError(
                f"the recorder of block requests does not start: {self._complaint()}"
            )
        self._begin_ns = begin_ns if chosen.begins_by_itself else time.monotonic_ns()
        self._begin_utc = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self._means = chosen
        chosen.begin(self._journal)

    def _make_directory(self) -> None:
        parents = itertools.takewhile(
            lambda each: not each.exists(), (self.directory, *self.directory.parents)
        )
        self._made = list(parents)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HeadraceError(f"{self.directory} cannot be made: {error.strerror}") from error

    def _said(self, patience_s: float) -> str:
        assert self._recorder is not None and self._recorder.process.stdout is not None
        pipe = self._recorder.process.stdout
        if not select.select([pipe], [], [], patience_s)[0]:
            return ""
        return pipe.readline().decode(errors="replace").strip()

    def _complaint(self) -> str:
        with contextlib.suppress(OSError):
            text = self._complaints.read_text(errors="replace").strip()
            return text.removeprefix("headrace-blocktrace: ") or "it says nothing"
        return "it says nothing"

    def finish(self, command: tuple[str, ...] = ()) -> Captured:
        """Stop, tear down and write `trace.json`. Raises HeadraceError if the recorder failed."""
        said = ""
        duration_s = (time.monotonic_ns() - self._begin_ns) / 1e9
        try:
            if self._means is not None and self._recorder is not None:
                self._means.end()
                self._recorder.process.terminate()
                said = self._said(60.0)
                if not said:
                    raise HeadraceError(
                        f"the recorder of block requests failed: {self._complaint()}"
                    )
        finally:
            self._tear_down()
        if not said or self._means is None:
            raise HeadraceError("the recorder of block requests was not started")
        recorded: dict[str, Any] = json.loads(said)
        after = _requests_by_disk()
        names = tuple(dict.fromkeys(each.name for each in self._devices))
        captured = Captured(
            directory=self.directory,
            devices=names,
            files=tuple(recorded["files"]),
            events=recorded["events"],
            lost=recorded["lost"] + recorded["broken_pages"],
            begin_monotonic_ns=self._begin_ns,
            duration_s=duration_s,
            begin_utc=self._begin_utc,
            moved={
                name: count - self._before.get(name, 0)
                for name, count in after.items()
                if name not in names and count > self._before.get(name, 0)
            },
            command=command,
            recorder_cpu_s=recorded["cpu_s"],
            by=self._means.name,
        )
        _write_description(captured, self._devices)
        self._made = []
        return captured

    def abandon(self) -> None:
        """Stop everything that was started; keep the data recorded so far, but no empty folder."""
        self._tear_down()
        with contextlib.suppress(OSError):  # it holds data
            for made in self._made:
                made.rmdir()
        self._made = []

    def _tear_down(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            if self._recorder.process.stdout is not None:
                self._recorder.process.stdout.close()
            self._recorder = None
        for entry in reversed(self._entries):
            self._journal.undo(entry)
        self._entries = []


def _write_description(captured: Captured, devices: list[TracedDevice]) -> None:
    values = {key: value for key, value in asdict(captured).items() if key != "directory"}
    text = json.dumps(
        {
            "trace": SCHEMA,
            "kernel": os.uname().release,
            "sources": [asdict(each) for each in devices],
            **values,
        },
        indent=1,
    )
    unfinished = captured.directory / f"{TRACE_FILE}.new"
    unfinished.write_text(text + "\n")
    unfinished.rename(captured.directory / TRACE_FILE)
