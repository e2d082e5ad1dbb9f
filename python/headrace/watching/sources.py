"""Where the numbers of a job come from and what is missing, for people; pure."""

from __future__ import annotations

_READERS = "owner or root only"


def sources(
    threads: bool, by_kernel: bool, io_readable: bool, refaults: bool, group: tuple[str, ...]
) -> tuple[str, ...]:
    """Return what the numbers were read from."""
    found = ["CPU and run queue: " + ("taskstats" if threads else "/proc/PID/schedstat")]
    if by_kernel:
        delays = "taskstats" if threads else "/proc/PID/stat (10 ms ticks)"
        found.append(f"storage waits: delay accounting of {delays}, places from thread states")
    else:
        found.append("storage waits: samples of thread states")
    if io_readable:
        found.append("bytes: /proc/PID/io")
    if refaults:
        found.append("memory: refaults of the control group")
    if group:
        found.append("control group: " + ", ".join(group))
    return tuple(found)


def lacks(
    io_readable: bool, denied: bool, ended_unseen: bool, *, root: bool = False
) -> tuple[str, ...]:
    """Return what could not be read, and why. `root`: whether this is a process of root."""
    found: list[str] = []
    # Root without CAP_SYS_PTRACE over the process, as in containers (ptrace(2)).
    readers = "denied, even to root (ptrace)" if root else _READERS
    if denied:
        found.append(f"devices and mounts of waits (/proc/PID/syscall): {readers}")
    if not io_readable:
        found.append(f"bytes (/proc/PID/io): {readers}")
    if ended_unseen:
        found.append("the time between the last look and the end (taskstats): root only")
    return tuple(found)
