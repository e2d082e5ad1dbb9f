"""Jobs of HTCondor on this node: `headrace watch --condor 4711.0`, or `4711` for all of a cluster.

HTCondor's control groups have names of slots, not of jobs. A job's processes have the file of its
ClassAd in their environment (_CONDOR_JOB_AD), which their owner and root may read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from headrace.errors import UsageError
from headrace.watching.finders import Finder, FoundJob
from headrace.watching.process_table import ProcessTable, condor_job


class CondorFinder(Finder):
    """Each job that the user names."""

    kind: ClassVar[str] = "condor"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        for name in names:
            if re.fullmatch(r"[0-9]+(\.[0-9]+)?", name) is None:
                raise UsageError(
                    f"--condor {name}: not a job of HTCondor", hint="such as 4711.0 or 4711"
                )
        self._table = ProcessTable()
        self._ads: dict[tuple[int, str], str] = {}
        self._seen: set[str] = set()

    @override
    def find(self) -> list[FoundJob]:
        """Return the jobs of this moment."""
        pids: dict[str, set[int]] = {}
        for process in self._table.look():
            ad = process.environment.get("_CONDOR_JOB_AD")
            if ad is not None:
                key = (process.pid, ad)
                if key not in self._ads:
                    self._ads[key] = condor_job(process.pid, ad)
                pids.setdefault(self._ads[key], set()).add(process.pid)
        found: list[FoundJob] = []
        for name in dict.fromkeys(self.names):
            jobs = {job for job in pids if name in (job, job.partition(".")[0])}
            if not jobs and name not in self._seen:
                raise UsageError(
                    f"--condor {name}: no such job runs on this node, or its processes may not be "
                    "read",
                    hint=f"`condor_q -nobatch -run {name}` names its node; watch there, as its "
                    "owner or root",
                )
            self._seen.add(name)
            found += [
                FoundJob(f"condor {job}", f"condor {job}", frozenset(pids[job])) for job in jobs
            ]
        return found
