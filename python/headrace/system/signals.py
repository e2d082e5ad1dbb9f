"""Base layer: protect this process's signal dispositions from libraries that replace them.

ROOT does: when its `TUnixSystem` starts, it replaces the handlers of eleven signals, SIGCHLD and
SIGSEGV among them, so that a process's own handlers are no longer called.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Generator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)
_SIGACTION_BYTES = 1024
"""More than `struct sigaction` has on any architecture; its content is not interpreted."""


@contextmanager
def dispositions_kept() -> Generator[None]:
    """Restore every signal's handler and flags, and the thread's signal mask, after the block."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    before = {number: _read(number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, action in before.items():
            if action is not None:
                _libc.sigaction(number, action, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _read(number: int) -> ctypes.Array[ctypes.c_char] | None:
    """Return the C library's disposition of a signal; None for one that cannot be changed."""
    if number in (signal.SIGKILL, signal.SIGSTOP):
        return None
    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    return action if _libc.sigaction(number, None, action) == 0 else None
