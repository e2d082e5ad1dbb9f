"""The recorder on real programs.

Threads, children, streams, maps, a kill in the middle, programs that it cannot see into.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_server import run_command
from headrace.datasets import DatasetSpec, materialise
from headrace.profiles.arena import Arena
from headrace.profiles.preloading import preloaded
from headrace.profiles.programs import ProgramError
from headrace.profiles.recorder import record
from headrace.profiles.steps import Op, Recording, load
from headrace.profiles.summary import summarise
from headrace.workloads import kinds


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(300_000))
    return path


def recorded(command: list[str], tmp_path: Path) -> tuple[Recording, int]:
    found = record(command, "job", tmp_path)
    assert not list(tmp_path.glob(".headrace-record-*")), "raw records were left behind"
    return found.recording, found.exit_code


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def reads(job: Recording, path: Path) -> list[tuple[int, int]]:
    number = next(index for index, file in enumerate(job.files) if file.path == str(path))
    steps = job.steps
    chosen = (steps.file == number) & (steps.op == Op.READ) & (steps.length > 0)
    return list(zip(steps.offset[chosen].tolist(), steps.length[chosen].tolist(), strict=True))


def test_offsets_of_every_way_to_read(data: Path, tmp_path: Path) -> None:
    code = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.read(fd, 100); os.lseek(fd, 5000, 0); os.read(fd, 10)
os.pread(fd, 20, 70000); os.preadv(fd, [bytearray(30), bytearray(40)], 80000)
other = os.dup(fd); os.close(fd); os.read(other, 7)
"""
    job, code_of_exit = recorded(python(code, data), tmp_path)
    assert code_of_exit == 0
    assert reads(job, data) == [(0, 100), (5000, 10), (70000, 20), (80000, 70), (5010, 7)]
    assert next(file for file in job.files if file.path == str(data)).bytes == 300_000


def test_descriptors_of_any_number_are_recorded(data: Path, tmp_path: Path) -> None:
    """Reads through descriptors from 65,536 on were not in the profile, and nothing said so."""
    raised = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (300_000, 300_000))\n"
    if subprocess.run(python(raised), check=False, capture_output=True).returncode:
        pytest.skip("this user may not have so many descriptors")
    code = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for other in map(int, sys.argv[2:]):
    os.dup2(fd, other); os.pread(other, 10, other)
"""
    job, _ = recorded(python(raised + code, data, 65_535, 65_536, 250_000), tmp_path)
    assert reads(job, data) == [(at, 10) for at in (65_535, 65_536, 250_000)]
    assert job.notes == ()


def test_work_and_sleep_between_reads(data: Path, tmp_path: Path) -> None:
    code = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
os.pread(fd, 10, 0)
end = time.thread_time() + 0.15
while time.thread_time() < end: pass
os.pread(fd, 10, 10)
time.sleep(0.2)
os.pread(fd, 10, 20)
"""
    job, _ = recorded(python(code, data), tmp_path)
    steps = job.steps.take(job.steps.length == 10)
    assert 0.14 < steps.cpu_ns[1] * 1e-9 < 0.25
    assert steps.cpu_ns[2] * 1e-9 < 0.05
    assert (steps.start_ns[2] - steps.end_ns[1]) * 1e-9 > 0.19


def test_cpu_times_of_many_small_calls_add_up(data: Path, tmp_path: Path) -> None:
    """Between calls that follow each other closely, no one asks the kernel for the CPU time."""
    code = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
def reads(last):
    os.pread(fd, 10, 0)
    begin = time.thread_time_ns()
    for n in range(3000):
        os.pread(fd, 9, n)
        if n % 100 == 0:
            time.sleep(0.001)
    spent = time.thread_time_ns() - begin
    os.pread(fd, last, 0)
    print(spent, flush=True)
reads(11)
if os.fork() == 0:
    reads(12)
    os._exit(0)
