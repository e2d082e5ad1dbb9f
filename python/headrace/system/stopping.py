"""Base layer: the signals that stop this process: Ctrl-C, SIGTERM, and SIGHUP (closed terminal).

A signal that was ignored at process start (nohup) stays ignored. A child that was forked without
exec ends on the signal as if no handler were set.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 3.0
"""Further signals within this time mean the same stop: a closed terminal may send several."""

_heard: list[int] = []
_interrupted = threading.Event()


def exit_code() -> int:
    """Return the exit code of a stopped command: 128 plus the first signal received, or SIGINT."""
    return 128 + (_heard[0] if _heard else signal.SIGINT)


def interrupted() -> bool:
    """Return whether a signal has raised KeyboardInterrupt in a block of `interrupting`.

    The import of C extensions can lose it: it goes on, or fails by an error of its own.
    """
    return _interrupted.is_set()


def end_at_once() -> None:
    """Let Ctrl-C end this process without a word once Python's own end has begun.

    Everything is done by then; Python would print a traceback of what it frees.
    """
    atexit.register(_default_interrupt)


def _default_interrupt() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def stopping_on_signals(stop: threading.Event) -> Generator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP set `stop` in the block, without interrupting anything.

    The caller then restores everything before it ends.
    """
    if interrupted():
        stop.set()
    with _handled(stop.set):
        yield


@contextmanager
def interrupting() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread, as Ctrl-C does.

    Further signals within three seconds are ignored, so that they do not interrupt the cleanup.
    """
    last_s = -_AGAIN_S
    _interrupted.clear()

    def interrupt() -> None:
        nonlocal last_s
        before_s, last_s = last_s, time.monotonic()
        if last_s - before_s >= _AGAIN_S:
            _interrupted.set()
            raise KeyboardInterrupt

    with _handled(interrupt):
        yield


@contextmanager
def _handled(hear: Callable[[], None]) -> Generator[None]:
    ours = os.getpid()

    def handle(number: int, _frame: object) -> None:
        if os.getpid() != ours:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _heard.append(number)
        hear()

    before = {number: signal.getsignal(number) for number in STOPPING}
    kept = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in kept:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in kept:
            signal.signal(number, before[number] or signal.SIG_DFL)
