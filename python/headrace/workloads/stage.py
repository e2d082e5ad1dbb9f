"""Workload `stage`: a job whose input is copied from a server to the target in the background, and read there. Simulated only."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.units import Bytes
from headrace.workloads import ModelledJob, WorkloadOptions
from headrace.workloads.replay import Replay, ReplayOptions


class StageOptions(ReplayOptions):
    """Fields of `[workload.NAME]` with `kind = "stage"`: those of `replay`, and a cache that jobs of a node share."""

    source: str | None = Field(description="name of the [site.server.NAME] that input is copied from")
    pcache: Bytes = Field(0, description="space of a node for staged files that other jobs may want (pCache)")


class Stage(Replay):
    """Copy first, then read."""

    kind = "stage"
    Options: ClassVar[type[WorkloadOptions]] = StageOptions

    @override
    def profile(self, site: Any) -> ModelledJob:
        """The profile, whose steps `stage` and `take` name what is copied."""
        job = super().profile(site)
        if self.options.pcache:
            job.run["pcache_bytes"] = self.options.pcache
        return job
