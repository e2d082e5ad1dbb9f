"""Jobs on nodes of HTCondor: `on = "htcondor"`, a batch job for each node."""

from __future__ import annotations

import re
from typing import Any

from typing_extensions import override

from headrace.launchers.batch.cluster import JobState
from headrace.launchers.batch.launcher import BatchLauncher, said_by
from headrace.launchers.batch.options import BatchOptions

_ATTRIBUTE = re.compile(r"([A-Za-z+][A-Za-z0-9_.]*) *= *(\S.*)")
_OURS = ("executable", "arguments", "queue", "universe")
_OVER = ("3", "4", "5")
"""Job states: removed, completed, held."""


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
        said = said_by(["condor_q", job, "-af", "JobStatus", "HoldReason"])
        if said.code or not said.text:
            return JobState(not said.code, said.text or "gone")
        number, _, reason = said.text.partition(" ")
        if number in _OVER:
            return JobState(True, f"state {number}: {reason}")
        return JobState(False, said_by(["condor_q", "-better-analyze", job]).text[-1500:])
