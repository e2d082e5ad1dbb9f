"""Takes the looks of a watch of one job, and writes its outline at the end."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from headrace.errors import HeadraceError
from headrace.outline.block_order import BlockOrder
from headrace.outline.figures import Seen, figures_of
from headrace.outline.open_files import OpenFiles
from headrace.outline.writing import Outline, write
from headrace.system.accounting import peak_rss_bytes
from headrace.watching import FoundJob, JobSample, NodeSample


class JobOutline:
    """A context manager and an outlet of a watch: enter it before the watcher, `add` each look."""

    def __init__(self, found: FoundJob, path: Path) -> None:
        self._found, self._path = found, path
        self._files = OpenFiles()
        self._order = BlockOrder(min(found.pids, default=os.getpid()))
        self._began_utc = ""
        self._last: JobSample | None = None
        self._ended_ns = 0
        self._looks = self._threads = self._memory = 0
        self._tasks: set[int] = set()
        self._pids: set[int] = set()
        self._ended = False
        self.outline: Outline | None = None
        """What was written; None if the job did nothing that could be seen."""

    def __enter__(self) -> JobOutline:
        self._look(self._found.pids)
        self._order.start(self._files.devices)
        now = datetime.datetime.now(datetime.UTC)
        self._began_utc = now.isoformat(timespec="seconds")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the profile, unless an error ended the watch."""
        try:
            if kind is None:
                self._finish()
        finally:
            self._order.close()

    def add(self, sample: NodeSample) -> None:
        """Take a look."""
        job = next((each for each in sample.jobs if each.key == self._found.key), None)
        if job is None or job.ended:
            self._ended = True
            return
        self._last, self._ended_ns = job, time.monotonic_ns()
        self._looks += 1
        self._threads = max(self._threads, job.threads)
        self._look(job.pids)

    def _look(self, pids: Iterable[int]) -> None:
        self._files.look(pids)
        for pid in pids:
            self._pids.add(pid)
            self._memory = max(self._memory, peak_rss_bytes(pid))
            with contextlib.suppress(OSError):
                self._tasks |= {int(name) for name in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208

    def _finish(self) -> None:
        job = self._last
        if job is None:
            raise HeadraceError(
                f"{self._found.name}: the job ended before it was looked at twice: no profile",
                hint="watch a job that runs longer, or with a shorter --interval",
            )
        block = self._order.finish(self._tasks, round(job.began_s * 1e9), self._ended_ns)
        ledger = job.total.ledger
        seen = Seen(
            wall_s=ledger.wall_s,
            cpu_s=job.total.cpu_s,
            wait_cpu_s=ledger.wait_cpu_s,
            wait_storage_s=sum(ledger.waits_s.values()),
            sleep_s=ledger.other_s,
            uncertainty_s=ledger.uncertainty_s,
            moved=job.total.moved,
            io_readable=job.io_readable,
            looks=self._looks,
            threads=self._threads,
            several=self._threads > 1 or len(self._pids) > 1,
            memory_bytes=self._memory,
            others=frozenset(self._files.others),
            mapped=self._files.mapped,
            block=block,
        )
        self.outline = Outline(
            name=self._path.stem,
            job=self._found.name,
            began_utc=self._began_utc,
            wall_s=ledger.wall_s,
            machine=f"{platform.node()}, Linux {platform.release()}",
            figures=figures_of(seen),
            files=self._files.files,
            unknown=tuple(self._unknown(seen)),
        )
        write(self.outline, self._path)

    def _unknown(self, seen: Seen) -> Iterable[str]:
        """Yield what could not be seen, as sentences."""
        figures = figures_of(seen)
        if not seen.io_readable:
            yield "bytes and calls: only the owner and root may read /proc/PID/io; steps have none"
        elif "sequential_share" not in figures and seen.moved.read:
            yield f"order of the reads ({self._why_no_order(seen)}): taken as in order"
        if seen.mapped:
            yield "reads of mapped files whose pages were in memory: bytes are those of storage"
        yield "reads of io_uring and libaio: they are not counted"
        if self._files.hidden:
            yield "open files and their sizes: only the owner and root may read /proc/PID/fd"
        elif seen.moved.read and not any(file.read for file in self._files.files):
            yield "the files that were read: none was open at a look; one file is assumed"
        else:
            yield "files that were open only between two looks, and which file was read how much"
        if any(file.bytes is None for file in self._files.files):
            yield "sizes of some files: taken as the mean of the others"
        if self._files.left_out:
            yield f"{self._files.left_out} smaller files that were open: left out"
        if seen.several:
            yield (
                "which work needed which read: the steps of all threads and processes come one "
                "after the other"
            )
        if self._ended:
            yield f"what it did after the last look before its end ({self._looks} looks in all)"
        yield "how much of the whole job this is, and its events"

    def _why_no_order(self, seen: Seen) -> str:
        if self._order.problem:
            return self._order.problem
        if seen.block is not None and seen.block.lost:
            return f"the kernel dropped {seen.block.lost} block events"
        return "no block reads: the page cache, or a server, had it all"
