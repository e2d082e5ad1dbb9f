"""Jobs on nodes of PBS: `on = "pbs"`, a batch job for each node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from headrace.launchers.batch.cluster import JobState
from headrace.launchers.batch.launcher import BatchLauncher, Said, clock_time, said_by
from headrace.launchers.batch.options import BatchOptions

_BLOCK = re.compile(r"^Job Id: *", re.MULTILINE)
_JOB = re.compile(r"([0-9]+)(?![0-9])")
_FACT = re.compile(r"^\s*(job_state|comment|Exit_status) = (.*)$", re.MULTILINE)
_OVER = ("F", "C")


class Pbs(BatchLauncher):
    """Runs jobs on nodes that PBS gives."""

    kind = "pbs"
    commands = ("qsub", "qstat", "qdel")

    @override
    @classmethod
    def job_class(cls) -> Any:
        from dask_jobqueue.pbs import PBSJob

        kind: Any = PBSJob

        class Job(kind):
            job_id_regexp = r"(?m)^(?P<job_id>[0-9]+)(\.\S+)?\s*$"

        return Job

    @override
    @classmethod
    def request(cls, options: BatchOptions) -> dict[str, object]:
        directives = list(options.directives)
        if options.cores is None:
            directives.insert(0, "-l place=exclhost")  # excl: a vnode, which may be a socket
        memory = "" if options.memory is None else f":mem={options.memory}b"
        return {
            "queue": options.queue,
            "account": options.account,
            "walltime": clock_time(options.walltime),
            "resource_spec": f"select=1:ncpus={options.cores or 1}{memory}",
            "cores": options.cores or 1,
            "memory": f"{options.memory or 1 << 30}B",
            "job_extra_directives": directives,
        }

    @override
    @classmethod
    def state(cls, job: str) -> JobState:
        return cls.states([job])[0]

    @override
    @classmethod
    def states(cls, jobs: Sequence[str]) -> list[JobState]:
        said = said_by(["qstat", "-f", *jobs])
        known = _facts_of(said.text)
        return [
            JobState(known[job].get("job_state") in _OVER, _words_of(known[job]))
            if job in known
            else _absent(job, said)
            for job in jobs
        ]


def _facts_of(text: str) -> dict[str, dict[str, str]]:
    """Return the facts of each job, by its number; qstat continues long lines after a tab."""
    blocks = [_JOB.match(each) for each in _BLOCK.split(text.replace("\n\t", ""))]
    return {
        block[1]: {name: value.strip() for name, value in _FACT.findall(block.string)}
        for block in blocks
        if block is not None
    }


def _words_of(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _absent(job: str, said: Said) -> JobState:
    """Return the state of a job that is not in the queue."""
    of_job = re.compile(rf"(?<![0-9]){re.escape(job)}(?![0-9])")
    text = " ".join(" ".join(filter(of_job.search, said.text.splitlines())).split())
    if "has finished" in text:
        facts = _facts_of(said_by(["qstat", "-x", "-f", job]).text).get(job, {})
        return JobState(True, _words_of(facts) or text)
    return JobState("Unknown Job" in text, text or said.text)
