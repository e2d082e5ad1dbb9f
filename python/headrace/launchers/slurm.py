"""Jobs on nodes of Slurm: `on = "slurm"`, a batch job for each node."""

from __future__ import annotations

import re
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
        said = said_by(["squeue", "-h", "-j", job, "-o", "%T (%r)"])
        if said.code == 0 and said.text:
            return JobState(False, said.text)
        if said.code not in (0, 1) or (said.code and "Invalid job id" not in said.text):
            return JobState(False, said.text)
        facts = said_by(["scontrol", "show", "job", job]).text
        return JobState(True, ", ".join(f"{k} {v}" for k, v in _FACT.findall(facts)) or "gone")
