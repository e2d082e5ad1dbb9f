"""The node process before this one, which the engine has lost: it ends, and leaves nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.launchers.remote.messages import Hello
from headrace.system.identity import boot_id, start_ticks
from headrace.system.journal import undo
from headrace.system.machine_facts import machine_facts
from headrace.system.waiting import wait_until

_ENDS = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0))
"""With the first it kills its jobs and undoes its journal."""


def end_predecessor(before: Hello) -> None:
    """End a process, if it still runs on this kernel, and undo its journal, if there is one left.

    Nothing is done if it ran on another machine: only there can its changes be undone, even where
    both machines see its journal. Raises HeadraceError that says what could not be undone.
    """
    if before.kernel == boot_id():
        if before.start_ticks is not None:
            _end(before.pid, before.start_ticks)
    elif before.machine.host != machine_facts().host:
        return
    left = [result.text for result in undo(Path(before.journal)) if not result.done]
    if left:
        raise HeadraceError(
            f"what was left there could not be restored: {'; '.join(left)}",
            hint="headrace undo on that node",
        )


def _end(pid: int, ticks: int) -> None:
    for sent, patience_s in _ENDS:
        if start_ticks(pid) != ticks:
            return
        try:
            os.kill(pid, sent)
            os.kill(pid, signal.SIGCONT)  # a stopped process receives nothing else
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise HeadraceError(f"process {pid}, lost before, belongs to another user") from error
        if wait_until(lambda: start_ticks(pid) != ticks, patience_s, 0.05):
            return
    raise HeadraceError(f"process {pid}, lost before, does not end")
