"""Every process's CPU time is found, also of those that end while /proc is read."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.system.process_scan import read_processes
from headrace.system.program_names import job_name, program_name
from headrace.system.waiting import wait_until
from headrace.watching.process import name_of

# Sleepers stand in /proc between the parent and those that work and end, as other programs do:
# a scan takes long from one to the other.
PARENT = """
import os, time
for _ in range(200):
    if not os.fork():
        time.sleep(3600)
print(os.getpid(), flush=True)
while True:
    child = os.fork()
    if not child:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture
def parent() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_time_of_children_that_end_during_a_scan_is_not_lost(parent: int) -> None:
    highest_ns, scans = 0, 0
    until = time.monotonic() + 5.0
    while scans < 20 or time.monotonic() < until:  # a busy machine takes longer
        processes = read_processes().values()
        family = [each for each in processes if parent in (each.key[0], each.parent)]
        spent_ns = sum(each.all_ns for each in family)
        # A child that ends between its own turn and the next scan is rounded to clock ticks.
        assert spent_ns > highest_ns - 30_000_000, (scans, spent_ns, highest_ns)
        highest_ns = max(highest_ns, spent_ns)
        scans += 1
    assert highest_ns > 100_000_000


def test_what_a_terminal_would_obey_is_no_part_of_a_name() -> None:
    with subprocess.Popen(["sleep", "600"], executable=None) as process:
        try:
            assert program_name(process.pid, "a\x1b[31m\nb") in ("sleep", "a?[31m?b")
            assert program_name(2147483000, "a\x1b[31m\nb") == "a?[31m?b"
        finally:
            process.kill()


WAIT = "import time; time.sleep(600)"


def named(argv: list[str], folder: Path, expected: str, **more: str) -> str:
    """Return the name of a program that runs, as soon as it is this one, or that of 10 s later."""
    with subprocess.Popen(
        argv,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **more},
    ) as process:
        try:
            names = list[str]()
            wait_until(
                lambda: (
                    names.append(job_name(process.pid, name_of(process.pid)))
                    or names[-1] == expected
                ),
                10,
                0.02,
            )
            return names[-1]
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "fit tau.py").write_text(WAIT)
    (tmp_path / "fit.pl").write_text("sleep 600;")
    (tmp_path / "fit.js").write_text("setTimeout(() => 0, 600000)")
    (tmp_path / "run.sh").write_text("sleep 600; true")
    (tmp_path / "Fit.java").write_text(
        "class Fit { public static void main(String[] a) throws Exception "
        "{ Thread.sleep(600000); } }"
    )
    shell = "import subprocess, sys; p = open('tmp4711', 'w'); print(*sys.argv[4:], file=p); "
    shell += "print('true', file=p); p.close(); subprocess.run(['bash', 'tmp4711'])"
    (tmp_path / "conda").write_text(shell)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("python -S -u 'fit tau.py' --password x", "python fit tau.py"),
        ("python -Su -W ignore -X utf8 -- 'fit tau.py'", "python fit tau.py"),
        ("python -uWignore 'fit tau.py'", "python fit tau.py"),
        ("python -Im timeit -n 100000000 pass", "python -m timeit"),
        (f"python -Sc '{WAIT}' secret", "python"),
        ("env A=b python -u 'fit tau.py'", "python fit tau.py"),
        ("env -S python -u 'fit tau.py'", "python fit tau.py"),
        ("perl -w -Mstrict -I . fit.pl", "perl fit.pl"),
        ("perl -we 'sleep 600' secret", "perl"),
        ("node --no-warnings -r fs fit.js", "node fit.js"),
        ("bash -e -o pipefail run.sh", "bash run.sh"),
        ("bash -c 'python -u \"fit tau.py\"; true'", "python fit tau.py"),
        ("timeout 600 bash -ec 'sh run.sh; true'", "sh run.sh"),
        ("bash -c 'read x < <(sleep 600)'", "sleep"),
        ("bash -c 'exec bash <(echo sh run.sh; echo true)'", "sh run.sh"),
        ("java -Xmx64m -cp . Fit.java", "java Fit.java"),
        ("python conda run -n tau python 'fit\\ tau.py'", "python fit tau.py"),
    ],
)
def test_the_name_is_that_of_the_script_or_program(argv: str, expected: str, scripts: Path) -> None:
    words = shlex.split(argv)
    if words[0] == "node" and shutil.which("node") is None:
        pytest.skip("Node.js is not part of the set-up")
    folder = Path(sys.executable).parent
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    assert named(words, scripts, expected, PATH=path) == expected


def test_the_name_of_a_java_program(scripts: Path) -> None:
    for command in ("javac -d out Fit.java", "jar --create --file fit.jar -e Fit -C out ."):
        subprocess.run(command.split(), cwd=scripts, check=True)
    jar = ["java", "-Xmx64m", "-Dkey=secret", "-jar", "fit.jar", "secret"]
    assert named(jar, scripts, "java fit.jar") == "java fit.jar"
    of_class = ["java", "-cp", "fit.jar", "-Xint", "Fit", "secret"]
    assert named(of_class, scripts, "java Fit") == "java Fit"
