"""The study of `headrace profile simulate`: its options checked, and gone again if it is wrong."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.catalog import entry
from headrace.cli._console import err
from headrace.errors import FileProblem, StudyError, UsageError
from headrace.targets.links import network_port


def check_hardware(drives: Sequence[str], link: str | None, base: Path) -> None:
    """Raise StudyError that names the option of a drive or link that there is not.

    `base`: the folder of the study, to which files of drives are relative.
    """
    for drive in drives:
        file = Path(base, drive)
        if not (drive.endswith(".toml") and file.exists()):  # its problems have their own place
            with _named("--drive", drive):
                entry("drives", drive, base=base)
    if link is not None:
        with _named("--link", link):
            network_port(link)


@contextmanager
def _named(option: str, given: str) -> Generator[None]:
    try:
        yield
    except StudyError as error:
        raise StudyError(
            [
                FileProblem(Path("command line"), 0, option, each.given, each.problem, each.allowed)
                for each in error.problems
            ]
        ) from None
    except ValueError as error:  # a link that says its ports or rate
        raise UsageError(f"{option} {given}: {error}") from None


@contextmanager
def removed_if_wrong(study: Path, *, written: bool) -> Generator[None]:
    """Remove a study that was written if it cannot be run: it would be found at the next try."""
    try:
        yield
    except (StudyError, UsageError):
        if written:
            study.unlink(missing_ok=True)
            err.print(f"removed again: {study}", markup=False)
        raise
