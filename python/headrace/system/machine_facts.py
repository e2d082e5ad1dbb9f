"""Base layer: what a machine is, in a few plain values: of each node that runs jobs."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

LRU_GEN = Path("/sys/kernel/mm/lru_gen/enabled")
VM = Path("/proc/sys/vm")


@dataclass(frozen=True)
class MachineFacts:
    """The machine that a node is, or is on."""

    host: str = ""
    kernel: str = ""
    """Release of the kernel."""
    headrace: str = ""
    """Version of Headrace."""
    python: str = ""
    cpu_model: str = ""
    cpus: int | None = None
    """CPUs that jobs may use."""
    memory_bytes: int | None = None


def machine_facts() -> MachineFacts:
    """Return the facts of this machine."""
    return MachineFacts(
        host=platform.node(),
        kernel=platform.release(),
        headrace=_own_version(),
        python=platform.python_version(),
        cpu_model=cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )


def multi_generational_lru() -> bool:
    """Return True if this machine's kernel evicts pages by generations (since Linux 6.1)."""
    try:
        switches = LRU_GEN.read_text()
    except OSError:  # not built in (CONFIG_LRU_GEN)
        return False
    # The first bit is the main switch (Documentation/admin-guide/mm/multigen_lru.rst).
    return int(switches, 16) & 1 == 1


def reads_ahead_in_large_folios(release: str) -> bool:
    """Return True if a kernel of this release reads ahead in large folios on ext4 and XFS, by the
    rules that the simulator calls `large_folios` (since Linux 6.16)."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) >= (6, 16)


def writeback_ratios() -> tuple[float, float] | None:
    """Return the parts of memory that may be dirty until this machine's kernel writes them, and
    until writers wait; None where they cannot be read."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def ratio(name: str) -> float:
        # Of the two settings the one that was set last counts; the other one is 0.
        given_bytes = int((VM / f"{name}_bytes").read_text())
        given = int((VM / f"{name}_ratio").read_text()) / 100
        return min(1.0, given_bytes / memory_bytes if given_bytes else given)

    try:
        return ratio("dirty_background"), ratio("dirty")
    except (OSError, ValueError):
        return None


@cache
def _own_version() -> str:
    """Return the version of the code that runs, whatever is installed meanwhile."""
    return version("headrace")


@cache
def cpu_model() -> str:
    """Return the name of the CPU as the kernel has it, or else the machine's architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model", "Processor"):
            return value.strip()
    return platform.processor() or platform.machine()
