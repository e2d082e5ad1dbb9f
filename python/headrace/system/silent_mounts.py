"""Base layer: network mounts whose server does not respond.

A process that accesses a hard mount of such a server waits in the kernel for ever, and cannot
receive signals. This module detects these mounts without accessing them, and aborts them.

    with let_go_when_stopped(journal, stop):
        …       once a stop is requested, this run's unresponsive mounts are aborted:
                waiting processes get an error and continue
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.system import mounts
from headrace.system.stopping import STOPPING

if TYPE_CHECKING:
    from headrace.system.journal import Journal

_ASKED_FOR_S = 5.0
"""A server that does not respond for this long during a stop counts as unresponsive."""
_GRACE_S = 5.0
"""Time that jobs get to end by themselves before that."""
_POLL_S = 0.5


def answers(directory: Path, patience_s: float = _ASKED_FOR_S) -> bool:
    """Return whether the mounted file system answers statfs within `patience_s`.

    A separate process calls it, which may block.
    """
    asking = subprocess.Popen(
        ["stat", "--file-system", "--", str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asking.wait(patience_s)
    except subprocess.TimeoutExpired:
        asking.kill()  # it dies when the mount is aborted
        return False
    return True


@contextmanager
def let_go_when_stopped(journal: Journal, stop: threading.Event) -> Generator[None]:
    """Abort unresponsive network mounts of a journal in a thread, once a stop is requested.

    The stop is requested by `stop`, or by a signal that this process cannot receive because it is
    blocked. Before that, no mount is accessed.
    """
    over = threading.Event()

    def watch() -> None:
        while not (over.wait(_POLL_S) or stop.is_set() or _unheard_signal()):
            pass
        over.wait(_GRACE_S)
        while not over.wait(_POLL_S):
            _let_go(journal)

    thread = threading.Thread(target=watch, name="headrace-silent-mounts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_ASKED_FOR_S + _GRACE_S)


def _let_go(journal: Journal) -> None:
    for entry in journal.open_entries:
        if entry.action == "unmount" and entry.args.get("lazy"):
            directory, source = Path(entry.args["directory"]), str(entry.args["source"])
            if mounts.is_mounted(directory, source) and not answers(directory):
                with contextlib.suppress(HeadraceError):
                    mounts.abort(directory, source)


def _unheard_signal() -> bool:
    """Return whether a stop signal is pending because this process is blocked (proc(5), ShdPnd)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("ShdPnd:"):
            pending = int(line.split()[1], 16)
            return any(pending & 1 << (number - 1) for number in STOPPING)
    return False