os.wait()
"""
    with Arena([tmp_path]) as arena, preloaded(arena) as environment:
        ended = subprocess.run(
            python(code, data), env=environment, capture_output=True, text=True, check=True
        )
        records = arena.read().records
    of_reads = records[(records["op"] == Op.READ) & np.isin(records["asked"], (10, 11, 12))]
    of_reads = of_reads[of_reads["offset"] == 0]
    for length, spent_ns in zip((11, 12), map(int, ended.stdout.split()), strict=True):
        last = of_reads[of_reads["asked"] == length][0]
        first = of_reads[(of_reads["asked"] == 10) & (of_reads["thread"] == last["thread"])][0]
        until_ns = int(first["cpu_start_ns"]) + int(first["cpu_within_ns"])
        # 30 ms were slept. Readings are up to 0.1 ms old.
        assert abs(int(last["cpu_start_ns"]) - until_ns - spent_ns) < 2_000_000
    assert (records["cpu_within_ns"] < 4_000_000_000).all()


def test_threads_children_and_programs_that_they_become(data: Path, tmp_path: Path) -> None:
    code = """
import os, subprocess, sys, threading
def read(at):
    with open(sys.argv[1], "rb", buffering=0) as file:
        file.seek(at); file.read(11)
threads = [threading.Thread(target=read, args=(1000 * n,)) for n in range(3)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
if os.fork() == 0:
    read(50000); os._exit(0)
os.wait()
subprocess.run(["head", "-c", "13", sys.argv[1]], stdout=subprocess.DEVNULL)
"""
    job, _ = recorded(python(code, data), tmp_path)
    found = reads(job, data)
    assert {(0, 11), (1000, 11), (2000, 11), (50000, 11)} <= set(found)
    assert any(length >= 13 and offset == 0 for offset, length in found)
    assert job.processes >= 3


def test_buffered_streams_of_the_c_library(data: Path, tmp_path: Path) -> None:
    source = tmp_path / "streams.c"
    source.write_text(
        "#include <stdio.h>\nint main(int n, char **of) { char to[64]; FILE *in = fopen(of[1], "
        '"rb");\n'
        "fread(to, 1, 10, in); fseek(in, 100000, SEEK_SET); fread(to, 1, 10, in); getc(in); "
        "fclose(in);\n"
        'FILE *out = fopen(of[2], "wb"); for (int i = 0; i < 3000; ++i) fputs("hello\\n", out); '
        "fclose(out); return 7; }\n"
    )
    program, written = tmp_path / "streams", tmp_path / "out.txt"
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    job, code = recorded([str(program), str(data), str(written)], tmp_path)
    assert code == 7
    found = reads(job, data)
    assert found[0] == (0, 4096)
    assert any(offset <= 100_000 < offset + length for offset, length in found[1:])
    summary = summarise(job)
    assert next(use for use in summary.files if use.path == str(written)).bytes_written == 18_000


def test_pages_of_a_map_that_were_touched(data: Path, tmp_path: Path) -> None:
    code = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
mapped[123456]
mapped.close()
"""
    job, _ = recorded(python(code, data), tmp_path)
    touched = job.steps.take(job.steps.op == Op.MAPPED_READ)
    ranges = list(zip(touched.offset.tolist(), touched.length.tolist(), strict=True))
    assert any(offset <= 123456 < offset + length for offset, length in ranges)
    assert (job.steps.op == Op.MAP).any()


@pytest.mark.parametrize(("calls", "direct"), [(9, True), (1, False)])
def test_a_file_is_direct_by_most_of_its_reads_and_writes(
    data: Path, tmp_path: Path, calls: int, direct: bool
) -> None:
    """It may have been open for a look before it was opened with O_DIRECT."""
    code = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.read(fd, 100); os.read(fd, 100); os.close(fd)
fd, page = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
for number in range(int(sys.argv[2])): os.preadv(fd, [page], number * 4096)
"""
    job, _ = recorded(python(code, data, calls), tmp_path)
    assert {each.path: each.direct for each in job.files}[str(data)] == direct


def test_a_descriptor_may_become_direct_after_it_was_opened(data: Path, tmp_path: Path) -> None:
    code = """
import fcntl, mmap, os, sys
fd, page = os.open(sys.argv[1], os.O_RDONLY), mmap.mmap(-1, 4096)
os.read(fd, 100)
fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
for number in range(9): os.preadv(fd, [page], number * 4096)
"""
    job, _ = recorded(python(code, data), tmp_path)
    assert {each.path: each.direct for each in job.files}[str(data)]


def test_syncs_of_files_and_directories_with_their_times(tmp_path: Path) -> None:
    code = """
import os, sys
folder, calls = os.open(sys.argv[1], os.O_RDONLY), 0
plain = os.open(sys.argv[1] + "/plain", os.O_WRONLY | os.O_CREAT)
for flag, name in ((os.O_SYNC, "sync"), (os.O_DSYNC, "dsync")):
    log = os.open(f"{sys.argv[1]}/{name}", os.O_WRONLY | os.O_CREAT | flag)
    os.write(log, bytes(100))
for sync in (os.fsync, os.fdatasync):
    os.write(plain, bytes(50000))
    sync(plain)
    sync(folder)
null = os.open("/dev/null", os.O_WRONLY)
try: os.fsync(null)
except OSError: pass
"""
    job, code_of_exit = recorded(python(code, tmp_path), tmp_path)
    assert code_of_exit == 0
    made = {file.path: file for file in job.files}
    marked = {name: made[f"{tmp_path}/{name}"].synchronous for name in ("plain", "sync", "dsync")}
    assert marked == {"plain": False, "sync": True, "dsync": True}
    syncs = job.steps.take(job.steps.op == Op.SYNC)
    paths = [job.files[number].path for number in syncs.file.tolist()]
    assert paths == 2 * [f"{tmp_path}/plain", str(tmp_path)]
    # 50 kB reach the drive in more than the time of a call that does nothing.
    assert (syncs.end_ns - syncs.start_ns)[::2].min() > 5_000


def test_syncs_of_maps_ranges_and_file_systems(tmp_path: Path) -> None:
    code = """
import ctypes, mmap, os, sys
library = ctypes.CDLL(None, use_errno=True)
folder = os.open(sys.argv[1], os.O_RDONLY)
data = os.open(sys.argv[1] + "/data", os.O_RDWR | os.O_CREAT)
os.ftruncate(data, 1 << 20)
mapped = mmap.mmap(data, 1 << 20)
mapped[5000:6000] = bytes([1]) * 1000
mapped.flush()
address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
assert library.msync(ctypes.c_void_p(address), ctypes.c_size_t(4096), 1) == 0  # MS_ASYNC
os.pwrite(data, bytes(50000), 0)
plain = ctypes.c_int64(0), ctypes.c_int64(50000)
assert library.sync_file_range(data, *plain, 2) == 0  # only begins to write
assert library.sync_file_range(data, *plain, 7) == 0
assert library.syncfs(data) == 0 and library.syncfs(folder) == 0
assert library.syncfs(77) == -1 and ctypes.get_errno() == 9
"""
    job, exit_code = recorded(python(code, tmp_path), tmp_path)
    assert exit_code == 0
    syncs = job.steps.take(job.steps.op == Op.SYNC)
    paths = [job.files[number].path for number in syncs.file.tolist()]
    assert paths == 3 * [f"{tmp_path}/data"] + [str(tmp_path)]
    assert (syncs.end_ns - syncs.start_ns).min() > 0
    assert not any("sync was called" in note for note in job.notes)
    job, exit_code = recorded(python("import os; os.sync()"), tmp_path)
    assert exit_code == 0 and any("sync was called" in note for note in job.notes)


def test_killed_in_the_middle(data: Path, tmp_path: Path) -> None:
    code = """
import os, signal, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(5000): os.pread(fd, 16, 16 * n)
os.kill(os.getpid(), signal.SIGKILL)
"""
    job, exit_code = recorded(python(code, data), tmp_path)
    assert exit_code == -9
    assert job.exit == "killed by SIGKILL"
    assert len(reads(job, data)) == 5000
    assert any(
        "was killed or ended unseen: the profile is complete up to there" in note
        for note in job.notes
    )


def test_a_child_that_still_runs_at_the_end_is_noted(data: Path, tmp_path: Path) -> None:
    """Its later reads are in no profile, and the kernel's counts lack them, too."""
    code = """
import os, sys, time
if os.fork() == 0:
    os.close(1)
    time.sleep(5)
    open(sys.argv[1], "rb").read()
"""
    job, exit_code = recorded(python(code, data), tmp_path)
    assert exit_code == 0
    assert str(data) not in {file.path for file in job.files}
    (note,) = (each for each in job.notes if "still ran" in each)
    assert note.startswith("1 process still ran") and "lacks what they" in note
    assert not any("killed" in each for each in job.notes)


def test_programs_that_cannot_be_recorded_are_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="no such program"):
        record(["no-such-program-anywhere"], "job", tmp_path)
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 0; }\n")
    static = tmp_path / "static"
    made = subprocess.run(["cc", "-static", "-o", static, source], capture_output=True, check=False)
    if made.returncode == 0:
        with pytest.raises(ProgramError, match="static"):
            record([str(static)], "job", tmp_path)
        script = tmp_path / "script"
        script.write_text(f"#!{static}\n")
        script.chmod(0o755)
        with pytest.raises(ProgramError, match=r"a script of .* static"):
            record([str(script)], "job", tmp_path)
    changed = tmp_path / "changed"
    shutil.copy("/bin/cat", changed)
    if os.geteuid() == 0:
        os.chown(changed, 65534, 65534)
        changed.chmod(0o4755)
        with pytest.raises(ProgramError, match="set-uid"):
            record([str(changed)], "job", tmp_path)
    changed.chmod(0o644)
    with pytest.raises(ProgramError, match=r"no permission|no such program"):
        record([str(changed)], "job", tmp_path)


