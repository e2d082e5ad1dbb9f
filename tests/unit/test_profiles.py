"""Job profiles: kept and read back, on one line, in numbers, imported, exported, as steps of the
simulator and as operations."""

from __future__ import annotations

import json
import os
import re
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog import entry, names
from headrace.errors import HeadraceError, StudyError
from headrace.profiles.exporting import export
from headrace.profiles.overview import overview_rows
from headrace.profiles.picture import draw
from headrace.profiles.primitives import primitives
from headrace.profiles.replaying import Replayer
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Op, RecordedFile, Recording, columns, load, save, steps_path
from headrace.profiles.summary import covered_bytes, summarise
from headrace.profiles.timeline import timeline
from headrace.workloads.replay import Replay, ReplayOptions
from imported_jobs import imported, moves

MS = 1_000_000

# start, end, thread, op, file, offset, length, cpu


ROWS: list[tuple[int, ...]] = [
    (10 * MS, 11 * MS, 0, Op.OPEN, 0, 0, 0, 4 * MS),
    (12 * MS, 14 * MS, 0, Op.READ, 0, 0, 1000, 1 * MS),
    (15 * MS, 16 * MS, 0, Op.READ, 1, 0, 77, 1 * MS),
    (30 * MS, 31 * MS, 0, Op.READ, 0, 1000, 1000, 10 * MS),
    (40 * MS, 42 * MS, 0, Op.READ, 0, 500, 100, 0),
    (50 * MS, 51 * MS, 0, Op.WRITE, 2, 0, 300, 8 * MS),
    (60 * MS, 61 * MS, 0, Op.CLOSE, 0, 0, 0, 0),
]


FILES = (
    RecordedFile("/data/events.root", 5000),
    RecordedFile("/usr/lib/libx.so", 800, software=True),
    RecordedFile("/data/out.root", 0, created=True),
)


def recording(rows: list[tuple[int, ...]] = ROWS) -> Recording:
    return Recording("job", "test", FILES, columns(rows), 100 * MS, cpu_ns=24 * MS)


def faults_of(error: StudyError) -> str:
    return "\n".join(str(problem) for problem in error.problems)


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    save(recording(), path)
    back = load(str(path))
    assert {file.path for file in back.files} == {file.path for file in FILES}
    assert [file.software for file in back.files] == [False, False, True]
    of_file = {file.path: number for number, file in enumerate(back.files)}
    assert back.steps.file.tolist() == [of_file[FILES[row[4]].path] for row in ROWS]
    assert back.steps.offset.tolist() == [row[5] for row in ROWS]
    assert back.duration_ns == 100 * MS
    assert 'role = "software"' not in path.read_text()


def test_hashed_names_say_nothing_but_their_ending(tmp_path: Path) -> None:
    save(recording().hashed(), tmp_path / "job.toml")
    text = (tmp_path / "job.toml").read_text()
    assert "events" not in text
    assert text.count('.root"') == 2


def test_a_newer_profile_and_one_without_its_steps_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    save(recording(), path)
    path.write_text(path.read_text().replace("version = 2\n", "version = 3\n"))
    with pytest.raises(StudyError) as found:
        load(str(path))
    assert re.search(r"job\.toml:3.*newer Headrace: version 3", faults_of(found.value))
    other = tmp_path / "other.toml"
    save(recording(), other)
    steps_path(other).unlink()
    with pytest.raises(StudyError) as found:
        load(str(other))
    assert "is missing" in faults_of(found.value)
    with pytest.raises(HeadraceError, match="not recorded"):
        load("cms-tau-analysis")


