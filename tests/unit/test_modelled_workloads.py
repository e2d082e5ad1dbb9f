"""Jobs as profiles made from the layout of their files, held against what the same jobs really ask
for."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace import _core
from headrace.datasets import DatasetSpec, materialise
from headrace.datasets.layout import layout_of_dataset, layout_of_file
from headrace.readers.asking import join_over_gaps, read_buffers
from headrace.readers.counts import ReadCounts
from headrace.system.accounting import io_counts
from headrace.workloads import JobInput, JobOutput, ModelledJob, Workload, kinds

SPEC = {
    "shape": "bench",
    "events": 5_000,
    "files": 1,
    "cluster_events": 1_000,
    "basket_size": 4_000,
}


def spec_of(**fields: Any) -> DatasetSpec:
    return DatasetSpec.model_validate({**SPEC, **fields})


def workload(kind: str, **options: Any) -> Workload:
    part = kinds()[kind]
    return part(kind, part.Options.model_validate(options))


def reads_of(job: ModelledJob) -> list[tuple[int, int]]:
    return [each for step in job.steps if step["do"] == "sequence" for each in step["ranges_bytes"]]


@pytest.mark.parametrize(
    "fields", [{}, {"format": "rntuple"}, {"order": "unordered"}, {"events": 5_300}]
)
def test_a_data_set_s_layout_is_that_of_its_files(data_sets: Path, fields: dict[str, Any]) -> None:
    spec = spec_of(**fields)
    made = layout_of_dataset(spec)
    real = layout_of_file(materialise(spec, data_sets)[0])
    assert made.events == real.events
    assert made.file_bytes == pytest.approx(real.file_bytes, rel=0.02)
    assert len(made.pieces) == pytest.approx(len(real.pieces), rel=0.02)
    assert [piece.column for piece in made.pieces[:50]] == [
        piece.column for piece in real.pieces[:50]
    ]
    if "events" not in fields and "order" not in fields:  # scattered otherwise, by as much
        far = [
            abs(a.offset - b.offset) / real.file_bytes
            for a, b in zip(made.pieces, real.pieces, strict=False)
            if (a.column, a.first_entry) == (b.column, b.first_entry)
        ]
        assert sum(far) / len(far) < 0.05


def run(
    part: Workload, file: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[JobOutput, list[Any]]:
    seen: list[tuple[int, int]] = []
    add = ReadCounts.add

    def noted(
        counts: ReadCounts, path: str, start: int, stop: int, calls: int, wait_s: float
    ) -> None:
        seen.append((start, stop - start))
        add(counts, path, start, stop, calls, wait_s)

    monkeypatch.setattr(ReadCounts, "add", noted)
    return part.run(JobInput((str(file),), None, scratch, slot=0, slots=1, seed=0)), seen


@pytest.mark.parametrize("format", ["ttree", "rntuple"])
@pytest.mark.parametrize("kind", ["scan", "analysis", "skim"])
def test_the_made_profile_asks_for_what_the_job_asks_for(
    kind: str, format: str, data_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(format=format)
    part = workload(kind, data=spec, step_events=1_000)
    file = materialise(spec, data_sets)[0]
    output, seen = run(part, file, tmp_path, monkeypatch)
    job = part.profile(None)
    made = reads_of(job)
    assert len(made) == pytest.approx(output.read_calls, rel=0.03, abs=2)
    assert sum(size for _, size in made) == pytest.approx(output.bytes_asked, rel=0.06)
    assert job.events == output.events
    uncompressed = sum(step.get("uncompressed_bytes", 0) for step in job.steps)
    assert uncompressed == pytest.approx(output.bytes_uncompressed, rel=0.07)
    if kind == "skim":
        written = sum(step["length_bytes"] for step in job.steps if step["do"] == "write")
        assert written == pytest.approx(output.bytes_written, rel=0.15)
    else:
        # Not only as much: in the same order. Data reads come after those of the opening.
        forward = [a < b for (a, _), (b, _) in pairwise(made[6:])]
        really = [a < b for (a, _), (b, _) in pairwise(seen[6:])]
        assert sum(forward) / len(forward) == pytest.approx(sum(really) / len(really), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ttree", "rntuple"])
@pytest.mark.parametrize("kind", ["scan", "analysis"])
def test_root_s_reads_follow_from_its_rules(
    kind: str, format: str, data_sets: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ROOT")
    spec = spec_of(format=format)
    part = workload(kind, data=spec, reader="event-loop")
    file = materialise(spec, data_sets)[0]
    part.warm()
    # ROOT's own counter leaves out what it reads and throws away between two baskets: the kernel's
    # does not.
    before = io_counts(os.getpid())
    part.run(JobInput((str(file),), None, tmp_path, slot=0, slots=1, seed=0))
    moved = io_counts(os.getpid()) - before
    made = reads_of(part.profile(None))
    assert sum(size for _, size in made) == pytest.approx(moved.read_chars, rel=0.1, abs=25_000)
    # ROOT learns from the first events which branches are read: a few reads differ.
    assert len(made) == pytest.approx(moved.read_calls, abs=12, rel=0.1)


def test_root_joins_what_touches_and_what_is_near() -> None:
    assert read_buffers([(0, 100), (100, 50), (1_000, 10)]) == [(0, 1_010)]
    assert read_buffers([(0, 100), (300_000, 10), (300_010, 10)]) == [(0, 100), (300_000, 20)]
    assert read_buffers([(0, 400_000), (400_100, 10)]) == [(0, 400_000), (400_100, 10)]
    assert join_over_gaps([(0, 100), (110, 100), (1_000, 100)], 0.25) == [(0, 210), (1_000, 100)]


def test_fio_s_words_become_requests() -> None:
    job = workload(
        "random", iodepth=8, block_size="4 KiB", file_size="1 MiB", duration="2 s"
    ).profile(None)
    step = next(step for step in job.steps if step["do"] == "requests")
    assert (step["in_flight"], step["duration_ns"], step["access"]) == (8, 2_000_000_000, "direct")
    job = workload("sequential", mode="reread", file_size="1 MiB", record_size="64 KiB").profile(
        None
    )
    assert [step["count"] for step in job.steps if step["do"] == "requests"] == [16, 16]
    job = workload("sequential", mode="write", file_size="1 MiB", record_size="64 KiB").profile(
        None
    )
    assert job.files[0]["share"] == "new"
    # fio sleeps at its start, and until it sees that its clients have ended.
    wanted = ["compute", "wait", "create", "requests", "fsync", "close", "wait"]
    assert [step["do"] for step in job.steps] == wanted


@pytest.mark.parametrize("layout_format", ["ttree", "rntuple"])
@pytest.mark.parametrize("kind", ["analysis", "skim"])
def test_threads_share_the_clusters_of_a_job(kind: str, layout_format: str) -> None:
    data = {**SPEC, "events": 20_000, "format": layout_format}
    wanted = {"reader": "rdataframe", "data": data, **({} if kind != "skim" else {"fraction": 1.0})}

    def made(threads: int) -> list[Any]:
        return workload(kind, threads=threads, **wanted).profile(None).steps

    assert made(1) == workload(kind, **wanted).profile(None).steps
    alone = made(1)
    assert not [step for step in alone if step["do"] == "parallel"]
    for threads in (2, 3, 7):
        steps = made(threads)
        (shared,) = (step for step in steps if step["do"] == "parallel")
        inner = [step for part in shared["parts"] for step in part]
        runs = [step for step in inner if step["do"] == "sequence"]
        assert shared["threads"] == threads
        assert sum(run["events"] for run in runs) == 20_000
        assert [run["first_event"] for run in runs] == sorted(run["first_event"] for run in runs)
        if layout_format == "rntuple":
            assert len(shared["parts"]) == threads
            assert [step["do"] for step in shared["begin"]] == ["open"]
            assert inner == alone[alone.index(inner[0]) :][: len(inner)]
        else:
            assert len(shared["parts"]) == min(20, 10 * threads)
            assert [step["do"] for step in shared["begin"]] == ["open", "sequence"]
        sizes = [sum("first_event" in step for step in part) for part in shared["parts"]]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


def test_threads_of_a_simulated_job_are_as_many_times_as_fast_on_a_core_each() -> None:
    options = {"reader": "rdataframe", "data": {**SPEC, "events": 40_000, "format": "rntuple"}}

    def wall_ns(threads: int) -> int:
        job = workload("analysis", threads=threads, **options).profile(None)
        shared = [step for step in job.steps if step["do"] == "parallel" or "first_event" in step]
        (one,) = simulated_without_waits(job, [{"do": "open", "file": "data"}, *shared])
        wall_ns = one["end_ns"] - one["start_ns"]
        assert sum(one["ledger"].values()) == wall_ns
        return wall_ns

    alone = wall_ns(1)
    for threads in (2, 8):
        assert alone / wall_ns(threads) == pytest.approx(threads, rel=0.02)


def simulated_without_waits(job: ModelledJob, steps: list[Any]) -> list[Any]:
    """Return the jobs of a simulation on eight cores, whose storage takes no time."""
    rates = {"read_bytes_per_s": 1e18, "write_bytes_per_s": 1e18, "idle_w": 0.0, "active_w": 0.0}
    ideal = {"capacity_bytes": 10**12, "read_ns": 0, "write_ns": 0, **rates}
    volume = {"name": "data", "ideal": ideal, "filesystem": {"kind": "xfs"}}
    node = {"name": "node", "cores": 8, "memory_bytes": 10**11, "call_ns": 0, "volumes": [volume]}
    made = {
        "name": "threads",
        "seed": 1,
        "nodes": [{**node, "copy_bytes_per_s": 1e15}],
        "files": [{**job.files[0], "on": {"volume": "data"}}],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}},
    }
    return json.loads(_core.simulate_json(json.dumps(made)))["jobs"]
