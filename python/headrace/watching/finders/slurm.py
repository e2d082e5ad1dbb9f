"""Jobs of Slurm on this node: `headrace watch --slurm 4711`, or `4711_3` of an array.

Found by the job's control group (version 1 and 2), and where Slurm makes none by SLURM_JOB_ID in
the environment of processes, which their owner and root may read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from headrace.errors import UsageError
from headrace.watching.finders import Finder, FoundJob
from headrace.watching.finders.cgroup import cgroup_mounts
from headrace.watching.process_table import Process, ProcessTable

_PLACES = (
    "slurm*/uid_*/job_{job}",
    "slurm*/job_{job}",
    "system.slice/slurmstepd.scope/job_{job}",
    "system.slice/*_slurmstepd.scope/job_{job}",
)


class SlurmFinder(Finder):
    """Each job that the user names."""

    kind: ClassVar[str] = "slurm"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        for name in names:
            if re.fullmatch(r"[0-9]+(_[0-9]+)?", name) is None:
                raise UsageError(
                    f"--slurm {name}: not a job of Slurm", hint="such as 4711 or 4711_3"
                )
        self._table = ProcessTable()
        self._seen: set[str] = set()

    @override
    def find(self) -> list[FoundJob]:
        """Return the jobs of this moment."""
        processes: list[Process] | None = None
        found: list[FoundJob] = []
        for name in dict.fromkeys(self.names):
            groups = _groups(name)
            pids: frozenset[int] = frozenset()
            if not groups:
                processes = self._table.look() if processes is None else processes
                pids = frozenset(each.pid for each in processes if _belongs(each, name))
            if groups or pids:
                self._seen.add(name)
                key = f"slurm {name}"
                found.append(FoundJob(key, key, pids, groups, follow=not groups))
            elif name not in self._seen:
                raise UsageError(
                    f"--slurm {name}: no such job runs on this node, or its processes may not be "
                    "read",
                    hint=f"`squeue -j {name}` names its nodes; watch there, as its owner or root",
                )
        return found


def _groups(job: str) -> tuple[Path, ...]:
    if "_" in job:
        return ()
    for top in cgroup_mounts():
        for place in _PLACES:
            if groups := tuple(top.glob(place.format(job=job))):
                return groups
    return ()


def _belongs(process: Process, job: str) -> bool:
    number, _, task = job.partition("_")
    environment = process.environment
    if task:
        return (
            environment.get("SLURM_ARRAY_JOB_ID") == number
            and environment.get("SLURM_ARRAY_TASK_ID") == task
        )
    return environment.get("SLURM_JOB_ID") == number
