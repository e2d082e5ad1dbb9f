"""`headrace watch` names what a job waits for that sleeps in no read of a file: the server of its
connections, however it waits for it, or a timer, locks, a pipe."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.system.wait_channels import channel_of
from headrace.system.waiting import wait_until
from headrace.watching import JobSample, Watcher
from headrace.watching.finders.pid import PidFinder
from headrace.watching.ledger import StorageWait

_SERVER = """
import socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def answer(connection):
    while connection.recv(1):
        time.sleep(0.03)
        connection.sendall(b"x")
while True:
    threading.Thread(target=answer, args=server.accept()[:1], daemon=True).start()
"""
_CLIENT = """
import asyncio, select, selectors, socket, sys, threading, time
how, port = sys.argv[1], int(sys.argv[2])
async def stream():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    print(flush=True)
    while True:
        writer.write(b"x")
        await reader.readexactly(1)
def ask(wait):
    while True:
        server.send(b"x")
        wait()
        server.recv(1)
if how == "asyncio":
    asyncio.run(stream())
server = socket.create_connection(("127.0.0.1", port))
poll, epoll = select.poll(), select.epoll()
poll.register(server)
poll.modify(server, select.POLLIN)
epoll.register(server, select.EPOLLIN)
if how == "timeout":
    server.settimeout(60)
WAITS = {
    "recv": lambda: None,
    "timeout": lambda: None,
    "poll": poll.poll,
    "select": lambda: select.select([server], [], []),
    "epoll": epoll.poll,
    "terminal": lambda: select.select([server, 0], [], []),
}
if how in WAITS:
    print(flush=True)
    ask(WAITS[how])
# A library's thread polls, and the program itself does something else.
threading.Thread(target=ask, args=(poll.poll,), daemon=True).start()
print(flush=True)
if how == "sleeps":
    time.sleep(600)
if how == "locked":
    threading.Event().wait()
while True:
    pass
"""


@contextmanager
def started(program: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """Run a program of Python until it has printed a line, which is left to read."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that takes its time for each answer, and its port."""
    with started(_SERVER) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


def children(pid: int) -> Path:
    return Path(f"/proc/{pid}/task/{pid}/children")


def watched(pids: Sequence[int], seconds: float = 1.5) -> list[JobSample]:
    with Watcher(PidFinder([str(pid) for pid in pids]), samples_per_s=400, seed=1) as watcher:
        return list(watcher.watch(seconds).jobs)


@pytest.mark.parametrize("how", ["recv", "timeout", "poll", "select", "epoll", "asyncio", "locked"])
def test_a_client_waits_for_its_server(server: tuple[subprocess.Popen[str], str], how: str) -> None:
    with started(_CLIENT, how, server[1]) as client:
        assert client.stdout is not None
        client.stdout.readline()
        (job,) = watched([client.pid])
    ledger = job.total.ledger
    # The rest is on CPU or waits for one: it wakes up 30 times a second.
    assert ledger.wait_network_s > 0.5 * ledger.wall_s, ledger
    assert ledger.waits_s.keys() == {StorageWait("network", f"127.0.0.1:{server[1]}")}
    assert ledger.longest_wait == f"127.0.0.1:{server[1]}"
    assert sum(ledger.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("how", "named"), [("terminal", "events"), ("sleeps", "timer")])
def test_a_poll_that_is_not_for_the_server_alone(
    server: tuple[subprocess.Popen[str], str], how: str, named: str
) -> None:
    """It also waits for its input; or a library polls while the program sleeps for a time."""
    with started(_CLIENT, how, server[1]) as client:
        assert client.stdout is not None
        client.stdout.readline()
        (job,) = watched([client.pid])
    ledger = job.total.ledger
    assert ledger.wait_network_s == 0 and ledger.idle_s[named] > 0.5 * ledger.wall_s, ledger
    assert ledger.longest_wait == named


def test_a_poll_takes_nothing_from_a_thread_that_computes(
    server: tuple[subprocess.Popen[str], str],
) -> None:
    with started(_CLIENT, "computes", server[1]) as client:
        assert client.stdout is not None
        client.stdout.readline()
        (job,) = watched([client.pid])
    ledger = job.total.ledger
    ready_s = ledger.on_cpu_s + ledger.wait_cpu_s
    assert ready_s > 0.9 * ledger.wall_s and ledger.wait_network_s < 0.1 * ledger.wall_s, ledger


def test_a_server_that_waits_for_its_clients_lacks_nothing(
    server: tuple[subprocess.Popen[str], str],
) -> None:
    """Neither where it accepts connections, nor in a read of one."""
    idle = "import socket, sys, time\nclient = socket.create_connection"
    with started(f"{idle}(('127.0.0.1', int(sys.argv[1])))\nprint(flush=True)\ntime.sleep(600)",
                 server[1]) as client:  # fmt: skip
        assert client.stdout is not None
        client.stdout.readline()
        (job,) = watched([server[0].pid])
    ledger = job.total.ledger
    assert job.threads > 1 and ledger.waits_s == {}, ledger
    # Where other programs keep the CPUs busy, its first steps wait for one.
    assert max(ledger.idle_s, key=lambda each: ledger.idle_s[each]) == "clients", ledger


def test_the_rest_of_a_job_has_a_name(tmp_path: Path) -> None:
    """A timer, locks, the lock of a file, and a pipe, which yields: what fills it may be of the
    job."""
    locks = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    lock = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX)"
    programs = [
        [sys.executable, "-c", f"{locks}\nthreading.Event().wait()"],
        ["sleep", "600"],
        ["sh", "-c", "sleep 600 | cat; true"],
        ["sh", "-c", "read line; true"],
        [sys.executable, "-c", lock, str(tmp_path / "lock")],
    ]
    held = (tmp_path / "lock").open("w")
    fcntl.lockf(held, fcntl.LOCK_EX)
    running = [subprocess.Popen(each, stdin=subprocess.PIPE, process_group=0) for each in programs]
    threads, pipeline = Path(f"/proc/{running[0].pid}/task"), children(running[2].pid)
    assert wait_until(lambda: len([*threads.iterdir()]) == 2, 60, 0.05)
    assert wait_until(lambda: len(pipeline.read_text().split()) == 2, 60, 0.05)
    sleeps_in = Path(f"/proc/{running[-1].pid}/wchan")
    assert wait_until(lambda: channel_of(sleeps_in.read_bytes()).kind == "file-lock", 60, 0.05)
    try:
        jobs = watched([each.pid for each in running])
        named = [job.total.ledger.longest_wait for job in jobs]
        assert named == ["locks", "timer", "timer", "a pipe", "a file lock"]
        for job in jobs:
            ledger = job.total.ledger
            assert sum(ledger.idle_s.values()) == pytest.approx(ledger.other_s, abs=0.2)
    finally:
        for each in running:
            # With the rest of its pipe, which ends by itself as soon as one of them is gone.
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()
        held.close()
