"""Counters of processes, read by one call: numbers, ends, threads, other users, open files."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace._core import Moved, ProcessReader, ProcessReading, read_processes
from headrace.system.accounting import NS_PER_TICK, CounterFile, peak_rss_bytes
from headrace.system.waiting import wait_until
from headrace.watching.process import start_ticks

# Reads and writes what it is told, with so many further threads that have computed.
_PROGRAM = """
import os, sys, threading, time
def compute():
    until_s = time.thread_time() + 0.05
    while time.thread_time() < until_s: pass
    done.release()
    end.acquire()
done, end = threading.Semaphore(0), threading.Semaphore(0)
handle = os.open(sys.executable, os.O_RDONLY)
for line in sys.stdin:
    what, number = line.split()
    if what == "read":
        for at in range(int(number)): os.pread(handle, 4096, 0)
    elif what == "threads":
        for _ in range(int(number)): threading.Thread(target=compute, daemon=True).start()
        for _ in range(int(number)): done.acquire()
    elif what == "end":
        for _ in range(int(number)): end.release()
    os.write(1, b"done\\n")
"""


class Program:
    """A process that does what it is told, one line at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def do(self, what: str) -> None:
        """Return when it is done."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def program() -> Iterator[Program]:
    words = [sys.executable, "-S", "-c", _PROGRAM]
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as process:
        made = Program(process)
        made.do("read 0")
        yield made
        process.kill()


def _one(reader: ProcessReader, *, delays: bool = False, elsewhere: bool = False) -> ProcessReading:
    (reading,), _ = read_processes([reader], delays, elsewhere)
    assert reading is not None
    return reading


def _until(true: Callable[[], object]) -> None:
    until_s = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_the_numbers_of_two_processes(program: Program) -> None:
    """In the order of the readers, each with the time at which it was read."""
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        readers = [ProcessReader(program.process.pid), ProcessReader(sleeper.pid)]
        # The kernel counts what it ran when it goes to sleep.
        state = Path(f"/proc/{sleeper.pid}/stat")
        assert wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "S", 60, 0.01)
        before_ns = time.monotonic_ns()
        (first, slept), times_ns = read_processes(readers, False, False)
        assert before_ns <= times_ns[0] <= times_ns[1] <= time.monotonic_ns()
        assert first is not None and slept is not None
        program.do("read 1000")
        (later, still), _ = read_processes(readers, False, False)
        assert later is not None and still is not None
        sleeper.kill()
    moved = later.moved - first.moved
    # Its calls, and those of its lines.
    assert 1000 * 4096 < moved.read < 1001 * 4096 and 1001 <= moved.read_calls < 1010
    assert moved.written == 5 and moved.served == moved.read
    assert later.run_ns > first.run_ns and later.parent == os.getpid()
    ticks = later.user_ticks + later.system_ticks
    assert abs(later.run_ns - ticks * NS_PER_TICK) <= 3 * NS_PER_TICK
    assert slept.threads == 1 and slept.run_ns > 0 and slept.io_readable and slept.timed
    assert still.run_ns >= slept.run_ns


def test_a_process_that_has_not_run_since_is_the_same_object(program: Program) -> None:
    reader = ProcessReader(program.process.pid)
    _until(lambda: _one(reader) is _one(reader))
    asleep = _one(reader)
    program.do("read 1")
    assert _one(reader) is not asleep
    # Where waits for block I/O are counted, all is read.
    assert _one(reader, delays=True) is not _one(reader, delays=True)


def test_a_process_that_ends_is_none_and_the_others_are_read(program: Program) -> None:
    """A zombie has ended, too; so has one whose reader is closed."""
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        readers = [ProcessReader(sleeper.pid), ProcessReader(program.process.pid)]
        read_processes(readers, False, False)
        assert readers[0].read_thread(sleeper.pid, "syscall")
        sleeper.kill()
        _until(lambda: read_processes(readers, False, False)[0][0] is None)
    (ended, living), _ = read_processes(readers, False, False)
    assert ended is None and living is not None
    with pytest.raises(ProcessLookupError):
        readers[0].read_thread(sleeper.pid, "syscall")
    assert readers[0].children() == []
    readers[1].close()
    readers[1].close()
    assert read_processes(readers, False, False)[0] == [None, None]
    with pytest.raises(ProcessLookupError):
        readers[1].read_thread(program.process.pid, "stat")
    with pytest.raises(FileNotFoundError):
        ProcessReader(sleeper.pid)


def test_threads_that_begin_and_end_between_two_calls(program: Program) -> None:
    pid = program.process.pid
    reader = ProcessReader(pid)
    assert reader.threads == (pid,)
    before = _one(reader)
    program.do("threads 3")
    more = _one(reader)
    assert more.threads == 4 and len(reader.threads) == 4 and pid in reader.threads
    assert reader.threads is reader.threads
    assert more.run_ns - before.run_ns >= 3 * 0.05e9
    # Another source has their times, those of threads that end too.
    other = _one(reader, elsewhere=True)
    assert not other.timed and other.run_ns == 0
    counted = other.with_times(4, 3, 2, 1)
    assert counted.timed and counted.ended_counted and not other.ended_counted
    assert (counted.run_ns, counted.wait_memory_ns, counted.threads) == (4, 1, 4)
    assert counted.moved == other.moved
    assert reader.read_thread(reader.threads[-1], "stat").split()[0] == b"%d" % reader.threads[-1]
    program.do("end 3")
    _until(lambda: _one(reader).threads == 1)
    assert reader.threads == (pid,)


def test_children_are_found() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 600 & sleep 600; :"], start_new_session=True
    ) as shell:
        reader = ProcessReader(shell.pid)
        _until(lambda: len(reader.children()) == 2)
        assert all(ProcessReader(pid).children() == [] for pid in reader.children())
        os.killpg(shell.pid, signal.SIGKILL)


_ANOTHER_USER = """
import os, sys
from headrace._core import Moved, ProcessReader, read_processes
if os.geteuid() == 0:
    os.setuid(65534)
