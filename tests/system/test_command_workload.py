"""`command` with real programs: what they are given, what is counted, how their ends are told."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

import headrace
from headrace.errors import HeadraceError, MissingError
from headrace.system.children import (
    Child,
    ChildFailedError,
    ChildKilledError,
    ChildOutOfMemoryError,
)
from headrace.system.journal import pending_journals, undo
from headrace.system.waiting import wait_until
from headrace.workloads import JobInput, JobOutput
from headrace.workloads.command import PLACEHOLDERS, Command, CommandOptions

PYTHON = sys.executable


def command(*argv: str, **options: Any) -> Command:
    return Command("mine", CommandOptions.model_validate({"command": list(argv), **options}))


def run(part: Command, tmp_path: Path, *files: str) -> JobOutput:
    scratch, keep = tmp_path / "scratch" / "job-0003", tmp_path / "keep"
    scratch.mkdir(parents=True, exist_ok=True)
    keep.mkdir(exist_ok=True)
    return part.run(
        JobInput(
            files=files, directory=tmp_path, scratch=scratch, slot=2, slots=4, seed=11, keep=keep
        )
    )


def said(tmp_path: Path, stream: str = "out") -> str:
    return (tmp_path / "keep" / f"command-job-0003.{stream}").read_text()


def test_placeholders_are_filled_in_each_argument_and_never_by_a_shell(tmp_path: Path) -> None:
    show = "import sys, os; print(sys.argv[1:], os.getcwd(), os.environ['WHERE'])"
    nasty = "a b; $(touch harm) `touch harm` {seed}"
    part = command(
        PYTHON,
        "-c",
        show,
        'm.C("{file}")',
        "{slot}/{seed}",
        "{ braces }",
        "{}",
        files="*",
        environment={"WHERE": "{directory}"},
    )
    run(part, tmp_path, nasty)
    given = [f'm.C("{nasty}")', "2/11", "{ braces }", "{}"]
    assert said(tmp_path).strip() == f"{given} {tmp_path / 'scratch' / 'job-0003'} {tmp_path}"
    assert not list(tmp_path.rglob("harm"))
    assert not (tmp_path / "keep" / "command-job-0003.err").exists()


def test_bytes_that_the_program_and_its_children_read_are_counted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(3 << 20))
    read = (
        "import os, sys; f = os.open(sys.argv[1], os.O_RDONLY); n = 0\nwhile os.read(f, "
        "65536): n += 1\nprint(n)"
    )
    nested = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]], check=True)"
    )
    part = command(PYTHON, "-c", nested, read, "{file}", files="data")
    output = run(part, tmp_path, str(data))
    assert said(tmp_path).strip() == "48"
    # Beyond the data: what two interpreters read of themselves.
    assert 3 << 20 <= output.bytes_asked <= 9 << 20
    assert output.read_calls >= 48
    assert output.measured_child
    ((name, start, end),) = output.phases
    assert name == "command"
    assert 0 < end - start < 20


def test_bytes_that_the_program_and_its_children_write_are_those_of_write_calls(
    tmp_path: Path,
) -> None:
    """Pages that are written twice before they reach the device are requested twice."""
    write = (
        "import os; f = os.open('made', os.O_WRONLY | os.O_CREAT)\n"
        "for _ in range(4): os.pwrite(f, bytes(1 << 20), 0)"
    )
    nested = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    )
    output = run(command(PYTHON, "-c", nested, write), tmp_path)
    # Beyond the data: signals between the two interpreters.
    assert 4 << 20 <= output.bytes_written <= (4 << 20) + 65536


@pytest.mark.parametrize(
    ("options", "events"),
    [
        ({}, 0),
        ({"events": 700}, 700),
        ({"events_pattern": r"processed ([\d,]+) events"}, 1200),
        ({"events_pattern": "^Begin"}, 3),
    ],
)
def test_events(tmp_path: Path, options: dict[str, Any], events: int) -> None:
    text = "Begin 1\nBegin 2\nprocessed 100 events\nBegin 3\nprocessed 1,200 events\n"
    assert run(command("printf", "%s", text, **options), tmp_path).events == events


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"done (\d+)", "no line of the program's output fits"),
        (r"took (\w+)", "'long', which is not a number"),
    ],
)
def test_events_that_are_not_told_fail_the_job(tmp_path: Path, pattern: str, message: str) -> None:
    with pytest.raises(HeadraceError, match=message):
        run(command("echo", "took long", events_pattern=pattern), tmp_path)


def test_an_exit_code_is_told_with_the_last_words(tmp_path: Path) -> None:
    part = command("sh", "-c", "echo fine; echo first >&2; echo no such tree >&2; exit 3")
    with pytest.raises(
        ChildFailedError, match=r"sh ended with exit code 3: first \| no such tree"
    ) as caught:
        run(part, tmp_path)
    assert caught.value.exit == "failed"
    assert "no such tree" in said(tmp_path, "err")


def test_a_signal_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ChildKilledError, match="ended by SIGSEGV") as caught:
        run(command("sh", "-c", "kill -SEGV $$"), tmp_path)
    assert caught.value.exit == "killed"


def test_a_missing_program(tmp_path: Path) -> None:
    part = command("no-such-program-xyz")
    assert [problem.what for problem in part.check()] == [
        "the program no-such-program-xyz is not there, or may not be run"
    ]
    with pytest.raises(MissingError, match="no-such-program-xyz"):
        run(part, tmp_path)
    assert command("sh").check() == []


def test_what_a_program_leaves_running_is_ended(tmp_path: Path) -> None:
    # The daemon is an orphan in a session of its own when the program ends.
    part = command("sh", "-c", "setsid sleep 300 & echo $! > {scratch}/pid")
    output = run(part, tmp_path)
    pid = int((tmp_path / "scratch" / "job-0003" / "pid").read_text())
    assert output.results == {"left_running": 1}
    assert not Path(f"/proc/{pid}").exists()
    assert part.merge([output.results, {"left_running": 0}]) == {"left_running": 1}


def test_a_long_log_keeps_its_end(tmp_path: Path) -> None:
    run(command(PYTHON, "-c", "print('x' * 3_000_000); print('the end')"), tmp_path)
    kept = said(tmp_path)
    assert len(kept) < 1_100_000
    assert kept.startswith("[the first ")
    assert kept.endswith("the end\n")


def test_the_pattern_is_looked_for_below_the_target(tmp_path: Path) -> None:
    own = tmp_path / "a[1]" / ".headrace"
    own.mkdir(parents=True)
    for name in ("b.root", "a.root", "sub/c.root", "other.txt"):
        (own.parent / name).parent.mkdir(exist_ok=True)
        (own.parent / name).touch()
    here = str(own.parent)
    assert command("cat", "{file}", files="*.root").prepare_files(own, 1, 1) == [
        f"{here}/a.root",
        f"{here}/b.root",
    ]
    assert len(command("cat", "{file}", files="**/*.root").prepare_files(own, 1, 1)) == 3
    assert command("cat", "{file}", files=f"{tmp_path}/*/o*.txt").prepare_files(own, 1, 1) == [
        f"{here}/other.txt"
    ]
    with pytest.raises(HeadraceError, match=r"mine: no file fits \*\.nothing"):
        command("cat", "{file}", files="*.nothing").prepare_files(own, 1, 1)
    assert command("true").prepare_files(own, 1, 1) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": []}, "at least 1 item"),
        ({"command": ["cat", "{file}"]}, "either files or data"),
        (
            {"command": ["cat", "{fil}"], "files": "*"},
            r"unknown placeholder \{fil\}; did you mean \{file\}",
        ),
        ({"command": ["true"], "files": "*", "data": {}}, "files and data exclude"),
        ({"command": ["true"], "events": 1, "events_pattern": "x"}, "exclude each other"),
        ({"command": ["true"], "events_pattern": "(x"}, "not a regular expression"),
        ({"command": "true"}, "tuple"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CommandOptions.model_validate(options)


def test_every_option_is_described() -> None:
    for name, field in CommandOptions.model_json_schema()["properties"].items():
        assert field.get("description"), name


@pytest.fixture
def little_memory() -> Iterator[Path]:
    room = Path("/sys/fs/cgroup/memory")
    if os.geteuid() != 0 or not (room / "memory.limit_in_bytes").exists():
        pytest.skip("needs root and the memory controller of cgroups, version 1")
    group = room / f"headrace-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(40 << 20))
    yield group
    for _ in range(100):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.02)
    group.rmdir()


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_kill_for_memory_is_told_apart(
    tmp_path: Path, little_memory: Path, wrapped: bool
) -> None:
    hungry = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    start = 'echo $$ > "$1"; exec "$2" -c "$3"' if not wrapped else 'echo $$ > "$1"; "$2" -c "$3"'
    part = command("sh", "-c", start, "sh", str(little_memory / "cgroup.procs"), PYTHON, hungry)
    with pytest.raises(ChildOutOfMemoryError, match="because memory ran out") as caught:
        run(part, tmp_path)
    assert caught.value.exit == "out-of-memory"


def test_a_kill_by_hand_is_told_apart_while_another_group_runs_out_of_memory(
    tmp_path: Path, little_memory: Path
) -> None:
    child = Child(
        ["sleep", "60"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "e"
    )
    before = kills_on_machine()
    hungry = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    start = 'echo $$ > "$1"; exec "$2" -c "$3"'
    words = ["sh", "-c", start, "sh", str(little_memory / "cgroup.procs"), PYTHON, hungry]
    assert subprocess.run(words).returncode == -signal.SIGKILL
    assert kills_on_machine() > before
    assert child.running
    os.kill(child.pid, signal.SIGKILL)
    end = child.wait()
    assert (end.exit_code, end.killed_for_memory) == (-signal.SIGKILL, False)
    with pytest.raises(ChildKilledError, match="SIGKILL"):
        end.check()


def kills_on_machine() -> int:
    (line,) = re.findall(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    return int(line)


def test_a_kill_by_hand_is_not_one_for_memory(tmp_path: Path) -> None:
    with pytest.raises(ChildKilledError, match="SIGKILL"):
        run(command("sh", "-c", "kill -KILL $$"), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for its priority")
def test_without_privilege_waits_of_children_are_seen_by_looking() -> None:
    """Two programs on one core.

    Half of the time they wait for it, though the kernel tells of no exit.
    """
    program = f"""
