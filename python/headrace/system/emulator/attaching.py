"""Attach an emulated drive: process, FUSE file, loop device, queue; each journalled first."""

from __future__ import annotations

import json
import os
import select
import stat
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import HeadraceError, MissingError, Problem
from headrace.scenario import StorageSpec
from headrace.system import loops, mounts, processes
from headrace.system.emulator.control import ask
from headrace.system.emulator.device import EmulatedDevice
from headrace.system.emulator.idle_cpus import keep_awake
from headrace.system.emulator.issues import watch_issues
from headrace.system.emulator.limits import data_limit, fastest_ns, memory_bytes, refusal
from headrace.system.emulator.queue_shape import QueueShape, apply_shape, queue_shape
from headrace.system.identity import start_ticks
from headrace.system.journal import Journal, JournalEntry
from headrace.system.own_programs import own_program

PROGRAM = "headrace-emulator"
CONTROL = "control"
LABEL = "headrace-emulated-"
REQUEST_TIMEOUT_S = 12
"""The kernel checks every 15 s, so it drops a device after at most 27 s.

The emulator's own watchdog is faster.
"""
_START_S = 30.0


def cannot_emulate(needed_by: str) -> list[Problem]:
    """Return what this machine lacks for emulated drives. Changes nothing."""
    without = "headrace simulate takes the same drives in virtual time, with no such need"
    found: list[Problem] = []
    if os.geteuid() != 0:
        found.append(
            Problem(
                "emulating a drive needs root",
                needed_by,
                "run as root (sudo headrace …)",
                without=without,
            )
        )
        return found
    if not _is_character_device("/dev/fuse"):
        found.append(
            Problem(
                "this kernel has no FUSE (/dev/fuse)", needed_by, "modprobe fuse", without=without
            )
        )
    if not Path("/dev/loop-control").exists():
        found.append(
            Problem("this kernel has no loop devices", needed_by, "modprobe loop", without=without)
        )
    try:
        own_program(PROGRAM)
    except MissingError as error:
        found.append(Problem(error.message, needed_by, error.hint or "", without=without))
    return found


def _is_character_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(Path(path).stat().st_mode)
    except OSError:
        return False


def attach(
    journal: Journal,
    storage: StorageSpec,
    size_bytes: int,
    directory: Path,
    *,
    seed: int,
    queue: QueueShape | None = None,
    data_limit_bytes: int | None = None,
) -> EmulatedDevice:
    """Create a block device of `size_bytes` with the timing of `storage`, a `StorageSpec`.

    The device is the start of the drive (sector n is the drive's sector n), so a small device
    behaves like a partition on the fastest part of a disk. `directory` is a private one that exists
    as long as the device. The device holds at most `data_limit_bytes` of data, its whole size when
    None. An empty `storage` completes requests at once (to measure the emulator itself).

    Raises MissingError for what the machine lacks, HeadraceError when the drive is too fast, the
    size does not fit into memory, or anything else fails; nothing is left then.
    """
    _check(storage)
    size_bytes -= size_bytes % 4096
    limit = data_limit(size_bytes, data_limit_bytes)
    shape = queue or (
        queue_shape(storage) if storage else QueueShape(128, "none", 128 << 10, rotational=False)
    )
    mount, control = directory / "file", directory / CONTROL
    entries: list[JournalEntry] = []
    mount.mkdir(mode=0o700)
    label = LABEL + os.urandom(8).hex()
    config = {
        "source": label,
        "mount": str(mount),
        "control": str(control),
        "size_bytes": size_bytes,
        "data_limit_bytes": limit,
        "storage": storage or None,
        "seed": seed,
        "request_timeout_s": REQUEST_TIMEOUT_S,
    }
    with _all_or_nothing(journal, entries):
        started = _start_mounted(journal, mount, label, config, entries)
        name = _connect(journal, mount, label, entries)
        entries.extend(apply_shape(journal, name, shape))
        entries.extend(keep_awake(journal))
        watch_issues(control, Path("/dev") / name)
        return EmulatedDevice(
            device=Path("/dev") / name,
            name=name,
            entries=entries,
            control=control,
            pid=started.pid,
            start_ticks=start_ticks(started.pid) or 0,
            size_bytes=size_bytes,
            floor_ns=_calibrate(control, name, storage),
            memory_bytes=memory_bytes(storage, limit) if storage else limit,
            data_limit_bytes=limit,
            journal=journal,
        )


