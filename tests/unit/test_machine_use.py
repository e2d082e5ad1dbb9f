"""Who used the CPUs: real processes that are started here, told apart by real samples of /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from operator import sub
from pathlib import Path

import psutil
import pytest

from busy import SPIN, programs
from headrace.system.load_meter import LoadMeter
from headrace.system.machine_use import (
    MachineUse,
    Own,
    parse_times,
    snapshot,
    usable_cpus,
    use_between,
)
from headrace.system.processes import MARK
from headrace.system.waiting import wait_until

CPUS = usable_cpus()
SPAN_S = 0.5

# Names of this process alone: tests beside it start programs of such names, too.
HOG, SERVER, MANY, PARENT = (
    f"{name}-{os.getpid()}.py" for name in ("hog", "server", "many", "parent")
)


def watched(own: Own, cpus: frozenset[int] = CPUS, span_s: float = SPAN_S) -> MachineUse:
    before = snapshot(cpus)
    time.sleep(span_s)
    return use_between(before, snapshot(cpus), cpus, own)


def cpu_s(use: MachineUse, name: str) -> float:
    return sum(program.cpu_s for program in use.programs if name in program.name)


def used_in_time(used_s: Callable[[float], float]) -> bool:
    """Whether 0.1 s of CPU time are seen in a span: how soon programs get it depends on others."""
    return any(used_s(span_s) > 0.1 for span_s in (1.0, 2.0, 4.0, 8.0, 16.0))


@pytest.mark.slow
def test_other_programs_are_named_and_counted(tmp_path: Path) -> None:
    with programs(tmp_path, HOG, SPIN, 3) as pids:

        def used_s() -> list[float]:
            return [sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids]

        # A busy machine may stop this test between two lines: bounds from within and from outside.
        outside = [used_s()]
        before = snapshot(CPUS)
        inside = [used_s()]
        # It may also give one of them no CPU time, which nobody can see then.
        assert wait_until(lambda: min(map(sub, used_s(), inside[0])) > 0.02, 60, SPAN_S)
        inside.append(used_s())
        use = use_between(before, snapshot(CPUS), CPUS, Own())
        outside.append(used_s())
    (hogs,) = [program for program in use.programs if HOG in program.name]
    assert hogs.processes == 3
    least_s, most_s = (sum(each[1]) - sum(each[0]) for each in (inside, outside))
    assert least_s - 0.1 <= hogs.cpu_s <= most_s + 0.1
    assert use.foreign_s >= hogs.cpu_s


@pytest.mark.slow
def test_what_belongs_to_the_run_is_not_foreign(tmp_path: Path) -> None:
    """The fork server's jobs by their descent.

    Servers by the mark that they were started with, daemons too.
    """
    with programs(tmp_path, HOG, SPIN) as jobs:
        use = watched(Own(jobs=frozenset(jobs)))
        assert cpu_s(use, HOG) == 0 and use.own_s > 0
        use = watched(Own(servers=frozenset(jobs)))
        assert cpu_s(use, HOG) == 0 and use.own_s > 0
    with programs(tmp_path, SERVER, SPIN, before=["env", f"{MARK}=0123abcd"]):
        assert cpu_s(watched(Own(marks=frozenset({"another"}))), SERVER) > 0
        use = watched(Own(marks=frozenset({"another", "0123abcd"})))
        assert cpu_s(use, SERVER) == 0 and use.own_s > 0


@pytest.mark.slow
def test_what_short_lived_programs_used_is_found_with_who_waited_for_them(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys\nwhile True:\n    subprocess.run([sys.executable, '-c', "
        "'sum(range(10**6))'])\n"
    )
    with programs(tmp_path, MANY, script):
        assert used_in_time(lambda span_s: cpu_s(watched(Own(), span_s=span_s), MANY))


@pytest.mark.slow
def test_what_a_process_used_before_it_ended_in_the_window_is_of_no_account(tmp_path: Path) -> None:
    """A parent is given all that a child ever used once it waits for it.

    Only what is of the window counts.
    """
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time\\nwhile time.process_time() "
        "< 1.2: pass\\ninput()'], stdin=-1)\n"
        "input()\nchild.communicate(b'\\n')\ninput()\n"
    )
    (tmp_path / PARENT).write_text(script)
    process = subprocess.Popen([sys.executable, tmp_path / PARENT], stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        deadline = time.monotonic() + 300
        while (
            sum(sum(child.cpu_times()[:2]) for child in psutil.Process(process.pid).children()) < 1
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        before = snapshot(CPUS)
        process.stdin.write(b"\n")
        process.stdin.flush()
        while psutil.Process(process.pid).children():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        use = use_between(before, snapshot(CPUS), CPUS, Own())
        assert cpu_s(use, PARENT) < 0.5
    finally:
        process.kill()
        process.communicate()


def test_what_a_process_wrote_before_it_ended_in_the_window_is_of_no_account(
    tmp_path: Path,
) -> None:
    """`bash: 1.84 GB` stood beside \"the device moved 135 MB\": the kernel adds what a child ever
    wrote to the counts of the process that waits for it."""
    wrote = 8 << 20
    child = f"open('file', 'wb').write(bytes({wrote})); print(flush=True); input()"
    (tmp_path / PARENT).write_text(
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=-1, stdout=-1)\n"
        "child.stdout.readline()\nprint(flush=True)\n"
        "input()\nchild.communicate(b'\\n')\nprint(flush=True)\ninput()\n"
    )
    with subprocess.Popen(
        [sys.executable, tmp_path / PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"\n", "the child has written"
        before = snapshot(CPUS)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"\n", "the parent has waited for it"
        use = use_between(before, snapshot(CPUS), CPUS, Own())
        process.kill()
    assert sum(each.moved_bytes for each in use.programs if PARENT in each.name) < wrote / 2


@pytest.mark.slow
def test_programs_on_other_cpus_take_nothing(tmp_path: Path) -> None:
    assert len(CPUS) >= 2, "this test needs two CPUs: one for jobs, one that jobs may not use"
    ours, theirs = sorted(CPUS)[:2]
    with programs(tmp_path, HOG, SPIN, before=["taskset", "-c", str(theirs)]):
        assert cpu_s(watched(Own(), frozenset({ours})), HOG) == 0
        assert cpu_s(watched(Own(), frozenset({theirs})), HOG) > 0


def test_nothing_is_foreign_where_every_process_is_known() -> None:
    """Real samples of this machine, whatever it does.

    No clock tick, interrupt or thread of the kernel is taken for a program.
    """
    own = Own(jobs=frozenset({1, *psutil.pids()} - {os.getpid()}))
    for _ in range(5):
        use = watched(own, span_s=0.2)
        assert use.foreign_s <= 0.02 * use.capacity_s, use


@pytest.mark.slow
def test_nothing_is_foreign_where_a_watch_waited_for_a_cpu(tmp_path: Path) -> None:
    """A snapshot whose processes were read half a second after its counters.

    It is made of two real ones: a machine on which all CPUs are busy does the same.
    """
    with programs(tmp_path, HOG, SPIN, len(CPUS)) as pids:
        own = Own(jobs=frozenset({1, *psutil.pids(), *pids} - {os.getpid()}))
        counted = snapshot(CPUS)
        time.sleep(SPAN_S)
        read = snapshot(CPUS)
        before = replace(counted, processes=read.processes, scanned=read.scanned)
        time.sleep(SPAN_S)
        use = use_between(before, snapshot(CPUS), CPUS, own)
    assert use.foreign_s <= 0.02 * use.capacity_s, use


def test_time_of_some_cpus_alone() -> None:
    text = (
        b"cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 10 20 300 40 5 6 7 0 0\ncpu1 1 0 0 0 0 0 0 0 0 "
        b"0\nintr 5\n"
    )
    times = parse_times(text, frozenset({0}))
    assert (times.busy_s, times.interrupts_s, times.idle_s, times.steal_s) == pytest.approx(
        (1.41, 0.11, 3.4, 0.07)
    )


@pytest.mark.slow
def test_the_meter_sees_others_and_not_ourselves(tmp_path: Path) -> None:
    with programs(tmp_path, HOG, SPIN) as pids:

        def used_s(span_s: float) -> float:
            whole, others = LoadMeter(CPUS, []), LoadMeter(CPUS, pids)
            time.sleep(span_s)
            return (whole.others() - others.others()) * span_s

        assert used_in_time(used_s)
