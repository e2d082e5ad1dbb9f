"""Fitting a drive: parameters put in are found again.

What the results cannot determine is said and left as it was.
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.catalog import CatalogEntry, entry
from headrace.catalog.write_cache import with_write_cache
from headrace.cli import make_app
from headrace.drives import Fit, Load, fit_drive, read_trace, replay_trace, run_drive
from headrace.drives.fio import Observed, read_fio_results
from headrace.drives.fitted_file import write_fitted
from headrace.drives.fitting import Fitted, possible
from headrace.drives.observed_traces import TraceReplay, is_trace, observe_trace
from headrace.errors import StudyError
from headrace.scenario import Table

LOADS = [
    {"rw": "randread", "bs": "4k", "iodepth": "1"},
    {"rw": "randread", "bs": "4k", "iodepth": "4"},
    {"rw": "randread", "bs": "4k", "iodepth": "16"},
    {"rw": "randread", "bs": "4k", "iodepth": "32"},
    {"rw": "randread", "bs": "512k", "iodepth": "1"},
    {"rw": "randread", "bs": "512k", "iodepth": "16"},
    {"rw": "read", "bs": "256k", "iodepth": "1"},
]


def changed(tmp_path: Path, name: str, **values: float) -> CatalogEntry:
    """The catalog's disk with other values."""
    text = entry("drives", "wd-wd3200bekt").file.read_text()
    for key, value in values.items():
        text, count = re.subn(rf"\b{key} = [0-9._e]+", f"{key} = {value}", text, count=1)
        assert count == 1, key
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return entry("drives", str(path))


def as_fio(
    tmp_path: Path,
    drive: CatalogEntry,
    number: int,
    options: dict[str, str],
    raid: Table | None = None,
    runtime_s: float = 20.0,
) -> Path:
    """What fio would say of that drive: results of the model with the parameters to be found."""
    size = int(options["bs"].removesuffix("k")) << 10
    load = Load(
        rw=options["rw"],
        bs_bytes=size,
        iodepth=int(options["iodepth"]),
        runtime_s=runtime_s,
        offset_bytes=int(options.get("offset", "0")),
        raid=raid,
    )
    result: dict[str, Any] = run_drive(drive.table, load)
    job: dict[str, Any] = {
        "jobname": f"job{number}",
        "job options": {**options, "ioengine": "libaio", "direct": "1"},
    }
    for direction in ("read", "write"):
        part = result[direction]
        job[direction] = {
            "total_ios": part["requests"],
            "iops": part["iops"],
            "runtime": round(result["elapsed_s"] * 1000) if part["requests"] else 0,
            "clat_ns": {"mean": part["latency_ns_mean"]},
        }
    path = tmp_path / f"fio{number}.json"
    path.write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    return path


@pytest.fixture
def truth(tmp_path: Path) -> CatalogEntry:
    return changed(tmp_path, "truth", reordering=0.6, average_ms=9.0, outer_bytes_per_s=95e6)


def test_results_of_a_raid_are_those_of_one(tmp_path: Path) -> None:
    """The loads of fio are run on the RAID, too, not on one of its drives."""
    drive, raid = changed(tmp_path, "drive"), {"level": 0, "drives": 4, "chunk_bytes": 64 << 10}
    file = as_fio(tmp_path, drive, 0, LOADS[3], raid)
    fit = fit_drive(drive, [file], runtime_s=20.0, replay=TraceReplay(raid=raid))
    assert all(each.before == pytest.approx(each.measured) for each in fit.residuals)
    assert not any(each.determined for each in fit.parameters)


SHEET = """
name = "sheet"
kind = "hdd"
capacity_bytes = 1_000_000_000_000
rotation_rpm = 7200
heads = 6
rates = {{ outer_bytes_per_s = 110e6 }}
seek = {{ curve = "sheet", track_to_track_ms = 0.8, average_ms = {seek} }}
link_bytes_per_s = 270e6
{more}
"""


