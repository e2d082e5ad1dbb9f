"""The outcome of one measured trial before it becomes a record, and the description of failures."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from headrace.errors import (
    CannotRecordError,
    HeadraceError,
    InterruptedRunError,
    UnsupportedLevelError,
    describe,
)
from headrace.launchers import LauncherLostError, NoNodesError, TooFewNodesError
from headrace.records.energy import Energy
from headrace.records.nodes import NodeFacts

if TYPE_CHECKING:
    from headrace.engine.measure.job_pool import PoolResult
    from headrace.engine.measure.node_probes import TrialSamples
    from headrace.records.trial_record import FaultRecord
    from headrace.system.machine_use import MachineUse
    from headrace.targets import Setting

ENDS_THE_RUN = (InterruptedRunError, CannotRecordError)
"""The only errors that a trial does not turn into a record."""


@dataclass(frozen=True)
class Failure:
    """Why the jobs of a trial did not complete."""

    status: Literal["failed", "unsupported"]
    cause: str
    trace: str | None = None
    """Traceback of an unexpected error; kept with the record as `error.txt`."""
    node_lost: bool = False
    """Whether a node that it needs could not be reached: it may succeed when run again."""
    too_few_nodes: bool = False
    """Whether trials that need fewer nodes can run."""


@dataclass(frozen=True)
class Step:
    """One step of a tear-down. It can be repeated."""

    what: str
    """Description for the error message ("removing scratch files")."""
    do: Callable[[], object]
    vital: bool = False
    """True if no other trial may run before this step has succeeded."""


@dataclass
class Outcome:
    """The results of a trial, filled in step by step; later fields stay empty after a failure."""

    started: datetime.datetime
    duration_s: float = 0.0
    failure: Failure | None = None
    settings: list[Setting] = field(default_factory=list["Setting"])
    settings_after: dict[str, Any] = field(default_factory=dict[str, Any])
    resident_bytes: int | None = None
    """Bytes of the jobs' input files in the page cache before a cold trial; None if not cold."""
    pool: PoolResult | None = None
    samples: TrialSamples | None = None
    machine_use: MachineUse | None = None
    """Use of the CPUs while the jobs ran."""
    node_facts: tuple[NodeFacts, ...] = ()
    server_facts: tuple[NodeFacts, ...] = ()
    server_totals: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Totals of the probes of servers under test, by server and kind."""
    clocks_s: float = 0.0
    """Time between the two measurements of the nodes' clocks."""
    energy: Energy = field(default_factory=Energy)
    emulators: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    injected: list[FaultRecord] = field(default_factory=list["FaultRecord"])
    """What each fault did."""
    teardown_errors: list[str] = field(default_factory=list[str])
    """Tear-down steps that failed, one sentence each."""
    unfinished: list[Step] = field(default_factory=list["Step"])
    """The same steps, for a retry."""


def failure_of(error: Exception, where: str = "") -> Failure:
    """Return the failure for an error.

    `where` is put before its cause unless the cause starts with it.
    """
    cause = describe(error)
    if not cause.startswith(where):
        cause = f"{where}{cause}"
    if isinstance(error, UnsupportedLevelError):
        return Failure("unsupported", cause)
    if isinstance(error, HeadraceError):
        text = f"{cause} ({error.hint})" if error.hint else cause
        return Failure(
            "failed",
            text,
            node_lost=isinstance(error, (LauncherLostError, NoNodesError)),
            too_few_nodes=isinstance(error, TooFewNodesError),
        )
    trace = "".join(traceback.format_exception(error))
    return Failure(
        "failed", f"{cause} (not foreseen by Headrace; see error.txt in the record)", trace
    )