def test_one_thread_s_line_keeps_all_time() -> None:
    line = timeline(recording().steps, FILES, 100 * MS)
    assert [Op(op).name for op in line.steps.op] == [
        "OPEN",
        "READ",
        "READ",
        "READ",
        "WRITE",
        "CLOSE",
    ]
    calls = int((line.steps.end_ns - line.steps.start_ns).sum())
    total = (
        int(line.work_ns.sum() + line.wait_ns.sum())
        + line.work_after_ns
        + line.wait_after_ns
        + calls
    )
    assert total == 100 * MS
    # The read of a library is left out, what it took is not: 1 ms of the time between is sleep.
    assert line.work_ns.tolist()[:3] == [4 * MS, 1 * MS, 11 * MS]
    assert line.wait_ns.tolist()[:3] == [6 * MS, 0, 5 * MS]


def test_threads_that_overlap_come_one_after_the_other() -> None:
    rows = [
        (0, 1 * MS, 0, Op.OPEN, 0, 0, 0, 0),
        (10 * MS, 30 * MS, 1, Op.READ, 0, 0, 1000, 0),
        # This thread worked for 40 ms meanwhile.
        (41 * MS, 42 * MS, 0, Op.READ, 0, 2000, 10, 40 * MS),
    ]
    line = timeline(columns(rows), FILES, 50 * MS)
    assert line.work_ns.tolist() == [0, 9 * MS, 11 * MS]
    assert int(line.wait_ns.sum()) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(0, 3), st.integers(0, 50)),
        min_size=1,
        max_size=40,
    )
)
def test_no_time_is_lost_and_none_invented(steps: list[tuple[int, int, int, int]]) -> None:
    """Gaps of each thread, lengths of calls, CPU times up to the gap.

    Whatever they are, the line adds up.
    """
    at: dict[int, int] = {}
    rows: list[tuple[int, ...]] = []
    for gap, length, thread, work in steps:
        start = at.get(thread, 0) + gap
        at[thread] = start + length
        rows.append((start, start + length, thread, Op.READ, 0, 0, 10, min(work, gap)))
    duration = max(at.values()) + 5
    line = timeline(columns(rows), FILES, duration)
    assert (line.work_ns >= 0).all()
    assert (line.wait_ns >= 0).all()
    outside = int(line.work_ns.sum() + line.wait_ns.sum()) + line.work_after_ns + line.wait_after_ns
    covered = covered_bytes(line.steps.start_ns, line.steps.end_ns - line.steps.start_ns)
    assert outside + covered == duration


def test_the_summary_counts() -> None:
    found = summarise(recording())
    assert (found.reads, found.bytes_read, found.bytes_unique) == (3, 2100, 2000)
    assert (found.writes, found.bytes_written) == (1, 300)
    assert found.sequential_fraction == 0.5
    assert found.software_bytes == 77
    assert found.files[0].path == "/data/events.root"
    assert found.reuse == pytest.approx(1.05)


def test_reads_of_no_byte_are_counted_apart() -> None:
    rows = [
        (0, MS, 0, Op.READ, 0, 0, 1000, 0),
        (2 * MS, 3 * MS, 0, Op.READ, 0, 1000, 0, MS),
        (3 * MS, 4 * MS, 0, Op.READ, 1, 0, 0, 0),
    ]
    found = summarise(recording(rows))
    assert (found.reads, found.empty_reads) == (1, 1)
    shown = dict(overview_rows(recording(rows), found))
    assert shown["read"] == "1.00 kB in 1 read; 1 more returned no byte"
    assert dict(overview_rows(recording(), summarise(recording())))["read"] == "2.10 kB in 3 reads"


def test_a_job_without_reads_has_no_figures_of_them() -> None:
    written = (0, MS, 0, Op.WRITE, 2, 0, 300, 0)
    found = summarise(recording([written]))
    assert (found.sequential_fraction, found.forward_fraction) == (None, None)
    assert (found.read_size_percentiles, found.between_ms_percentiles) == ((), ())
    shown = dict(overview_rows(recording([written]), found))
    assert shown["read"] == "0 B in 0 reads"
    assert not {"each byte", "size of a read", "order", "work between reads"} & set(shown)
    one = recording([written, (2 * MS, 3 * MS, 0, Op.READ, 0, 0, 1000, MS)])
    shown = dict(overview_rows(one, summarise(one)))
    assert shown["size of a read"].startswith("median 1.00 kB;")
    assert not {"order", "work between reads"} & set(shown)


