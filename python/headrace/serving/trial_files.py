"""The records in results folders, watched cheaply: pages that follow a run look every second.

Records are renamed into place and out of it, which changes the time of their folder: only then its
names are listed, and records with new names, or new numbers of inodes, are looked at. A few others
are looked at in turn, because somebody may edit one in place.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

_SETTLED_S = 5.0
"""So long after a change was seen, names are listed at each look: the times of some file systems
have steps of a second or two."""


_IN_TURN = 20
"""Known records that are looked at per second, of all folders; at least one of each folder."""


@dataclass
class _Seen:
    """The records of one results folder at the last look."""

    changed_ns: int = -1
    """Time of their folder."""
    at_s: float = 0.0
    """When it was seen for the first time, by this machine's monotonic clock."""
    turn_s: float = 0.0
    """When known records were looked at again."""
    turn: int = 0
    """Number of the record that is looked at next."""
    files: dict[tuple[str, int], tuple[Path, int]] = field(
        default_factory=dict[tuple[str, int], tuple[Path, int]]
    )
    """By name and inode of the record's folder: its trial.json, and when that was written (ns)."""


class TrialFiles:
    """The records of the results folders that were asked for. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Path, _Seen] = {}

    def of(self, results: Path, *, anew: bool = False) -> dict[Path, int]:
        """Return the trial.json of each record, and when it was written (ns; 0 if it is not there).

        `anew`: look at each of them, as is done for a page that is loaded. Raises OSError if the
        folder cannot be read.
        """
        with self._lock:
            return dict(self._looked(results, anew).files.values())

    def _looked(self, results: Path, anew: bool) -> _Seen:
        trials = results / "trials"
        changed_ns, now_s = trials.stat().st_mtime_ns, time.monotonic()
        seen = self._seen.get(results)
        if seen is None or anew:
            seen = self._seen[results] = _Seen(turn_s=now_s)
        if now_s - seen.turn_s >= 1:
            seen.turn_s = now_s
            self._look_in_turn(trials, seen)
        if seen.changed_ns != changed_ns:
            seen.changed_ns, seen.at_s = changed_ns, now_s
        elif now_s - seen.at_s > _SETTLED_S:
            return seen
        with os.scandir(trials) as entries:
            names = [(each.name, each.inode()) for each in entries if each.is_dir()]
        known = seen.files
        seen.files = {key: known.get(key) or _looked_at(trials / key[0]) for key in names}
        return seen

    def _look_in_turn(self, trials: Path, seen: _Seen) -> None:
        keys = list(seen.files)
        if seen.turn >= len(keys):
            seen.turn = 0
        end = seen.turn + max(1, _IN_TURN // len(self._seen))
        for key in keys[seen.turn : end]:
            seen.files[key] = _looked_at(trials / key[0])
        seen.turn = end


def _looked_at(record: Path) -> tuple[Path, int]:
    file = record / "trial.json"
    try:
        return file, file.stat().st_mtime_ns
    except OSError:
        return file, 0


TRIAL_FILES = TrialFiles()
"""Of this server."""