reader = ProcessReader(int(sys.argv[1]))
(reading,), _ = read_processes([reader], False, False)
assert reading is not None and not reading.io_readable and reading.moved == Moved()
assert reading.run_ns > 0 and reading.threads > 0
try:
    reader.read_thread(int(sys.argv[1]), "syscall")
except PermissionError:
    sys.exit(0)
sys.exit("its calls could be read")
"""


def test_a_process_of_another_user_has_no_bytes_and_no_calls() -> None:
    """CPU time and run queue of everybody can be read."""
    other = os.getpid() if os.geteuid() == 0 else 1
    done = subprocess.run(
        [sys.executable, "-c", _ANOTHER_USER, str(other)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


_FEW_FILES = """
import os, resource, subprocess
from headrace._core import ProcessReader, read_processes
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
jobs = [subprocess.Popen(["sleep", "600"]) for _ in range(30)]
readers = [ProcessReader(job.pid) for job in jobs]
for _ in range(2):
    readings, _ = read_processes(readers, False, False)
    assert all(each is not None and each.io_readable and each.run_ns for each in readings)
    for job, reader in zip(jobs, readers):
        assert reader.read_thread(job.pid, "stat").startswith(b"%d (sleep)" % job.pid)
opened = len(os.listdir("/proc/self/fd"))
assert 32 <= opened < 45, opened
jobs[29].kill()
jobs[29].wait()
assert read_processes(readers, False, False)[0][29] is None
for reader in readers:
    reader.close()
assert len(os.listdir("/proc/self/fd")) < 16
for job in jobs:
    job.kill()
    job.wait()
"""


def test_half_of_the_limit_of_open_files_is_left_to_others() -> None:
    """Files past that are opened at each reading, with the same result."""
    done = subprocess.run(
        [sys.executable, "-c", _FEW_FILES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_list_of_many_pages_is_read_whole(tmp_path: Path) -> None:
    """The kernel returns lists such as cgroup.procs and diskstats a page at a time."""
    place = tmp_path / "list"
    place.write_bytes(b"12345\n" * 3000)
    with CounterFile(place) as file:
        assert len(file.read()) == 4096
        assert file.read_whole() == file.read_whole() == place.read_bytes()


def test_bytes_are_added_and_compared() -> None:
    less = Moved(read=1, written=2, storage_read=30, storage_written=4, read_calls=9)
    more = Moved(10, 20, 40, 40, 3, 1)
    assert less + more == Moved(11, 22, 70, 44, 12, 1)
    assert more - less == Moved(9, 18, 10, 36, 0, 1)
    assert more.covers(less) and not less.covers(more)
    assert (less.served, more.served) == (30, 40)
    assert repr(Moved(read=1)).startswith("Moved(read=1, written=0, storage_read=0")


def test_the_peak_of_a_program_whose_name_is_cut_within_a_letter(tmp_path: Path) -> None:
    """The kernel keeps 15 bytes of it."""
    program = tmp_path / "analysieren_pr\u00e4"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "600"]) as process:
        try:
            name = Path(f"/proc/{process.pid}/comm")
            assert wait_until(lambda: name.read_bytes() == b"analysieren_pr\xc3\n", 60, 0.01)
            assert peak_rss_bytes(process.pid) > 0
        finally:
            process.kill()


def test_a_process_whose_first_thread_has_ended_runs() -> None:
    """As after pthread_exit in main: its state is that of a zombie, with a thread besides."""
    number = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        f"ctypes.CDLL(None).syscall({number}, 0)"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            state = Path(f"/proc/{process.pid}/stat")
            assert wait_until(lambda: ") Z " in state.read_text(), 60, 0.01)
            assert start_ticks(process.pid) is not None
            reader = ProcessReader(process.pid)
            assert _one(reader).threads == 2
        finally:
            process.kill()
    assert start_ticks(process.pid) is None
