"""Ground: how a process, a boot and a device are told from a later one that bears the same name.

A process id is used again by the kernel; together with the start time it is unique within one boot.
"""

from __future__ import annotations

from pathlib import Path


def boot_id() -> str:
    """The kernel's name for this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); None when there is none.

    A zombie counts as gone: it has let go of everything it held.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def is_alive(pid: int, ticks: int) -> bool:
    """True while the process with this id is still the one that started then."""
    return start_ticks(pid) == ticks


def disk_sequence(name: str) -> int | None:
    """The kernel's counter of disks (`diskseq`, Linux 5.15 and later) for the block device `name`.

    It changes whenever a loop device is attached anew; None when there is no such device or the kernel is older.
    """
    try:
        return int(Path(f"/sys/class/block/{name}/diskseq").read_text())
    except OSError:
        return None