def test_work_between_reads_goes_on_through_other_calls() -> None:
    rows = [
        (7 * MS, 8 * MS, 0, Op.READ, 0, 0, 1000, 7 * MS),
        (12 * MS, 13 * MS, 0, Op.WRITE, 2, 0, 10, 4 * MS),
        (14 * MS, 15 * MS, 0, Op.READ, 0, 1000, 1000, 1 * MS),
    ]
    assert summarise(recording(rows)).between_ms_percentiles == (5.0, 5.0, 5.0)


@pytest.mark.slow
def test_pictures_are_small_and_of_two_kinds(tmp_path: Path) -> None:
    many = [
        (n * MS, n * MS + 1000, 0, Op.READ, 0, n * 7919 % 100_000, 4096, 0) for n in range(50_000)
    ]
    for ending in ("png", "svg"):
        draw(recording(many), tmp_path / f"job.{ending}")
        assert 10_000 < (tmp_path / f"job.{ending}").stat().st_size < 2_000_000
    with pytest.raises(HeadraceError, match=r"\.png or a \.svg"):
        draw(recording(), tmp_path / "job.gif")


def test_steps_of_the_simulator_hold_every_read_in_order() -> None:
    steps = scenario_steps(recording(), ["in", "lib", "out"])
    reads = next(step for step in steps if step["do"] == "sequence")
    assert reads["ranges_bytes"] == [[0, 1000], [1000, 1000], [500, 100]]
    written = [step for step in steps if step.get("op") == "write"]
    assert written[0]["ranges_bytes"] == [[0, 300]]
    fast = scenario_steps(recording(), ["in", "lib", "out"], as_fast_as_it_goes=True)
    assert not any(step["do"] in ("compute", "wait") or "cpu_ns" in step for step in fast)


def test_writes_to_a_synchronous_file_have_a_sync_after_each(tmp_path: Path) -> None:
    rows = [
        (0, MS, 0, Op.WRITE, 0, 0, 100, 0),
        (2 * MS, 3 * MS, 0, Op.WRITE, 0, 100, 100, 0),
        (3 * MS, 4 * MS, 0, Op.WRITE, 1, 0, 50, 0),
        (4 * MS, 5 * MS, 0, Op.WRITE, 1, 50, 50, 0),
        (6 * MS, 9 * MS, 0, Op.SYNC, 1, 0, 0, 0),
    ]
    files = (RecordedFile("/data/log", 500, synchronous=True), RecordedFile("/data/out", 500))
    save(Recording("job", "test", files, columns(rows), 10 * MS), tmp_path / "job.toml")
    job = load(str(tmp_path / "job.toml"))
    assert [file.synchronous for file in job.files] == [True, False]
    assert summarise(job).syncs == 3
    done = [(step["do"], step.get("file")) for step in scenario_steps(job, ["log", "out"])]
    assert [each for each in done if each[0] != "wait"] == [
        *2 * [("sequence", "log"), ("fsync", "log")],
        ("sequence", "out"),
        ("fsync", "out"),
    ]


@pytest.mark.parametrize("name", list(names("profiles")))
def test_profiles_of_the_catalog_can_be_replayed_or_say_why_not(name: str) -> None:
    table = entry("profiles", name).table
    replay = Replay("job", ReplayOptions.model_validate({"profile": name}))
    sizes = {each.name: each.bytes for each in table.files}
    if replay.check():
        with pytest.raises(HeadraceError, match="cannot be replayed"):
            list(primitives(table.steps, sizes, 1))
        return
    for each, _ in zip(primitives(table.steps, sizes, 1), range(2000), strict=False):
        if each.do == "read":
            assert 0 <= each.offset_bytes <= max(0, sizes[each.file] - 1)