def test_a_child_that_cannot_be_seen_is_noted(tmp_path: Path) -> None:
    source, static = tmp_path / "static.c", tmp_path / "static"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", static, source], check=True)
    job, _ = recorded(
        python("import subprocess, sys; subprocess.run([sys.argv[1]])", static), tmp_path
    )
    assert any(f"{static} was started and is not in the profile" in note for note in job.notes)


def test_the_command_line_keeps_the_program_s_exit_code_and_output(
    data: Path, tmp_path: Path
) -> None:
    profile = tmp_path / "job.toml"
    command = [
        "record",
        "--out",
        str(profile),
        "--hash-names",
        "--",
        "sh",
        "-c",
        f"wc -c < {data}; exit 3",
    ]
    ended = run_command(command)
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.strip() == "300000"
    assert "data.bin" not in profile.read_text()
    shown = run_command(["profile", "show", str(profile), "--draw"])
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "job.png").exists()
    gone = run_command(["record", "--", "no-such-program-anywhere"])
    assert gone.returncode == 2
    assert "no such program" in gone.stderr
    assert "Traceback" not in gone.stderr


JOBS = """
import sys
from pathlib import Path
from headrace.datasets import DatasetSpec
from headrace.workloads import JobInput, kinds
for kind in ("scan", "analysis", "skim"):
    for format in ("ttree", "rntuple"):
        part = kinds()[kind]
        spec = DatasetSpec.model_validate({"events": 20_000, "files": 1, "format": format})
        job = part(kind, part.Options.model_validate({"data": spec}))
        scratch = Path(sys.argv[1]) / f"scratch-{kind}-{format}"
        scratch.mkdir()
        file = f"{sys.argv[1]}/{kind}-{format}.root"
        job.run(JobInput((file,), None, scratch, slot=0, slots=1, seed=0))
"""


