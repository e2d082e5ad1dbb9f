"""Counters of clients of network storage: what kernels and Lustre print, and a FUSE mount."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.system.mounts import Mount, parse_mountinfo
from headrace.system.waiting import wait_until
from headrace.watching import Watcher, clients, view
from headrace.watching.as_json import line
from headrace.watching.client_counters import (
    ClientCounts,
    Operations,
    ceph_counts,
    lustre_counts,
    nfs_counts,
)
from headrace.watching.clients import ClientSample, StorageClients
from headrace.watching.finders.pid import PidFinder
from headrace.watching.metrics import WatchMetrics
from headrace.watching.watcher import NodeSample

# As net/sunrpc/stats.c and fs/nfs/super.c print it: Linux 5.3 and later add errors as a 9th number.
MOUNTSTATS = """\
device proc mounted on /proc with fstype proc
device server:/export mounted on /a\\040mount with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp
\tage:\t120
\tcaps:\tcaps=0x3fffbfff,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
\tbytes:\t5000 600 70 8 4096000 512000 1000 125
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 1 0 0 1200 1200 0 1200 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 1000 1001 1 240000 4160000 20 2000 2500 0
\t       WRITE: 10 10 0 520000 1600 1 40 50 0
\t        OPEN: 5 5 0 1500 2000 0 10 12 0
\t     GETATTR: 20 20 0 4000 5000 0 15 18 1

device tmpfs mounted on /tmp with fstype tmpfs
"""
# As lprocfs_stats_print (obdclass/lprocfs_status.c) prints it: Lustre 2.10, and 2.15 with times.
LUSTRE_2_10 = """\
snapshot_time             1523008010.817348638 secs.nsecs
read_bytes                2048 samples [bytes] 1024 1024 2097152
write_bytes               1 samples [bytes] 1048576 1048576 1048576
open                      3 samples [regs]
close                     3 samples [regs]
"""
LUSTRE_2_15 = """\
snapshot_time             1783960164.279418700 secs.nsecs
start_time                1783705564.331211471 secs.nsecs
elapsed_time              254599.948207229 secs.nsecs
read_bytes                10 samples [bytes] 4096 1048576 5242880 2748779069440
write_bytes               4 samples [bytes] 4096 1048576 2097152 1099511627776
read                      10 samples [usecs] 20 9000 40000 160000000
write                     4 samples [usecs] 30 700 2000 1000000
open                      2 samples [usecs] 100 200 300 50000
getattr                   1 samples [usecs] 7 7 7 49
"""
# As fs/ceph/debugfs.c prints it: one file before Linux 5.17, then `latency` and `size`.
CEPH_LATENCY = """\
item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)
-----------------------------------------------------------------------------------
read          40          2000            1000            10000           607
write         5           914013          824797          1092343         103476
metadata      79          12856           1572            114572          13262
"""
CEPH_SIZE = """\
item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)
----------------------------------------------------------------------------------------
read          40          4096            4096            4096            163840
write         5           4194304         4194304         4194304         20971520
"""
CEPH_OLD = f"""\
item                               total
------------------------------------------
opened files  / total inodes       0 / 4
pinned i_caps / total inodes       5 / 4

