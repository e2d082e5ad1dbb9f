"""Jobs by control group: `headrace watch --cgroup /system.slice/my.service`, version 1 and 2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from headrace.errors import UsageError
from headrace.system.mounts import read_mounts
from headrace.watching.finders import Finder, FoundJob


class CgroupFinder(Finder):
    """Each control group that the user names, with those below it, is a job."""

    kind: ClassVar[str] = "cgroup"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._jobs = [
            FoundJob(str(group), group.name or str(group), groups=(group,), follow=False)
            for group in dict.fromkeys(_group(name) for name in names)
        ]

    @override
    def find(self) -> list[FoundJob]:
        """Return the jobs; those that have ended, too."""
        return self._jobs


def cgroup_mounts() -> list[Path]:
    """Return where hierarchies of control groups are mounted, version 2 first."""
    mounts = [each for each in read_mounts() if each.filesystem in ("cgroup", "cgroup2")]
    mounts.sort(key=lambda each: each.filesystem != "cgroup2")
    return [each.directory for each in mounts]


def _group(name: str) -> Path:
    """Return the directory of a group. Raises UsageError."""
    tops = cgroup_mounts()
    if not tops:
        raise UsageError(
            f"--cgroup {name}: no control groups are mounted here",
            hint="watch by process or user instead: --pid, --user",
        )
    relative = name.lstrip("/")
    places = [Path(name).resolve(), *(top / relative for top in tops)]
    for place in places:
        if any(place.is_relative_to(top) for top in tops) and (place / "cgroup.procs").is_file():
            return place
    raise UsageError(
        f"--cgroup {name}: no such control group below {' or '.join(map(str, tops[:3]))}",
        hint="/proc/PID/cgroup has the group of a process",
    )