def test_what_no_data_sheet_states_is_fitted_without_being_in_the_table(tmp_path: Path) -> None:
    """A drive of which only the sheet and IOPS are known, the writes one at a time."""

    def drive(seek: float, more: str = "") -> CatalogEntry:
        file = tmp_path / "sheet.toml"
        file.write_text(SHEET.format(seek=seek, more=more))
        return entry("drives", str(file))

    truth = drive(9.6, "buffer.write_cache_extents = 24\nqueue.reordering = 0.6")
    loads = [
        {"rw": "randread", "bs": "4k", "iodepth": "1"},
        {"rw": "randread", "bs": "4k", "iodepth": "32"},
        {"rw": "randwrite", "bs": "4k", "iodepth": "1"},
    ]
    files = [as_fio(tmp_path, truth, number, load) for number, load in enumerate(loads)]
    start = drive(8.9)
    fit = fit_drive(start, files, runtime_s=20.0)
    found = {each.name: each for each in fit.parameters}
    assert fit.rms_error < 0.02
    assert found["queue.reordering"].value == pytest.approx(0.6, abs=0.15)
    assert found["buffer.write_cache_extents"].value == pytest.approx(24, abs=6)
    # What it begins with are the model's own defaults.
    sampled = [run_drive(start.table, job.load) for file in files for job in _jobs(file)]
    stated = drive(8.9, "buffer.write_cache_extents = 64\nqueue.reordering = 0.3")
    assert [run_drive(stated.table, job.load) for f in files for job in _jobs(f)] == sampled
    write_fitted(drive(8.9), fit, files, tmp_path / "fitted.toml")
    buffer = entry("drives", str(tmp_path / "fitted.toml")).table["buffer"]
    assert isinstance(buffer["write_cache_extents"], int)


@pytest.mark.parametrize("measured_s", [10, 60])
def test_a_write_cache_is_fitted_over_the_time_that_fio_measured(
    tmp_path: Path, measured_s: int
) -> None:
    """A cache of many ranges takes their writes at once: in 4 s they are most of all writes."""
    big = "buffer.write_cache_bytes = 134_217_728\nbuffer.write_cache_extents = 800"
    (tmp_path / "truth.toml").write_text(SHEET.format(seek=8.9, more=big))
    (tmp_path / "sheet.toml").write_text(
        SHEET.format(seek=8.9, more="buffer.write_cache_bytes = 134_217_728")
    )
    truth, start = (entry("drives", str(tmp_path / f"{name}.toml")) for name in ("truth", "sheet"))
    load = {"rw": "randwrite", "bs": "4k", "iodepth": "8"}
    file = as_fio(tmp_path, truth, 0, load, runtime_s=measured_s)
    fit = fit_drive(start, [file])
    found = {each.name: each.value for each in fit.parameters}
    assert found["buffer.write_cache_extents"] == pytest.approx(800, rel=0.15)


def test_the_ramp_of_fio_is_no_part_of_what_it_measured(tmp_path: Path) -> None:
    options = {"rw": "randwrite", "ioengine": "libaio", "direct": "1", "ramp_time": "30s"}
    write = {"total_ios": 1000, "iops": 200.0, "runtime": 30_000}
    file = tmp_path / "fio.json"
    file.write_text(json.dumps({"jobs": [{"job options": options, "write": write}]}))
    (tmp_path / "sheet.toml").write_text(SHEET.format(seek=8.9, more=""))
    start = entry("drives", str(tmp_path / "sheet.toml"))
    (left,) = fit_drive(start, [file]).residuals
    after_ramp = Load("randwrite", 4096, runtime_s=30.0, ramp_time_s=30.0)
    assert left.before == run_drive(start.table, after_ramp)["write"]["iops"]


def test_reads_alone_tell_nothing_of_the_write_cache(tmp_path: Path) -> None:
    (tmp_path / "sheet.toml").write_text(SHEET.format(seek=8.9, more=""))
    start = entry("drives", str(tmp_path / "sheet.toml"))
    file = as_fio(tmp_path, start, 0, LOADS[0])
    names = [each.name for each in fit_drive(start, [file], runtime_s=5.0).parameters]
    assert "seek.average_ms" in names and not {"queue.reordering", "buffer.write_cache_extents"} & {
        *names
    }


def _jobs(file: Path) -> list[Observed]:
    return read_fio_results(file, 20.0)


