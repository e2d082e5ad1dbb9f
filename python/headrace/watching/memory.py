"""Memory of processes, read for the arguments of their system calls."""

from __future__ import annotations

import os


def memory_of(pid: int, place: int, size: int) -> bytes:
    """Return bytes of a process from an address on. Raises OSError without the right to trace it
    (ptrace(2)), and where nothing is mapped."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, size, place)
    finally:
        os.close(memory)
