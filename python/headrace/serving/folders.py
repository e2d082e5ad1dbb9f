"""The results folders below one folder: what they hold, and whether a run writes to them.

Nothing is kept between two looks but the header of results and the verdicts of records, which never
change: a folder may appear, grow or go at any time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import HeadraceError, UsageError, describe
from headrace.records.store import ResultsHeader, read_header
from headrace.serving.files import is_text
from headrace.serving.trial_files import TRIAL_FILES

DEPTH = 4
"""Levels of folders that are searched."""
FOLDERS_AT_MOST = 2000
HERE = ":here"
"""Name of the folder itself, if it holds results."""


class _Validity(msgspec.Struct):
    valid: bool = False


class _Outline(msgspec.Struct):
    """The few fields of trial.json that a list shows."""

    status: str = "failed"
    validity: _Validity = field(default_factory=_Validity)


@dataclass(frozen=True)
class ResultsFolder:
    """One results folder, as it was at one moment."""

    name: str
    """Its path from the folder that is served, with slashes."""
    path: Path
    title: str
    engine: str
    created_utc: str
    planned: int | None
    """Trials of the plan; None when it cannot be read."""
    counts: dict[str, int]
    """Recorded trials by verdict: valid, invalid, failed, unsupported."""
    running: bool
    reported: bool
    """Whether a report was written after the last record."""
    damage: str = ""
    """Why it cannot be read; empty when it can."""

    @property
    def kind(self) -> str:
        """Whether jobs were real (on real or emulated drives) or simulated."""
        return {"measure": "real", "simulate": "simulated"}.get(self.engine, self.engine or "–")

    @property
    def recorded(self) -> int:
        """Number of trials with a record."""
        return sum(self.counts.values())

    @property
    def state(self) -> str:
        """Running, finished, or not finished."""
        if self.damage:
            return "damaged"
        if self.running:
            return "running"
        # A study that repeats until it is precise enough leaves trials of its plan out.
        whole = self.reported or (self.planned is not None and self.recorded >= self.planned)
        return "finished" if whole and self.recorded else "not finished"

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What changes when a record is added, changed or set aside."""
        return (
            str(self.path),
            self.created_utc,
            _changed_ns(self.path / "trials"),
            *sorted(self.counts.items()),
        )


@dataclass
class NotListed:
    """What a search for results folders left out."""

    links: list[str] = field(default_factory=list[str])
    """Symbolic links to folders: one may lead out of the folder that is served, or round in a
    circle."""
    folders: int = 0
    """Results folders beyond those that a page lists."""


def results_folders(root: Path, *, counted: bool = True) -> list[ResultsFolder]:
    """Return the results folders below a folder, the newest first.

    `counted`: with the number of their trials, which takes a look at every one.
    """
    return folders_and_left_out(root, counted=counted)[0]


def folders_and_left_out(
    root: Path, *, counted: bool = True, anew: bool = True
) -> tuple[list[ResultsFolder], NotListed]:
    """Return the results folders, the newest first, and what is left out.

    `anew`: as for `read_folder`.
    """
    left = NotListed()
    names = list(_names(root, left.links))
    left.folders = max(0, len(names) - FOLDERS_AT_MOST)
    listed = names[:FOLDERS_AT_MOST]
    found = [read_folder(root, name, counted=counted, anew=anew) for name in listed]
    found.sort(key=lambda each: (each.created_utc, each.name), reverse=True)
    return found, left


def named_folder(
    root: Path, name: str, *, counted: bool = True, anew: bool = True
) -> ResultsFolder:
    """Return one results folder by its name. Raises UsageError when it is not there (any more).

    `anew`: as for `read_folder`.
    """
    if not name:
        raise UsageError("no results are named", hint="the list shows what is there now")
    path = root if name == HERE else inside(root, name)
    if not os.path.isfile(path / "results.json"):  # noqa: PTH113 - False without permission
        raise UsageError(
            f"{name} holds no results, or holds them no longer",
            hint="the list shows what is there now",
        )
    return read_folder(root, name, counted=counted, anew=anew)


