"""Base layer: create a file system on a device: available kinds, mkfs, effective mount options."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system import signatures
from headrace.system.mounts import Mount
from headrace.system.processes import run_program
from headrace.system.requirements import find_program, remedy

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

KINDS = ("ext3", "ext4", "xfs", "btrfs")

SMALLEST_BYTES = {"ext3": 8 << 20, "ext4": 8 << 20, "xfs": 300 << 20, "btrfs": 128 << 20}
"""Minimum sizes of the mkfs programs (xfsprogs 5.19: 300 MB; btrfs-progs: about 109 MiB)."""

# Lazy initialisation of ext3 and ext4 would run after the mount, during the measured jobs.
_MKFS = {
    "ext3": ("-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "ext4": ("-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("-q", "-f"),
    "btrfs": ("-q", "-f"),
}
_UUID_OPTION = {
    "ext3": ("-U", "{}"),
    "ext4": ("-U", "{}"),
    "xfs": ("-m", "uuid={}"),
    "btrfs": ("-U", "{}"),
}

_REFUSED_MOUNT_OPTIONS = {"remount", "bind", "rbind", "move", "loop", "ro", "user", "users"}


def unsafe_options(mkfs: Sequence[str], mount: Sequence[str]) -> str | None:
    """Return why these options could affect more than the formatted device, else None."""
    for option in mkfs:
        if "/" in option:
            return (
                f'the mkfs option "{option}" names a path; '
                "Headrace formats one device and touches no other"
            )
    for option in mount:
        if "/" in option or option.partition("=")[0] in _REFUSED_MOUNT_OPTIONS:
            return f'the mount option "{option}" is not for a fresh file system of its own'
    return None


def why_not(kind: str) -> str | None:
    """Return why this machine cannot create and mount a kind of file system, None when it can."""
    program = f"mkfs.{kind}"
    if find_program(program) is None:
        return f"{kind}: the program {program} is not installed ({remedy(program)})"
    known = {
        line.split()[-1]
        for line in Path("/proc/filesystems").read_text().splitlines()
        if line.split()
    }
    if kind in known:
        return None
    modprobe = find_program("modprobe")
    if (
        modprobe is not None
        and subprocess.run([modprobe, "-n", "-q", kind], capture_output=True).returncode == 0
    ):
        return None
    return f"{kind}: this kernel cannot mount it"


def usable_bytes(kind: str, size: int) -> int:
    """Return the data bytes that surely fit a new file system.

    This is `size` minus log, tables and reserve.
    """
    taken = {
        "ext3": size // 15 + min(size // 32, 1 << 30),
        "ext4": size // 15 + min(size // 32, 1 << 30),
        "xfs": size // 16 + max(64 << 20, size >> 11),
        "btrfs": size // 8 + (64 << 20),
    }
    return max(0, size - taken[kind])


def make_filesystem(
    journal: Journal,
    device: Path,
    kind: str,
    options: Sequence[str],
    empty_directory: Path,
    *,
    others: Sequence[Path] = (),
) -> JournalEntry:
    """Create a file system on a device that the caller has verified to be free to overwrite.

    Undoing the entry blanks the device. `others` are further devices of a btrfs; they do not
    survive their release. mkfs runs in `empty_directory`, so that no option can match a file name.
    Raises UnsupportedLevelError when mkfs refuses the user's options, HeadraceError for other
    failures.
    """
    name = str(uuid.uuid4())
    own = [part.format(name) for part in _UUID_OPTION[kind]]
    entry = journal.begin(
        "blank_device", device=str(device), size=signatures.device_size(device), uuid=name
    )
    try:
        defaults = [*_MKFS[kind]]
        if kind in ("ext3", "ext4") and "-E" in options:
            defaults = defaults[:2]  # the user's extended options replace them
        run_program(
            journal,
            [f"mkfs.{kind}", *defaults, *own, *options, str(device), *map(str, others)],
            directory=empty_directory,
        )
    except HeadraceError as error:
        journal.undo(entry)
        if options:
            raise UnsupportedLevelError(
                f"mkfs.{kind} refuses {' '.join(options)}: {error.message}"
            ) from error
        raise
    return entry


_CHECKS = {
    # Exit codes up to 1: the file system is clean, or was repaired from its journal.
    "ext3": ("e2fsck", "-p", "-f"),
    "ext4": ("e2fsck", "-p", "-f"),
    "xfs": ("xfs_repair", "-n"),
    "btrfs": ("btrfs", "check", "--readonly"),
}


def after_crash(journal: Journal, device: Path, kind: str, directory: Path) -> str:
    """Recover an unmounted file system from its journal or log after a crash, and check it.

    It is mounted on `directory`, which must be empty. Return the result in a few words. Raises
    HeadraceError when it cannot be recovered.
    """
    command = [*_CHECKS[kind], str(device)]
    if find_program(command[0]) is None:
        return f"not checked: {command[0]} is not installed"
    if kind != "btrfs":
        # Mounting replays the log; e2fsck could do it itself, xfs_repair cannot.
        from headrace.system.mounts import mount

        journal.undo(mount(journal, str(device), directory, kind, ()))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        return "clean"
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    text = said[-1] if said else f"exit code {done.returncode}"
    if kind in ("ext3", "ext4") and done.returncode == 1:
        return f"put right: {text}"
    raise HeadraceError(f"{kind} on {device} is damaged: {text}")


_NOT_SHOWN = {
    "defaults",
    "strictatime",
    "async",
    "suid",
    "dev",
    "exec",
    "atime",
    "diratime",
    "norelatime",
    "rw",
}
"""Options that mean the kernel's default, which it does not show."""
_GENERIC = {
    "noatime",
    "relatime",
    "nodiratime",
    "nosuid",
    "nodev",
    "noexec",
    "sync",
    "dirsync",
    "lazytime",
}
"""Options of any file system that the kernel shows whenever they are in force."""


def not_in_force(asked: Sequence[str], mount: Mount) -> str | None:
    """Return which requested mount option the mount contradicts; None when all are in force.

    An option specific to the file system that is not shown is in force as its default: the file
    systems here refuse to mount with an unknown option.
    """
    shown = {
        key: value for key, _, value in (option.partition("=") for option in mount.all_options)
    }
    for option in asked:
        key, separator, value = option.partition("=")
        if key in _NOT_SHOWN:
            continue
        if key in _GENERIC and key not in shown:
            return f"{option} is not in force; the mount shows {','.join(mount.all_options)}"
        if (
            separator
            and key in shown
            and shown[key] != value
            and not _same_number(shown[key], value)
        ):
            return f"requested {option}, but the mount shows {key}={shown[key]}"
        if (
            not separator
            and (key.removeprefix("no") if key.startswith("no") else f"no{key}") in shown
        ):
            return f"{option} is not in force; the mount shows {','.join(mount.all_options)}"
    return None


def _same_number(shown: str, asked: str) -> bool:
    """Return True for `32k` and `32768`, or `zstd:3` and `zstd`."""

    def bytes_of(text: str) -> int | None:
        with contextlib.suppress(ValueError, IndexError):
            factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1].lower(), 1)
            return int(text[:-1] if factor > 1 else text) * factor
        return None

    number = bytes_of(shown)
    return (number is not None and number == bytes_of(asked)) or shown.partition(":")[0] == asked