@pytest.mark.slow
def test_a_fitted_drive_gives_the_results_and_those_left_out(
    tmp_path: Path, truth: CatalogEntry
) -> None:
    files = [as_fio(tmp_path, truth, number, load) for number, load in enumerate(LOADS)]
    fit = fit_drive(changed(tmp_path, "start"), files, runtime_s=20.0)
    found = {each.name: each for each in fit.parameters}
    assert fit.rms_error < 0.03
    assert fit.cross_error is not None and fit.cross_error < 0.06
    assert abs(found["seek.average_ms"].value / 9.0 - 1) < 0.1
    assert (
        found["queue.reordering"].determined and abs(found["queue.reordering"].value - 0.6) < 0.25
    )
    outer = found["rates.outer_bytes_per_s"]
    assert outer.determined and abs(outer.value / 95e6 - 1) < 0.1
    write_fitted(changed(tmp_path, "start"), fit, files, tmp_path / "fitted.toml")
    again = entry("drives", str(tmp_path / "fitted.toml"))
    assert "fitted to fio results" in again.source["seek.average_ms"]


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"rw": "randrw", "rwmixwrite": "80"}, "rwmixread", 20),
        ({"rw": "randrw", "rwmixread": "70", "rwmixwrite": "30"}, "rwmixread", 70),
        ({"rw": "randwrite", "fdatasync": "1"}, "fsync", 1),
    ],
)
def test_options_of_fio_with_two_names_are_read_by_both(
    tmp_path: Path, options: dict[str, str], field: str, value: int
) -> None:
    options = {**options, "direct": "1"}
    job = {"jobname": "j", "job options": options, "write": {"total_ios": 9, "iops": 3.0}}
    (tmp_path / "fio.json").write_text(json.dumps({"jobs": [job]}))
    (found,) = read_fio_results(tmp_path / "fio.json", 1.0)
    assert getattr(found.load, field) == value


def fio_job(name: str = "j", /, **changed: Any) -> dict[str, Any]:
    options = {"rw": "randread", "bs": "4k", "iodepth": "8", "ioengine": "libaio", "direct": "1"}
    read = {"total_ios": 9, "iops": 50.0, "clat_ns": {"mean": 7000.0}}
    return {
        "jobname": name,
        "groupid": 0,
        "error": 0,
        "job options": options,
        "read": read,
    } | changed


def fio_text(*jobs: dict[str, Any]) -> str:
    return json.dumps({"fio version": "fio-3.33", "jobs": jobs}, indent=2) + "\n"


@pytest.mark.parametrize(
    ("read", "latency_ns"),
    [
        ({"clat": {"mean": 7.5}, "lat": {"mean": 9.0}}, 7500.0),
        ({"clat_ns": {"mean": 0.0}, "lat_ns": {"mean": 9000.0}}, 9000.0),
        ({"clat_ns": {"mean": 7500.0}, "lat_ns": {"mean": 9000.0}}, 7500.0),
    ],
    ids=["fio 2", "disable_clat", "fio 3"],
)
def test_latencies_of_fio_are_in_their_version_s_unit(
    tmp_path: Path, read: dict[str, Any], latency_ns: float
) -> None:
    (tmp_path / "fio.json").write_text(
        fio_text(fio_job(read={"total_ios": 9, "iops": 5.0, **read}))
    )
    (found,) = read_fio_results(tmp_path / "fio.json", 1.0)
    assert found.values["read.latency_ns_mean"] == latency_ns


def test_results_of_fio_between_its_messages(tmp_path: Path) -> None:
    text = "fio: {cgroup} not mounted\n" + fio_text(fio_job()) + "\nRun status group 0:\n"
    (tmp_path / "fio.json").write_bytes(b"\xff\n" + (text + fio_text(fio_job("k"))).encode())
    found = read_fio_results(tmp_path / "fio.json", 1.0)
    assert [each.name for each in found] == ["fio.json:j", "fio.json:k"]
    assert not is_trace(tmp_path / "fio.json")


def clone(iops: float, ios: int, mean_ns: float, **changed: Any) -> dict[str, Any]:
    options = {"rw": "randread", "numjobs": "3", "ioengine": "libaio", "direct": "1"}
    read = {"total_ios": ios, "iops": iops, "runtime": 1000, "clat_ns": {"mean": mean_ns}}
    return fio_job("c", **{"job options": options, "read": read, **changed})


