"""Folders of jobs on a node that does not share the engine's: log, scratch, files to keep."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.launchers import JobSpec
from headrace.launchers.remote.messages import Leftovers

MOST_LOG_BYTES = 1 << 20
"""Only the end of a longer log is sent to the engine."""
MOST_KEPT_BYTES = 64 << 20
"""Bytes of files to keep that one job may send to the engine."""


class JobFolders:
    """The folders of the jobs of a node, below a private one."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._keeps: set[int] = set()

    def of_job(self, number: int, spec: JobSpec) -> JobSpec:
        """Return the specification with a log of this node, and with folders that it has.

        A directory of the target must be there: it holds the job's input. Raises HeadraceError.
        """
        own = self._place / str(number)
        own.mkdir()
        given = spec.input
        if given.directory is not None and not given.directory.is_dir():
            raise HeadraceError(f"{given.directory} is not on this node")
        if given.scratch.parent.is_dir():  # that of the target, made by this node or shared
            given.scratch.mkdir(exist_ok=True)
        else:
            given = replace(given, scratch=_made(own / "scratch"))
        if given.keep is not None and not given.keep.is_dir():
            given = replace(given, keep=_made(own / "keep"))
            self._keeps.add(number)
        return replace(spec, input=given, log=own / "log")

    def read(self, number: int) -> Leftovers:
        """Return what the job wrote so far into folders of this node."""
        own = self._place / str(number)
        log = _end_of(own / "log")
        kept: dict[str, bytes] = {}
        if number in self._keeps:
            left = MOST_KEPT_BYTES
            for path in sorted((own / "keep").iterdir()):
                if path.is_file() and not path.is_symlink() and path.stat().st_size <= left:
                    kept[path.name] = path.read_bytes()
                    left -= len(kept[path.name])
        return Leftovers(log, kept)

    def take(self, number: int) -> Leftovers:
        """Return the same, and remove the folders."""
        found = self.read(number)
        self._keeps.discard(number)
        shutil.rmtree(self._place / str(number), ignore_errors=True)
        return found


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _end_of(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_LOG_BYTES))
            return file.read()
    except OSError:
        return b""
