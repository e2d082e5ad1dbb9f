"""The base of launchers whose nodes are jobs of a batch system."""

from __future__ import annotations

import re
import shutil
import sys
from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.launchers import Launchers, NodesWanted
from headrace.launchers.batch.cluster import BatchCluster, JobState, check_folder, check_listening
from headrace.launchers.batch.options import PROGRAM_PATH, BatchOptions
from headrace.launchers.remote.agent import RemoteAgent
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.launcher import RemoteLauncher
from headrace.system.batch_jobs import ended_of
from headrace.system.journal import Journal

_NO_PATH = 'must be an absolute path without $, `, " and \\\\: it is a word of a job script'
_OPTION = re.compile(r"-\S.*")


class BatchLauncher(RemoteLauncher):
    """Runs jobs on nodes that a batch system gives; it keeps them as long as the run lasts."""

    nodes_at_once = False
    starts_python = True

    commands: ClassVar[tuple[str, ...]]
    """Commands that must be installed; the first submits a job."""
    whole_nodes: ClassVar[bool] = True
    """Whether a whole node can be requested."""

    def __init__(self, others: Launchers) -> None:
        super().__init__(others)
        self._cluster: BatchCluster | None = None
        self._failure: tuple[tuple[BatchOptions, str], int, HeadraceError] | None = None
        """Why this many nodes could not be had with these options: other trials that need as many
        do not wait for them again."""

    # -- what a batch system defines --

    @classmethod
    @abstractmethod
    def job_class(cls) -> Any:
        """Return dask-jobqueue's class of a job."""

    @classmethod
    @abstractmethod
    def request(cls, options: BatchOptions) -> dict[str, object]:
        """Return what dask-jobqueue's class needs for these options."""

    @classmethod
    @abstractmethod
    def state(cls, job: str) -> JobState:
        """Return what the batch system says of a job; of one that waits, also why, if it can."""

    @classmethod
    def states(cls, jobs: Sequence[str]) -> list[JobState]:
        """Return the same of several jobs, by one question where the batch system has such."""
        return [cls.state(job) for job in jobs]

    @classmethod
    def refuses_directive(cls, text: str) -> str | None:
        """Return why a line is no option of this batch system."""
        return None if _OPTION.fullmatch(text) else "an option begins with -"

    # -- the launcher --

    @override
    @classmethod
    def refuses_batch(cls, batch: BatchOptions | None) -> str | None:
        options = batch or BatchOptions.model_validate({})
        if not cls.whole_nodes and options.cores is None:
            return f"cores is missing: {cls.kind} has no request for a whole node"
        if cls.kind != "sge" and options.parallel_environment is not None:
            return "parallel_environment is of sge alone"
        for text in options.directives:
            if (why_not := cls.refuses_directive(text)) is not None:
                return f"directives: {text}: {why_not}"
        return None

    @override
    @classmethod
    def refuses_python(cls, python: str) -> str | None:
        return None if PROGRAM_PATH.fullmatch(python) else _NO_PATH

    @override
    @classmethod
    def check(cls, wanted: NodesWanted) -> tuple[str, str] | None:
        if missing := [each for each in cls.commands if shutil.which(each) is None]:
            return (
                f"{', '.join(missing)}: not found; they belong to {cls.kind}",
                "run this on a machine where jobs are submitted, or correct PATH or [run] on",
            )
        options = wanted.batch or BatchOptions.model_validate({})
        return check_folder(options) or check_listening(options)

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
        options, count = wanted.batch or BatchOptions.model_validate({}), len(wanted.clients)
        request = options, wanted.python
        if self._failure and self._failure[0] == request and self._failure[1] <= count:
            raise self._failure[2]
        try:
            connections = self._connected(journal, wanted)
        except HeadraceError as error:
            self._failure = request, count, error
            self._close_cluster()
            raise
        try:
            yield connections
        finally:
            for connection in connections:
                connection.close()

    def _connected(self, journal: Journal, wanted: NodesWanted) -> list[NodeConnection]:
        options = wanted.batch or BatchOptions.model_validate({})
        python = wanted.python or sys.executable
        if self._cluster is not None and (
            self._cluster.options != options or self._cluster.python != python
        ):
            self._close_cluster()
        if self._cluster is None:
            self._cluster = BatchCluster(type(self), journal, options, python, self._stopped)
        return self._cluster.connections([node.name for node in wanted.clients])

    @override
    def agent(self, connection: NodeConnection) -> RemoteAgent:
        agent, cluster = super().agent(connection), self._cluster
        assert cluster is not None
        agent.words_of_end = partial(cluster.end_of, connection.name)
        return agent

    def _close_cluster(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    @override
    def close(self) -> None:
        super().close()
        self._close_cluster()


@dataclass(frozen=True)
class Said:
    """The answer of a command."""

    code: int
    text: str


def said_by(words: Sequence[str]) -> Said:
    """Run a command of the batch system; one that cannot be run has the exit code -1."""
    try:
        ended = ended_of(words)
    except HeadraceError as error:
        return Said(-1, error.message)
    return Said(ended.returncode, f"{ended.stdout}\n{ended.stderr}".strip())


def clock_time(seconds: float | None) -> str | None:
    """Return a time limit as HOURS:MM:SS."""
    if seconds is None:
        return None
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"
