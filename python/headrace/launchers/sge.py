"""Jobs on nodes of Grid Engine: `on = "sge"`, a batch job for each node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from headrace.launchers.batch.cluster import JobState, folder_of
from headrace.launchers.batch.launcher import BatchLauncher, clock_time, said_by
from headrace.launchers.batch.options import BatchOptions

_NUMBER = re.compile(r"^job_number: +([0-9]+)$", re.MULTILINE)
_NO_REASON = "it waits, and no reason is given"
_RULE = re.compile(r"^=+$", re.MULTILINE)
_FACT = re.compile(r"^(failed|exit_status) +(.*)$", re.MULTILINE)


class GridEngine(BatchLauncher):
    """Runs jobs on nodes that Grid Engine gives."""

    kind = "sge"
    commands = ("qsub", "qstat", "qdel")
    whole_nodes = False

    @override
    @classmethod
    def refuses_batch(cls, batch: BatchOptions | None) -> str | None:
        if batch is not None:
            if (batch.cores or 1) > 1 and batch.parallel_environment is None:
                return "several cores need a parallel_environment; qconf -spl lists them"
            if batch.memory is not None:
                return (
                    "every site has its own resource for memory: name it in directives, "
                    'such as ["-l mem_free=4G"]'
                )
        return super().refuses_batch(batch)

    @override
    @classmethod
    def job_class(cls) -> Any:
        from dask_jobqueue.sge import SGEJob

        kind: Any = SGEJob

        class Job(kind):
            job_id_regexp = r"[Yy]our job (?P<job_id>[0-9]+)"

        return Job

    @override
    @classmethod
    def request(cls, options: BatchOptions) -> dict[str, object]:
        directives = list(options.directives)
        if options.parallel_environment is not None:
            directives.insert(0, f"-pe {options.parallel_environment} {options.cores}")
        # dask-jobqueue's -cwd is the folder of the submission: a job on a node that does not see it
        # is in an error state, and never begins.
        directives.insert(0, f"-wd {folder_of(options)}")
        return {
            "queue": options.queue,
            "project": options.account,
            "walltime": clock_time(options.walltime),
            "cores": options.cores or 1,
            "memory": "1GiB",
            "job_directives_skip": ["#$ -cwd"],
            "job_extra_directives": directives,
        }

    @override
    @classmethod
    def state(cls, job: str) -> JobState:
        return cls.states([job])[0]

    @override
    @classmethod
    def states(cls, jobs: Sequence[str]) -> list[JobState]:
        said = said_by(["qstat", "-j", ",".join(jobs)])
        if said.code:
            # Jobs that are gone are named only when qstat knows none of those it is asked for.
            gone = "do not exist" in said.text or "does not exist" in said.text
            return [JobState(gone, _end_of(job) if gone else said.text) for job in jobs]
        blocks = [(_NUMBER.search(block), block) for block in _RULE.split(said.text)]
        known = {number[1]: block for number, block in blocks if number is not None}
        return [
            _state_of(known[job]) if job in known else cls._absent(job, len(jobs), said.text)
            for job in jobs
        ]

    @classmethod
    def _absent(cls, job: str, asked: int, text: str) -> JobState:
        """Return the state of a job that an answer without error does not have."""
        return cls.state(job) if asked > 1 else JobState(False, text or _NO_REASON)


def _state_of(block: str) -> JobState:
    """Return the state of a job from what `qstat -j` says of it."""
    lines = [" ".join(line.split()) for line in block.splitlines()]
    if any(line.startswith("usage ") for line in lines):
        return JobState(False, "it runs")
    first = next((n for n, line in enumerate(lines) if line.startswith("scheduling info")), 0)
    reasons = [line for line in lines if line.startswith("error reason")]
    text = "; ".join([*reasons, *(lines[first:] if first else [])])
    return JobState(bool(reasons), text or _NO_REASON)


def _end_of(job: str) -> str:
    """Return how a job ended, from the accounting file, which a site may write seconds later."""
    facts = dict(_FACT.findall(said_by(["qacct", "-j", job]).text))
    return ", ".join(f"{name} {' '.join(value.split())}" for name, value in facts.items()) or "gone"
