"""Opens the block device that is learnt: for reads, or for writes, which must destroy nothing."""

from __future__ import annotations

import os
from pathlib import Path

from headrace._core import TimedBlockDevice
from headrace.drives.learning.device import MOST_IN_FLIGHT, LearntDevice
from headrace.drives.learning.traffic import DiskCounters
from headrace.errors import FileProblem, MissingError, RefusedError, StudyError
from headrace.system import block_queue, devices, signatures

LEAST_BYTES = 64 << 20
SAMPLES = 64
"""Places that are looked at for data."""
SAMPLE_BYTES = 4096


def block_device(path: Path, *, seed: int = 0, writable: bool = False) -> LearntDevice:
    """Open a block device for requests past the page cache.

    `writable`: open it for writes, too; nothing else may use it, and it must hold no data. Raises
    MissingError without the right to read it, StudyError if it is not a block device, RefusedError
    if it must not be written.
    """
    if not path.exists() or not path.is_block_device():
        what = "not found" if not path.exists() else "is not a block device"
        raise _refused(path, what, "a block device, such as /dev/sdb")
    given, path = path, path.resolve()  # what is checked is opened, even if a link changes
    if writable:
        _check_unused(path)
    try:
        timed = TimedBlockDevice(path, writable)
        if writable:  # again, now that no one else can claim it
            _check_empty(path)
    except OSError as error:  # of the core: without `errno`, with the kernel's words
        raise _not_opened(path, error) from None
    if writable:
        _check_not_open(path)
    if timed.capacity_bytes() < LEAST_BYTES:
        raise _refused(path, f"has {timed.capacity_bytes()} bytes", "64 MiB or more")
    disk = devices.parent_disk(path.name) or path.name
    depth = min(block_queue.read_depth(disk) or 32, MOST_IN_FLIGHT)
    # A scheduler takes more requests than the device, but not without limit.
    scheduled = block_queue.read_scheduler(disk) not in (None, "none")
    queued = (block_queue.read_number(disk, "nr_requests") or depth) if scheduled else depth
    return LearntDevice(
        timed,
        name=str(given),
        seed=seed,
        queue_depth=depth,
        most_in_flight=min(queued, MOST_IN_FLIGHT),
        writable=writable,
        counters=DiskCounters(path),
    )


def share_of_zeros(path: Path) -> float:
    """Return the share of places, evenly over a device, that hold zeros only, as what was never
    written does. Raises OSError."""
    with path.open("rb", buffering=0) as device:
        size = device.seek(0, os.SEEK_END)
        last = max(size - SAMPLE_BYTES, 0) // SAMPLE_BYTES
        places = [last * number // (SAMPLES - 1) * SAMPLE_BYTES for number in range(SAMPLES)]
        found = [os.pread(device.fileno(), SAMPLE_BYTES, place) for place in places]
    return sum(not any(each) for each in found) / SAMPLES


def _not_opened(path: Path, error: OSError) -> MissingError | StudyError:
    if not isinstance(error, PermissionError):
        return _refused(path, f"cannot be opened: {error}", "")
    given = "a container or virtual machine must be given the device"
    as_root = os.geteuid() == 0
    return MissingError(
        f"{path} cannot be read, not even by root"
        if as_root
        else f"{path} cannot be read by this user",
        hint=given if as_root else f"run it as root or in its group; {given}",
    )


def _check_unused(path: Path) -> None:
    """Raise RefusedError if something uses a device, or if it holds anything."""
    try:
        users = signatures.holders(path)
    except OSError as error:
        raise MissingError(f"{path}: {error.strerror}", hint="run it as root") from None
    if users:
        raise _in_use(path, "; ".join(users))
    if devices.is_read_only(path.name):
        raise RefusedError(f"{path} is read-only", hint="learn it without --write-to")
    try:
        _check_empty(path)
    except OSError:
        return  # what opens it says so


def _check_empty(path: Path) -> None:
    holds = signatures.contents(path)
    if holds:
        raise RefusedError(
            f"{path} is not empty: it holds {holds}",
            hint=f"learn it without --write-to, or, if that may be lost, empty it: "
            f"wipefs --all {path} and zeros in its first and last MiB",
        )


def _check_not_open(path: Path) -> None:
    if users := signatures.opened_by(path):
        raise _in_use(path, f"opened by {', '.join(users)}")


def _in_use(path: Path, how: str) -> RefusedError:
    return RefusedError(
        f"{path} is in use: {how}",
        hint="learn it without --write-to, which only reads it, or name a device that nothing uses",
    )


def _refused(path: Path, what: str, allowed: str) -> StudyError:
    problem = FileProblem(Path("command line"), 0, "DEVICE", str(path), what, allowed)
    return StudyError([problem])
