"""Jobs on nodes of HTCondor: `on = "htcondor"`, a batch job for each node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from headrace.launchers.batch.cluster import JobState, folder_of
from headrace.launchers.batch.launcher import BatchLauncher, said_by
from headrace.launchers.batch.options import BatchOptions

_ATTRIBUTE = re.compile(r"([A-Za-z+][A-Za-z0-9_.]*) *= *(\S.*)")
_OURS = ("executable", "arguments", "queue", "universe")
_INITIAL_FOLDERS = {"initialdir", "initial_dir", "remote_initialdir"}
_STATES = {
    "1": "idle",
    "2": "running",
    "3": "removed",
    "4": "completed",
    "5": "held",
    "6": "transferring output",
    "7": "suspended",
}
_OVER = ("3", "4", "5")


class HtCondor(BatchLauncher):
    """Runs jobs on nodes that HTCondor gives."""

    kind = "htcondor"
    commands = ("condor_submit", "condor_q", "condor_rm")
    whole_nodes = False

    @override
    @classmethod
    def refuses_directive(cls, text: str) -> str | None:
        found = _ATTRIBUTE.fullmatch(text)
        if found is None:
            return "a line of a submit file is `name = value`"
        if found[1].lower() in _OURS:
            return f"{found[1]} is set by Headrace"
        return None

    @override
    @classmethod
    def refuses_batch(cls, batch: BatchOptions | None) -> str | None:
        if batch is not None and batch.queue is not None:
            return "HTCondor has no queues; name machines by directives, such as requirements"
        return super().refuses_batch(batch)

    @override
    @classmethod
    def job_class(cls) -> Any:
        from dask_jobqueue.htcondor import HTCondorJob

        return HTCondorJob

    @override
    @classmethod
    def request(cls, options: BatchOptions) -> dict[str, object]:
        directives = {
            found[1]: found[2] for text in options.directives if (found := _ATTRIBUTE.match(text))
        }
        if not _INITIAL_FOLDERS & {name.lower() for name in directives}:
            # Without it, a job begins in the folder of the submission, and is held on a node that
            # does not see it.
            directives["initialdir"] = str(folder_of(options))
        if options.account is not None:
            directives["accounting_group"] = options.account
        if options.walltime is not None:
            directives["allowed_job_duration"] = str(round(options.walltime))
        skip = ["RequestDisk"] if options.memory is not None else ["RequestDisk", "RequestMemory"]
        return {
            "cores": options.cores or 1,
            "memory": f"{options.memory or 1 << 30}B",
            "disk": "1GiB",
            "job_directives_skip": skip,
            "job_extra_directives": directives,
        }

    @override
    @classmethod
    def state(cls, job: str) -> JobState:
        state = cls.states([job])[0]
        if state.text != _STATES["1"]:
            return state
        return JobState(False, _reason(said_by(["condor_q", "-better-analyze", job]).text))

    @override
    @classmethod
    def states(cls, jobs: Sequence[str]) -> list[JobState]:
        said = said_by(["condor_q", *jobs, "-af", "ClusterId", "ProcId", "JobStatus", "HoldReason"])
        rows = [line.split(None, 3) for line in said.text.splitlines()]
        queued = {
            f"{row[0]}.{row[1]}": row[2:] for row in rows if len(row) > 2 and row[2].isdigit()
        }
        if said.code or (said.text and not queued):
            return [JobState(False, said.text)] * len(jobs)
        return [
            JobState(queued[job][0] in _OVER, _words_of(*queued[job]))
            if job in queued
            else JobState(True, _end_of(job))
            for job in jobs
        ]


def _reason(analysis: str) -> str:
    """Return on one line how many machines fulfil each condition of a job, and the summary."""
    lines = analysis.rpartition("reduces to these conditions:")[2].splitlines()
    return "; ".join(text for line in lines if (text := " ".join(line.split())))[-1500:]


def _words_of(number: str, *values: str) -> str:
    """Return a job's state in words, with values of attributes that it has."""
    said = [value for value in values if value != "undefined"]
    return ": ".join([_STATES.get(number, f"state {number}"), *said])


def _end_of(job: str) -> str:
    """Return how a job ended that is no longer in the queue."""
    words = ["condor_history", job, "-limit", "1", "-af", "JobStatus", "ExitCode", "RemoveReason"]
    row = said_by(words).text.split(None, 2)
    if len(row) < 3 or not row[0].isdigit():
        return "gone"
    return _words_of(row[0], row[1] if row[1] == "undefined" else f"exit code {row[1]}", row[2])