def test_made_and_recorded_profiles_of_every_root_workload_agree(tmp_path: Path) -> None:
    expected: dict[str, tuple[int, int, int]] = {}
    for format in ("ttree", "rntuple"):
        spec = DatasetSpec.model_validate({"events": 20_000, "files": 1, "format": format})
        file = materialise(spec, tmp_path / "cache")[0]
        for kind in ("scan", "analysis", "skim"):
            shutil.copy(file, tmp_path / f"{kind}-{format}.root")
            part = kinds()[kind]
            made = part(kind, part.Options.model_validate({"data": spec})).profile(None)
            ranges = [
                each
                for step in made.steps
                if step["do"] == "sequence"
                for each in step["ranges_bytes"]
            ]
            written = sum(step["length_bytes"] for step in made.steps if step["do"] == "write")
            expected[f"{kind}-{format}.root"] = (
                len(ranges),
                sum(size for _, size in ranges),
                written,
            )
    job, code = recorded(python(JOBS, tmp_path), tmp_path)
    assert code == 0
    uses = {
        Path(use.path).name: use
        for use in summarise(job).files
        if use.path.startswith(str(tmp_path))
    }
    for name, (count, read, written) in expected.items():
        assert uses[name].reads == pytest.approx(count, rel=0.03, abs=3), name
        assert uses[name].bytes_read == pytest.approx(read, rel=0.03), name
        if written:
            scratch = f"scratch-{name.removesuffix('.root')}/"
            made = [use for use in summarise(job).files if scratch in use.path]
            assert sum(use.bytes_written for use in made) == pytest.approx(written, rel=0.15), name


