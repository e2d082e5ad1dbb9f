"""Times of nodes whose clock drifted while jobs ran: pure functions.

Times are converted as they come, with the offset that was measured before the jobs. The one that is
measured after them tells how far the clocks went apart meanwhile: evenly, as far as is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.engine.measure.job_pool import JobEnd, PoolResult
from headrace.probes.sampler import SampleRows


@dataclass(frozen=True)
class ClockDrift:
    """How far a node's clock and the engine's went apart between two measurements."""

    before_s: float
    """Engine's monotonic clock at the first measurement."""
    after_s: float
    drift_s: float
    """Change of the seconds that make a time of the node one of the engine."""

    def corrected(self, time_s: float) -> float:
        """Return a time of the node, converted by the first offset, by the offset at that time."""
        span_s = self.after_s - self.before_s
        if span_s <= 0:
            return time_s
        part = min(1.0, max(0.0, (time_s - self.before_s) / span_s))
        return time_s + self.drift_s * part


def corrected_pool(pool: PoolResult, drifts: Mapping[int, ClockDrift], slots: int) -> PoolResult:
    """Return the result with the times of jobs corrected. `drifts`: by number of the node, each
    with `slots` slots."""
    if not any(drift.drift_s for drift in drifts.values()):
        return pool
    jobs = [
        _corrected_job(job, drift) if (drift := drifts.get(job.slot // slots)) is not None else job
        for job in pool.jobs
    ]
    last_s = max((job.end_s for job in jobs), default=0.0)
    was_last_s = max((job.end_s for job in pool.jobs), default=0.0)
    done_s = last_s if pool.last_done_s == was_last_s else pool.last_done_s + last_s - was_last_s
    return replace(pool, jobs=jobs, last_done_s=done_s)


def _corrected_job(job: JobEnd, drift: ClockDrift) -> JobEnd:
    release_s = job.absolute_start_s - job.start_s
    start_s = drift.corrected(job.absolute_start_s)
    output = job.output
    if output is not None:
        phases = [
            (name, drift.corrected(begin_s), drift.corrected(end_s))
            for name, begin_s, end_s in output.phases
        ]
        output = replace(output, phases=phases)
    return replace(
        job,
        start_s=start_s - release_s,
        end_s=drift.corrected(release_s + job.end_s) - release_s,
        output=output,
        absolute_start_s=start_s,
    )


def correct_series(
    series: Mapping[str, SampleRows],
    drifts: Mapping[str, ClockDrift],
    begun_s: float,
) -> None:
    """Correct the times of rows of probes in place.

    `drifts`: by name of the node. `begun_s`: engine's time from which the rows' times count.
    """
    if not any(drift.drift_s for drift in drifts.values()):
        return
    for rows in series.values():
        for row in rows:
            drift = drifts.get(str(row.get("node", "")))
            if drift is not None and isinstance(row.get("time_s"), float):
                row["time_s"] = drift.corrected(begun_s + row["time_s"]) - begun_s