def test_iops_of_clones_are_those_of_all(tmp_path: Path) -> None:
    """With group_reporting fio writes one entry with their sum, otherwise one for each; neither
    says so in its options."""
    file = tmp_path / "fio.json"
    file.write_text(fio_text(clone(60.0, 60, 5e6, job_runtime=3000)))
    (group,) = read_fio_results(file, 1.0)
    assert group.values == {"read.iops": 60.0, "read.latency_ns_mean": 5e6}
    file.write_text(fio_text(clone(10.0, 10, 8e6), clone(20.0, 20, 5e6), clone(30.0, 30, 4e6)))
    (found,) = read_fio_results(file, 1.0)
    assert (found.load.numjobs, found.measured_s) == (3, 1.0)
    assert found.values == {"read.iops": 60.0, "read.latency_ns_mean": 5e6}
    # Two runs in one file, and one of their clones is lost.
    file.write_text(fio_text(clone(10.0, 10, 5e6), clone(20.0, 20, 5e6)) * 2)
    assert [each.values["read.iops"] for each in read_fio_results(file, 1.0)] == [45.0, 45.0]


def test_of_a_run_that_tells_its_status_the_last_result_counts(tmp_path: Path) -> None:
    def told(written_s: int, elapsed_s: int, iops: float) -> str:
        read = {"total_ios": 9, "iops": iops}
        job = fio_job(read=read, elapsed=elapsed_s)
        return json.dumps({"timestamp": 1_795_943_400 + written_s, "jobs": [job]}) + "\n"

    file = tmp_path / "fio.json"
    for separate in (0, 12):
        again = "" if not separate else told(separate + 10, 10, 80.0)
        file.write_text(told(1, 1, 10.0) + told(5, 5, 40.0) + told(10, 10, 70.0) + again)
        iops = [each.values["read.iops"] for each in read_fio_results(file, 1.0)]
        assert iops == ([70.0, 80.0] if separate else [70.0])


