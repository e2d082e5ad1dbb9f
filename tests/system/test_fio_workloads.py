"""`sequential` and `random` with real fio on real files.

What was asked is what fio did, and what is reported.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import headrace
from headrace.errors import HeadraceError
from headrace.workloads import JobInput, JobOutput, Workload, kinds
from headrace.workloads.fio.results import merge_histograms, parse_result, percentile_ns

MIB = 1 << 20


def workload(kind: str, **options: Any) -> Workload:
    part = kinds()[kind]
    return part("w", part.Options.model_validate(options))


def job(tmp_path: Path, files: tuple[str, ...], slot: int = 0) -> JobInput:
    scratch, keep = tmp_path / "scratch" / f"job-{slot:04d}", tmp_path / "keep"
    scratch.mkdir(parents=True, exist_ok=True)
    keep.mkdir(exist_ok=True)
    return JobInput(
        files=files,
        directory=tmp_path,
        scratch=scratch,
        slot=slot,
        slots=2,
        seed=7 + slot,
        keep=keep,
    )


def run(part: Workload, tmp_path: Path, slots: int = 1) -> list[JobOutput]:
    files = part.prepare_files(tmp_path / "data", slots, seed=1)
    return [
        part.run(job(tmp_path, part.cut(files, number, slots) if files else (), number))
        for number in range(slots)
    ]


@pytest.mark.parametrize(
    ("mode", "reads", "writes"),
    [
        ("write", 0, 4),
        ("rewrite", 0, 4),
        ("read", 4, 0),
        ("reread", 8, 0),
        ("random-read", 4, 0),
        ("random-write", 0, 4),
        ("mixed", None, None),
    ],
)
def test_each_mode_moves_the_whole_file(
    tmp_path: Path, mode: str, reads: int | None, writes: int | None
) -> None:
    part = workload("sequential", mode=mode, file_size="4 MiB", record_size="64 KiB")
    (output,) = run(part, tmp_path)
    if reads is None:
        assert output.bytes_asked + output.bytes_written == 4 * MIB
        assert 0.25 < output.bytes_asked / (4 * MIB) < 0.75
    else:
        assert (output.bytes_asked, output.bytes_written) == (reads * MIB, (writes or 0) * MIB)
        assert output.bytes_unique == min(reads, 4) * MIB
        assert output.read_calls == reads * MIB // (64 << 10)
    assert output.measured_child
    assert [name for name, _, _ in output.phases] == (
        ["read", "reread"] if mode == "reread" else [mode]
    )
    written = tmp_path / "scratch" / "job-0000" / "written.data"
    assert written.exists() == (mode == "write")
    if mode == "write":
        assert written.stat().st_size == 4 * MIB


def test_fio_keeps_its_json_whole(tmp_path: Path) -> None:
    part = workload("sequential", mode="read", file_size="1 MiB", record_size=4096)
    (output,) = run(part, tmp_path)
    (kept,) = (tmp_path / "keep").iterdir()
    said = json.loads(kept.read_text())["jobs"][0]
    assert said["read"]["io_bytes"] == output.bytes_asked
    # Percentiles from the histogram are fio's own.
    for percentile, name in (("50.000000", "p50"), ("99.000000", "p99"), ("99.900000", "p99_9")):
        assert (
            output.results[f"read_latency_ns_{name}"]
            == said["read"]["lat_ns"]["percentile"][percentile]
        )


def test_laying_out_is_idempotent_and_incompressible(tmp_path: Path) -> None:
    import zlib

    part = workload("sequential", mode="read", file_size="1 MiB", record_size=4096)
    paths = part.prepare_files(tmp_path, 2, seed=1)
    before = [Path(path).stat().st_mtime_ns for path in paths]
    Path(paths[1]).write_bytes(b"cut off")
    assert part.prepare_files(tmp_path, 2, seed=1) == paths
    assert Path(paths[0]).stat().st_mtime_ns == before[0]
    data = [Path(path).read_bytes() for path in paths]
    assert [len(content) for content in data] == [MIB, MIB]
    assert data[0] != data[1]
    assert len(zlib.compress(data[0])) > 0.99 * MIB


def test_clients_merge(tmp_path: Path) -> None:
    part = workload("sequential", mode="read", file_size="4 MiB", record_size="16 KiB")
    outputs = run(part, tmp_path, slots=2)
    results = [output.results for output in outputs]
    merged = part.merge(results)
    assert merged["read_bytes"] == 8 * MIB
    assert merged["rate_bytes_per_s"] == pytest.approx(
        sum(result["read_rate_bytes_per_s"] for result in results)
    )
    assert (
        merged["read_rate_bytes_per_s_min"]
        <= merged["read_rate_bytes_per_s_max"]
        < merged["rate_bytes_per_s"]
    )
    assert (
        sum(count for _, count in merged["read_latency_histogram"])
        == merged["read_requests"]
        == 512
    )
    low, high = sorted(result["read_latency_ns_p50"] for result in results)
    assert low <= merged["read_latency_ns_p50"] <= high
    json.dumps(merged)


def test_a_slot_with_several_jobs_counts_once(tmp_path: Path) -> None:
    part = workload("sequential", mode="read", file_size="4 MiB", record_size="16 KiB")
    (output,) = run(part, tmp_path)
    once, thrice = part.merge([output.results]), part.merge([output.results] * 3)
    assert thrice["rate_bytes_per_s"] == pytest.approx(once["rate_bytes_per_s"])
    assert thrice["read_bytes"] == 3 * once["read_bytes"]


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
def test_random_reads_for_a_duration(tmp_path: Path, engine: str) -> None:
    depth = 1 if engine == "psync" else 8
    part = workload(
        "random", file_size="4 MiB", block_size="4 KiB", duration=0.3, iodepth=depth, engine=engine
    )
    begun_s = time.monotonic()
    (output,) = run(part, tmp_path)
    # A machine that is stolen for a while makes the last request late, and never the time shorter.
    assert 0.29 <= output.results["read_runtime_s"] <= time.monotonic() - begun_s
    assert output.results["read_iops"] == pytest.approx(
        output.read_calls / output.results["read_runtime_s"]
    )
    assert output.bytes_asked == output.read_calls * 4096
    assert output.bytes_unique <= 4 * MIB
    assert 0 < output.read_wait_s <= output.results["runtime_s"]
    assert output.asynchronous == (engine != "psync")
    latencies = [
        output.results[f"read_latency_ns_{name}"] for name in ("p50", "p90", "p99", "p99_9")
    ]
    assert latencies == sorted(latencies)
    if depth > 1:
        kept = json.loads(next((tmp_path / "keep").iterdir()).read_text())["jobs"][0]
        assert kept["iodepth_level"]["8"] > 50


def test_random_mix_of_an_amount(tmp_path: Path) -> None:
    part = workload("random", file_size="4 MiB", amount="2 MiB", read_fraction=0.7)
    (output,) = run(part, tmp_path)
    assert output.bytes_asked + output.bytes_written == 2 * MIB
    assert 0.5 < output.bytes_asked / (2 * MIB) < 0.9
    merged = part.merge([output.results])
    assert merged["iops"] == pytest.approx(merged["read_iops"] + merged["write_iops"])


def test_a_record_with_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = workload("sequential", mode="read", file_size="1 MiB")
    files = tuple(part.prepare_files(tmp_path / "data", 1, seed=1))
    monkeypatch.chdir(tmp_path)
    given = dataclasses.replace(job(tmp_path, files), keep=Path("keep"))
    part.run(given)
    assert [path.name for path in (tmp_path / "keep").iterdir()] == ["fio-read-job-0000.json"]


def test_a_missing_file_fails_with_the_words_of_fio(tmp_path: Path) -> None:
    part = workload("sequential", mode="read", file_size="1 MiB")
    with pytest.raises(
        HeadraceError, match=r"fio ended with exit code 1: .*file creation disallowed"
    ):
        part.run(job(tmp_path, (str(tmp_path / "none"),)))


def test_a_full_disk_fails_to_lay_out(tmp_path: Path) -> None:
    import resource

    part = workload("sequential", mode="read", file_size="8 MiB")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, hard))
    try:
        with pytest.raises(HeadraceError, match="cannot be written"):
            part.prepare_files(tmp_path, 1, seed=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_a_colon(tmp_path: Path) -> None:
    part = workload("sequential", mode="read", file_size="1 MiB")
    (path,) = part.prepare_files(tmp_path / "a:b c", 1, seed=1)
    assert part.run(job(tmp_path, (path,))).bytes_asked == MIB


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "sequential",
            {"file_size": 100_000, "record_size": 65536},
            "not a whole number of records",
        ),
        ("sequential", {"direct": True, "engine": "mmap"}, "cannot be direct"),
        ("sequential", {"mode": "sideways"}, "Input should be"),
        ("random", {"file_size": 1000, "block_size": 512}, "not a whole number of blocks"),
        ("random", {"iodepth": 4, "engine": "psync"}, "one request at a time"),
        ("random", {"iodepth": 4, "direct": False}, "direct must be true"),
        ("random", {"duration": None}, "either duration or amount"),
        ("random", {"blocksize": 512}, "Extra inputs"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    kind: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        kinds()[kind].Options.model_validate(options)


def test_every_option_is_described() -> None:
    for kind in ("sequential", "random"):
        for name, field in kinds()[kind].Options.model_json_schema()["properties"].items():
            assert field.get("description"), name


def test_output_that_is_not_fios_is_refused() -> None:
    for text in ("", "fio: killed", "{}", '{"jobs": []}', '{"jobs": [{"error": 0}]}'):
        with pytest.raises(HeadraceError, match="cannot be understood"):
            parse_result(text)


def test_percentiles_of_merged_histograms() -> None:
    merged = merge_histograms([[[100, 1], [300, 1]], [[100, 1], [200, 1]]])
    assert merged == [[100, 2], [200, 1], [300, 1]]
    assert [percentile_ns(merged, percentile) for percentile in (50, 75, 99)] == [100, 200, 300]


def test_clients_of_several_slots_begin_together(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        """
headrace = 1
[target.here]
kind = "path"
path = "."
[workload.write]
kind = "sequential"
mode = "write"
file_size = "4 MiB"
[run]
slots = 4
cache = "as-is"
shortest = 0
[plan]
repeats = { min = 1 }
"""
    )
    results = headrace.load_study(study).run(tmp_path / "results")
    (file,) = results.glob("trials/*/trial.json")
    trial = json.loads(file.read_text())
    assert trial["status"] == "done", trial["cause"]
    found = trial["results"]
    assert found["write_bytes"] == 4 * (4 << 20)
    # IOzone: children see the sum of their own rates, the parent all bytes over the whole time.
    assert (
        found["write_rate_bytes_per_s_min"]
        <= found["write_rate_bytes_per_s_mean"]
        <= found["write_rate_bytes_per_s_max"]
    )
    assert found["parent_rate_bytes_per_s"] <= found["rate_bytes_per_s"]


def test_a_client_that_cannot_start_keeps_nobody_waiting(tmp_path: Path) -> None:
    part = workload("sequential", mode="read", file_size="1 MiB")
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    (there,) = part.prepare_files(tmp_path / "data", 1, seed=1)
    files = [there, str(tmp_path / "gone.data")]
    given = [
        dataclasses.replace(job(tmp_path, (file,), number), job=number, jobs=2, meeting=meeting)
        for number, file in enumerate(files)
    ]
    begun = time.monotonic()
    with pytest.raises(HeadraceError):
        part.run(given[1])
    with pytest.raises(HeadraceError) as error:
        part.run(given[0])
    assert "client 1 failed before the others could start" in error.value.message
    assert time.monotonic() - begun < 100, "the first of them would wait two minutes for the other"
