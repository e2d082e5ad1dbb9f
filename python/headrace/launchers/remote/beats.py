"""Signs of life between the engine and a node, whatever else both do."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterable
from typing import Protocol

from headrace.launchers.remote.messages import Beat, framed

SILENCE_S = 90.0
"""Either side gives the other up when it is not heard of for this time, unless told otherwise. TCP
doubles the time between its attempts: what was sent at the begin of an interruption of 30 s arrives
51 s after it."""
BEATS = 6
"""How often a side speaks in this time."""
_BEAT = framed(Beat())


class Beats:
    """What a node sends: its messages, and beats between them by another thread."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._sending = threading.Lock()
        self._ended = threading.Event()
        self._interval_s = SILENCE_S / BEATS
        self._changed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, data: bytes) -> None:
        """Send a message. Raises OSError when nobody reads it."""
        left = memoryview(data)
        with self._sending:
            while left:
                left = left[os.write(self._answers, left) :]

    def every(self, interval_s: float) -> None:
        """Send a beat each time this much has passed."""
        self._interval_s = interval_s
        self._changed.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._changed.wait(self._interval_s):
                self._changed.clear()
            if not self._sending.acquire(blocking=False):
                continue  # a message is being sent
            try:
                # A pipe that is ready takes a short message whole (pipe(7), PIPE_BUF).
                if not self._ended.is_set() and select.select([], [self._answers], [], 0)[1]:
                    os.write(self._answers, _BEAT)
            except OSError:
                return
            finally:
                self._sending.release()

    def close(self) -> None:
        """Send no more beats."""
        self._ended.set()
        self._changed.set()


class Beating(Protocol):
    """A connection to a node."""

    def beat(self) -> None: ...


class EngineBeats:
    """Tells nodes that the engine is there, by a thread of its own, as long as the block."""

    def __init__(self, nodes: Iterable[Beating], silence_s: float) -> None:
        self._nodes = tuple(nodes)
        self._interval_s = silence_s / BEATS
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            for node in self._nodes:
                node.beat()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