def test_replay_reads_and_writes_what_the_profile_says(tmp_path: Path) -> None:
    source, made = tmp_path / "in", tmp_path / "out"
    source.write_bytes(bytes(5000))
    steps = scenario_steps(recording(), ["in", "lib", "out"])
    done = Replayer({"in": source, "out": made}, new=frozenset({"out"})).run(
        primitives(steps, {"in": 5000}, 1)
    )
    assert (done.bytes_asked, done.bytes_unique, done.read_calls) == (2100, 2000, 3)
    assert made.stat().st_size == 300
    assert done.work_ns + done.wait_ns >= 90 * MS
    source.unlink()
    with pytest.raises(HeadraceError, match=r"in: the file is gone"):
        Replayer({"in": source, "out": made}, new=frozenset({"out"})).run(
            primitives(steps, {"in": 5000}, 1)
        )


DARSHAN = """\
# darshan log version: 3.41
# exe: ./ior -a POSIX
# nprocs: 2
# run time: 1.5000
# DXT, file_id: 14388265063268455899, file_name: /scratch/a file
# DXT, rank: 0, hostname: node1
# DXT, write_count: 1, read_count: 1
# DXT, mnt_pt: /, fs_type: ext4
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       0  write        0               0      262144      0.0029      0.0032
 X_POSIX       1   read        0          262144        1000      0.5000      0.7500
 X_MPIIO       1   read        0          262144        1000      0.5000      0.7500
"""


XROOTD = """\
94,Open,1763770000.100000000,root://host//data/a.root;16;0;0,1763770000.200000000,[SUCCESS],
94,Stat,1763770000.210000000,false;0,1763770000.220000000,[SUCCESS],9000;48;1;1;1;0644;a;b;
94,Read,1763770000.300000000,100;50;0,1763770000.310000000,[SUCCESS],50
94,VectorRead,1763770000.400000000,0;10;5000;20;0,1763770000.500000000,[SUCCESS],30;0;10;5000;20
94,Read,1763770000.600000000,100;50;0,1763770000.610000000,[ERROR] Operation expired,
94,Close,1763770000.700000000,0,1763770000.710000000,[SUCCESS],
"""


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_that_cannot_be_written_leaves_no_part(tmp_path: Path, ending: str) -> None:
    """A file of no bytes would refuse the next try: it is there already."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(HeadraceError, match="cannot be written"):
            draw(recording(), tmp_path / f"job.{ending}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_darshan_s_ranks_are_threads_and_mpi_io_counts_once(tmp_path: Path) -> None:
    job = imported(tmp_path, DARSHAN)
    assert moves(job) == [
        ("WRITE", "/scratch/a file", 0, 262144),
        ("READ", "/scratch/a file", 262144, 1000),
    ]
    assert job.steps.thread.tolist() == [0, 1]
    assert job.duration_ns == 1_500_000_000


def test_files_whose_names_darshan_does_not_know_are_several(tmp_path: Path) -> None:
    """All of them are called `?`. Each rank that used a file has a head of its own."""
    lines = ""
    for number, rank, offset in ((7, 0, 0), (8, 0, 0), (7, 1, 1000)):
        lines += f"# DXT, file_id: {number}, file_name: ?\n"
        lines += f" X_POSIX {rank} read 0 {offset} 1000 0.1000 0.2000\n"
    job = imported(tmp_path, DARSHAN + lines)
    assert [(each.path, each.bytes) for each in job.files[1:]] == [
        ("? (file_id 7)", 2000),
        ("? (file_id 8)", 1000),
    ]
    assert summarise(job).bytes_unique == 4000


def test_a_file_read_past_what_darshan_saw_written_was_there(tmp_path: Path) -> None:
    """Its header was replaced: as a file of the job's own it would be too short to be read."""
    lines = "# DXT, file_id: 7, file_name: /scratch/b\n X_POSIX 0 write 0 0 100 0.1000 0.2000\n"
    lines += " X_POSIX 0 read 0 0 100 0.3000 0.4000\n"
    past = " X_POSIX 0 read 0 100 900 0.5000 0.6000\n"
    assert imported(tmp_path, DARSHAN + lines).files[1] == RecordedFile("/scratch/b", 100, True)
    job = imported(tmp_path, DARSHAN + lines + past)
    assert job.files[1] == RecordedFile("/scratch/b", 1000, False)


