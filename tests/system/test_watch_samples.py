"""`headrace watch` samples each job as often as any other, also what lives too briefly to be listed
by a look, and says what is stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

import pytest

from headrace.system.waiting import wait_until
from headrace.watching import Watcher
from headrace.watching.finders.pid import PidFinder

_THREADS = """
import threading, time
threading.stack_size(65536)
for _ in range(300):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(flush=True)
time.sleep(600)
"""


def test_a_job_beside_one_of_many_threads_has_its_share_of_samples() -> None:
    """Shared out by threads, a job of one would be seen once in some seconds."""
    with (
        subprocess.Popen([sys.executable, "-c", _THREADS], stdout=subprocess.PIPE) as large,
        subprocess.Popen(["sleep", "600"]) as small,
    ):
        try:
            assert large.stdout is not None and large.stdout.readline()
            finder = PidFinder([str(small.pid), str(large.pid)])
            with Watcher(finder, samples_per_s=400) as watcher:
                jobs = watcher.watch(0.5).jobs
                while sum(job.total.samples for job in jobs) < 200:
                    jobs = watcher.watch(0.5).jobs
        finally:
            large.kill()
            small.kill()
    assert jobs[1].threads == 301
    samples = [job.total.samples for job in jobs]
    assert samples[0] > 0.3 * sum(samples), samples


@pytest.mark.parametrize("argv", [["sleep", "600"], [sys.executable, "-c", "while True: pass"]])
def test_a_stopped_job_waits_to_be_continued(argv: list[str]) -> None:
    """As `scontrol suspend` leaves it. Its system call is that in which it was stopped."""
    with subprocess.Popen(argv) as process:
        try:
            time.sleep(0.2)
            process.send_signal(signal.SIGSTOP)
            with Watcher(PidFinder([str(process.pid)]), samples_per_s=400) as watcher:
                watcher.watch(0.4)  # it runs a little to stop
                watcher.watch(0.4)
                (job,) = watcher.watch(0.4).jobs
        finally:
            process.kill()
    assert job.last.ledger.longest_wait == "SIGCONT"


_PARENT = """
import os, subprocess, sys, time
import headrace.cli._watch_show, headrace.watching.finders.pid, headrace.watching.as_json
from headrace.cli.watch import watch
user, port, calls = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if user:
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
# bash waits in wait4, or at the pipe of its child, or one level deeper.
child = f'read x < /dev/tcp/127.0.0.1/{port}'
loop = {
    "call": f"bash -c '{child}; true'",
    "substitution": f"y=$(bash -c '{child}; true')",
    "script": f"bash -c '(bash -c \\"{child}; true\\"); true'",
}[calls]
shell = subprocess.Popen(["bash", "-c", f"while :; do {loop}; sleep 0.2; done"])
try:
    time.sleep(0.5)
    watch(pid=[str(shell.pid)], once=True, interval="8 s", as_json=True)
finally:
    shell.kill()
"""


@contextmanager
def slow_server() -> Generator[tuple[int, list[tuple[float, float]]]]:
    """Port of a server that ends connections after 0.3 s, and when they began and ended."""
    seen: list[tuple[float, float]] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                began_s = time.time()
                with connection:
                    time.sleep(0.3)
                seen.append((began_s, time.time()))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], seen
        finally:
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.quiet  # children start at a rate that depends on the load
@pytest.mark.parametrize("calls", ["call", "substitution", "script"])
@pytest.mark.parametrize("user", [0, 65534], ids=["root", "owner"])
def test_what_short_lived_children_wait_for(user: int, calls: str) -> None:
    """A shell loop waits for what its children do, none of which lives from one look to the next:
    here for a server, and for a time in between. With and without reports of the kernel."""
    user = 0 if os.geteuid() else user
    with slow_server() as (port, seen):
        ended = subprocess.run(
            [sys.executable, "-c", _PARENT, str(user), str(port), calls],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert wait_until(lambda: seen, 5.0, 0.05)
    look = json.loads(ended.stdout.splitlines()[-1])
    (job,) = look["jobs"]
    found, wall_s = job["total"], job["total"]["wall_s"]
    end_s = datetime.fromisoformat(look["time"]).timestamp()
    truth_s = sum(max(0.0, min(end_s, e) - max(end_s - wall_s, b)) for b, e in seen)
    assert truth_s > 0.2 * wall_s
    assert found["waits"][0]["place"] == f"127.0.0.1:{port}"
    # About 300 samples, but of some 15 children only. While its connection is open, a child also
    # waits for a CPU.
    share, truth = found["wait_network_s"] / wall_s, truth_s / wall_s
    assert truth - 0.08 - found["wait_cpu_s"] / wall_s < share < truth + 0.08
    assert found["idle"]["timer"] > 0.1 * wall_s
