"""Job profiles imported from strace: which files, which bytes, and what a trace does not tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.profiles.steps import Op, Recording
from imported_jobs import imported, moves

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