def test_a_listing_of_darshan_that_is_cut_is_not_taken_for_whole(tmp_path: Path) -> None:
    """As by a full disk: within the last number it still looks like a time, at the end of a line
    like a listing."""
    whole = DARSHAN.rstrip().splitlines()
    last = " X_POSIX 1 read 0 262144 1000 1.2000 1.{}"
    for end, said in (("3", "cut within its last number"), ("1", "ends before it starts")):
        with pytest.raises(StudyError, match="line") as failed:
            imported(tmp_path, "\n".join([*whole[:-1], last.format(end)]))
        assert said in faults_of(failed.value)
    assert imported(tmp_path, "\n".join([*whole[:-1], last.format("3000")])).notes[1:] == ()
    short = imported(tmp_path, "\n".join(whole[:-2]) + "\n")
    assert short.notes[1].startswith("the listing is not complete: it has 1 of the 2 accesses")


def test_a_file_that_darshan_saw_read_before_it_was_written_was_there(tmp_path: Path) -> None:
    """The listing has all writes of a file before its reads, whenever they were. A read of no bytes
    finds a new file's end."""
    lines = "# DXT, file_id: 7, file_name: /scratch/log\n"
    lines += " X_POSIX       0  write        0               0       1000      1.0000      1.1000\n"
    lines += " X_POSIX       0   read        0               0          0      0.5000      0.5000\n"
    job = imported(tmp_path, DARSHAN.replace("0.0029      0.0032", "0.9000      0.9100") + lines)
    assert [(each.path, each.bytes, each.created) for each in job.files] == [
        ("/scratch/a file", 263144, False),
        ("/scratch/log", 0, True),
    ]


def test_threads_that_darshan_names_are_threads(tmp_path: Path) -> None:
    lines = "# DXT, file_id: 7, file_name: /scratch/b\n# DXT, number of threads: 2\n"
    for thread in ("140002", "140001", "N/A"):
        lines += f" X_POSIX 3 write 0 0 10 1.0000 2.0000 {thread} [  3] [  4]\n"
    job = imported(tmp_path, DARSHAN + lines)
    assert (job.processes, job.steps.thread.tolist()) == (3, [0, 1, 2, 3, 4])


def test_xrootd_s_vectors_are_reads_and_failures_left_out(tmp_path: Path) -> None:
    job = imported(tmp_path, XROOTD)
    assert [move[2:] for move in moves(job)] == [(100, 50), (0, 10), (5000, 20)]
    assert job.files[0].bytes == 9000
    assert any("1 actions that failed" in note for note in job.notes)


STRACE_CALLS = """\
openat(AT_FDCWD, "/data/f", O_RDONLY) = 3
read(3, "x"..., 4096)                 = 4096
"""


WITHOUT_DXT = """\
# darshan log version: 3.41
# compression method: ZLIB
# exe: ./ior -a POSIX
# uid: 1000
# nprocs: 1
# run time: 1.2500

# mount entry:\t/\text4
# *******************************************************
# POSIX module data
# *******************************************************
"""


