"""Checks of files that a command is to write: one message before anything starts."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import RefusedError, UsageError
from headrace.records.place import check_file_place, check_no_dangling, check_place
from headrace.report.own_files import is_own_page
from headrace.whole_file import is_stream, resolved

_LONGEST_SHOWN = 120


def check_folder_of(file: Path, option: str) -> None:
    """Raise UsageError if a new file cannot be made in the folder of a path, or has no name."""
    shown = str(file) if len(str(file)) <= _LONGEST_SHOWN else f"{str(file)[:_LONGEST_SHOWN]}…"
    hint = f"name another file with {option}" if option.startswith("-") else "name another file"
    if is_stream(file):
        raise UsageError(f"{option} {shown}: is a stream, not a file", hint=hint)
    if file.name in ("", ".."):
        raise UsageError(f"{option} {shown}: is a folder, not a file", hint=hint)
    try:
        check_place(file.absolute().parent, option)
    except UsageError as error:
        raise UsageError(f"{option} {shown}: {error.message}", hint=hint) from None
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{option} {shown}: {file.parent} is not a folder", hint="make it first")
    try:
        # Files are written under a longer name first (whole_file.py).
        file.with_name(f".{file.name}.part").exists()
        resolved(file)
        folder = file.is_dir()
    except OSError as error:
        raise UsageError(f"{option} {shown}: {error.strerror}", hint=hint) from None
    if folder:
        raise UsageError(f"{option} {shown}: is a folder, not a file", hint=hint)
    check_no_dangling(file, option)


def check_output(file: Path, option: str) -> None:
    """Raise RefusedError if a file is there already, UsageError if it cannot be written.

    Devices and pipes are written to. `option`: the option, or the name of the argument.
    """
    if is_stream(file) or _is_special(file):
        return
    check_folder_of(file, option)
    if file.exists():
        hint = f"name another file with {option}" if option.startswith("-") else "name another file"
        raise RefusedError(f"{file} already exists", hint=hint)


def check_page(file: Path, option: str, *, new_folder: bool = False) -> None:
    """Raise RefusedError for a file that is there and is no page of Headrace, which would be
    replaced, UsageError for one that cannot be written.

    `new_folder`: its folder is made if it does not exist yet.
    """
    if is_stream(file) or _is_special(file):
        return
    check_file_place(file, option)
    if not new_folder and not file.absolute().parent.exists():
        raise UsageError(f"{option} {file}: there is no folder {file.parent}", hint="make it first")
    if file.is_dir():
        raise UsageError(f"{file} is a folder, not a file", hint=f"name another file with {option}")
    if file.is_file() and not is_own_page(file):
        raise RefusedError(f"{file} already exists", hint=f"name another file with {option}")


def _is_special(file: Path) -> bool:
    """Return whether a path is a device or a pipe."""
    try:
        return file.exists() and not file.is_file() and not file.is_dir()
    except OSError:  # a name that is too long
        return False
