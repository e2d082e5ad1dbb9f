"""Base layer: limits under which this process and its jobs run, and what changes the CPUs' speed.

Read-only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from headrace.system.cgroups import memory_limit_bytes
from headrace.system.storage import free_bytes

_GOVERNORS = "cpu[0-9]*/cpufreq/scaling_governor"


@dataclass(frozen=True)
class NodeLimits:
    """What limits jobs on a machine besides its size."""

    open_files: int
    """Files that a process may have open; -1: no limit."""
    memory_bytes: int | None
    """Memory that control groups leave to jobs; None: all of the machine's."""
    memory_free_bytes: int
    """Memory that programs can still get."""
    temporary: str
    """Folder of logs and temporary files of jobs: TMPDIR, also when it is full."""
    temporary_free_bytes: int
    governors: tuple[str, ...]
    """Policies of the CPUs' frequency (cpufreq); none where the machine sets it by itself."""


def _temporary_folder() -> str:
    """Return the folder that programs use for temporary files.

    Python passes over one without room; programs that follow TMPDIR fail there.
    """
    named = os.environ.get("TMPDIR")
    return named if named and os.access(named, os.W_OK | os.X_OK) else tempfile.gettempdir()


def node_limits(cpus: Path = Path("/sys/devices/system/cpu")) -> NodeLimits:
    """Return the limits of this machine and process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    folder = _temporary_folder()
    found: set[str] = set()
    for file in cpus.glob(_GOVERNORS):
        with contextlib.suppress(OSError):
            found.add(file.read_text().strip())
    return NodeLimits(
        open_files=soft,
        memory_bytes=memory_limit_bytes(),
        memory_free_bytes=psutil.virtual_memory().available,
        temporary=folder,
        temporary_free_bytes=free_bytes(Path(folder)),
        governors=tuple(sorted(found)),
    )