{CEPH_LATENCY}
{CEPH_SIZE}
item          total           miss            hit
-------------------------------------------------
d_lease       11              0               29
caps          5               68              10702
"""


def near(operations: Operations) -> Operations:
    """The same with times that may differ by rounding."""
    time_s, trip_s = (round(value, 9) for value in (operations.time_s, operations.round_trip_s))
    return Operations(operations.number, operations.bytes, time_s, trip_s)


def test_mounts_of_nfs() -> None:
    ((place, counts),) = nfs_counts(MOUNTSTATS)
    assert place == "/a mount"
    assert near(counts.read) == Operations(1000, 4096000, 2.5, 2.0)
    assert near(counts.write) == Operations(10, 512000, 0.05, 0.04)
    assert near(counts.other) == Operations(26, 0, 0.03, 0.025)
    assert dict(nfs_counts("device proc mounted on /proc with fstype proc\n")) == {}


def test_clients_of_lustre() -> None:
    assert lustre_counts(LUSTRE_2_10) == ClientCounts(
        Operations(2048, 2097152), Operations(1, 1048576), Operations(6)
    )
    counts = lustre_counts(LUSTRE_2_15)
    assert near(counts.read) == Operations(10, 5242880, 0.04)
    assert near(counts.write) == Operations(4, 2097152, 0.002)
    assert near(counts.other) == Operations(3, 0, 0.000307)


@pytest.mark.parametrize("text", [CEPH_OLD, f"{CEPH_LATENCY}\n{CEPH_SIZE}"])
def test_clients_of_cephfs(text: str) -> None:
    counts = ceph_counts(text)
    assert near(counts.read) == Operations(40, 163840, 0.08)
    assert near(counts.write) == Operations(5, 20971520, 4.570065)
    assert near(counts.other) == Operations(79, 0, 1.015624)


_MOUNTINFO = (
    "30 1 0:40 / /data rw - nfs4 server:/export rw\n"
    "31 1 0:41 / /work rw - lustre 10.0.0.1@tcp:/scratch rw\n"
    "32 1 0:42 / /home rw - ceph user@0f923fe5-00e6.home=/ rw\n"
)


def test_counters_are_found_by_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a machine with all three, laid out as kernels do; the second look shows what was
    done since the first."""
    stats = tmp_path / "debug" / "lustre" / "llite" / "scratch-ffff9bc043537800" / "stats"
    latency = tmp_path / "debug" / "ceph" / "0f923fe5-00e6.client4150" / "metrics" / "latency"
    mountstats = tmp_path / "proc" / str(os.getpid()) / "mountstats"
    for file, text in (
        (stats, LUSTRE_2_10),
        (latency, CEPH_LATENCY),
        (latency.with_name("size"), CEPH_SIZE),
        (mountstats, MOUNTSTATS.replace("/a\\040mount", "/data")),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(clients, "_DEBUG", tmp_path / "debug")
    monkeypatch.setattr(clients, "_PROC", tmp_path / "proc")

    def mounts(_: int) -> list[Mount]:
        return parse_mountinfo(_MOUNTINFO)

    monkeypatch.setattr(clients, "read_mounts", mounts)
    found = StorageClients()
    assert {each.mount: each.last for each in found.look([])} == dict.fromkeys(
        ("/data", "/work", "/home"), ClientCounts()
    )
    stats.write_text(LUSTRE_2_10.replace("2048 samples", "2058 samples"))
    latency.with_name("size").write_text(CEPH_SIZE.replace("163840", "167936"))
    mountstats.write_text(mountstats.read_text().replace("4096000", "5096000"))
    samples = {each.mount: (each.kind, each.last, each.total) for each in found.look([])}
    for place, kind, read in (
        ("/data", "nfs", Operations(bytes=1000000)),
        ("/work", "lustre", Operations(10)),
        ("/home", "ceph", Operations(bytes=4096)),
    ):
        counts = ClientCounts(read)
        assert samples[place] == (kind, counts, counts)


@pytest.fixture
def silent_fuse(tmp_path: Path, needs_root: None) -> Iterator[Path]:
    """A FUSE mount whose server never answers, as a dead one; the kernel's list of connections is
    mounted while it stands."""
    libc = ctypes.CDLL(None, use_errno=True)
    listed = Path("/sys/fs/fuse/connections")
    if not Path("/dev/fuse").exists():
        pytest.skip("this kernel has no FUSE")
    handle = os.open("/dev/fuse", os.O_RDWR)
    place = tmp_path / "silent"
    place.mkdir()
    options = f"fd={handle},rootmode=40000,user_id=0,group_id=0".encode()
    mine = not os.path.ismount(listed)
    assert libc.mount(b"silent", bytes(place), b"fuse", 0, options) == 0
    try:
        if mine:
            assert libc.mount(b"fusectl", bytes(listed), b"fusectl", 0, None) == 0
        yield place
    finally:
        os.close(handle)  # ends the connection, and whoever waits
        libc.umount2(bytes(place), 2)
        if mine:
            libc.umount2(bytes(listed), 0)


def test_requests_that_wait_for_a_fuse_server(silent_fuse: Path) -> None:
    read = [sys.executable, "-c", f"open({str(silent_fuse / 'a file')!r})"]
    with subprocess.Popen(read, stderr=subprocess.DEVNULL) as process:
        try:
            metrics, seen = WatchMetrics(), 0
            with Watcher(PidFinder([str(process.pid)]), samples_per_s=400) as watcher:

                def waits() -> bool:
                    nonlocal seen
                    sample = watcher.watch(0.1)
                    metrics.add(sample)
                    told = {each["mount"]: each for each in json.loads(line(sample))["clients"]}
                    seen = told[str(silent_fuse)]["waiting"]
                    return bool(seen > 1 and sample.jobs[0].last.ledger.wait_network_s > 0)

                assert wait_until(waits, 30, 0.01)
        finally:
            process.kill()
    rows = {
        row.labels["mount"]: row.value
        for family in metrics.collect()
        for row in family.samples
        if row.name == "headrace_watch_client_waiting"
    }
    # The first request of a connection, and that of the program.
    assert rows[str(silent_fuse)] == seen == 2


@pytest.mark.parametrize(("time_s", "said"), [(1.234, "123 ms"), (0.0512, "5.1 ms"), (0.0, "")])
def test_the_time_of_slow_operations_has_no_exponent(time_s: float, said: str) -> None:
    counts = ClientCounts(read=Operations(10, 1_000_000, time_s))
    sample = NodeSample(0.0, 1.0, (), 0.0, clients=(ClientSample("/mnt", "nfs", counts, counts),))
    (told,) = view.clients(sample)
    assert told == f"nfs /mnt: read 1.00 MB/s 10/s {said}".rstrip(), told