@pytest.mark.parametrize(
    ("options", "depth", "size"),
    [
        ({"iodepth": "8"}, 1, 4096),
        ({"iodepth": "8", "ioengine": "pvsync2"}, 1, 4096),
        ({"iodepth": "8", "ioengine": "io_uring", "bs": "8k,8k"}, 8, 8192),
        ({"bs": "4KiB"}, 1, 4096),
        ({"sync": "none", "random_distribution": "random", "zonemode": "none"}, 1, 4096),
    ],
)
def test_defaults_and_notations_of_fio(
    tmp_path: Path, options: dict[str, str], depth: int, size: int
) -> None:
    options = {"direct": "1", **options}
    (tmp_path / "fio.json").write_text(fio_text(fio_job(**{"job options": options})))
    (found,) = read_fio_results(tmp_path / "fio.json", 1.0)
    assert (found.load.iodepth, found.load.bs_bytes) == (depth, size)


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([fio_job(**{"job options": {}})], 'has no "job options"'),
        ([fio_job(error=5)], "ended with error 5"),
        ([fio_job(), fio_job("k")], 'at the same time as the job "j"'),
        ([fio_job(**{"job options": {"bssplit": "4k/50:64k/50"}})], "not modelled: bssplit"),
        ([fio_job(**{"job options": {"rate_iops": "100"}})], "not modelled: rate_iops"),
        *(
            ([fio_job(**{"job options": {option: value}})], f"not modelled: {option}")
            for option, value in {
                "sync": "dsync",
                "random_distribution": "zipf:1.2",
                "percentage_random": "20,100",
                "zoneskip": "4m",
                "latency_target": "5ms",
            }.items()
        ),
        ([fio_job(**{"job options": {"rw": "randrw", "bs": "4k,64k"}})], "is not one size"),
        (
            [fio_job(**{"job options": {"filename": "/dev/sdb:/dev/sdc", "direct": "1"}})],
            "is 2 files or devices",
        ),
        (
            [
                fio_job(
                    read={},
                    mixed={"total_ios": 9, "iops": 5.0},
                    **{"job options": {"rw": "randrw", "direct": "1"}},
                )
            ],
            "has reads and writes as one number",
        ),
        ([clone(5.0, 5, 7e6, job_runtime=6000)], "sums up jobs"),
        (
            [fio_job(**{"job options": {"name": "last of its group", "direct": "1"}})],
            "sums up jobs",
        ),
    ],
)
def test_a_load_that_is_not_known_or_another_one_is_refused(
    tmp_path: Path, jobs: list[dict[str, Any]], said: str
) -> None:
    (tmp_path / "fio.json").write_text(fio_text(*jobs))
    with pytest.raises(StudyError, match=said):
        read_fio_results(tmp_path / "fio.json", 1.0)


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ({"rw": "randread", "ioengine": "libaio"}, "cache"),
        ({"rw": "randread", "direct": "0"}, "cache"),
        ({"rw": "read", "fsync": "1"}, "cache"),
        ({"rw": "randrw", "fsync": "1"}, "cache"),
        ({"rw": "randwrite", "fdatasync": "8"}, "cache"),
        ({"rw": "randwrite", "fdatasync": "1"}, "drive"),
        ({"rw": "randread", "buffered": "0"}, "drive"),
        ({"rw": "randread", "ioengine": "io_uring_cmd"}, "drive"),
    ],
)
def test_results_of_the_page_cache_are_not_those_of_the_drive(
    tmp_path: Path, options: dict[str, str], served: str
) -> None:
    """A fit took 1.4 M reads/s of memory for those of a disk."""
    file = tmp_path / "fio.json"
    file.write_text(fio_text(fio_job(**{"job options": options})))
    if served == "drive":
        assert read_fio_results(file, 1.0)
        return
    with pytest.raises(StudyError, match="went through the page cache"):
        read_fio_results(file, 1.0)
    together = {"global options": {"direct": "1"}, "jobs": [fio_job(**{"job options": options})]}
    file.write_text(json.dumps(together))
    assert options.get("direct") == "0" or read_fio_results(file, 1.0)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"rw": "randread", "bs": "4k,64k"}, 4096),
        ({"rw": "randread", "bs": ",64k"}, 4096),
        ({"rw": "randwrite", "bs": "4k,64k"}, 65536),
        ({"rw": "randwrite", "bs": "8k,"}, 8192),
        ({"rw": "randrw", "bs": "8k,8k,64k"}, 8192),
    ],
)
def test_sizes_of_reads_and_of_writes(tmp_path: Path, options: dict[str, str], size: int) -> None:
    """Loads of reads alone were refused for the size of writes."""
    file = tmp_path / "fio.json"
    job = fio_job(
        write={"total_ios": 9, "iops": 5.0}, **{"job options": {**options, "direct": "1"}}
    )
    file.write_text(fio_text(job))
    assert read_fio_results(file, 1.0)[0].load.bs_bytes == size


def test_reads_that_are_reported_as_mixed(tmp_path: Path) -> None:
    """`--unified_rw_reporting=1`: the result "held no requests"."""
    file = tmp_path / "fio.json"
    mixed = {"total_ios": 9, "iops": 50.0, "runtime": 2000, "clat_ns": {"mean": 7000.0}}
    file.write_text(fio_text(fio_job(read={}, mixed=mixed)))
    (found,) = read_fio_results(file, 1.0)
    assert found.values == {"read.iops": 50.0, "read.latency_ns_mean": 7000.0}
    assert found.measured_s == 2.0


@pytest.mark.parametrize(
    "text",
    [
        "3;fio-3.33;a;0;0;1024;44521;11130;23;0;0;0.0;0.0\n",
        "a: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=psync, iodepth=1\nfio-3.33\n",
    ],
)
def test_other_output_of_fio_is_no_trace(tmp_path: Path, text: str) -> None:
    """It was "an unknown format", of which blktrace and others were allowed."""
    (tmp_path / "fio.txt").write_text(text)
    assert not is_trace(tmp_path / "fio.txt")
    with pytest.raises(StudyError, match="is not a result of fio --output-format=json"):
        read_fio_results(tmp_path / "fio.txt", 1.0)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_results_that_windows_wrote_are_read(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "fio.json"
    file.write_bytes(fio_text(fio_job()).encode(encoding))
    assert not is_trace(file)
    assert read_fio_results(file, 1.0)[0].values["read.iops"] == 50.0


def test_results_in_a_pipe_are_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, fio_text(fio_job()).encode())
    os.close(writing)
    (found,) = read_fio_results(Path(f"/dev/fd/{reading}"), 1.0)
    os.close(reading)
    assert found.values["read.iops"] == 50.0


