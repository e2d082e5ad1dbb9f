"""Jobs on nodes of PBS: `on = "pbs"`, a batch job for each node."""

from __future__ import annotations

import re
from typing import Any

from typing_extensions import override

from headrace.launchers.batch.cluster import JobState
from headrace.launchers.batch.launcher import BatchLauncher, clock_time, said_by
from headrace.launchers.batch.options import BatchOptions

_FACT = re.compile(r"^\s*(job_state|comment|Exit_status) = (.*)$", re.MULTILINE)


class Pbs(BatchLauncher):
    """Runs jobs on nodes that PBS gives."""

    kind = "pbs"
    commands = ("qsub", "qstat", "qdel")

    @override
    @classmethod
    def job_class(cls) -> Any:
        from dask_jobqueue.pbs import PBSJob

        return PBSJob

    @override
    @classmethod
    def request(cls, options: BatchOptions) -> dict[str, object]:
        directives = list(options.directives)
        if options.cores is None:
            directives.insert(0, "-l place=excl")
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
        said = said_by(["qstat", "-f", job])
        if said.code:
            gone = "Unknown Job" in said.text or "has finished" in said.text
            return JobState(gone, " ".join(said.text.split()))
        facts = dict(_FACT.findall(said.text))
        text = ", ".join(f"{name} {value.strip()}" for name, value in facts.items())
        return JobState(facts.get("job_state", "").strip() in ("F", "C"), text)
