"""An emulated drive whose process is killed or stopped while a file system is mounted on it and
jobs write: they get errors in bounded time, nothing hangs, and the undo journal clears mount,
loop device and process.

The run is a forked child that attaches, formats, mounts and starts the jobs; it is killed too,
as in a crash.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import entry
from headrace.system import emulator, loops, processes
from headrace.system.journal import Journal, pending_journals, undo
from headrace.system.mounts import mount
from headrace.system.owned import work_directory
from machine import mounts_below

pytestmark = pytest.mark.usefixtures("needs_root")

MIB = 1 << 20
WITHIN_S = 30.0
"""What the jobs may wait at most, whatever befell the emulator."""
JOBS = """
[global]
size=48m
rw=randwrite
bs=16k
time_based
runtime=300
[cached]
fsync=8
[direct]
direct=1
ioengine=libaio
iodepth=8
"""


def whole_run(folder: Path, place: Path, filesystem: str, answer: int) -> None:
    """Attaches, formats, mounts, starts jobs, and says on `answer` who is who."""
    with Journal.open("a run that is killed", place) as journal:
        directory, _ = work_directory(journal, folder)
        storage = {"drives": [entry("drives", "kingston-ssdnow-v-128gb").table]}
        device = emulator.attach(journal, storage, 512 * MIB, directory, seed=1)
        subprocess.run([f"mkfs.{filesystem}", "-q", str(device.device)], check=True)
        mounted = directory / "mount"
        mounted.mkdir()
        mount(journal, str(device.device), mounted, filesystem)
        (directory / "jobs.fio").write_text(JOBS)
        jobs = processes.start_process(
            journal,
            ["fio", f"--directory={mounted}", str(directory / "jobs.fio")],
            outlives_us=True,
        )
        said = {
            "daemon": device.pid,
            "jobs": jobs.pid,
            "name": device.name,
            "label": loops.label_of(device.name),
        }
        os.write(answer, json.dumps(said).encode())
        time.sleep(600)


def start(folder: Path, place: Path, filesystem: str) -> tuple[int, dict[str, Any]]:
    """The run's process id, and what it said once its jobs write."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            whole_run(folder, place, filesystem, writer)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = json.loads(os.read(answer.fileno(), 4096))
    return pid, said


def guard_of(daemon: int) -> int:
    return int(Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()[0])


def hanging(pids: list[int]) -> list[str]:
    return [f"{pid}: {processes.state(pid)}" for pid in pids if processes.state(pid) == "D"]


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for each in found:
        try:
            found += [
                int(child)
                for child in Path(f"/proc/{each}/task/{each}/children").read_text().split()
            ]
        except OSError:
            continue
    return found


def strike_and_undo(folder: Path, filesystem: str, victims: str, after_s: float) -> float:
    """Strikes the emulator under load, kills the run, undoes.

    Returns how long the jobs waited for their errors.
    """
    place = folder / "journal"
    run, said = start(folder, place, filesystem)
    daemon, jobs = said["daemon"], said["jobs"]
    try:
        time.sleep(after_s)
        load = family(jobs)
        assert processes.state(jobs) != "gone", "the jobs write"
        guard = guard_of(daemon)
        struck = time.monotonic()
        os.kill(daemon, signal.SIGKILL if victims == "killed" else signal.SIGSTOP)
        if victims == "all stopped":
            os.kill(guard, signal.SIGSTOP)
        while any(processes.state(pid) not in ("gone", "Z") for pid in load):
            assert time.monotonic() - struck < WITHIN_S + 5, f"jobs hang: {hanging(load)}"
            time.sleep(0.02)
        waited_s = time.monotonic() - struck
    finally:
        os.kill(run, signal.SIGKILL)
        os.waitpid(run, 0)
        begun = time.monotonic()
        results = [result for found in pending_journals(place) for result in undo(found.file)]
        took_s = time.monotonic() - begun
    assert [result.text for result in results if not result.done] == []
    assert took_s < WITHIN_S
    assert mounts_below(folder) == []
    assert loops.labelled(said["label"]) == []
    assert processes.state(daemon) in ("gone", "Z")
    if victims == "all stopped":
        os.kill(guard, signal.SIGCONT)
    assert [path.name for path in folder.iterdir() if path.name != "journal"] == []
    return waited_s


@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
def test_killed(tmp_path: Path, filesystem: str) -> None:
    assert strike_and_undo(tmp_path, filesystem, "killed", 1.0) < 5


def test_stopped(tmp_path: Path) -> None:
    """Its guard kills it."""
    assert strike_and_undo(tmp_path, "ext4", "stopped", 1.0) < 15


@pytest.mark.heavy
def test_stopped_with_its_guard(tmp_path: Path) -> None:
    """The kernel gives it up (FUSE request timeout, Linux 6.14)."""
    assert strike_and_undo(tmp_path, "ext4", "all stopped", 1.0) < WITHIN_S


@pytest.mark.heavy
def test_many_times(tmp_path: Path) -> None:
    chance = random.Random(4)
    for number in range(24):
        folder = tmp_path / str(number)
        folder.mkdir()
        victims = "stopped" if number % 4 == 3 else "killed"
        waited_s = strike_and_undo(
            folder, chance.choice(["ext4", "xfs", "btrfs"]), victims, chance.uniform(0.0, 2.0)
        )
        assert waited_s < 15
