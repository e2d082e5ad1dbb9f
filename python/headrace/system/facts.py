"""Base layer: facts about the machine for the record: kernel, CPU, memory, versions, settings."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from headrace.system.cgroups import hierarchy
from headrace.system.identity import boot_id
from headrace.system.machine_facts import cpu_model, multi_generational_lru
from headrace.system.requirements import find_program
from headrace.system.shared_settings import set_file

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

_PACKAGES = ("headrace", "awkward", "numpy", "uproot", "pyarrow", "duckdb", "root")
_PROGRAMS = {
    "fio": ("--version",),
    "mkfs.ext4": ("-V",),
    "mkfs.xfs": ("-V",),
    "mkfs.btrfs": ("-V",),
    "root-config": ("--version",),
}
_VM_SETTINGS = (
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "swappiness",
    "vfs_cache_pressure",
)
_DELAY_ACCOUNTING = Path("/proc/sys/kernel/task_delayacct")


def _text(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace").strip() or None
    return None


@cache
def virtualization() -> str:
    """Return the detected hypervisor or container, or `none`."""
    program = find_program("systemd-detect-virt")
    if program is not None:
        said = subprocess.run([program], capture_output=True, text=True).stdout.strip()
        if said:
            return said
    found: list[str] = []
    if " hypervisor" in (_text("/proc/cpuinfo") or ""):
        maker = _text("/sys/class/dmi/id/sys_vendor") or _text("/sys/hypervisor/type")
        found.append(f"virtual machine ({maker})" if maker else "virtual machine")
    if Path("/.dockerenv").exists():
        found.append("docker")
    return ", ".join(found) or "none"


def _program_version(name: str, arguments: tuple[str, ...]) -> str | None:
    program = find_program(name)
    if program is None:
        return None
    found = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=10)
    lines = (found.stdout or found.stderr).strip().splitlines()
    return lines[0].strip() if lines else None


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, the jobs' packages and installed external programs."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    for name, arguments in _PROGRAMS.items():
        if said := _program_version(name, arguments):
            found[name] = said
    return found


def facts() -> dict[str, Any]:
    """Return the environment for a record, JSON-compatible.

    Two machines on which a job behaves alike have equal facts except `hostname` and `boot_id`.
    """
    memory = psutil.virtual_memory()
    memory_group = hierarchy("memory")
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "hostname": platform.node(),
        "boot_id": boot_id(),
        "os": release.get("PRETTY_NAME", platform.system()),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": cpu_model(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        "cpus": psutil.cpu_count() or 1,
        "cpus_usable": len(os.sched_getaffinity(0)),
        "cpu_governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock_source": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "memory_bytes": memory.total,
        "swap_bytes": psutil.swap_memory().total,
        "virtualization": virtualization(),
        "cgroup_version": memory_group.version if memory_group else None,
        # Only where it is so: older records, which lack it, stay comparable.
        **({"multi_generational_lru": True} if multi_generational_lru() else {}),
        "transparent_hugepages": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "vm": {
            name: int(value)
            for name in _VM_SETTINGS
            if (value := _text(f"/proc/sys/vm/{name}")) is not None
        },
        "root": os.geteuid() == 0,
        "versions": versions(),
    }


def enable_delay_accounting(journal: Journal) -> JournalEntry | None:
    """Switch on the kernel's accounting of block I/O waits (`kernel.task_delayacct`).

    It is off by default since Linux 5.14 and affects only processes that start afterwards. Return
    the entry that switches it off again unless another run needs it then; None when it was on
    without Headrace or is unavailable (see `delay_accounting`).
    """
    if not os.access(_DELAY_ACCOUNTING, os.W_OK):
        return None
    return set_file(journal, _DELAY_ACCOUNTING, "1")


def delay_accounting() -> bool:
    """Return True when block I/O waits of processes that start now are counted.

    Kernels before 5.14 always count them, unless booted with `nodelayacct`.
    """
    setting = _text(str(_DELAY_ACCOUNTING))
    if setting is None:
        return "nodelayacct" not in (_text("/proc/cmdline") or "")
    return setting == "1"
