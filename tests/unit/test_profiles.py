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
from headrace.profiles.importing import read
from headrace.profiles.picture import draw
from headrace.profiles.primitives import primitives
from headrace.profiles.replaying import Replayer
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Op, RecordedFile, Recording, columns, load, save, steps_path
from headrace.profiles.summary import covered_bytes, summarise
from headrace.profiles.timeline import timeline
from headrace.workloads.replay import Replay, ReplayOptions

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


STRACE = """\
100   1763770000.000100 openat(AT_FDCWD, "in.txt", O_RDONLY) = 3 <0.000020>
100   1763770000.000200 read(3, "hello"..., 4096) = 4096 <0.000010>
100   1763770000.000400 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 101 <0.000100>
101   1763770000.000500 read(3, "hello"..., 4096) = 1000 <0.000010>
100   1763770000.000600 pread64(3,  <unfinished ...>
101   1763770000.000650 openat(AT_FDCWD, "/data/gone", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000010>
100   1763770000.000700 <... pread64 resumed>"abc"..., 512, 8192) = 512 <0.000080>
101   1763770000.000800 openat(AT_FDCWD, "/data/out", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4 <0.000010>
101   1763770000.000900 write(4, "x"..., 77) = 77 <0.000010>
100   1763770000.001000 close(3) = 0 <0.000005>
100   1763770000.002000 +++ exited with 0 +++
"""  # noqa: E501

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


def imported(tmp_path: Path, text: str) -> Recording:
    (tmp_path / "trace").write_text(text)
    return read(tmp_path / "trace", "job")


def moves(job: Recording) -> list[tuple[str, str, int, int]]:
    steps = job.steps
    return [
        (Op(op).name, job.files[file].path, offset, length)
        for op, file, offset, length in zip(
            steps.op.tolist(),
            steps.file.tolist(),
            steps.offset.tolist(),
            steps.length.tolist(),
            strict=True,
        )
        if length
    ]


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


def test_strace_with_children_and_calls_that_others_interrupt(tmp_path: Path) -> None:
    job = imported(tmp_path, STRACE)
    assert moves(job) == [
        ("READ", "in.txt", 0, 4096),
        ("READ", "in.txt", 4096, 1000),
        ("READ", "in.txt", 8192, 512),
        ("WRITE", "/data/out", 0, 77),
    ]
    assert job.processes == 2
    assert job.files[1].created
    assert int((job.steps.end_ns - job.steps.start_ns)[3]) == 80_000


def test_darshan_s_ranks_are_threads_and_mpi_io_counts_once(tmp_path: Path) -> None:
    job = imported(tmp_path, DARSHAN)
    assert moves(job) == [
        ("WRITE", "/scratch/a file", 0, 262144),
        ("READ", "/scratch/a file", 262144, 1000),
    ]
    assert job.steps.thread.tolist() == [0, 1]
    assert job.duration_ns == 1_500_000_000


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


def test_results_in_octal(tmp_path: Path) -> None:
    """tar, cp and git ask for the umask."""
    text = "1 1700000000.0 umask(000) = 022\n1 1700000001.0 umask(022) = 000\n"
    text += '1 1700000002.0 openat(AT_FDCWD, "/data/in", O_RDONLY) = 3\n'
    text += '1 1700000003.0 read(3, "a", 100) = 100\n'
    assert moves(imported(tmp_path, text)) == [("READ", "/data/in", 0, 100)]


def test_how_a_file_was_opened_after_strace_saw_its_name(tmp_path: Path) -> None:
    """A program may ask for the size of a file, or look at it, before it opens it otherwise."""
    calls = [
        'stat("/data/in", {st_mode=S_IFREG|0644, st_size=900, ...}) = 0',
        'openat(AT_FDCWD, "/data/in", O_RDONLY) = 3',
        'read(3, "a", 100) = 100',
        'openat(AT_FDCWD, "/data/in", O_RDONLY|O_DIRECT) = 4',
        'pread64(4, "a"..., 4096, 0) = 4096',
        'pread64(4, "a"..., 4096, 4096) = 4096',
        'stat("/data/out", {st_mode=S_IFREG|0644, st_size=900, ...}) = 0',
        'openat(AT_FDCWD, "/data/out", O_WRONLY|O_CREAT|O_TRUNC|O_DSYNC, 0644) = 5',
        'write(5, "a", 1) = 1',
    ]
    job = imported(tmp_path, "".join(f"1 17000000{at:02}.0 {c}\n" for at, c in enumerate(calls)))
    found = [(each.created, each.direct, each.synchronous) for each in job.files]
    assert found == [(False, True, False), (True, False, True)]


