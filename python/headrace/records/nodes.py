"""Nodes of a trial: what each one that ran jobs is, and what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class NodeClock(msgspec.Struct, kw_only=True, frozen=True):
    """How a node's monotonic clock related to that of the machine that ran the study.

    All 0 for nodes that share its clock. Times in the record are converted already.
    """

    offset_s: float = 0.0
    """Seconds added to a time of the node, as measured before the jobs."""
    uncertainty_s: float = 0.0
    """Largest error of an offset: half the time that asking the node for its time took."""
    drift_s: float | None = None
    """Change of the offset from before the jobs to after them. None: not measured again."""


class NodeEvent(msgspec.Struct, kw_only=True, frozen=True):
    """Something that happened to a node."""

    what: Literal["lost", "returned"]
    """`returned`: another process of Headrace runs there, and has undone what the lost one left."""
    at_s: float
    """Seconds since the release of the jobs; negative for what happened since the trial before."""
    cause: str = ""


class NodeFacts(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One node that ran jobs. One entry of `node_facts` in trial.json.

    A field that is not known, or does not exist in a simulation, is left out.
    """

    number: int
    """The column `node` of jobs.parquet has it for each job."""
    name: str
    """As in `node` of the series and in other parts of the record; the host's name for jobs that
    ran directly on the machine that runs the study."""
    host: str = ""
    """Name of the machine."""
    kernel: str = ""
    """Release of the kernel."""
    kernel_id: str = ""
    """Identity of the running kernel. Nodes with the same one share page cache, CPUs and settings
    of the storage."""
    headrace: str = ""
    """Version of Headrace on the node."""
    python: str = ""
    cpu_model: str = ""
    cpus: int | None = None
    """CPUs that its jobs may use."""
    memory_bytes: int | None = None
    """Memory of the machine, or the node's limit."""
    clock: NodeClock | None = None
    start_first_s: float | None = None
    """Seconds from the common release until the first of its jobs began, of those released then."""
    start_last_s: float | None = None
    """The same for the last of them to begin."""
    foreign_cpus: float | None = None
    """Mean number of CPUs of its kernel that other programs and the hypervisor used."""
    oom_kills: int | None = None
    """Processes on it that the kernel killed while jobs ran because a memory limit was reached."""
    events: tuple[NodeEvent, ...] = ()
    """What happened to it since the trial before, in order."""

    @property
    def lost(self) -> bool:
        """Whether it could not be reached at the end of the trial."""
        return bool(self.events) and self.events[-1].what == "lost"


def start_spread_s(nodes: Sequence[NodeFacts]) -> float | None:
    """Return the time between the begins of the first and the last job of those released together,
    over all nodes; None if none is known."""
    firsts = [node.start_first_s for node in nodes if node.start_first_s is not None]
    lasts = [node.start_last_s for node in nodes if node.start_last_s is not None]
    return max(lasts) - min(firsts) if firsts and lasts else None