def test_a_fit_stays_within_what_a_platter_can_be(tmp_path: Path, truth: CatalogEntry) -> None:
    """Results of a disk whose inner zone is much slower than any hub allows."""
    strange = changed(tmp_path, "strange", outer_bytes_per_s=95e6, inner_bytes_per_s=14e6)
    size = strange.table["capacity_bytes"]
    files = [as_fio(tmp_path, strange, 0, LOADS[6])]
    end = {**LOADS[6], "offset": str(int(size * 0.97) >> 20 << 20)}
    files.append(as_fio(tmp_path, strange, 1, end))
    fit = fit_drive(changed(tmp_path, "start"), files, runtime_s=4.0)
    values = {each.name: each.value for each in fit.parameters}
    ratio = values["rates.inner_bytes_per_s"] / values["rates.outer_bytes_per_s"]
    assert 0.34 < ratio <= 1


def test_queue_depth_1_alone_does_not_invent_the_rest(tmp_path: Path, truth: CatalogEntry) -> None:
    start = changed(tmp_path, "start")
    fit = fit_drive(start, [as_fio(tmp_path, truth, 0, LOADS[0])], runtime_s=6.0)
    found = {each.name: each for each in fit.parameters}
    for name in ("queue.reordering", "write_settle_ms"):
        assert not found[name].determined
        assert found[name].value == found[name].before
        assert found[name].why
    # Seek and overhead add up to one number: at most one of them can be told from it.
    assert sum(each.determined for each in fit.parameters) <= 1
    assert fit.cross_error is None


