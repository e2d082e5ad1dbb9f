"""Memory limits of the jobs of a node: one for all of them together, or one for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.system.cgroups import MemoryLimit

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class MemoryLimits:
    """The limits under which the processes of jobs are put.

    A limit per job is a control group for each process that is put under it, as batch systems make
    one for each job; it is removed when the job and its children have ended. The page cache that
    the job filled stays then, and counts to no later job.
    """

    def __init__(self, journal: Journal, node: MemoryLimit | None = None) -> None:
        """`node`: the limit of all programs of the node, which holds for its jobs, too."""
        self._journal = journal
        self._node = node
        self._common: list[MemoryLimit] = []
        self._job_size: int | None = None
        self._of_jobs: list[MemoryLimit] = []
        self._lifted: list[MemoryLimit] = []
        """Limits that are ending."""
        self._killed = 0
        """Processes killed in groups that have been removed."""

    @property
    def groups(self) -> list[Path]:
        """Return the control groups of all limits, the latest last."""
        return [limit.group for limit in self._common + self._of_jobs]

    def limit(self, size: int) -> None:
        """Limit all jobs together. Raises HeadraceError."""
        self._common.append(MemoryLimit(self._journal, size, self._node))

    def limit_each(self, size: int) -> None:
        """Limit each job from now on. Raises HeadraceError if that is not possible here."""
        MemoryLimit(self._journal, size, self._node).close()
        self._job_size = size

    def adopt(self, pid: int) -> None:
        """Put a job's process under the limits. Raises HeadraceError."""
        for limit in self._common:
            limit.add(pid)
        if self._job_size is not None:
            self._remove_unused()
            self._of_jobs.append(MemoryLimit(self._journal, self._job_size, self._node))
            self._of_jobs[-1].add(pid)

    def lift(self) -> None:
        """End all limits. Safe to call twice; a second call retries what failed."""
        # No job is put under them any more, even if closing fails.
        self._lifted += self._common + self._of_jobs
        self._common.clear()
        self._of_jobs.clear()
        self._job_size = None
        self._killed = 0
        while self._lifted:
            self._lifted[-1].close()
            self._lifted.pop()

    def killed(self) -> int:
        """Return the number of processes that the kernel killed because of the limits."""
        return self._killed + sum(limit.killed() for limit in self._common + self._of_jobs)

    def _remove_unused(self) -> None:
        for limit in [limit for limit in self._of_jobs if limit.is_empty()]:
            killed = limit.killed()
            self._of_jobs.remove(limit)
            self._lifted.append(limit)
            self._killed += killed
            limit.close()
            self._lifted.remove(limit)
