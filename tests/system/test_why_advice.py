"""`headrace why` on real programs that wait for page faults and for memory: the limit, and what
simulations advise, or why they do not."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.system.accounting import pressure_totals_us
from headrace.system.cgroups import MemoryLimit
from headrace.system.journal import Journal
from headrace.system.page_cache import drop_files
from headrace.system.waiting import wait_until
from headrace.targets import TargetContext
from headrace.verdict.watching import TreeSampler
from judged import IN_ORDER, Judged, decided, part, why, written
from served_targets import made
from workspace import Workspace

pytestmark = pytest.mark.quiet
needs_root = pytest.mark.usefixtures("needs_root")
MAPPED = """
import random, sys
import numpy
data = numpy.memmap(sys.argv[1], numpy.uint8, "r")
chosen = random.Random(1)
for _ in range(int(sys.argv[2])):
    at = chosen.randrange(len(data) - 4096)
    int(data[at : at + 4096 : 512].sum())
"""


SERVER = """
import http.server, time
class Files(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        time.sleep(0.05)
        self.send_response(200)
        self.send_header("Content-Length", "65536")
        self.end_headers()
        self.wfile.write(bytes(65536))
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
CLIENT = """
import http.client, sys
port, lasting = int(sys.argv[1]), sys.argv[2] == "lasting"
server = http.client.HTTPConnection("127.0.0.1", port)
for _ in range(int(sys.argv[3])):
    server.request("GET", "/data")
    assert len(server.getresponse().read()) == 65536
    lasting or server.close()  # the next request opens it again
"""


@pytest.fixture
def port() -> Iterator[str]:
    """Of a server on this machine that takes 50 ms for an answer of 64 KiB."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, tmp_path / "cache")


def honest(verdict: dict[str, object], said: str) -> bool:
    """Whether there is advice; if not, that the verdict says why."""
    advice = verdict["advice"]
    assert isinstance(advice, dict), said
    trusted = abs(advice["present_s"] / advice["measured_s"] - 1) <= 0.15
    assert bool(advice["changes"]) == trusted, advice
    assert trusted or "no advice" in said.lower()
    return trusted


@needs_root
def test_page_faults_of_a_map(workspace: Workspace, context: TargetContext) -> None:
    """Reads of a mapped file at random on a disk: an SSD would save most of it."""
    target = made("block", drive="seagate-st3750640ns", size="512 MiB")
    directory = target.prepare(context).directory
    try:
        assert directory is not None
        file = written(directory, 320 << 20)

        def judge(number: int) -> Judged:
            assert drop_files([file]) == 0
            return why(workspace, sys.executable, "-c", MAPPED, str(file), str(number))

        verdict, ended = decided(judge, 300)
        faults = verdict["observation"]["faults"]
        limit = verdict["limit"]
        assert limit["kind"] == "block" and limit["where"].startswith("loop"), ended.stderr
        assert faults["place"]["name"] == limit["where"] and faults["number"] > 100
        assert re.search(r"page faults of mapped files, \d+ \w+ each", ended.stderr), ended.stderr
        if honest(verdict, ended.stderr):
            advice = verdict["advice"]
            saves = {
                each["name"]: 1 - each["seconds"] / advice["present_s"]
                for each in advice["changes"]
            }
            waits = faults["seconds"] / verdict["observation"]["wall_s"]
            assert saves["a SATA SSD"] == pytest.approx(waits, abs=0.2)
            assert "a SATA SSD" in ended.stderr
    finally:
        target.release(context)


@needs_root
def test_less_memory_than_it_reads_again(
    workspace: Workspace, journal: Journal, context: TargetContext
) -> None:
    target = made("block", drive="seagate-st3750640ns", size="256 MiB")
    directory = target.prepare(context).directory
    again = f"import sys\nfor _ in range(int(sys.argv[2])):\n exec({IN_ORDER!r})"
    try:
        assert directory is not None
        file = written(directory, 64 << 20)
        with MemoryLimit(journal, 40 << 20) as limit:
            inside = f'echo $$ > \'{limit.group}/cgroup.procs\'; exec "$0" -c "$1" "$2" "$3"'
            command = ("sh", "-c", inside, sys.executable, again, str(file))
            verdict, ended = decided(lambda times: why(workspace, *command, str(times)), 6)
        assert verdict["limit"]["kind"] == "memory", ended.stderr
        assert part(verdict, "memory") > 0.3, ended.stderr
        assert verdict["observation"]["memory_limit_bytes"] == 40 << 20
        assert "memory: what it had read was dropped" in ended.stderr
        if honest(verdict, ended.stderr):
            advice = verdict["advice"]
            seconds = {each["name"]: each["seconds"] for each in advice["changes"]}
            # All but the first reading would come from memory.
            assert seconds["memory for all that it reads"] < 0.6 * advice["present_s"]
    finally:
        target.release(context)


THRASH = """
import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
while True:
    os.pread(file, 4096, random.randrange(44 << 20) & ~4095)
"""


@needs_root
def test_another_program_that_lacks_memory(journal: Journal, tmp_path: Path) -> None:
    """The kernel's counter for the machine counts its waits, too; this program has enough."""
    file = written(tmp_path, 44 << 20)
    begun_us = stalled_us()
    with MemoryLimit(journal, 40 << 20) as limit, subprocess.Popen(["sleep", "600"]) as program:
        inside = f'echo $$ > \'{limit.group}/cgroup.procs\'; exec "$0" -c "$1" "$2"'
        command = ["sh", "-c", inside, sys.executable, THRASH, str(file)]
        others = [subprocess.Popen(command) for _ in range(2)]
        try:
            with TreeSampler(program.pid) as sampler:
                assert wait_until(lambda: stalled_us() > begun_us + 100_000, 120, 0.1)
        finally:
            for each in [*others, program]:
                each.kill()
                each.wait()
    assert sampler.memory_stall_s == 0


@needs_root
def test_the_memory_limit_of_a_program_is_known_after_its_end(journal: Journal) -> None:
    """Until it is waited for, /proc shows it in the topmost group, which has no limit."""
    with MemoryLimit(journal, 40 << 20) as limit:
        inside = f"echo $$ > '{limit.group}/cgroup.procs'; exec sleep 300"
        with subprocess.Popen(["sh", "-c", inside]) as program:
            try:
                with TreeSampler(program.pid) as sampler:
                    assert wait_until(lambda: sampler.memory.limit_bytes > 0, 30, 0.02)
                    program.kill()
                    time.sleep(0.5)  # several looks
            finally:
                program.kill()
    assert sampler.memory.limit_bytes == 40 << 20


def stalled_us() -> int:
    return pressure_totals_us(Path("/proc/pressure/memory").read_bytes())[0]


def test_requests_over_a_lasting_connection(workspace: Workspace, port: str) -> None:
    """The server takes 50 ms, the way there microseconds: a nearer server would save nothing."""

    def judge(number: int) -> Judged:
        return why(workspace, sys.executable, "-c", CLIENT, port, "lasting", str(number))

    verdict, ended = decided(judge, 80)
    assert verdict["limit"]["kind"] == "connection", ended.stderr
    use = verdict["observation"]["connection_use"]
    made = int(verdict["observation"]["command"][-1])
    assert use["connections"] == 1 and use["requests"] == pytest.approx(made, rel=0.15)
    assert use["received_bytes"] / use["requests"] == pytest.approx(65536, rel=0.05)
    assert 0 < use["round_trip_s"] < 1e-3
    assert re.search(rf"127.0.0.1:{port}: \d+ requests of 6\d.* kB, [\d.]+ ms each", ended.stderr)
    assert honest(verdict, ended.stderr), ended.stderr
    advice = verdict["advice"]
    seconds = {each["name"]: each["seconds"] for each in advice["changes"]}
    waits_s = sum(
        each["seconds"] for each in verdict["observation"]["shares"] if each["kind"] == "connection"
    )
    rest_s = advice["measured_s"] - waits_s
    assert seconds["a server that answers at once"] == pytest.approx(rest_s, abs=0.25 * waits_s)
    assert seconds["8 requests in flight"] == pytest.approx(
        rest_s + waits_s / 8, abs=0.25 * waits_s
    )
    assert "a server at no distance" not in seconds


@pytest.mark.quiet(seconds=30)
def test_requests_over_a_connection_each_cannot_be_counted(workspace: Workspace, port: str) -> None:
    def judge(number: int) -> Judged:
        return why(workspace, sys.executable, "-c", CLIENT, port, "short", str(number))

    verdict, ended = decided(judge, 80)
    assert verdict["limit"]["kind"] == "connection", ended.stderr
    assert verdict["advice"] is None
    said = " ".join(ended.stderr.split())
    assert "no connection lasted long enough to count its requests" in said


FSYNCS = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for number in range(int(sys.argv[2])):
    os.pwrite(file, bytes(8192), 8192 * number)
    os.fsync(file)
"""
SYNCHRONOUS = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
for number in range(int(sys.argv[2])):
    os.pwrite(file, bytes(8192), 8192 * number)
"""
COMMITS = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("create table if not exists runs (number integer)")
for number in range(int(sys.argv[2])):
    database.execute("insert into runs values (?)", (number,))
    database.commit()
"""
MAPS = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 8192 * int(sys.argv[2]))
mapped = mmap.mmap(file, 0)
for number in range(int(sys.argv[2])):
    mapped[8192 * number : 8192 * (number + 1)] = bytes([1]) * 8192
    mapped.flush(8192 * number, 8192)
"""
CHECKPOINTS = """
import os, sys
for number in range(int(sys.argv[2])):
    with open(sys.argv[1], "wb") as file:
        file.write(bytes(16 << 20))
        file.flush()
        os.fsync(file.fileno())
"""


@needs_root
@pytest.mark.parametrize(
    ("code", "least", "calls", "fewer"),
    [
        (FSYNCS, 50, "fsyncs", "one fsync instead of 10"),
        (SYNCHRONOUS, 50, "synchronous writes", "one synchronous write instead of 10"),
        (COMMITS, 20, "fsyncs", "one fsync instead of 10"),
        (CHECKPOINTS, 5, "fsyncs", ""),
        (MAPS, 50, "fsyncs", "one fsync instead of 10"),
    ],
    ids=["fsync", "O_DSYNC", "sqlite", "checkpoints", "msync"],
)
def test_writes_that_wait_are_named_and_simulated(
    workspace: Workspace, context: TargetContext, code: str, least: int, calls: str, fewer: str
) -> None:
    target = made("block", drive="seagate-st3750640ns", size="256 MiB")
    directory = target.prepare(context).directory
    try:
        command = (sys.executable, "-c", code, f"{directory}/a file")
        verdict, ended = decided(lambda times: why(workspace, *command, str(times)), least)
        assert verdict["limit"]["kind"] == "block", ended.stderr
        access = verdict["limit"]["access"]
        assert access["slowest_other"] == calls
        # To copy 16 MiB in a write takes CPU time, and on a busy machine waits for a CPU.
        waited_s = part(verdict, "block") * verdict["observation"]["wall_s"]
        waited_s = access["waited_s"] if fewer else waited_s
        assert access["slow_others"] * access["slow_other_s"] > 0.8 * waited_s
        assert access["slow_other_files"][0].startswith(f"{directory}/a file")
        named = rf"Limit: \w+: \d+ {calls} of [\d.]+ m?s \(a file.*\)"
        if code != MAPS:  # when pages of a map are written is not seen
            named += r"; [\d.]+ \wB written"
        assert re.search(named, ended.stderr), ended.stderr
        if not honest(verdict, ended.stderr):
            return
        advice = verdict["advice"]
        seconds = {each["name"]: each["seconds"] for each in advice["changes"]}
        waits_s = access["slow_others"] * access["slow_other_s"]
        rest_s = advice["present_s"] - waits_s
        if fewer:
            assert seconds[fewer] == pytest.approx(rest_s + waits_s / 10, abs=0.15 * waits_s)
            # A flush of capacitors is nothing, of flash about a millisecond; of a disk, a rotation.
            protected_s = seconds["an NVMe drive with power-loss protection"]
            assert protected_s < seconds["a SATA SSD"] < rest_s + 0.3 * waits_s
        else:
            assert seconds["a SATA SSD"] < rest_s + 0.5 * waits_s
            assert not any("instead of" in name for name in seconds)
        shown = workspace.run("profile", "show", "kept/profile.toml")
        assert re.search(named, shown.stdout), shown.stdout
        assert (fewer or "a SATA SSD") in " ".join(shown.stdout.split())
    finally:
        target.release(context)
