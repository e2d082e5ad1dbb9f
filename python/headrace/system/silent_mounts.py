"""Ground: mounts of network file systems whose server says nothing. Whoever touches a hard one waits in the kernel for ever, and no
signal reaches it there; here such a mount is found out without touching it, and let go of.

    with let_go_when_stopped(journal, stop):
        …       once a stop is asked for, mounts of this run that do not answer are aborted: those who wait get an error and go on
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.system import mounts
from headrace.system.journal import Journal

_ASKED_FOR_S = 5.0
"""A server that does not answer for so long while a stop is asked for is silent."""
_GRACE_S = 5.0
"""Before that, what runs is left to end by itself."""
_POLL_S = 0.5
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def answers(directory: Path, patience_s: float = _ASKED_FOR_S) -> bool:
    """Whether the file system that is mounted there says how full it is within `patience_s`; asked by another process."""
    asking = subprocess.Popen(
        ["stat", "--file-system", "--", str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asking.wait(patience_s)
    except subprocess.TimeoutExpired:
        asking.kill()  # it dies when the mount is let go of
        return False
    return True


@contextmanager
def let_go_when_stopped(journal: Journal, stop: threading.Event) -> Generator[None]:
    """While in it, a thread looks after the network mounts of a journal. It touches none before a stop is asked for, by `stop` or by a
    signal that this process is too stuck to hear."""
    over = threading.Event()

    def watch() -> None:
        asked_at: float | None = None
        while not over.wait(_POLL_S):
            if asked_at is None and (stop.is_set() or _unheard_signal()):
                asked_at = time.monotonic()
            if asked_at is not None and time.monotonic() - asked_at > _GRACE_S:
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
    """Whether a signal that asks for a stop waits for this process to come out of the kernel (proc(5), ShdPnd)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("ShdPnd:"):
            pending = int(line.split()[1], 16)
            return any(pending & 1 << (number - 1) for number in _STOPPING)
    return False
