"""Checks of folders for records: one clear message before anything starts."""

from __future__ import annotations

import contextlib
import os
import unicodedata
from pathlib import Path

from headrace.errors import HeadraceError, RefusedError, UsageError
from headrace.whole_file import leads_nowhere, resolved

_VIRTUAL = frozenset(
    [
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "mqueue",
        "proc",
        "pstore",
        "securityfs",
        "sysfs",
        "tracefs",
    ]
)
"""The kernel's virtual file systems, which keep no user files."""


def check_place(folder: Path, option: str) -> None:
    """Raise UsageError if files cannot be kept in a folder, which need not exist yet.

    `option` is the command-line option to name another folder. Creates nothing.
    """
    if why_not := _bad_name(folder) or _bad_place(folder):
        raise UsageError(why_not, hint=f"name another folder with {option}")


def check_file_place(file: Path, option: str) -> None:
    """Raise UsageError if a file of this name cannot be written; its folder need not exist yet."""
    check_place(file.parent, option)
    if not file.name:  # "." or "/"
        raise UsageError(
            f"{file}: is a folder, not a file", hint=f"name another file with {option}"
        )
    try:
        # Files are written under a longer name first (whole_file.py).
        file.with_name(f".{file.name}.part").exists()
        resolved(file)
    except OSError as error:
        raise UsageError(
            f"{_short(file)}: {error.strerror}", hint=f"name another file with {option}"
        ) from None
    check_no_dangling(file, option)


def check_no_dangling(file: Path, option: str) -> None:
    """Raise RefusedError for an output that is a symbolic link to nothing.

    `option`: the option, or the name of the argument.
    """
    if (problem := leads_nowhere(file)) is not None:
        with_it = f" with {option}" if option.startswith("-") else ""
        raise RefusedError(f"{file} {problem}", hint=f"name another file{with_it}")


def check_new_file(file: Path, option: str) -> None:
    """Raise UsageError if a new file cannot be written, RefusedError if it is there already."""
    check_file_place(file, option)
    if not file.absolute().parent.exists():
        raise UsageError(f"{option} {file}: there is no folder {file.parent}", hint="make it first")
    if file.exists() or file.is_symlink():  # a link to nothing is no new file either
        raise RefusedError(f"{file} already exists", hint=f"name another file with {option}")


def _bad_name(folder: Path) -> str | None:
    text = str(folder)
    # Cs: surrogates, which stand for bytes that are not UTF-8.
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in text):
        return f"{text!a}: the name of a folder must be UTF-8 without control characters"
    if any(
        part == ".headrace" or part.startswith(".headrace-") for part in folder.absolute().parts
    ):
        return f"{folder} is in a folder that Headrace keeps data sets and scratch files in"
    return None


def _bad_place(folder: Path) -> str | None:
    """Return the problem of a folder or of its nearest existing parent; None if it is usable."""
    try:
        nearest = _nearest(folder)
        if not nearest.is_dir():
            what = (
                "is a file, not a folder"
                if nearest == folder
                else "is a file: no folder can be in it"
            )
            return f"{nearest} {what}"
        if (kind := _file_system(nearest)) in _VIRTUAL:
            return f"{folder} is on a virtual file system ({kind}), which keeps no files"
        if os.statvfs(nearest).f_flag & os.ST_RDONLY:
            return f"{folder} is on a file system that is mounted read-only"
        if not os.access(nearest, os.W_OK | os.X_OK):
            why_not = f"no permission to write to {nearest}"
            return why_not if nearest == folder else f"{folder} cannot be made: {why_not}"
    except (OSError, RuntimeError) as error:
        return f"{_short(folder)}: {getattr(error, 'strerror', None) or error}"
    return None


def _file_system(path: Path) -> str | None:
    from headrace.system.mounts import mount_of

    with contextlib.suppress(HeadraceError):  # a mount that this process cannot see
        return mount_of(path.resolve()).filesystem
    return None


def _nearest(folder: Path) -> Path:
    """Return the folder or its nearest existing parent. Raises OSError for a dangling link."""
    level = folder.absolute()
    while True:
        try:
            level.stat()
            return folder if level == folder.absolute() else level
        except (FileNotFoundError, NotADirectoryError):
            if level.is_symlink():
                raise FileNotFoundError(0, f"{level} is a link to nothing") from None
            if level == level.parent:
                raise
        level = level.parent


def _short(folder: Path) -> str:
    text = str(folder)
    return text if len(text) <= 120 else f"{text[:120]}…"
