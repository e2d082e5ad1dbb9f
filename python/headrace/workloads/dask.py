"""Workload `dask`: a script of the user (coffea, RDataFrame on Dask, dask-awkward) and its workers.

For each trial Headrace starts a Dask cluster of its own: every job of the trial is one worker
process. The first job also starts the scheduler before the release and runs the script after it.
The ledger of a job is that of its worker alone.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator
from typing_extensions import override

from headrace.datasets import DatasetSpec, estimated_bytes
from headrace.errors import HeadraceError, Problem
from headrace.system.accounting import io_counts, process_use
from headrace.system.children import Child, orphans_adopted
from headrace.system.own_variables import users_environment
from headrace.units import Bytes
from headrace.workloads import JobInput, JobOutput, JobResults, Workload, WorkloadOptions
from headrace.workloads.dask_cluster.interpreter import interpreter_of, lack_of_dask
from headrace.workloads.dask_cluster.processes import (
    ADDRESS,
    Scheduler,
    Worker,
    credentials,
    names_of_credentials,
)
from headrace.workloads.programs.files import files_that_fit
from headrace.workloads.programs.lacking import lack_of
from headrace.workloads.programs.options import ProgramOptions
from headrace.workloads.programs.output import events_in, shorten
from headrace.workloads.programs.placeholders import (
    STUDY,
    check_placeholders,
    fill,
    placeholders_in,
    with_study,
)

_FILES = "files"
_LIST = "filelist"
_OF_A_JOB = ("scheduler", "workers", _LIST, "directory", "scratch", "seed")
PLACEHOLDERS = (_FILES, *_OF_A_JOB, STUDY)
_LOOK_S = 0.05


class DaskOptions(ProgramOptions):
    """Fields of `[workload.NAME]` with `kind = "dask"`."""

    command: tuple[str, ...] = Field(
        min_length=1,
        description="script and arguments, one each, no shell; {scheduler} (address; also in "
        "DASK_SCHEDULER_ADDRESS, which Client() reads), {files} (one argument for each input "
        "file), {filelist} (path of a text file with an input file per line), {workers} (their "
        "number), {directory}, {scratch}, {seed} and {study} are filled in",
        examples=[["python3", "{study}/analysis.py", "{files}"]],
    )
    python: str | None = Field(
        None,
        min_length=1,
        description="Python of scheduler and workers, with distributed; when not given, that of "
        "the command (python3 itself, or what a script's first line names), else Headrace's",
        examples=["/shared/analysis/bin/python"],
    )
    threads: int = Field(1, ge=1, le=1024, description="threads of each worker")
    memory: Bytes = Field(
        0, description="memory at which a worker spills, pauses and ends (Dask's); 0: no limit"
    )
    interface: str | None = Field(
        None,
        min_length=1,
        description="network interface on which scheduler and workers listen, for nodes that are "
        "several machines; loopback when not given",
        examples=["ib0"],
    )
    environment: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="environment variables for script, scheduler and workers; {study} is filled in",
    )

    @classmethod
    def anchored(cls, written: dict[str, object], base: Path) -> dict[str, object]:
        """Return the table with {study} filled in, and paths relative to the study as absolute.

        Called before validation, with the folder of the study file.
        """
        python = written.get("python")
        if isinstance(python, str) and "/" in python:
            written = {**written, "python": str(base / with_study(python, base))}
        return super().anchored(written, base)

    @field_validator("command")
    @classmethod
    def _known_placeholders(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        check_placeholders(command, PLACEHOLDERS)
        for argument in command:
            if f"{{{_FILES}}}" in argument and argument != f"{{{_FILES}}}":
                raise ValueError(
                    "{files} must be an argument by itself: it becomes one for each file"
                )
        return command

    @model_validator(mode="after")
    def _consistent(self) -> DaskOptions:
        named = [word for text in self.command for word in placeholders_in(text, (_FILES, _LIST))]
        if named and self.files is None and self.data is None:
            raise ValueError(f"the command names {{{named[0]}}}: files or data must say which")
        return self


class DaskScript(Workload):
    """One run of the script per trial, on a worker per job."""

    kind: ClassVar[str] = "dask"
    Options: ClassVar[type[WorkloadOptions]] = DaskOptions
    reads_urls: ClassVar[bool] = True
    users_program: ClassVar[bool] = True
    leads: ClassVar[bool] = True

    options: DaskOptions
    _scheduler: Scheduler | None = None
    _worker: Worker | None = None

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self._variables: dict[str, str] = {}
        """Of script and worker: the user's, address and key of the scheduler."""

    @property
    @override
    def threads(self) -> int:
        """Threads of a worker that run tasks."""
        return self.options.threads

    @override
    def check(self) -> list[Problem]:
        """Return a problem when the script or its Python is missing, or Dask in it."""
        needed_by = f"workload {self.name}"
        program = self.options.command[0]
        if (missing := lack_of(program, self.options.environment)) is not None:
            return [Problem(missing[0], needed_by, missing[1])]
        python = self.python
        if (lack := lack_of_dask(python, tuple(self.options.environment.items()))) is None:
            return []
        remedy = f"install distributed there, or name another Python: [{needed_by}] python"
        return [Problem(f"{python} has no Dask for workers: {lack}", needed_by, remedy)]

    @override
    def why_not_on_local_drives(self) -> str | None:
        """Return why each node must see the same files: the script names them to all workers."""
        return "every worker must reach every file of the script"

    @override
    def dataset(self, slots_max: int) -> DatasetSpec | None:
        """Return the generated data set, if the study requests one."""
        return self.options.data

    @override
    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the generated data set; the script's output is unknown."""
        return estimated_bytes(self.options.data) if self.options.data is not None else 0

    @override
    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Return the user's files that match the pattern. Raises HeadraceError when none does."""
        return files_that_fit(self.name, self.options.files, directory)

    @override
    def cut(self, files: list[str], job: int, slots: int) -> tuple[str, ...]:
        """Return all files: Dask says which worker reads which."""
        return tuple(files)

    @override
    def get_ready(self, job: JobInput) -> dict[str, str]:
        """Start the job's worker, and before it the scheduler in the first job."""
        folder = job.scratch.absolute() / "dask"
        folder.mkdir()
        offered = self._offered(job, folder)
        variables = self._variables = {**self.options.environment, **offered}
        self._worker = Worker(
            self.python,
            folder,
            _log(job, "worker"),
            variables,
            name=f"job-{job.job}",
            interface=self.options.interface,
            threads=self.options.threads,
            memory_bytes=self.options.memory,
        )
        self._worker.await_ready()
        self.measured_process = self._worker.pid
        return offered

    def _offered(self, job: JobInput, folder: Path) -> dict[str, str]:
        """Return address and key of the scheduler; in the first job, start it."""
        if job.job > 0:
            if job.job >= job.jobs:
                raise HeadraceError(
                    f'workload {self.name}: a script runs once on all workers: load must be "batch"'
                )
            return {name: os.environ[name] for name in names_of_credentials()}
        found = credentials()
        self._scheduler = Scheduler(
            self.python,
            folder,
            _log(job, "scheduler"),
            {**self.options.environment, **found},
            self.options.interface,
        )
        return {ADDRESS: self._scheduler.address, **found}

    @override
    def run(self, job: JobInput) -> JobOutput:
        """Serve the script as a worker; in the first job, run it. Raises HeadraceError."""
        worker = self._worker
        if worker is None:
            raise RuntimeError("get_ready was not called")
        before = io_counts(worker.pid)
        start_s = time.monotonic()
        if self._scheduler is None:
            while worker.hear(1.0):
                pass
            output = JobOutput()
        else:
            output = self._run_script(job, self._scheduler, worker)
        moved = io_counts(worker.pid) - before
        worker.check()
        output.bytes_asked, output.read_calls = moved.read_chars, moved.read_calls
        output.bytes_written = moved.written_chars
        output.measured_child = True
        output.phases.append(("worker", start_s, time.monotonic()))
        output.results["tasks"] = worker.tasks
        for name in ("scheduler", "worker"):
            _log(job, name).unlink(missing_ok=True)  # of interest for failures alone
        return output

    def _run_script(self, job: JobInput, scheduler: Scheduler, worker: Worker) -> JobOutput:
        logs = _log(job, "script", "out"), _log(job, "script", "err")
        start_s = time.monotonic()
        try:
            with orphans_adopted() as left:
                script = Child(
                    self._command(job, scheduler.address),
                    directory=job.scratch,
                    stdout=logs[0],
                    stderr=logs[1],
                    environment={**users_environment(), **self._variables},
                )
                used = _followed(script, scheduler, worker)
                end, end_s = script.wait(), time.monotonic()
            scheduler.end()
            end.check()
            worker.await_close()
            events = events_in(logs[0], self.options.events, self.options.events_pattern)
        finally:
            for log in logs:
                shorten(log)
        return JobOutput(
            events=events,
            phases=[("script", start_s, end_s)],
            results={"left_running": len(left), **used},
        )

    def _command(self, job: JobInput, scheduler: str) -> list[str]:
        """Return the script and its arguments."""
        listed = job.scratch.absolute() / "dask" / "files.txt"
        listed.write_text("".join(f"{file}\n" for file in job.files))
        values = {
            "scheduler": scheduler,
            "workers": str(job.jobs),
            _LIST: str(listed),
            "directory": "" if job.directory is None else str(job.directory),
            "scratch": str(job.scratch.absolute()),
            "seed": str(job.seed),
        }
        words: list[str] = []
        for argument in self.options.command:
            files = argument == f"{{{_FILES}}}"
            words += job.files if files else [fill(argument, values)]
        return words

    @override
    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the tasks of all workers, and what script and scheduler used."""
        known = [output["tasks"] for output in outputs if output.get("tasks") is not None]
        merged: JobResults = {"tasks": sum(known), "workers": len(outputs)}
        for output in outputs:
            merged |= {name: value for name, value in output.items() if name != "tasks"}
        return merged

    @property
    def python(self) -> str:
        """The Python of scheduler and workers."""
        return self.options.python or interpreter_of(
            self.options.command[0], self.options.environment
        )


def _followed(script: Child, scheduler: Scheduler, worker: Worker) -> dict[str, float]:
    """Wait for the end of the script; return the CPU time that script and scheduler used.

    Raises HeadraceError when the scheduler fails.
    """
    used = {"script_cpu_s": 0.0, "scheduler_cpu_s": 0.0}
    descriptor = os.pidfd_open(script.pid)
    try:
        listening, ended = True, False
        while not ended:
            waited = [descriptor, worker] if listening else [descriptor]
            ended = descriptor in select.select(waited, [], [], _LOOK_S)[0]
            listening = listening and worker.hear(0)
            for name, pid in (("script_cpu_s", script.pid), ("scheduler_cpu_s", scheduler.pid)):
                used[name] = max(used[name], _cpu_s(pid))
            if (why := scheduler.failure()) is not None:
                script.kill()
                raise HeadraceError(f"the Dask scheduler ended while the script ran: {why}")
    finally:
        os.close(descriptor)
    return used


def _cpu_s(pid: int) -> float:
    use = process_use(pid)
    return 0.0 if use is None else use.cpu_s


def _log(job: JobInput, what: str, ending: str = "log") -> Path:
    """Return the file for what a process prints; programs run elsewhere, so it is absolute."""
    return (job.keep or job.scratch).absolute() / f"{what}-{job.scratch.name}.{ending}"
