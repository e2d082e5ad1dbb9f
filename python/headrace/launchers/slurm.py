"""Jobs on nodes of Slurm: `on = "slurm"`, a batch job for each node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from headrace.launchers.batch.cluster import JobState
from headrace.launchers.batch.launcher import BatchLauncher, clock_time, said_by
from headrace.launchers.batch.options import BatchOptions
from headrace.system.batch_jobs import of_cluster

_FACT = re.compile(r"\b(JobState|Reason|ExitCode)=(\S+)")


class Slurm(BatchLauncher):
    """Runs jobs on nodes that Slurm gives."""

    kind = "slurm"
    commands = ("sbatch", "squeue", "scancel", "scontrol")

    @override
    @classmethod
    def job_class(cls) -> Any:
        from dask_jobqueue.slurm import SLURMJob

        kind: Any = SLURMJob

        class Job(kind):
            # Wrappers of sbatch print lines of their own, with numbers in them.
            job_id_regexp = r"(?m)^(?P<job_id>[0-9]+(;[A-Za-z0-9_.-]+)?)\s*$"

            async def _submit_job(self, script_filename: str) -> str:
                words = [*_submit_words(self.job_header), script_filename]
                return await self._call(words)

        return Job

    @override
    @classmethod
    def request(cls, options: BatchOptions) -> dict[str, object]:
        # A job that is lost is replaced, and one that returned to the queue would not say why.
        skip, directives = list[str](), ["--no-requeue", *options.directives]
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
            "job_mem": _memory(options.memory or 1 << 30),
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
        numbers, options = [of_cluster(job)[0] for job in jobs], of_cluster(jobs[0])[1]
        said = said_by(["squeue", *options, "-h", "-j", ",".join(numbers), "-o", "%i %T (%r)"])
        unknown = said.code == 1 and "Invalid job id" in said.text
        if unknown and len(jobs) > 1:  # one that is no longer known must not hide the others
            return [cls.state(job) for job in jobs]
        if said.code and not unknown:
            return [JobState(False, said.text)] * len(jobs)
        lines = [line.partition(" ") for line in said.text.splitlines()] if not unknown else []
        queued = {number: state for number, _, state in lines}
        return [
            JobState(False, queued[number]) if number in queued else JobState(True, _end_of(job))
            for number, job in zip(numbers, jobs, strict=True)
        ]


def _memory(size_bytes: int) -> str:
    """Return memory in GiB where it is whole, else in MiB: dask-jobqueue rounds up to GiB."""
    gib, rest = divmod(size_bytes, 1 << 30)
    return f"{-(-size_bytes // (1 << 20))}M" if rest else f"{gib}G"


def _submit_words(header: str) -> list[str]:
    """Return the command that submits a script, with the script's options on the command line.

    There they overrule the user's variables such as SBATCH_PARTITION, which overrule the script.
    Variables that would make several jobs, or wait for the end of the job, are left out.
    """
    lines = [line.removeprefix("#SBATCH") for line in header.splitlines()]
    options = [word for line in lines for word in shlex.split(line, comments=True)]
    without = ["-u", "SBATCH_ARRAY_INX", "-u", "SBATCH_WAIT"]
    return ["env", *without, "sbatch", "--parsable", *options]


def _end_of(job: str) -> str:
    """Return how a job ended that is no longer in the queue."""
    number, options = of_cluster(job)
    facts = said_by(["scontrol", *options, "show", "job", number]).text
    return ", ".join(f"{name} {value}" for name, value in _FACT.findall(facts)) or "gone"