def inside(root: Path, name: str) -> Path:
    """Return the path of a name. Raises UsageError for one that leads out of the folder."""
    top = root.resolve()
    try:
        path = (top / name).resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a null character
        raise UsageError(f"{name!r} is not a name of a file") from None
    if not path.is_relative_to(top):
        raise UsageError(f"{name} is not below {root}")
    return path


def read_folder(root: Path, name: str, *, counted: bool = True, anew: bool = True) -> ResultsFolder:
    """Return what a results folder holds now; `damage` says why when it cannot be read.

    `anew`: look at each record again, not only at new ones.
    """
    path = root if name == HERE else root / name
    try:
        header = _header(path, _changed_ns(path / "results.json"))
        counts = _counts(path, anew) if counted else {}
    except (HeadraceError, OSError) as error:
        return ResultsFolder(name, path, name, "", "", None, {}, False, False, describe(error))
    return ResultsFolder(
        name, path, header.title or name, header.engine, header.created_utc,
        _planned(str(path / "plan.parquet"), _changed_ns(path / "plan.parquet")),
        counts, _is_written(path),
        _changed_ns(path / "report.html") > _changed_ns(path / "trials"),
    )  # fmt: skip


def _names(root: Path, links: list[str]) -> Iterator[str]:
    """Yield the results folders: breadth first, not into results folders, nor into hidden ones.

    Symbolic links to folders on the way are added to `links`.
    """
    left = [("", 0)]
    while left:
        prefix, depth = left.pop(0)
        here = root / prefix if prefix else root
        # Path.is_file raises an error in a folder that may not be searched, such as lost+found.
        if os.path.isfile(here / "results.json"):  # noqa: PTH113
            yield prefix or HERE
            continue
        if depth == DEPTH:
            continue
        try:
            below = _folders_in(here)
        except OSError:
            continue
        for name, is_link in below:
            whole = f"{prefix}/{name}" if prefix else name
            if is_link:
                links.append(whole)
            else:
                left.append((whole, depth + 1))


def _folders_in(folder: Path) -> list[tuple[str, bool]]:
    """Return the folders in a folder by name, and whether each is a symbolic link."""
    with os.scandir(folder) as entries:
        return sorted(
            (entry.name, entry.is_symlink())
            for entry in entries
            if not entry.name.startswith(".") and is_text(entry.name) and entry.is_dir()
        )


@lru_cache(maxsize=FOLDERS_AT_MOST)
def _header(path: Path, _at_ns: int) -> ResultsHeader:
    return read_header(path)


def _counts(path: Path, anew: bool) -> dict[str, int]:
    files = TRIAL_FILES.of(path, anew=anew)
    return dict(Counter(_verdict(str(file), at_ns) for file, at_ns in files.items()))


@lru_cache(maxsize=1_000_000)
def _verdict(file: str, _at_ns: int) -> str:
    try:
        made = msgspec.json.decode(Path(file).read_bytes(), type=_Outline)
    except (OSError, ValueError):
        return "damaged"
    if made.status == "done":
        return "valid" if made.validity.valid else "invalid"
    return made.status


@lru_cache(maxsize=2000)
def _planned(file: str, _at_ns: int) -> int | None:
    try:
        return pq.read_metadata(file).num_rows
    except (OSError, pa.ArrowException):
        return None


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _is_written(path: Path) -> bool:
    """Return whether a run holds the lock of a results folder.

    The kernel's list is read; to try the lock would refuse it to a run that starts now.
    """
    try:
        lock = path / ".lock"
        inode = lock.stat().st_ino
        # 1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF
        fields = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        held = [
            each
            for each in fields
            if "FLOCK" in each and any(field.endswith(f":{inode}") for field in each)
        ]
        owner = lock.read_text().strip() if held else ""
    except OSError:
        return False
    return any(owner in each for each in held)