def test_maps_that_strace_cannot_see_into_are_noted(tmp_path: Path) -> None:
    """uproot, numpy and many readers map their files; libraries are mapped by every program."""
    text = ""
    for at, path in enumerate(("/data/a.root", "/usr/lib/libc.so.6")):
        text += f'1763770000.0{at}1 openat(AT_FDCWD, "{path}", O_RDONLY) = 3 <0.000010>\n'
        text += (
            f"1763770000.0{at}2 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3<{path}>, 0) = 0x7f00\n"
        )
    text += (
        "1763770000.030 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f10\n"
    )
    notes = imported(tmp_path, text).notes
    assert any(note.startswith("1 map of files (mmap)") for note in notes)


def test_paths_relative_to_a_directory_that_strace_saw_opened(tmp_path: Path) -> None:
    """As rsync, tar and Python's walks open files."""
    lines = (
        'openat(AT_FDCWD, "/data/in", O_RDONLY|O_DIRECTORY) = 4',
        'openat(4, "a.root", O_RDONLY) = 5',
        'read(5, "x"..., 100) = 100',
        "close(4) = 0",
        'openat(AT_FDCWD, "b.root", O_RDONLY) = 4',
        'openat(4, "c.root", O_RDONLY) = 6',
    )
    text = "".join(f"1763770000.0{at:02} {line}\n" for at, line in enumerate(lines))
    job = imported(tmp_path, text)
    assert [each.path for each in job.files] == [
        "/data/in/a.root",
        "b.root",
        "b.root/c.root",  # what was opened as a file was a folder
    ]


RELATIVE = (
    '{} openat(AT_FDCWD, "in.root", O_RDONLY) = 3',
    '{} chdir("sub") = 0',
    '{} openat(AT_FDCWD, "../in.root", O_RDONLY) = 3',
    '{} openat(AT_FDCWD, "b.root", O_RDONLY) = 4',
    '{} open("..", O_RDONLY|O_CLOEXEC) = 5',
    "{} fcntl(5, F_DUPFD_CLOEXEC, 10) = 11",
    '{} openat(11, "c.root", O_RDONLY) = 6',
    "{} fchdir(5) = 0",
    '{} openat(AT_FDCWD, "sub/b.root", O_RDONLY) = 7',
    '{} read(7, "x"..., 100) = 100',
    '{} openat(9, "d.root", O_RDONLY) = 8',
)


def opened(job: Recording) -> list[str]:
    """Return the names of files in the order in which they were opened, without folders."""
    files = job.steps.file[job.steps.op == Op.OPEN].tolist()
    names = [job.files[file].path for file in files]
    return [name for name in names if name.endswith(".root")]


def test_names_that_a_trace_tells_only_in_part_stay_relative(tmp_path: Path) -> None:
    """A file of the folder where the program began is not one of the root folder."""
    job = imported(tmp_path, timed(*RELATIVE))
    assert opened(job) == [
        *("in.root", "in.root", "sub/b.root", "c.root", "sub/b.root", "d.root"),
    ]
    assert moves(job) == [("READ", "sub/b.root", 0, 100)]
    (note,) = (note for note in job.notes if "relative" in note)
    # in.root, sub/b.root, .., c.root and d.root
    assert note.startswith("5 files have names relative to a folder") and "strace -y" in note


@pytest.mark.parametrize(
    "call",
    [
        'getcwd("/data/job", 4096) = 10',
        'openat(AT_FDCWD</data/job>, "e", O_RDONLY|O_DIRECTORY) = 9',
    ],
)
@pytest.mark.parametrize("at", [0, 9])
def test_names_are_whole_once_the_trace_tells_the_folder(
    tmp_path: Path, call: str, at: int
) -> None:
    lines = [*RELATIVE[:-1], '{} openat(AT_FDCWD, "/data/job/in.root", O_RDONLY) = 3']
    job = imported(tmp_path, timed(*lines[:at], f"{{}} {call}", *lines[at:]))
    (begun, below) = ("/data/job/in.root", "/data/job/sub/b.root")
    assert opened(job) == [begun, begun, below, "/data/job/c.root", below, begun]
    assert len({file.path for file in job.files}) == len(job.files)
    assert not any("relative" in note for note in job.notes)