def test_a_recorded_job_is_replayed_and_simulated(data: Path, tmp_path: Path) -> None:
    from headrace.profiles.steps import save
    from headrace.workloads import JobInput
    from headrace.workloads.replay import Replay, ReplayOptions

    code = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(20):
    os.pread(fd, 4096, 8192 * n)
    end = time.thread_time() + 0.01
    while time.thread_time() < end: pass
    time.sleep(0.01)
"""
    job, _ = recorded(python(code, data), tmp_path)
    save(job, tmp_path / "job.toml")
    replay = Replay("job", ReplayOptions.model_validate({"profile": str(tmp_path / "job.toml")}))
    assert not replay.check()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    files = replay.prepare_files(tmp_path / "target", 2, 1)
    assert len(files) == 2
    output = replay.run(JobInput(replay.cut(files, 1, 2), None, scratch, slot=1, slots=2, seed=1))
    assert output.bytes_asked == 20 * 4096
    duration_s = load(str(tmp_path / "job.toml")).duration_ns * 1e-9
    assert output.results["recorded_s"] == pytest.approx(duration_s)
    assert output.results["replayed_s"] > 0.4
    data.unlink()
    gone = Replay(
        "job",
        ReplayOptions.model_validate({"profile": str(tmp_path / "job.toml"), "place": "recorded"}),
    )
    assert "is gone" in gone.check()[0].what


def test_a_replay_where_it_was_recorded_leaves_the_user_s_files_as_they_are(
    data: Path, tmp_path: Path
) -> None:
    from headrace.profiles.steps import save
    from headrace.workloads import JobInput
    from headrace.workloads.replay import Replay, ReplayOptions

    log = tmp_path / "log"
    log.write_text("written long ago\n")
    code = """
import os, sys
fd, log = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
os.pread(fd, 100, 0)
os.write(log, b"and now\\n")
"""
    job, _ = recorded(python(code, data, log), tmp_path)
    before = log.read_bytes(), data.read_bytes()
    assert before[0] == b"written long ago\nand now\n"
    save(job, tmp_path / "job.toml")
    options = ReplayOptions.model_validate(
        {"profile": str(tmp_path / "job.toml"), "place": "recorded"}
    )
    replay = Replay("job", options)
    assert not replay.check()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    output = replay.run(JobInput((), None, scratch, slot=0, slots=1, seed=0))
    assert (output.bytes_asked, output.bytes_written) == (100, 8)
    assert (log.read_bytes(), data.read_bytes()) == before
    assert sum(file.stat().st_size for file in scratch.iterdir()) >= 8
    # One that it reads, too, cannot be put elsewhere: that is refused.
    code = (
        "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR); os.pread(fd, 9, 0); "
        "os.pwrite(fd, b'x', 50)"
    )
    job, _ = recorded(python(code, data), tmp_path)
    save(job, tmp_path / "both.toml")
    options = ReplayOptions.model_validate(
        {"profile": str(tmp_path / "both.toml"), "place": "recorded"}
    )
    (problem,) = Replay("job", options).check()
    assert str(data) in problem.what and "writes to this file" in problem.what
