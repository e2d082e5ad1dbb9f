"""Base layer: unique identities of processes, boots and devices whose names are reused.

The kernel reuses process ids; a process id together with the start time is unique within one boot.
"""

from __future__ import annotations

from pathlib import Path


def boot_id() -> str:
    """Return the kernel's id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot, None when it does not exist.

    It is field 22 of /proc/PID/stat. A zombie counts as gone: it has released everything it held.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def is_alive(pid: int, ticks: int) -> bool:
    """Return whether the process with this id is still the one that started at `ticks`."""
    return start_ticks(pid) == ticks


def disk_sequence(name: str) -> int | None:
    """Return the kernel's counter of disks (`diskseq`, Linux 5.15) of the block device `name`.

    It changes whenever a loop device is attached; None when the device does not exist or the kernel
    is older.
    """
    try:
        return int(Path(f"/sys/class/block/{name}/diskseq").read_text())
    except OSError:
        return None
