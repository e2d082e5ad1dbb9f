"""A run that is killed at any instruction is undone by the next command: no mount, loop device,
setting, file or process is left.

The run is real: an image, a loop device, a file system, a mount, settings of its queue, a memory
limit, a process. It is a forked child that kills itself with SIGKILL after its k-th line of
Headrace's code, for many k, or is killed by the clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headrace.system import loops, processes, shared_settings
from headrace.system.cgroups import MemoryLimit, hierarchy
from headrace.system.facts import delay_accounting, enable_delay_accounting
from headrace.system.journal import Journal, pending_journals, undo
from headrace.system.owned import work_directory
from headrace.targets import TargetContext
from headrace.targets.block import BlockOptions, BlockTarget
from machine import loops_below, mounts_below, queue_of

# Alone: they look whether settings of the kernel are restored that other runs of Headrace change.
pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("needs_root")]

OPTIONS = BlockOptions(image="disk.img", size=16 << 20, filesystem="ext4", mount=("noatime",))  # pyright: ignore[reportCallIssue]

DELAYACCT = "/proc/sys/kernel/task_delayacct"


def queues_file(folder: Path) -> Path:
    """Where a run writes down what its devices' queues are like before it changes them."""
    return folder.with_name(f"{folder.name}.queues")


SLEEPER = ["sleep", f"300.{os.getpid()}"]
SLEEPER_BYTES = [b"/usr/bin/sleep", SLEEPER[1].encode()]


def whole_run(folder: Path, journal_place: Path) -> None:
    """Everything that a measured trial does to the machine."""
    with Journal.open("a run that is killed", journal_place) as journal:
        enable_delay_accounting(journal)
        work, _ = work_directory(journal, folder)
        context = TargetContext(work, journal)
        target = BlockTarget("disk", OPTIONS.model_copy(update={"image": str(folder / "disk.img")}))
        target.prepare(context)
        note_queues(folder)
        settings = {"scheduler": "bfq", "queue_depth": 16, "read_ahead": 65536}
        target.apply(OPTIONS.model_copy(update=settings), context)
        with MemoryLimit(journal, 64 << 20) as limit:
            sleeper = processes.start_process(journal, SLEEPER, outlives_us=True)
            limit.add(sleeper.pid)
            sleeper.stop()
        target.release(context)


def note_queues(folder: Path) -> None:
    queues_file(folder).write_text(
        json.dumps({disk: queue_of(disk) for disk in loops_below(folder)})
    )


def assert_queues_are_as_before(disks: Iterable[str], folder: Path) -> None:
    """A device that another run has attached meanwhile is that run's.

    Its queue says nothing of ours.
    """
    before = json.loads(queues_file(folder).read_text())
    for disk in disks:
        now = queue_of(disk)
        if disk not in loops.attached():
            assert list(now) == before[disk]


def lines_counted(action: Callable[[], None], kill_at: int | None) -> int:
    """Runs `action` and counts the lines of Headrace's own code that it takes.

    Kills this process at one of them.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if "/headrace/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(None)
    return count


def in_child(action: Callable[[], object]) -> int:
    """Runs `action` in a forked child; returns its process id at once."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return pid


def assert_nothing_is_left(pid: int, folder: Path) -> None:
    assert mounts_below(folder) == []
    assert loops_below(folder) == []
    assert [path.name for path in folder.iterdir() if path.name != "journal"] == []
    place = hierarchy("memory")
    assert place is not None
    assert not list(place.own.glob(f"headrace-{pid}-*"))
    assert our_sleepers() == []


def undo_everything(journal_place: Path, folder: Path) -> int:
    """What `headrace undo` does; the settings that a journal names then stand as before.

    Return how many journals there were.
    """
    found = pending_journals(journal_place)
    for pending in found:
        results = undo(pending.file)
        assert [result for result in results if not result.done] == []
        disks = {entry.args["disk"] for entry in pending.entries if entry.action == "restore_queue"}
        if disks:
            assert_queues_are_as_before(disks, folder)
        if any("task_delayacct" in entry.args.get("path", "") for entry in pending.entries):
            # Unless another run of Headrace on this machine needs it.
            assert not delay_accounting() or shared_settings.holders(DELAYACCT)
    assert not journal_place.is_dir() or list(journal_place.iterdir()) == []
    return len(found)


def our_sleepers() -> list[str]:
    """Processes of the run that outlived it."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == b"\0".join(
                [*SLEEPER_BYTES, b""]
            ):
                found.append(entry.name)
    return found


def test_killed_at_many_lines(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    place = tmp_path / "journal"
    pid = in_child(
        lambda: os.write(
            writer, str(lines_counted(lambda: whole_run(tmp_path, place), None)).encode()
        )
    )
    assert os.waitpid(pid, 0)[1] == 0
    total = int(os.read(reader, 20))
    assert total > 1000
    assert_nothing_is_left(pid, tmp_path)

    killed = found = 0
    for line in random.Random(total).sample(range(1, total + 1), 80):
        if killed == 36:
            break
        pid = in_child(lambda line=line: lines_counted(lambda: whole_run(tmp_path, place), line))
        # How often it looks while it waits differs, so the last lines may not be reached: on a busy
        # machine, the counted run may have had many more than the others.
        killed += os.waitpid(pid, 0)[1] == signal.SIGKILL
        found += undo_everything(place, tmp_path)
        assert_nothing_is_left(pid, tmp_path)
    assert killed == 36
    assert found > 24, "most kills strike while something is to be undone"


def test_killed_at_many_moments(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    start = time.monotonic()
    pid = in_child(lambda: whole_run(tmp_path, place))
    assert os.waitpid(pid, 0)[1] == 0
    whole_s = time.monotonic() - start
    chance = random.Random(2)
    for _ in range(20):
        pid = in_child(lambda: whole_run(tmp_path, place))
        time.sleep(chance.uniform(0, whole_s))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        undo_everything(place, tmp_path)
        assert_nothing_is_left(pid, tmp_path)


def test_undo_that_is_killed_itself(tmp_path: Path) -> None:
    place = tmp_path / "journal"

    def run_up_to_the_jobs() -> None:
        journal = Journal.open("a run that is killed", place)
        enable_delay_accounting(journal)
        work, _ = work_directory(journal, tmp_path)
        target = BlockTarget(
            "disk", OPTIONS.model_copy(update={"image": str(tmp_path / "disk.img")})
        )
        target.prepare(TargetContext(work, journal))
        note_queues(tmp_path)
        target.apply(
            OPTIONS.model_copy(update={"scheduler": "bfq", "queue_depth": 8}),
            TargetContext(work, journal),
        )
        limit = MemoryLimit(journal, 64 << 20)
        limit.add(processes.start_process(journal, SLEEPER, outlives_us=True).pid)
        os.kill(os.getpid(), signal.SIGKILL)

    for line in (40, 120, 200, 280, 360, 440, 520):
        os.waitpid(in_child(run_up_to_the_jobs), 0)
        (pending,) = pending_journals(place)
        pid = in_child(lambda line=line, file=pending.file: lines_counted(lambda: undo(file), line))
        os.waitpid(pid, 0)
        undo_everything(place, tmp_path)
        assert_nothing_is_left(pid, tmp_path)
