"""The outcome of one measured trial before it becomes a record, and the description of failures."""

from __future__ import annotations

import datetime
import errno
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from headrace.errors import NO_SPACE as NO_SPACE_ERRORS
from headrace.errors import (
    CannotRecordError,
    HeadraceError,
    InterruptedRunError,
    UnsupportedLevelError,
    describe,
    system_error,
)
from headrace.launchers import LauncherLostError, NoNodesError, TooFewNodesError
from headrace.records.energy import Energy
from headrace.records.nodes import NodeFacts
from headrace.records.trial_record import (
    FILE_SIZE,
    NO_SPACE,
    NODE_LOST,
    OPEN_FILES,
    PROCESSES,
    READ_ONLY,
)
from headrace.system.process_limit import REMEDY, is_process_limit

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
    passing: str = ""
    """Code of the reason if it may pass, such as a lost node: the trial can be run again."""
    too_few_nodes: bool = False
    """Whether trials that need fewer nodes can run."""

    @property
    def node_lost(self) -> bool:
        """Whether a node that the trial needs could not be reached."""
        return self.passing == NODE_LOST


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
    cache_dropped: tuple[str, ...] = ()
    """Machines whose page cache was dropped between the preparation of a warm trial and its end."""
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


def _of_system(error: Exception) -> tuple[str, str | None]:
    """Return the code of a reason that may pass, and what to do; ("", None) for other errors."""
    cause = system_error(error)
    if is_process_limit(cause or error):
        return PROCESSES, f"{REMEDY}, then resume with --retry-invalid"
    number = None if cause is None else cause.errno
    if number in NO_SPACE_ERRORS:
        return NO_SPACE, "free some space or inodes, then resume with --retry-invalid"
    if number == errno.EROFS:
        return READ_ONLY, "mount it writable, then resume with --retry-invalid"
    if number in (errno.EMFILE, errno.ENFILE):
        return OPEN_FILES, "raise the limit (ulimit -n), then resume with --retry-invalid"
    if number == errno.EFBIG:
        return FILE_SIZE, "raise the limit (ulimit -f), then resume with --retry-invalid"
    return "", None


def failure_of(error: Exception, where: str = "") -> Failure:
    """Return the failure for an error.

    `where` is put before its cause unless the cause starts with it.
    """
    cause = describe(error)
    if not cause.startswith(where):
        cause = f"{where}{cause}"
    if isinstance(error, UnsupportedLevelError):
        return Failure("unsupported", cause)
    if isinstance(error, (LauncherLostError, NoNodesError)):
        passing, remedy = NODE_LOST, error.hint
    else:
        passing, remedy = _of_system(error)
    if isinstance(error, HeadraceError):
        hint = error.hint or remedy
        text = f"{cause} ({hint})" if hint else cause
        few = isinstance(error, TooFewNodesError)
        return Failure("failed", text, passing=passing, too_few_nodes=few)
    if passing:
        return Failure("failed", f"{cause} ({remedy})", passing=passing)
    trace = "".join(traceback.format_exception(error))
    return Failure(
        "failed", f"{cause} (not foreseen by Headrace; see error.txt in the record)", trace
    )