def as_trace(tmp_path: Path, drive: CatalogEntry, raid: Table | None = None) -> Path:
    """A trace of that drive: random and sequential reads and writes, with response times."""
    draw = random.Random(1)
    capacity = int(drive.table["capacity_bytes"]) // 512
    time_ns, after = 0, 0
    rows = ["time_ns,op,sector,sectors"]
    for _ in range(1200):
        time_ns += int(draw.expovariate(1 / 25e6))
        sector = after if draw.random() < 0.25 else draw.randrange(capacity // 8 - 64) * 8
        rows.append(f"{time_ns},{'read' if draw.random() < 0.7 else 'write'},{sector},32")
        after = min(sector + 32, capacity - 64)
    path = tmp_path / "requests.csv"
    path.write_text("\n".join(rows) + "\n")
    trace = read_trace(path)
    trace.write(tmp_path / "measured.csv", replay_trace(drive, trace, iodepth=0, seed=9, raid=raid))
    return tmp_path / "measured.csv"


@pytest.mark.slow  # 3 s of CPU time
def test_a_trace_tells_seek_and_overhead(tmp_path: Path) -> None:
    hidden = changed(tmp_path, "truth", average_ms=9.5, controller_overhead_us=400.0)
    file = as_trace(tmp_path, hidden)
    fit = fit_drive(changed(tmp_path, "start"), [file])
    found = {each.name: each for each in fit.parameters}
    assert found["seek.average_ms"].value == pytest.approx(9.5, rel=0.03)
    assert found["controller_overhead_us"].value == pytest.approx(400, rel=0.15)
    assert not found["rates.inner_bytes_per_s"].determined
    assert fit.demerits[0].before > 0.2
    assert fit.rms_error == fit.demerits[0].fitted < 0.05
    write_fitted(changed(tmp_path, "start"), fit, [file], tmp_path / "fitted.toml")
    again = entry("drives", str(tmp_path / "fitted.toml"))
    assert "fitted to traces measured.csv" in again.source["seek.average_ms"]


def test_a_trace_of_a_raid_is_replayed_on_one(tmp_path: Path) -> None:
    """Four disks serve what one could not: on a single one the model errs widely."""
    raid: Table = {"level": 0, "drives": 4, "chunk_bytes": 65536}
    drive = changed(tmp_path, "start")
    file = as_trace(tmp_path, drive, raid)
    alone = observe_trace(file, drive, TraceReplay())
    together = observe_trace(file, drive, TraceReplay(raid=raid))
    assert together.demerit(drive.table) < 0.05 < 0.3 < alone.demerit(drive.table)


def test_the_state_of_the_write_cache_is_stated(tmp_path: Path) -> None:
    drive = changed(tmp_path, "start")
    off = with_write_cache(drive, "off")
    assert off.table["buffer"]["write_cache_bytes"] == 0
    assert drive.table["buffer"]["write_cache_bytes"] > 0
    assert with_write_cache(drive, None) is drive
    with pytest.raises(StudyError, match="says that it is off"):
        with_write_cache(off, "on")
    with pytest.raises(StudyError, match="only a disk"):
        with_write_cache(entry("drives", "corsair-f40"), "off")
    fit = Fit(off.table, [], [])
    write_fitted(drive, fit, [], tmp_path / "fitted.toml")
    again = entry("drives", str(tmp_path / "fitted.toml"))
    assert again.table["buffer"]["write_cache_bytes"] == 0


def test_fitted_values_are_not_rounded_to_a_drive_that_cannot_be(tmp_path: Path) -> None:
    """Its skew just hides its seek; the rounded seek would be longer."""
    step_ms = 2.2345678
    file = changed(tmp_path, "start").file
    file.write_text(f"cylinder_skew_ms = {step_ms}\n{file.read_text()}")
    seek = Fitted("seek.track_to_track_ms", 2.0, step_ms, 0.01, determined=True)
    drive = entry("drives", str(file))
    write_fitted(drive, Fit(drive.table, [seek], []), [], tmp_path / "fitted.toml")
    assert entry("drives", str(tmp_path / "fitted.toml")).table["seek"]["track_to_track_ms"] == (
        step_ms
    )


def test_an_arm_as_slow_as_none_is_refused() -> None:
    slow = entry("drives", "hp-97560").table | {
        "seek": {"curve": "two_piece", "short_base_ms": 3.8, "short_root_ms": 0.4}
    }
    assert not possible(slow)
    assert possible(entry("drives", "hp-97560").table)


def of_ssd(tmp_path: Path, name: str, **values: float) -> CatalogEntry:
    """A small SSD with other values."""
    text = entry("drives", "intel-x25-m-g2-160gb").file.read_text()
    for key, value in values.items():
        text, count = re.subn(rf"\b{key} = [0-9._e]+", f"{key} = {value}", text, count=1)
        assert count == 1, key
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return entry("drives", str(path))


def test_what_a_fit_leaves_as_it_was_is_said(tmp_path: Path) -> None:
    """Deep reads meet the controller's limit, which no fit changes; spare flash none can see."""
    truth = of_ssd(tmp_path, "truth", read_iops_max=20_000.0)
    loads = [{"rw": "randread", "bs": "4k", "iodepth": each} for each in ("1", "32")]
    files = [
        as_fio(tmp_path, truth, number, load, runtime_s=0.2) for number, load in enumerate(loads)
    ]
    fit = fit_drive(of_ssd(tmp_path, "start"), files, runtime_s=0.2)
    kept = {each.name: each for each in fit.kept}
    assert kept["controller.read_iops_max"].value == "35000"
    assert kept["controller.read_iops_max"].effect > 0.2
    for unseen in ("spare_ratio", "slc_cache", "controller.write_iops_max"):
        assert kept[unseen].effect == 0.0, unseen
    assert not {each.name for each in fit.parameters} & set(kept)
    runner = CliRunner()
    words = ["drive", "fit", str(tmp_path / "start.toml"), *map(str, files)]
    words += ["--runtime", "0.2", "--force", "--out", str(tmp_path / "out.toml")]
    said = " ".join(runner.invoke(make_app(), words).output.split())
    *_, idle, acting = said.split("not fitted, ")
    assert "spare_ratio 0.075" in idle
    assert "slc_cache none (default)" in idle
    assert "controller.read_iops_max 35000 (by up to" in acting
    assert "controller.read_iops_max" not in idle
