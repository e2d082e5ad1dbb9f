"""Jobs by process id: `headrace watch --pid 4711`. A process and its descendants are one job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from headrace.errors import MissingError, UsageError
from headrace.system.program_names import job_name
from headrace.watching.finders import Finder, FoundJob
from headrace.watching.process import name_of, start_ticks


class PidFinder(Finder):
    """Each process that the user names is a job."""

    kind: ClassVar[str] = "pid"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._jobs: list[FoundJob] = []
        for text in dict.fromkeys(names):
            if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
                raise UsageError(f"--pid {text}: not a process id", hint="for example --pid 4711")
            pid = int(text)
            started = start_ticks(pid)
            if started is None:
                if _hidden(pid):
                    raise MissingError(
                        f"--pid {pid}: the process runs, but /proc does not show it",
                        hint="a /proc mounted with hidepid shows the processes of others to root "
                        "only",
                    )
                raise UsageError(
                    f"--pid {pid}: no such process",
                    hint="it may have ended; `ps` lists the processes",
                )
            name = f"{pid} {job_name(pid, name_of(pid))}"
            self._jobs.append(FoundJob(f"{pid}.{started}", name, frozenset({pid})))

    @override
    def find(self) -> list[FoundJob]:
        """Return the jobs; those that have ended, too."""
        return self._jobs


def _hidden(pid: int) -> bool:
    """Return whether a process exists that /proc does not show (hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass
    except OSError:
        return False
    return not Path(f"/proc/{pid}").exists()