"""The head of what both parsers of darshan-util print; a log without DXT has nothing further."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("what is this\n", "none of the formats"),
        (DARSHAN + " X_POSIX 0 read 0 here 10 0.1 0.2\n", r"trace:13"),
        (XROOTD + "nonsense\n", r"trace:7"),
        (STRACE_CALLS, "without times in seconds since 1970; allowed: strace -f -ttt"),
        (re.sub("^", "7 12:00:00.000001 ", STRACE_CALLS, flags=re.M), "without times in seconds"),
        (re.sub("^", "     0.000100 ", STRACE_CALLS, flags=re.M), "without times in seconds"),
        ("% time     seconds  usecs/call     calls    errors syscall\n", "summary of calls"),
        # As ltrace -f -ttt -T -S, ltrace alone, and ltrace -x print calls.
        ('7 1700000000.100000 SYS_read(3, "", 832) = 832 <0.000045>\n', "trace of ltrace"),
        ('__libc_start_main(0x4011, 1, 0x7ffe) = 0\nfread("", 1, 10, 0x55)  = 10\n', "of ltrace"),
        ('7 1700000000.1 libc.so.6->read(3, "", 10) = 10 <0.000045>\n', "trace of ltrace"),
        (WITHOUT_DXT, r"trace: has no access of the module X_POSIX: .* DXT_ENABLE_IO_TRACE set"),
        (
            f"{WITHOUT_DXT}POSIX\t0\t164575987\tPOSIX_OPENS\t1\t/tmp/testFile\t/\text4\n",
            r"trace:12: line: a counter, .* darshan-dxt-parser",
        ),
        # Version 3.10 and the magic number, as darshan-util writes the head of its logs.
        ("3.10\0\0\0\x0075d\0\0\0\0\0rest", r"darshan-dxt-parser \S*trace"),
    ],
)
def test_what_cannot_be_imported_is_said_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(StudyError) as found:
        imported(tmp_path, text)
    assert re.search(said, faults_of(found.value))


def test_exports_hold_every_read(tmp_path: Path) -> None:
    job = recording()
    assert export(job, tmp_path / "job.csv", "csv") == 6
    assert (
        (tmp_path / "job.csv")
        .read_text()
        .splitlines()[2]
        .endswith("0,read,/data/events.root,0,1000,1000000")
    )
    assert export(job, tmp_path / "job.log", "fio") == 4
    assert "12 /data/events.root read 0 1000" in (tmp_path / "job.log").read_text()
    with pytest.raises(HeadraceError, match="unknown format"):
        export(job, tmp_path / "x", "otf2")


def test_bytes_read_twice_count_once() -> None:
    offset = np.array([0, 50, 500, 0], np.int64)
    length = np.array([100, 100, 10, 10], np.int64)
    assert covered_bytes(offset, length) == 160
    assert covered_bytes(offset[:0], length[:0]) == 0


def test_a_profile_is_a_workload_of_the_simulator(tmp_path: Path) -> None:
    from headrace import _core

    save(recording(), tmp_path / "job.toml")
    job = Replay(
        "job", ReplayOptions.model_validate({"profile": str(tmp_path / "job.toml")})
    ).profile(None)
    drive = entry("drives", "samsung-870-evo-1tb").table
    node = entry("nodes", "generic-node").table.part() | {
        "name": "n",
        "network": entry("links", "1-gbe").table.part(),
        "volumes": [{"name": "v", "storage": {"drives": [drive]}, "filesystem": {"kind": "ext4"}}],
    }
    files = [{**each, "on": {"volume": "v"}, "count": 1} for each in job.files]
    scenario = {
        "nodes": [node],
        "files": files,
        "profiles": [{"name": "job", "steps": job.steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}},
    }
    outcome = json.loads(_core.simulate_json(json.dumps(scenario)))["jobs"][0]
    assert outcome["bytes"]["asked_bytes"] == 2100
    # CPU time and sleep as recorded; the calls themselves take what the drive takes.
    assert 0.09 < (outcome["end_ns"] - outcome["start_ns"]) * 1e-9 < 0.12


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"/data/run\xff.root")
    made = replace(recording(), files=(RecordedFile(name, 5000), *FILES[1:]), command=("cat", name))
    save(made, tmp_path / "job.toml")
    back = load(str(tmp_path / "job.toml"))
    assert back.files[0].path == "/data/run?.root" and back.command == ("cat", "/data/run?.root")
