"""A Dask scheduler in this process whose workers are batch jobs, submitted by dask-jobqueue.

Every connection has TLS, with credentials made for this cluster alone; they are in a folder that
only the user can read. Folder and jobs are in the undo journal.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from headrace.errors import HeadraceError, InterruptedRunError, describe
from headrace.launchers.agent import NoNodesError, TooFewNodesError
from headrace.launchers.batch.options import BatchOptions
from headrace.launchers.remote.beats import SILENCE_S
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.dask_client import quiet, workers_of
from headrace.launchers.remote.dask_nodes import check_versions, streams
from headrace.system.batch_jobs import ENVIRONMENT, NO_SERVER, SILENT_SERVER
from headrace.system.journal import Journal, JournalEntry
from headrace.system.owned import work_directory
from headrace.system.waiting import wait_until

if TYPE_CHECKING:
    from distributed import Client

_LOOPBACK = "127.0.0.1"
_LOOK_S = 0.2
_ASK_S = 3.0
"""Time between questions to the batch system."""
_SUBMIT_S = 60.0
_END_S = 5.0
"""How long a batch system may take to say that a job has ended whose worker is lost."""
_SCHEDULER_S = 60
"""How long a worker looks for its scheduler before it ends."""
_SILENCE = f"{SILENCE_S:.0f}s"
"""After this time without a word Dask gives a connection up, on both ends."""
_PLAIN = re.compile(r"[A-Za-z0-9_./+@=-]+")
CONFIGURATION: dict[str, object] = {
    "shebang": "#!/usr/bin/env bash",
    "worker-command": "distributed.cli.dask_worker",
    "queue": None,
    "account": None,
    "project": None,
    "walltime": None,
    "job-cpu": None,
    "job-mem": None,
    "resource-spec": None,
    "disk": None,
    "interface": None,
    "local-directory": None,
    "extra": None,
    "env-extra": None,
    "job-extra": None,
    "header-skip": None,
    "log-directory": None,
    "python": None,
    "shared-temp-directory": None,
    "scheduler-options": {},
}
"""Replaces the user's jobqueue.yaml: all options come from the study."""


@dataclass(frozen=True)
class JobState:
    """What a batch system says of a job."""

    over: bool
    """Whether it has ended, or will never run."""
    text: str


class BatchSystem(Protocol):
    """What a launcher defines of its batch system."""

    kind: ClassVar[str]
    commands: ClassVar[tuple[str, ...]]

    @classmethod
    def job_class(cls) -> Any: ...

    @classmethod
    def request(cls, options: BatchOptions) -> dict[str, object]: ...

    @classmethod
    def state(cls, job: str) -> JobState: ...

    @classmethod
    def states(cls, jobs: Sequence[str]) -> list[JobState]: ...


@dataclass(eq=False)
class _BatchJob:
    name: str
    id: str
    entry: JournalEntry
    worker: str | None = None
    """Address of its worker, once it was there."""


