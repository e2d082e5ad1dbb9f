"""Jobs of Slurm on this node: `headrace watch --slurm 4711`, or `4711_3` for a task of an array.

The number of an array names all its tasks, as it does in squeue and scancel.

Found by the job's control group (version 1 and 2), and where Slurm makes none by SLURM_JOB_ID in
the environment of processes, which their owner and root may read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
        self._arrays: set[str] = set()

    @override
    def find(self) -> list[FoundJob]:
        """Return the jobs of this moment."""
        processes = self._table.look()
        found: dict[str, FoundJob] = {}
        for name in dict.fromkeys(self.names):
            jobs = self._named(name, processes)
            if not jobs and name not in self._seen:
                raise UsageError(
                    f"--slurm {name}: no such job runs on this node, or its processes may not be "
                    "read",
                    hint=f"`squeue -j {name}` names its nodes; watch there, as its owner or root",
                )
            self._seen.add(name)
            found |= {job.key: job for job in jobs}
        return list(found.values())

    def _named(self, name: str, processes: Iterable[Process]) -> list[FoundJob]:
        """Return the job of a name, or all tasks of the array of this name."""
        pids: dict[tuple[str, str], set[int]] = {}
        for process in processes:
            if (key := _key(process, name)) is not None:
                pids.setdefault(key, set()).add(process.pid)
        if any(task != name for task, _ in pids):
            self._arrays.add(name)
        if not pids and "_" not in name and name not in self._arrays and _groups(name):
            pids[name, name] = set()  # its processes may not be read, or have ended
        found: list[FoundJob] = []
        for (task, number), members in pids.items():
            groups, key = _groups(number), f"slurm {task}"
            members = frozenset[int]() if groups else frozenset(members)
            found.append(FoundJob(key, key, members, groups, follow=not groups))
        return found


def _groups(number: str) -> tuple[Path, ...]:
    for top in cgroup_mounts():
        for place in _PLACES:
            if groups := tuple(top.glob(place.format(job=number))):
                return groups
    return ()


def _key(process: Process, name: str) -> tuple[str, str] | None:
    """Return name and number of a process's job if it is the job `name`, or a task of the array.

    Slurm gives each task of an array a number, and the last task that of the whole array.
    """
    environment = process.environment
    number = environment.get("SLURM_JOB_ID")
    if number is None:
        return None
    array, task = (environment.get(f"SLURM_ARRAY_{each}_ID") for each in ("JOB", "TASK"))
    of_array = f"{array}_{task}"
    if array is not None and name in (array, of_array):
        return of_array, number
    return (name, number) if name == number else None
