"""Control groups of watched jobs, and the I/O of other programs: a loop device that only the test
reads, so that bytes are exact."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.system.cgroups import hierarchy, make_group
from headrace.system.journal import Journal
from headrace.system.waiting import wait_until
from headrace.watching import NodeSample, Watcher
from headrace.watching.finders.cgroup import CgroupFinder
from headrace.watching.finders.pid import PidFinder
from headrace.watching.metrics import WatchMetrics
from headrace.watching.own_groups import MovedBytes, OwnGroups

pytestmark = pytest.mark.usefixtures("needs_root")
SIZE = 16 << 20
# It waits for a line, reads the device past the page cache, and waits again.
READER = 'read line; dd if="$1" of=/dev/null bs=1M iflag=direct 2>/dev/null; echo done; read line'


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "a disk"
    file.write_bytes(bytes(SIZE))
    name = subprocess.check_output(["losetup", "-f", "--show", file], text=True).strip()
    yield Path(name)
    subprocess.run(["losetup", "-d", name], check=True)


def reader(device: Path) -> subprocess.Popen[bytes]:
    argv = ["sh", "-c", READER, "sh", str(device)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def while_it_reads(process: subprocess.Popen[bytes], watched: int) -> NodeSample:
    """The look after the reads, which happen while the process `watched` is watched."""
    assert process.stdin is not None and process.stdout is not None
    with Watcher(PidFinder([str(watched)])) as watcher:
        watcher.look()
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"done\n"
        return watcher.look()


def test_the_reads_of_a_program_that_is_not_watched_are_foreign(device: Path) -> None:
    with reader(device) as process:
        try:
            sample = while_it_reads(process, os.getppid())
        finally:
            process.kill()
    assert sample.foreign_io[device.name] == MovedBytes(SIZE, 0)


def test_the_group_of_a_job_counts_its_bytes_by_device(device: Path, journal: Journal) -> None:
    """They are not foreign then."""
    found = hierarchy("io") or hierarchy("blkio")
    if found is None:
        pytest.skip("no control group counts I/O here")
    group, entries = make_group(journal, "io" if found.version == 2 else "blkio")
    if found.version == 1:  # it counts a device with a limit
        number = device.stat().st_rdev
        limit = f"{os.major(number)}:{os.minor(number)} {1 << 50}"
        (group / "blkio.throttle.read_bps_device").write_text(limit)
    try:
        with reader(device) as process:
            (group / "cgroup.procs").write_text(str(process.pid))
            try:
                sample = while_it_reads(process, process.pid)
            finally:
                process.kill()
    finally:
        journal.put_back(entries)
    (job,) = sample.jobs
    assert job.group_last is not None and job.group_total is not None
    assert job.group_last.io[device.name] == MovedBytes(SIZE, 0)
    assert device.name not in sample.foreign_io
    wanted = "io.stat" if found.version == 2 else "blkio.throttle.io_service_bytes_recursive"
    assert any(wanted in source for source in job.sources)
    metrics = WatchMetrics()
    metrics.add(sample)
    rows = {
        (row.labels["device"], row.labels["direction"]): row.value
        for family in metrics.collect()
        for row in family.samples
        if row.name == "headrace_watch_group_bytes_total"
    }
    assert rows[device.name, "read"] == SIZE


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """Two groups of version 2 with one last name."""
    top = next(
        (
            Path(line.split()[1])
            for line in Path("/proc/mounts").read_text().splitlines()
            if line.split()[2] == "cgroup2"
        ),
        None,
    )
    if top is None or not (top / "cpu.pressure").exists():
        pytest.skip("no control groups of version 2 with pressure here")
    # Names of their own: a look at a group is good for 20 ms, also where it is made anew.
    mark = os.urandom(4).hex()
    above = [top / f"headrace-test-{mark}-{number}" for number in range(2)]
    made = [each / "step" for each in above]
    for each in made:
        each.mkdir(parents=True)
    yield made
    for each in (*made, *above):
        each.rmdir()


def test_a_job_that_moves_to_another_group_is_counted_there(groups: list[Path]) -> None:
    """The group before goes on to exist, as that of a node does when a step of a job begins."""
    spin = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "sh", "-c", "while :; do :; done"]
    running = [subprocess.Popen(spin) for _ in range(2)]
    pids = {process.pid for process in running}
    own = OwnGroups(own_s=0.0)

    def pressed() -> bool:
        found = own.use(pids)
        return found is not None and found.stalls["cpu"].some_s > 0

    try:
        for group in groups:
            for pid in pids:
                (group / "cgroup.procs").write_text(str(pid))
            assert own.use(pids) is None, "counts of two groups are not subtracted"
            assert wait_until(pressed, 60, 0.05)
    finally:
        own.close()
        for process in running:
            process.kill()
            process.wait()


def test_pressure_of_groups_and_labels_of_groups_with_one_name(groups: list[Path]) -> None:
    """Two programs on one CPU in one group press; one that sleeps in another does not."""
    spin = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "sh", "-c", "while :; do :; done"]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for argv, group in ((spin, groups[0]), (spin, groups[0]), (["sleep", "60"], groups[1])):
            running.append(subprocess.Popen(argv))
            (group / "cgroup.procs").write_text(str(running[-1].pid))
        metrics = WatchMetrics()
        with Watcher(CgroupFinder([str(each) for each in groups])) as watcher:
            sample = watcher.watch(1.0)
        metrics.add(sample)
    finally:
        for process in running:
            process.kill()
            process.wait()
    stalls = {job.key: job.group_total.stalls["cpu"] for job in sample.jobs if job.group_total}
    assert stalls[str(groups[0])].some_s > 0.5 * sample.interval_s
    assert stalls[str(groups[1])].some_s < 0.2 * sample.interval_s
    watched = [
        row.labels["watched"]
        for family in metrics.collect()
        for row in family.samples
        if row.name == "headrace_watch_processes"
    ]
    assert sorted(watched) == sorted(map(str, groups))
