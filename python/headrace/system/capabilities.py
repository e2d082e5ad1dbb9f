"""Base layer: what this machine provides for Headrace, and how to get the rest. Read-only."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from headrace.system.accounting import own_pressure
from headrace.system.cgroups import hierarchy
from headrace.system.emulator import cannot_emulate, limits
from headrace.system.facts import delay_accounting
from headrace.system.page_cache import can_drop_all
from headrace.system.requirements import REQUIREMENTS, find_program, remedy
from headrace.units import format_bytes


@dataclass(frozen=True)
class Capability:
    """One feature that a machine can have or lack."""

    what: str
    gives: str
    """What Headrace uses it for."""
    there: bool
    remedy: str
    """What to install or do to get it."""


_WANTED_PROGRAMS = ("fio", "mkfs.ext3", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs")
_AS_ROOT = "run as root (sudo headrace …)"
_FILESYSTEMS = ("ext3", "ext4", "xfs", "btrfs")


def kernel_filesystems() -> frozenset[str]:
    """Return the file systems that the running kernel can mount without loading modules."""
    lines = Path("/proc/filesystems").read_text().splitlines()
    return frozenset(line.split()[-1] for line in lines if line.split())


def capabilities() -> list[Capability]:
    """Return every feature that determines how much of a study can run here."""
    root = os.geteuid() == 0
    programs = [
        Capability(name, REQUIREMENTS[name].purpose, find_program(name) is not None, remedy(name))
        for name in _WANTED_PROGRAMS
    ]
    known = kernel_filesystems()
    filesystems = [
        Capability(
            f"{name} in the kernel", f'filesystem = "{name}"', name in known, f"modprobe {name}"
        )
        for name in _FILESYSTEMS
    ]
    return [*_of_measuring(root), *_of_drives(root), *_of_jobs(root), *programs, *filesystems]


def _of_measuring(root: bool) -> list[Capability]:
    return [
        Capability(
            "root",
            "formats devices, sets schedulers and read-ahead, empties the page cache",
            root,
            _AS_ROOT,
        ),
        Capability(
            "right to empty the page cache",
            "cold trials; without it the pages of the files that jobs read are dropped one by one",
            can_drop_all(),
            _AS_ROOT,
        ),
        Capability(
            "delay accounting",
            "waiting for block I/O counted by the kernel; without it taken from pressure or from "
            "read calls",
            root or delay_accounting(),  # root switches it on while a study runs
            f"{_AS_ROOT}, or sysctl kernel.task_delayacct=1",
        ),
        Capability(
            "pressure (PSI)",
            "pressure series",
            Path("/proc/pressure/io").exists(),
            "boot with psi=1",
        ),
        Capability(
            "pressure of a control group",
            "waits of jobs without root",
            own_pressure() is not None,
            "boot with psi=1",
        ),
    ]


def _of_drives(root: bool) -> list[Capability]:
    lacking = cannot_emulate("emulated drives")
    # What differs between nodes that all lack it would keep them from being named together.
    most = "" if lacking else f"; up to {format_bytes(limits().data_bytes)} of data in memory"
    return [
        Capability(
            "loop devices",
            "image files as block devices",
            root and Path("/dev/loop-control").exists(),
            _AS_ROOT,
        ),
        Capability(
            "emulated drives",
            f'drive = "…" measured under the real kernel, headrace drive attach{most}',
            not lacking,
            lacking[0].remedy if lacking else "",
        ),
    ]


def _of_jobs(root: bool) -> list[Capability]:
    return [
        Capability(
            "memory control group",
            "memory_limit, job_memory_limit: memory for jobs and their page cache",
            root and hierarchy("memory") is not None,
            "run as root, with the memory controller enabled",
        ),
        Capability(
            "blkio control group",
            "the fault `throttle`",
            root and (hierarchy("blkio") is not None or hierarchy("io") is not None),
            "run as root, with the blkio or io controller enabled",
        ),
        Capability(
            "ROOT (PyROOT)",
            'reader = "rdataframe" and "event-loop"',
            importlib.util.find_spec("ROOT") is not None,
            "make setup-all in a clone, or pip install headrace[root]",
        ),
    ]
