"""The server's side of the process that simulates (`simulating.py`)."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Callable

import msgspec

from headrace.serving.simulating import SimulatedPoint, SimulationRequest, main
from headrace.system.own_programs import own_code


class WhatIfRun:
    """The points of one question so far. Its fields are written by the worker's thread."""

    def __init__(self, number: int, stop: Callable[[int], None]) -> None:
        self.number = number
        self.points: list[SimulatedPoint] = []
        self.problem, self.hint = "", ""
        self.ended = False
        self._stop = stop

    def stop(self) -> None:
        """Nobody waits for the rest."""
        if not self.ended:
            self._stop(self.number)

    def add(self, point: SimulatedPoint) -> None:
        """Take an answer of the process."""
        if point.end:
            self.ended = True
        elif point.slots:
            self.points = sorted([*self.points, point], key=lambda each: each.slots)
        else:
            self.problem, self.hint = point.problem, point.hint


class WhatIfWorker:
    """Starts the process, hands it requests and takes its answers; it is ended with the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._runs: dict[int, WhatIfRun] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, unless it runs: its imports take a second."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._process = subprocess.Popen(
                own_code(f"from {main.__module__} import main; main()"),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                # Ctrl-C in the terminal is for the server, which ends it.
                start_new_session=True,
            )  # fmt: skip
            threading.Thread(target=self._answers, args=(self._process,), daemon=True).start()

    def ask(self, text: str, base: str) -> WhatIfRun:
        """Simulate a study; its points arrive in the run that is returned."""
        self.start()
        run = WhatIfRun(next(self._numbers), self._cancel)
        self._runs[run.number] = run
        self._send(SimulationRequest(run.number, text, base))
        return run

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _cancel(self, number: int) -> None:
        self._send(SimulationRequest(number))

    def _send(self, request: SimulationRequest) -> None:
        with self._lock:
            assert self._process is not None and self._process.stdin is not None
            try:
                self._process.stdin.write(msgspec.json.encode(request) + b"\n")
                self._process.stdin.flush()
            except OSError:  # `_answers` notices, too
                return

    def _answers(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            point = msgspec.json.decode(line, type=SimulatedPoint)
            run = self._runs.get(point.number)
            if run is not None:
                run.add(point)
                if run.ended:
                    del self._runs[run.number]
        for run in list(self._runs.values()):
            run.add(SimulatedPoint(run.number, problem="the process that simulates has ended"))
            run.add(SimulatedPoint(run.number, end=True))
        self._runs.clear()
