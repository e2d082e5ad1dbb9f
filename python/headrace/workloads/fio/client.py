"""One fio process as one job: its command line, files and run.

Used by the workloads `sequential` and `random`. The trial controls the state of the page cache, so
fio must leave it alone (`invalidate=0`).
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import NO_SPACE, HeadraceError, Problem
from headrace.system import children
from headrace.system.requirements import missing_program
from headrace.units import format_bytes
from headrace.workloads import JobInput, JobOutput
from headrace.workloads.fio.meeting import Meeting
from headrace.workloads.fio.results import FioResult, parse_result

if TYPE_CHECKING:
    import numpy as np

_CHUNK_BYTES = 4 << 20
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True)
class FioRun:
    """The result of one fio process, or of a stream by URL, with its times (`time.monotonic()`)."""

    result: FioResult
    start_s: float
    end_s: float


def missing(needed_by: str) -> list[Problem]:
    """Return what this machine lacks to run fio."""
    problem = missing_program("fio", needed_by)
    return [] if problem is None else [problem]


def argv(file: Path, output: Path, options: Mapping[str, str | int]) -> list[str]:
    """Return the command line of one fio job on one file, with JSON output and histograms."""
    # fio interprets a colon in `filename` as a separator.
    name = str(file).replace("\\", "\\\\").replace(":", "\\:")
    fixed: dict[str, str | int] = {
        "name": "headrace",
        "filename": name,
        "numjobs": 1,
        # A worker process has a session of its own, so it outlives fio when the job is killed. A
        # thread does not.
        "thread": 1,
        "invalidate": 0,
        "fallocate": "none",
        "lat_percentiles": 1,
        "clat_percentiles": 0,
        "percentile_list": ":".join(str(percentile) for percentile in PERCENTILES),
    }
    command = ["fio", "--eta=never", "--output-format=json+", f"--output={output}"]
    return command + [f"--{option}={value}" for option, value in {**fixed, **options}.items()]


def run(
    job: JobInput,
    file: Path,
    options: Mapping[str, str | int],
    label: str = "fio",
    *,
    together: bool = False,
) -> FioRun:
    """Run fio to completion in a job and keep its JSON output.

    With `together`, its requests begin when all jobs of the trial are ready. Raises HeadraceError
    with fio's own message when it fails.
    """
    meeting = Meeting.of(job, label) if together else None
    if meeting is None:
        return _run(job, file, options, label)
    with meeting.kept():
        found = _run(job, file, {**options, "exec_prerun": shlex.join(meeting.command)}, label)
        if not found.result.read.requests + found.result.write.requests:
            # fio reports success when its `exec_prerun` command fails.
            raise HeadraceError(f"fio did nothing: {_said_before(job.scratch)}")
        return found


def _said_before(directory: Path) -> str:
    """Return the message of the synchronisation before the run, as written by fio."""
    told = directory / "headrace.prerun.txt"
    words = told.read_text(errors="replace").strip() if told.exists() else ""
    return words or "the clients did not come together"


def _run(job: JobInput, file: Path, options: Mapping[str, str | int], label: str) -> FioRun:
    # The program runs in another directory, so paths must be absolute.
    folder = (job.keep or job.scratch).absolute()
    output = folder / f"{label}-{job.scratch.name}.json"
    said = folder / f"{label}-{job.scratch.name}.out", folder / f"{label}-{job.scratch.name}.err"
    start_s = time.monotonic()
    end = children.run(
        argv(file, output, options), directory=job.scratch, stdout=said[0], stderr=said[1]
    )
    end_s = time.monotonic()
    for log in said:
        if log.stat().st_size == 0:
            log.unlink()
    end.check()
    return FioRun(parse_result(output.read_text()), start_s, end_s)


def job_output(
    job: JobInput,
    runs: list[FioRun],
    phases: list[str],
    *,
    file_size: int,
    asynchronous: bool,
    flushed: bool = False,
    by_child: bool = True,
) -> JobOutput:
    """Return a job's report of its runs; the last one is measured, earlier ones prepare for it.

    With `flushed`, they end with an fsync, which fio does not count as a request. With `by_child`,
    fio did the work.
    """
    results = [run.result for run in runs]
    end_s = runs[-1].end_s + job.clock_offset_s
    return JobOutput(
        bytes_asked=sum(result.read.bytes for result in results),
        bytes_unique=min(file_size, sum(result.read.bytes for result in results)),
        bytes_written=sum(result.write.bytes for result in results),
        read_calls=sum(result.read.requests for result in results),
        # Overlapping requests cannot be added up, but then fio does nothing but wait for them.
        read_wait_s=sum(
            result.runtime_s if asynchronous or flushed else result.in_requests_s
            for result in results
        ),
        asynchronous=asynchronous,
        phases=[(phase, run.start_s, run.end_s) for phase, run in zip(phases, runs, strict=True)],
        results={
            "slot": job.slot,
            "record_start_s": end_s - results[-1].runtime_s,
            "record_end_s": end_s,
            **results[-1].as_results(),
        },
        measured_child=by_child,
    )


def prepare_files(directory: Path, size: int, count: int, seed: int) -> list[str]:
    """Make `count` files of `size` incompressible bytes, synced to storage; keep existing ones.

    Raises HeadraceError when they do not fit.
    """
    import numpy as np  # not needed to check a study

    directory.mkdir(parents=True, exist_ok=True)
    paths: list[str] = []
    for number in range(count):
        path = directory / f"fio-{size}-{number:04d}.data"
        paths.append(str(path))
        if not (path.exists() and path.stat().st_size == size):
            _write(path, size, np.random.default_rng([seed, number]))
    return paths


def _write(path: Path, size: int, generator: np.random.Generator) -> None:
    # Written under another name, so that a file of the right name and size is complete.
    part = path.with_suffix(".part")
    try:
        with part.open("wb") as file:
            for offset in range(0, size, _CHUNK_BYTES):
                file.write(generator.bytes(min(_CHUNK_BYTES, size - offset)))
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        if error.errno in NO_SPACE:
            raise HeadraceError(
                f"no room for a file of {format_bytes(size)} in {path.parent}"
            ) from error
        raise HeadraceError(f"{path} cannot be written: {error.strerror}") from error