def test_a_file_of_two_names_is_one(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        timed(
            '{} openat(AT_FDCWD, "/data/job/a.root", O_RDONLY) = 3',
            '{} openat(AT_FDCWD, "a.root", O_RDONLY) = 4',
            '{} pread64(4, "x"..., 100, 5000) = 100',
            '{} getcwd("/data/job", 4096) = 10',
            '{} read(3, "x"..., 100) = 100',
            '{} pread64(4, "x"..., 100, 6000) = 100',
        ),
    )
    name = "/data/job/a.root"
    assert moves(job) == [("READ", name, at, 100) for at in (5000, 0, 6000)]
    (file,) = (file for file in job.files if not file.software)
    assert (file.path, file.bytes) == (name, 6100)


def test_the_folder_of_a_process_that_began_elsewhere_is_its_own(tmp_path: Path) -> None:
    """As of two processes that `strace -p` was attached to: nothing tells where the other is."""
    job = imported(
        tmp_path,
        timed(
            '1 {} openat(AT_FDCWD, "a.root", O_RDONLY) = 3',
            '2 {} openat(AT_FDCWD, "b.root", O_RDONLY) = 3',
            '1 {} getcwd("/data/one", 4096) = 10',
            '1 {} openat(AT_FDCWD, "c.root", O_RDONLY) = 3',
            '2 {} openat(AT_FDCWD, "c.root", O_RDONLY) = 3',
        ),
    )
    assert opened(job) == ["a.root", "b.root", "/data/one/c.root", "c.root"]


def timed(*lines: str) -> str:
    """Return a trace of calls, one each millisecond; `{}` is the place of the time."""
    return "".join(line.format(f"1763770000.{at:03}") + "\n" for at, line in enumerate(lines))


@pytest.mark.parametrize("call", ["vfork(", "clone3({{flags=CLONE_VM|CLONE_VFORK}}, 88"])
def test_a_child_that_runs_before_its_parent_s_call_returns(tmp_path: Path, call: str) -> None:
    """As the children of posix_spawn and of Python's subprocess: with a file as standard input."""
    job = imported(
        tmp_path,
        timed(
            '1 {} openat(AT_FDCWD, "/data/a", O_RDONLY|O_CLOEXEC) = 3',
            f"1 {{}} {call} <unfinished ...>",
            "2 {} dup2(3, 0) = 0",
            '2 {} openat(AT_FDCWD, "/data/b", O_RDONLY) = 4',
            '2 {} execve("/bin/cat", ["cat"], 0x7ffc /* 9 vars */ <unfinished ...>',
            f"1 {{}} <... {call.partition('(')[0]} resumed>) = 2",
            "2 {} <... execve resumed>) = 0",
            '2 {} read(0, "x"..., 500) = 500',
            '2 {} read(4, "x"..., 70) = 70',
            '2 {} read(3, "x"..., 9) = 9',
        ),
    )
    assert moves(job) == [("READ", "/data/a", 0, 500), ("READ", "/data/b", 0, 70)]
    assert len(job.notes) == 2  # work and -T: nothing is missing


def test_descriptors_that_exec_closed_or_that_name_something_else_are_no_files(
    tmp_path: Path,
) -> None:
    job = imported(
        tmp_path,
        timed(
            '{} openat(AT_FDCWD, "/data/a", O_RDONLY|O_CLOEXEC) = 3',
            '{} openat(AT_FDCWD, "/data/b", O_RDONLY) = 4',
            "{} close(4) = 0",
            '{} openat(AT_FDCWD, "/proc/stat", O_RDONLY) = 4',
            '{} read(4, "x"..., 70) = 70',
            '{} execve("/bin/cat", ["cat"], 0x7ffc /* 9 vars */) = 0',
            "{} socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3",
            '{} read(3, "x"..., 500) = 500',
            '{} openat(AT_FDCWD, "/data/c", O_RDONLY) = 5',
            "{} dup2(3, 5) = 5",
            '{} read(5, "x"..., 500) = 500',
        ),
    )
    assert moves(job) == []


def test_offsets_that_strace_shows(tmp_path: Path) -> None:
    job = imported(
        tmp_path,
        timed(
            '{} openat(AT_FDCWD, "/data/a", O_RDONLY) = 3',
            '{} openat(AT_FDCWD, "/data/b", O_RDONLY) = 4',
            "{} copy_file_range(3, NULL, 4, [7000], 50, 0) = 50",
            "{} copy_file_range(3, [900] => [960], 4, NULL, 60, 0) = 60",
            "{} sendfile(4, 3, [8000] => [8070], 70) = 70",
            '{} preadv2(3, [{{iov_base="x"..., iov_len=80}}], 1, -1, RWF_HIPRI) = 80',
            '{} preadv2(3, [{{iov_base="x"..., iov_len=90}}], 1, 400, 0) = 90',
            '{} read(3, "x"..., 100) = 100',
        ),
    )
    assert [(name, offset, length) for name, _, offset, length in moves(job)] == [
        ("READ", 0, 50),
        ("WRITE", 7000, 50),
        ("READ", 900, 60),
        ("WRITE", 0, 60),
        ("READ", 8000, 70),
        ("WRITE", 60, 70),
        ("READ", 50, 80),
        ("READ", 400, 90),
        ("READ", 130, 100),
    ]