import json, os, sys
from pathlib import Path
from headrace.probes.ledger import LedgerMeter
from headrace.system import children
from headrace.system.taskstats import listening_socket
assert listening_socket() is None
meter = LedgerMeter(network=False)
meter.begin()
spin = "import time\\nend = time.process_time() + 0.5\\nwhile time.process_time() < end: pass"
children.run(["sh", "-c", '"$1" -c "$2" & "$1" -c "$2"; wait', "sh", {PYTHON!r}, spin],
             directory=Path("/"), stdout=Path("/dev/null"), stderr=Path("/dev/null")).check()
print(json.dumps(meter.end().as_row()))
"""
    # Before all else on this machine: the kernel shares CPUs out between sessions first.
    first = 'echo -20 > /proc/self/autogroup; exec nice -n -20 "$@"'
    without_news = ["setpriv", "--bounding-set", "-net_admin", "--", "taskset", "-c", "1"]
    argv = ["sh", "-c", first, "sh", *without_news, PYTHON, "-c", program]
    package = str(Path(__file__).parents[2] / "python")
    done = subprocess.run(
        argv,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": package},
        start_new_session=True,
    )
    row = json.loads(done.stdout)
    assert row["user_s"] + row["system_s"] > 1.0
    assert row["wait_cpu_s"] > 0.2 * row["wall_s"], row
    assert row["peak_rss_bytes"] > 5 << 20


def test_an_interrupted_job_leaves_no_program(tmp_path: Path) -> None:
    """The kernel ends the program when the job's process is killed."""
    program = f"""
from pathlib import Path
from headrace.system import children
children.run(["sh", "-c", "echo $$ > {tmp_path}/pid; exec sleep 300"],
             directory=Path({str(tmp_path)!r}),
             stdout=Path("/dev/null"), stderr=Path("/dev/null"))
"""
    package = str(Path(__file__).parents[2] / "python")
    job = subprocess.Popen([PYTHON, "-c", program], env={**os.environ, "PYTHONPATH": package})
    file = tmp_path / "pid"
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.01)
    pid = int(file.read_text())
    job.send_signal(signal.SIGKILL)
    job.wait()
    status = Path(f"/proc/{pid}/stat")

    def ended() -> bool:
        try:
            return status.read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            return True

    assert wait_until(ended, max(0.0, deadline - time.monotonic()), 0.01)