def _check(storage: StorageSpec) -> None:
    """Raise for what the machine lacks, and for a drive that is too fast."""
    if problems := cannot_emulate("emulated drive"):
        raise MissingError(
            problems[0].what, hint=f"{problems[0].remedy}; or: {problems[0].without}"
        )
    if storage and (reason := refusal(storage)):
        raise HeadraceError(reason)


@contextmanager
def _all_or_nothing(journal: Journal, entries: list[JournalEntry]) -> Generator[None]:
    """Withdraw what was set up if anything fails; an OSError becomes a HeadraceError."""
    try:
        yield
    except OSError as error:
        _withdraw(journal, entries)
        raise HeadraceError(f"the emulated drive cannot be attached: {error}") from error
    except BaseException:
        _withdraw(journal, entries)
        raise


def _start_mounted(
    journal: Journal,
    mount: Path,
    label: str,
    config: Mapping[str, object],
    entries: list[JournalEntry],
) -> processes.Started:
    """Write the emulator's configuration, start it and wait until it has mounted its file; its log
    is beside the configuration."""
    # Before the process: undone in reverse order, so that no emulator lives that could still mount.
    # Without patience: a signal while this process opens the emulator's file leaves it open here,
    # and nobody would close it.
    entries.append(
        journal.begin("unmount", directory=str(mount), source=label, lazy=True, patience_s=0.0)
    )
    file = mount.with_name("config.json")
    file.write_text(json.dumps(config))
    with file.with_name("emulator.log").open("wb") as log:
        started = processes.start_process(
            journal,
            [str(own_program(PROGRAM)), str(file)],
            output=-1,
            errors=log,
            outlives_us=True,
        )
    entries.append(started.entry)
    _await_ready(started)
    return started


def _connect(journal: Journal, mount: Path, label: str, entries: list[JournalEntry]) -> str:
    """Make the mounted file a loop device and unmount it; return the device's name.

    `entries` begins with the mount's entry, and gets the device's.
    """
    entries.append(journal.begin("detach_emulated", label=label))
    name = _attach_loop(mount, label)
    # From here on no process can open the file system: only the loop device holds it.
    mounts.unmount(mount, label, lazy=True, patience_s=0.0)
    journal.undo(entries[0])
    return name


def _attach_loop(mount: Path, label: str) -> str:
    """Attach a loop device to the emulator's file; return its name."""
    backing = os.open(mount / label, os.O_RDWR | os.O_CLOEXEC)
    try:
        name = loops.attach_labelled(backing, label)
    finally:
        os.close(backing)
    if Path(f"/sys/block/{name}/loop/dio").read_text().strip() != "1":
        raise HeadraceError(
            f"{name} does not take direct I/O over FUSE: this kernel is too old for emulated drives"
        )
    return name


def _calibrate(control: Path, name: str, storage: StorageSpec) -> int:
    """Measure the floor; retry when it is too high for the drive.

    The machine may just have been busy.
    """
    reason = None
    pace_ns = fastest_ns(storage) if storage else None
    for attempt in range(8):
        time.sleep(0.1 * attempt)
        found = ask(control, "calibrate", device=f"/dev/{name}", pace_ns=pace_ns, timeout_s=20.0)
        floor_ns = int(found["read"]["quick_ns"])
        reason = refusal(storage, floor_ns=floor_ns) if storage else None
        if reason is None:
            return floor_ns
    raise HeadraceError(reason or "")


def _withdraw(journal: Journal, entries: list[JournalEntry]) -> None:
    for entry in reversed(entries):
        journal.undo(entry)


def _await_ready(started: processes.Started) -> None:
    output = started.process.stdout
    assert output is not None
    readable, _, _ = select.select([output], [], [], _START_S)
    said = output.readline().decode(errors="replace").strip() if readable else "it does not start"
    output.close()
    if said != "ready":
        raise HeadraceError(
            "the emulated drive cannot be attached: "
            f"{said.removeprefix('failed: ') or 'it has ended'}"
        )
