"""Jobs on nodes of Slurm: `on = "slurm"`, a batch job for each node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from headrace.launchers.batch.cluster import JobState
from headrace.launchers.batch.launcher import BatchLauncher, clock_time, said_by
from headrace.launchers.batch.options import BatchOptions

_FACT = re.compile(r"\b(JobState|Reason|ExitCode)=(\S+)")


class Slurm(BatchLauncher):
    """Runs jobs on nodes that Slurm gives."""

    kind = "slurm"
    commands = ("sbatch", "squeue", "scancel", "scontrol")

    @override
    @classmethod
    def job_class(cls) -> Any:
        from dask_jobqueue.slurm import SLURMJob

        return SLURMJob

    @override
    @classmethod
    def request(cls, options: BatchOptions) -> dict[str, object]:
        skip, directives = list[str](), list(options.directives)
        if options.cores is None:
            skip.append("--cpus-per-task=")
            directives.insert(0, "--exclusive")
        if options.memory is None:
            skip.append("--mem=")
        return {
            "queue": options.queue,
            "account": options.account,
            "walltime": clock_time(options.walltime),
            "cores": options.cores or 1,
            "memory": f"{options.memory or 1 << 30}B",
            "job_directives_skip": skip,
            "job_extra_directives": directives,
        }

    @override
    @classmethod
    def state(cls, job: str) -> JobState:
        return cls.states([job])[0]

    @override
    @classmethod
    def states(cls, jobs: Sequence[str]) -> list[JobState]:
        said = said_by(["squeue", "-h", "-j", ",".join(jobs), "-o", "%i %T (%r)"])
        unknown = said.code == 1 and "Invalid job id" in said.text
        if unknown and len(jobs) > 1:  # one that is no longer known must not hide the others
            return [cls.state(job) for job in jobs]
        if said.code and not unknown:
            return [JobState(False, said.text)] * len(jobs)
        lines = [line.partition(" ") for line in said.text.splitlines()] if not unknown else []
        queued = {number: state for number, _, state in lines}
        return [
            JobState(False, queued[job]) if job in queued else JobState(True, _end_of(job))
            for job in jobs
        ]


def _end_of(job: str) -> str:
    """Return how a job ended that is no longer in the queue."""
    facts = said_by(["scontrol", "show", "job", job]).text
    return ", ".join(f"{name} {value}" for name, value in _FACT.findall(facts)) or "gone"