def _credentials(folder: Path) -> Any:
    """Make credentials of one key in a folder that only the user can read."""
    from distributed.security import Security

    made: Any = Security.temporary()
    files = {"cert": made.tls_ca_file, "key": made.tls_client_key}
    for name, content in files.items():
        with os.fdopen(
            os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as file:
            file.write(content)
    cert, key = str(folder / "cert"), str(folder / "key")
    pairs = {
        f"tls_{role}_{name}": path
        for role in ("client", "scheduler", "worker")
        for name, path in (("cert", cert), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=cert, **pairs)


def import_dask_jobqueue() -> Any:
    """Return the core of dask-jobqueue, imported without effects on the process and user's files.

    Its import lets Ctrl-C exit with 0, and copies an example into the folder of the user's
    configuration of Dask, unless that "folder" is a file.
    """
    import dask.config

    before, folder = signal.getsignal(signal.SIGINT), dask.config.PATH
    dask.config.PATH = dask.config.__file__
    try:
        import dask_jobqueue.core
    finally:
        dask.config.PATH = folder
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    return dask_jobqueue.core


def folder_of(options: BatchOptions) -> Path:
    """Return the folder that this machine and the nodes share."""
    if options.folder is not None:
        return Path(options.folder).expanduser()
    return Path.home() / ".local" / "state" / "headrace" / "batch"


def check_folder(options: BatchOptions) -> tuple[str, str] | None:
    """Return what is wrong with the shared folder, and the remedy."""
    folder = folder_of(options)
    above = next(each for each in (folder, *folder.parents) if os.access(each, os.F_OK))
    remedy = "name another folder that the nodes share: [run.batch] folder"
    if not _PLAIN.fullmatch(str(folder.resolve())):
        return f"{folder}: only letters, digits and _./+@=- may be in this path", remedy
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return f"{folder} cannot be written to", remedy
    return None


def check_listening(options: BatchOptions) -> tuple[str, str] | None:
    """Return why this machine cannot listen where the study says, and the remedy."""
    if options.interface is not None:
        found = [name for _, name in socket.if_nameindex()]
        if options.interface not in found:
            return (
                f"this machine has no network interface {options.interface}",
                f"[run.batch] interface is one of {', '.join(found)}",
            )
    if options.address is not None:
        try:
            where = socket.getaddrinfo(options.address, 0, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = where[0]
            with socket.socket(family, kind, protocol) as trial:
                trial.bind(address)
        except OSError as error:
            return (
                f"this machine cannot listen at {options.address}: {error.strerror}",
                "[run.batch] address is one of this machine's own, at which the nodes reach it",
            )
    return None


def _kept_in(folder: Path, kind: Any) -> Any:
    """Return a class of jobs with scripts in a folder, not among everyone's temporary files."""

    class Kept(kind):
        @contextmanager
        def job_file(self) -> Generator[str]:
            script = folder / f"{self.name}.sh"
            script.write_text(self.job_script(), "utf-8")
            yield str(script)

    return Kept


class BatchCluster:
    """The batch jobs of a run, one for each node. Raises HeadraceError as `connections` does."""

    def __init__(
        self,
        system: type[BatchSystem],
        journal: Journal,
        options: BatchOptions,
        python: str,
        stopped: Callable[[], bool],
    ) -> None:
        self.options, self.python = options, python
        self._system, self._journal, self._stopped = system, journal, stopped
        self._jobs: list[_BatchJob] = []
        self._job_of: dict[str, str] = {}
        """The batch job of each node, by the node's name."""
        self._number = 0
        place = folder_of(options)
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise HeadraceError(f"{place} cannot be made: {error.strerror}") from error
        self.folder, self._folder_entry = work_directory(journal, place)
        self._cluster: Any = None
        self._client: Client | None = None
        try:
            self._start()
        except Exception as error:
            self.close()
            if isinstance(error, HeadraceError):
                raise
            raise HeadraceError(f"no scheduler for {system.kind}: {describe(error)}") from error

    def _start(self) -> None:
        import dask.config
        from distributed import Client

        start: Any = import_dask_jobqueue().JobQueueCluster
        options = self.options
        listens = {"host": options.address or _LOOPBACK} if options.interface is None else {}
        dask.config.set(
            {"jobqueue.headrace": CONFIGURATION, "distributed.comm.timeouts.tcp": _SILENCE}
        )
        logs = self.folder / "logs"
        logs.mkdir()
        self._name = self.folder.name
        self._cluster = start(
            job_cls=_kept_in(self.folder, self._system.job_class()),
            name=self._name,
            config_name="headrace",
            security=_credentials(self.folder),
            scheduler_options={
                "dashboard": False,
                "dashboard_address": f"{_LOOPBACK}:0",
                **listens,
            },
            interface=options.interface,
            job_name=self._name,
            log_directory=str(logs),
            **self._of_worker(),
            **self._system.request(options),
        )
        quiet(self._cluster)
        self._client = Client(
            self._cluster.scheduler_address,
            security=self._cluster.security,
            set_as_default=False,
            name="headrace",
        )
        quiet(self._client)

    def _of_worker(self) -> dict[str, object]:
        options = self.options
        words = ["--no-dashboard", "--dashboard-address", f"{_LOOPBACK}:0"]
        if options.interface is None and options.address is None:
            words += ["--host", _LOOPBACK]
        setup = [] if options.setup is None else _setup_lines(options.setup)
        return {
            "processes": 1,
            "nanny": False,
            "death_timeout": _SCHEDULER_S,
            "python": shlex.quote(self.python),
            "worker_extra_args": [*words, "--memory-limit", "0"],
            "job_script_prologue": [
                *setup,
                f"export DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP={_SILENCE}",
            ],
        }

    # -- nodes --

    def connections(self, names: Sequence[str]) -> list[NodeConnection]:
        """Return node processes of these names, one on each of as many batch jobs.

        Raises HeadraceError with what the batch system says.
        """
        client = self._client
        assert client is not None
        self._forget_lost()
        while len(self._jobs) < len(names):
            self._submit()
        jobs = self._jobs[: len(names)]
        self._await(jobs)
        self._job_of = {name: job.id for name, job in zip(names, jobs, strict=True)}
        workers = [job.worker or "" for job in jobs]
        check_versions(client, workers)
        found: list[NodeConnection] = []
        try:
            for name, worker in zip(names, workers, strict=True):
                found.append(NodeConnection(name, *streams(client, name, worker)))
        except BaseException:
            for connection in found:
                connection.close()
            raise
        return found

    def _submit(self) -> None:
        name = f"{self._name}-{self._number}"
        self._number += 1
        spec = self._cluster.new_spec
        job = spec["cls"](self._cluster.scheduler_address, name=name, **spec["options"])
        entry = self._journal.begin("cancel_batch_job", system=self._system.kind, name=self._name)
        try:
            self._cluster.sync(job.start, callback_timeout=_SUBMIT_S)
        except (RuntimeError, OSError, ValueError) as error:
            said, command = _words_of(error), self._system.commands[0]
            if NO_SERVER.search(said):  # no job was sent, and there is none to cancel
                self._journal.end(entry)
                raise HeadraceError(
                    f"{command} finds no {self._system.kind} here: {said}",
                    hint=f"run this {ENVIRONMENT}",
                ) from error
            # The job may be in the queue all the same: undoing cancels it by its name.
            self._journal.undo(entry)
            if isinstance(error, TimeoutError) or SILENT_SERVER.search(said):
                raise NoNodesError(
                    f"the server of {self._system.kind} does not answer {command}: "
                    f"{said or f'nothing for {_SUBMIT_S:g} s'}",
                    hint="see whether it runs and can be reached",
                ) from error
            raise HeadraceError(
                f"{command} refuses the job: {said}", hint="correct [run.batch]"
            ) from error
        self._journal.add(entry, job=str(job.job_id))
        self._jobs.append(_BatchJob(name, str(job.job_id), entry))

    def _forget_lost(self) -> None:
        """Remove jobs whose worker was lost; new jobs replace them."""
        there = self._workers()
        for job in [each for each in self._jobs if each.worker and each.name not in there]:
            self._jobs.remove(job)
            self._journal.undo(job.entry)

    def _workers(self) -> dict[str, str]:
        assert self._client is not None
        return {str(facts["name"]): address for address, facts in workers_of(self._client).items()}

    def _await(self, jobs: Sequence[_BatchJob]) -> None:
        asked_s = time.monotonic()

        def there() -> bool:
            nonlocal asked_s
            workers = self._workers()
            for job in jobs:
                job.worker = workers.get(job.name)
            if self._stopped():
                raise InterruptedRunError("stopped")
            waiting = [job for job in jobs if job.worker is None]
            if waiting and time.monotonic() - asked_s >= _ASK_S:
                self._judge(waiting, out_of_patience=False)
                asked_s = time.monotonic()
            return not waiting

        while not wait_until(there, self.options.patience, _LOOK_S):
            self._judge([job for job in jobs if job.worker is None], out_of_patience=True)

    def _judge(self, waiting: Sequence[_BatchJob], *, out_of_patience: bool) -> None:
        """Raise HeadraceError when a job has ended, or has not begun in time."""
        states = self._system.states([job.id for job in waiting])
        there = self._workers()
        for job, state in zip(waiting, states, strict=True):
            if job.name in there:
                continue
            if state.over:
                log = self._log_of(job)
                raise HeadraceError(
                    f"{self._system.kind} job {job.id} ended before its worker was there "
                    f"({state.text}); its log ends: {log or '(no log)'}",
                    hint=self._remedy() if log else f"{self._no_folder()}; {self._remedy()}",
                )
            if out_of_patience:
                said = self._system.state(job.id).text
                verb = "is" if len(waiting) == 1 else "are"
                raise TooFewNodesError(
                    f"{len(waiting)} of the batch jobs {verb} not there after "
                    f"{self.options.patience:g} s; {self._system.kind} says of job {job.id}: "
                    f"{said}",
                    hint="[run.batch] patience is the time to wait; queue, cores and walltime "
                    "are what is requested",
                )

    def _no_folder(self) -> str:
        """Return why a job could leave no log."""
        return (
            f"a node that cannot write to {folder_of(self.options)} starts no job: name a folder "
            "that this machine and all nodes share, [run.batch] folder"
        )

    def _remedy(self) -> str:
        remedy = "[run] python and [run.batch] setup say what a job starts"
        if self.options.interface is None and self.options.address is None:
            remedy += (
                "; nodes that are other machines need [run.batch] interface or address: without, "
                "the scheduler listens on loopback alone"
            )
        return remedy

    def _log_of(self, job: _BatchJob) -> str:
        number = re.split(r"[.;]", job.id)[0]
        pattern = re.compile(rf"(?<![0-9]){re.escape(number)}(?![0-9])")
        lines: list[str] = []
        # HTCondor's log of events comes first: the end is kept, and the job's own words are there.
        files = (self.folder / "logs").iterdir()
        for file in sorted(files, key=lambda file: (file.suffix != ".log", file.name)):
            if pattern.search(file.name.removeprefix(self._name)):
                lines += file.read_text(errors="replace").splitlines()
        return " | ".join(line for line in lines if line.strip())[-1500:]

    def end_of(self, name: str) -> str:
        """Return what the batch system says of the job of a lost node, by the node's name."""
        job = self._job_of.get(name)
        if job is None:
            return ""
        found = JobState(False, "")

        def over() -> bool:
            nonlocal found
            found = self._system.state(job)
            return found.over

        wait_until(over, _END_S, _LOOK_S)
        return f"{self._system.kind} job {job}: {found.text}"

    # -- the end --

    def close(self) -> None:
        """End scheduler, jobs and credentials. Raises HeadraceError that names what is left."""
        client, self._client = self._client, None
        cluster, self._cluster = self._cluster, None
        if client is not None:
            client.close(timeout=10)
        if cluster is not None:
            cluster.close(timeout=10)
        entries = [self._folder_entry, *(job.entry for job in self._jobs)]
        self._jobs.clear()
        self._journal.put_back(entries)


def _setup_lines(file: str) -> list[str]:
    """Return lines of a job script that read a file of the user, or end the job without it."""
    lacking = shlex.quote(f"[run.batch] setup: {file} cannot be read on this node")
    file = shlex.quote(file)
    return [f"[ -r {file} ] || {{ echo {lacking} >&2; exit 1; }}", f". {file}"]


def _words_of(error: Exception) -> str:
    """Return what the batch system said when a command of it failed."""
    text = str(error)
    found = re.search(r"stdout:\n(.*)stderr:\n(.*)", text, re.DOTALL)
    return " ".join((" ".join(found.groups()) if found else text).split())
