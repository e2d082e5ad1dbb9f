"""Times of a node whose clock drifts evenly are those of the engine, whenever they were taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.measure.clock_drift import ClockDrift, correct_series, corrected_pool
from headrace.engine.measure.job_pool import JobEnd, PoolResult
from headrace.engine.measure.node_validity import MOST_DRIFT
from headrace.jobs import JobOutput
from headrace.probes.sampler import SampleRows

BEFORE_S = st.floats(0, 1e6)
SPAN_S = st.floats(0.01, 1e5)
OFFSET_S = st.floats(-1e6, 1e6)
RATE = st.floats(-MOST_DRIFT, MOST_DRIFT)
PARTS = st.lists(st.floats(0, 1), min_size=2, max_size=5)


def live_s(time_s: float, before_s: float, offset_s: float, rate: float) -> float:
    """What is received of an engine's time: the node's own, by the offset of the begin."""
    node_s = time_s - (offset_s + rate * (time_s - before_s))
    return node_s + offset_s


@given(BEFORE_S, SPAN_S, OFFSET_S, RATE, PARTS)
def test_times_agree_with_the_engines_clock_and_keep_their_order(
    before_s: float, span_s: float, offset_s: float, rate: float, parts: list[float]
) -> None:
    drift = ClockDrift(before_s, before_s + span_s, rate * span_s)
    times = sorted(before_s + part * span_s for part in parts)
    found = [drift.corrected(live_s(time_s, before_s, offset_s, rate)) for time_s in times]
    rounding = 1e-9 * (1 + abs(offset_s) + before_s + span_s)
    for time_s, got_s in zip(times, found, strict=True):
        # The rest is of second order in the rate: 0.25 us per second, at the most.
        assert abs(got_s - time_s) <= rate**2 * span_s + rounding
    assert found == sorted(found)


@given(st.floats(0.1, 100), RATE)
def test_jobs_phases_and_rows_of_one_node_alone_are_corrected(span_s: float, rate: float) -> None:
    release_s = 1000.0
    drift = ClockDrift(release_s, release_s + span_s, rate * span_s)
    end_s = span_s * 0.9

    def job(number: int, slot: int) -> JobEnd:
        output = JobOutput(phases=[("read", release_s, release_s + end_s)])
        return JobEnd(number, slot, None, "ok", None, 0.0, end_s, output, None, release_s)

    pool = PoolResult([job(0, 0), job(1, 2)], release_s, end_s, end_s)
    found = corrected_pool(pool, {1: drift}, slots=2)
    assert found.jobs[0] == pool.jobs[0]
    second, wanted_s = found.jobs[1], end_s + rate * end_s
    assert abs(second.end_s - wanted_s) < 1e-6 and abs(second.start_s) < 1e-6
    assert second.output is not None
    assert abs(second.output.phases[0][2] - release_s - wanted_s) < 1e-6
    assert found.last_done_s == max(job.end_s for job in found.jobs)
    rows: SampleRows = [{"node": f"node-{number}", "time_s": end_s} for number in range(2)]
    series: dict[str, SampleRows] = {"cpu": rows}
    correct_series(series, {"node-1": drift}, release_s)
    assert rows[0]["time_s"] == end_s
    assert abs(float(rows[1]["time_s"]) - wanted_s) < 1e-6


def test_a_clock_that_did_not_drift_changes_nothing() -> None:
    pool = PoolResult([], 0.0, 1.0, 1.0)
    assert corrected_pool(pool, {0: ClockDrift(0.0, 9.0, 0.0)}, 1) is pool
    assert ClockDrift(5.0, 5.0, 1.0).corrected(7.0) == 7.0, "no time between the measurements"
    assert ClockDrift(5.0, 6.0, 0.1).corrected(4.0) == 4.0, "nothing is known of before"