def test_the_page_of_the_workload_names_every_placeholder() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
    assert re.findall(r"^\| `\{(\w+)\}` \|", page, re.MULTILINE) == list(PLACEHOLDERS)


STUDY = """
headrace = 1
[target.here]
kind = "path"
path = "here"
create = true
[workload.mine]
kind = "command"
command = ["sh", "-c", '''COMMAND''']
EXTRA
[run]
cache = "as-is"
shortest = 0
timeout = "1.5 s"
[plan]
repeats = { min = 1 }
"""


def trial_of(tmp_path: Path, shell: str, extra: str = "") -> dict[str, Any]:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("COMMAND", shell).replace("EXTRA", extra))
    results = headrace.load_study(study).run(tmp_path / "results")
    (file,) = results.glob("trials/*/trial.json")
    return json.loads(file.read_text())


def test_what_left_the_group_of_a_job_ends_with_it_when_its_time_is_over(tmp_path: Path) -> None:
    told = tmp_path / "told"
    trial = trial_of(tmp_path, f"setsid sh -c 'echo $$ > {told}; sleep 600' & sleep 601")
    assert trial["status"] == "failed" and "did not end within" in trial["cause"]
    pid = int(told.read_text())
    try:
        assert wait_until(lambda: not is_running(pid), 60, 0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def test_nothing_of_a_job_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    # Many sessions: what kills them learns of the end of the run in two ways, one after the other.
    told = [tmp_path / "child", *(tmp_path / f"session-{each}" for each in range(40))]
    child, *sessions = (f"sh -c 'echo $$ > {file}; sleep 600'" for file in told)
    session = " & ".join(f"setsid {each}" for each in sessions)
    study = tmp_path / "study.toml"
    text = STUDY.replace("COMMAND", f"{child} & {session} & wait").replace("EXTRA", "")
    study.write_text(text.replace("1.5 s", "600 s"))
    program = "import headrace; headrace.load_study('study.toml').run('results')"
    journal = tmp_path / "journal"
    environment = {**os.environ, "HEADRACE_JOURNAL_DIR": str(journal)}
    running = subprocess.Popen([PYTHON, "-c", program], cwd=tmp_path, env=environment)
    try:
        assert wait_until(
            lambda: all(each.exists() and each.read_text() for each in told), 60, 0.05
        )
    finally:
        running.kill()
        running.wait()
    pids = [int(file.read_text()) for file in told]
    try:
        assert wait_until(lambda: not any(map(is_running, pids)), 60, 0.05)
    finally:
        for pid in filter(is_running, pids):
            os.kill(pid, signal.SIGKILL)
        for pending in pending_journals(journal):
            undo(pending.file)


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_a_job_that_a_nameless_signal_ended_has_it_as_its_cause(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "kill -35 $PPID; sleep 600")
    assert trial["cause"] == "killed by signal 35"


def test_a_file_whose_name_is_not_utf_8_is_read_and_recorded(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    Path(os.fsdecode(bytes(tmp_path / "here") + b"/x\xfe.dat")).write_text("x")
    trial = trial_of(
        tmp_path, 'cat "$INPUT"', 'files = "*.dat"\nenvironment = { INPUT = "{file}" }'
    )
    assert trial["status"] == "done", trial["cause"]
    (jobs,) = (tmp_path / "results").glob("trials/*/jobs.parquet")
    assert pq.read_table(jobs)["file"][0].as_py().endswith(r"/x\udcfe.dat")