@pytest.mark.parametrize(
    "call",
    [
        'rename("/data/b.part", "/data/b")',
        'renameat2(5, "b.part", AT_FDCWD, "/data/b", RENAME_NOREPLACE)',
        'renameat(AT_FDCWD</data>, "b.part", 5</data>, "b")',
    ],
)
def test_a_file_that_is_renamed_stays_the_file_that_the_job_made(tmp_path: Path, call: str) -> None:
    """Written to a part, renamed, and read: not an input that was there before."""
    job = imported(
        tmp_path,
        timed(
            '{} openat(AT_FDCWD, "/data", O_RDONLY|O_DIRECTORY) = 5',
            '{} openat(AT_FDCWD, "/data/b.part", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3',
            '{} write(3, "x"..., 500) = 500',
            "{} close(3) = 0",
            f"{{}} {call} = 0",
            '{} openat(AT_FDCWD, "/data/b", O_RDONLY) = 3',
            '{} read(3, "x"..., 500) = 500',
        ),
    )
    assert moves(job) == [("WRITE", "/data/b.part", 0, 500), ("READ", "/data/b.part", 0, 500)]
    assert [file.created for file in job.files] == [True]


def test_names_that_strace_writes_with_escapes(tmp_path: Path) -> None:
    """strace writes the bytes of all but ASCII as octal numbers, whatever the locale."""
    job = imported(
        tmp_path,
        timed(
            r'{} openat(AT_FDCWD, "/data/f\303\244 \"q\".root", O_RDONLY) = 3',
            '{} read(3, "x"..., 100) = 100',
            r'{} read(4</data/\303\274.root>, "x"..., 100) = 100',
        ),
    )
    assert [file.path for file in job.files] == ['/data/fä "q".root', "/data/ü.root"]


@pytest.mark.parametrize(
    "prefix",
    [
        "7<cat> {}",  # -Y
        "7 {} (+     0.000365)",  # -r
        "7 {} [ 257]",  # -n
        "7 {} [00007fefc64e5c47]",  # -i
        "[pid     7<cat>] {}",
    ],
)
def test_options_of_strace_that_begin_lines_otherwise(tmp_path: Path, prefix: str) -> None:
    job = imported(
        tmp_path,
        timed(
            f'{prefix} openat(AT_FDCWD, "/data/a", O_RDONLY) = 3',
            f'{prefix} read(3, "x"..., 100) = 100',
        ),
    )
    assert moves(job) == [("READ", "/data/a", 0, 100)]


def test_a_trace_without_a_file_that_is_known_says_so(tmp_path: Path) -> None:
    """As the file of a child that strace -ff writes."""
    notes = imported(tmp_path, timed('{} read(3, "x"..., 100) = 100')).notes
    assert any(note.startswith("no call on a file with a known name") for note in notes)


def test_children_whose_fork_was_not_traced_are_noted(tmp_path: Path) -> None:
    """As with -e trace=openat,read: what they read through inherited descriptors is lost."""
    job = imported(
        tmp_path,
        timed(
            '1 {} openat(AT_FDCWD, "/data/a", O_RDONLY) = 3',
            '2 {} read(3, "x"..., 100) = 100',
        ),
    )
    assert any(note.startswith("the start of 1 process is not in") for note in job.notes)


def test_a_child_shares_the_position_in_a_file_of_its_parent(tmp_path: Path) -> None:
    """fork(2): the descriptors of both are of one open file description."""
    lines = (
        '1 {} openat(AT_FDCWD, "/data/a", O_RDONLY) = 3',
        "1 {} clone(child_stack=NULL, flags=SIGCHLD) = 2",
        '2 {} read(3, "x"..., 500) = 500',
        '1 {} read(3, "x"..., 500) = 300',
    )
    text = "".join(line.format(f"1763770000.0{at}") + "\n" for at, line in enumerate(lines))
    job = imported(tmp_path, text)
    assert [move[2:] for move in moves(job)] == [(0, 500), (500, 300)]
    assert job.files[0].bytes == 800


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
