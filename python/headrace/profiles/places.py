"""Output paths of profiles and studies, chosen so that no user's file is overwritten."""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from headrace.errors import HeadraceError, RefusedError, UsageError
from headrace.profiles.steps import is_steps_file, profile_path, steps_path
from headrace.whole_file import is_stream, write_new

_LONGEST_NAME = 200


def profile_to_write(out: Path | None, name: str, option: str = "--out") -> Path:
    """Return the path of a new profile.

    `out` is the path that the user gave: it may replace a recorded profile and its steps, nothing
    else. Without it, use the first free path of `NAME.toml`, `NAME-2.toml` … Raises StudyError for
    a suffix other than `.toml`, UsageError for a stream or an unusable name, RefusedError for a
    file that is not a recorded profile.
    """
    if out is None:
        # A number and the ending of the steps have room beside this many bytes.
        if len(os.fsencode(name)) > _LONGEST_NAME:
            name = os.fsencode(name)[:_LONGEST_NAME].decode(errors="ignore")
        return next(
            each
            for each in _numbered(Path(f"{name}.toml"))
            if not _is_there(each) and not _is_there(steps_path(each))
        )
    if is_stream(out):  # its suffix would be added, and a file made in /dev
        raise UsageError(
            f"{option} {out}: a profile is a file, not a stream",
            hint=f"name a file with {option}; headrace profile export writes steps to a stream",
        )
    path = profile_path(out, option)
    check_name(path, option)  # the profile names its file of steps
    _check_length(path, option)
    if path.exists() and not _is_recorded(path):
        raise RefusedError(
            f"{path} exists and is not a recorded profile: it is not overwritten",
            hint=f"give {option} another name",
        )
    steps = steps_path(path)
    if _is_there(steps) and not is_steps_file(steps):
        raise RefusedError(
            f"{steps} exists and has no steps of a profile: it is not overwritten",
            hint=f"give {option} another name",
        )
    return path


def check_name(path: Path, option: str) -> None:
    """Raise UsageError for a name that no TOML file can have in it: one that is not UTF-8."""
    if any("\ud800" <= each <= "\udfff" for each in path.name):  # for bytes that are none
        raise UsageError(
            f"{option} {str(path)!a}: the name of a profile must be UTF-8",
            hint="give it another name",
        )


def _check_length(path: Path, option: str) -> None:
    """Raise UsageError for a name with which the steps could not be written after the program."""
    try:
        # Files are written under a longer name first (whole_file.py).
        path.with_name(f".{steps_path(path).name}.part").exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(
                f"{option} {path.name[:40]}…: the name of the file of its steps is too long",
                hint="give it another name",
            ) from None


def temporary_places() -> list[Path]:
    """Return folders for temporary files, the user's first; none where none can be written to."""
    try:
        return list(dict.fromkeys((Path(tempfile.gettempdir()), Path("/var/tmp"))))
    except FileNotFoundError:  # each is full, or may not be written to
        return []


def free_path(path: Path) -> Path:
    """Return the first path of `NAME.toml`, `NAME-2.toml` … at which there is no file."""
    return next(each for each in _numbered(path) if not _is_there(each))


def _numbered(path: Path) -> Iterator[Path]:
    for number in itertools.count(1):
        yield path.with_stem(f"{path.stem}{f'-{number}' if number > 1 else ''}")


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _is_recorded(path: Path) -> bool:
    if not path.is_file():  # a pipe would be waited for
        return False
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        return "steps_file" in table or "outline" in table
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False


def study_to_run(profile: Path, text: str, *, asked: bool) -> tuple[Path, str]:
    """Return the study to run next to a profile, and what was done: `written`, or why nothing was
    written.

    An existing file is never changed. It runs unchanged if it contains the same study, or if the
    user gave no options (`asked` is false), so that edits count. Otherwise the study goes into the
    first of `NAME-2.study.toml`, `NAME-3.study.toml` … that is free or contains it. Raises
    HeadraceError if it cannot be written.
    """
    for number in itertools.count(1):
        study = profile.with_name(f"{profile.stem}{f'-{number}' if number > 1 else ''}.study.toml")
        try:
            write_new(study, text)
            return study, "written"
        except FileExistsError:
            if not asked:
                return study, "it was there: used as it is"
            if study.is_file() and study.read_text("utf-8", "replace") == text:
                return study, "it was there: used as it is"
        except OSError as error:
            raise HeadraceError(f"{study}: cannot be written: {error.strerror}") from error
    raise AssertionError
