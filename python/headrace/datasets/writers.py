"""Write the files of a data set, distributed over one process per core."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from headrace.datasets.spec import DatasetSpec
from headrace.errors import HeadraceError
from headrace.system.own_programs import own_module

_FEW_EVENTS = 4096
"""Up to this many events are written by this process: starting others would take longer."""
_TICK_S = 0.2

Facts = dict[str, Any]
"""The fields of `FileFacts`."""


def write_files(
    spec: DatasetSpec, directory: Path, numbers: Sequence[int], progress: Callable[[int], None]
) -> list[Facts]:
    """Write files with these ascending numbers into a directory; return their facts in order.

    `progress` is called several times per second with the events written so far; an exception that
    it raises stops all writers within one second. Raises OSError when a file cannot be written,
    HeadraceError when a writer dies.
    """
    writers = min(len(numbers), len(os.sched_getaffinity(0)))
    if spec.events <= _FEW_EVENTS or writers == 1:
        return _write_here(spec, directory, numbers, progress)
    facts: dict[str, Facts] = {}
    events = 0
    with tempfile.TemporaryFile("w+") as complaints:
        shares = [list(numbers[first::writers]) for first in range(writers)]
        with _running(spec, directory, shares, complaints) as (messages, processes):
            listening = writers
            while listening:
                try:
                    message = messages.get(timeout=_TICK_S)
                except queue.Empty:
                    message = {}
                if message is None:
                    listening -= 1
                elif "error" in message:
                    raise OSError(message["errno"], message["error"])
                elif "name" in message:
                    facts[str(message["name"])] = message
                else:
                    events += int(message.get("events_done", 0))
                    progress(events)
            codes = [process.wait() for process in processes]
        if any(codes) or len(facts) != len(numbers):
            raise _died(spec, codes, complaints)
    return [facts[name] for name in sorted(facts, key=lambda name: (len(name), name))]


@contextmanager
def _running(
    spec: DatasetSpec, directory: Path, shares: Sequence[Sequence[int]], complaints: IO[str]
) -> Generator[tuple[queue.Queue[dict[str, Any] | None], list[subprocess.Popen[str]]]]:
    """Start the writer processes and yield them with the queue of their messages.

    A message None means that a process sends no more. All processes have ended afterwards.
    """
    messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
    processes: list[subprocess.Popen[str]] = []

    def listen(process: subprocess.Popen[str], share: Sequence[int]) -> None:
        assert process.stdin and process.stdout
        order = {
            "spec": spec.model_dump(mode="json"),
            "directory": str(directory),
            "numbers": list(share),
        }
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(order) + "\n")
        with contextlib.suppress(ValueError):  # A line that was truncated by the writer's death.
            for line in process.stdout:
                messages.put(json.loads(line))
        messages.put(None)

    listeners: list[threading.Thread] = []
    try:
        for share in shares:
            process = subprocess.Popen(
                own_module("headrace.datasets.writer_process"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,
            )
            processes.append(process)
            listeners.append(threading.Thread(target=listen, args=(process, share), daemon=True))
            listeners[-1].start()
        yield messages, processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for listener in listeners:
            listener.join()
        for process in processes:
            if process.stdout:
                process.stdout.close()


def _died(spec: DatasetSpec, codes: Sequence[int], complaints: IO[str]) -> HeadraceError:
    complaints.seek(0)
    lines = [line.strip() for line in complaints.read().splitlines() if line.strip()]
    killed = next((-code for code in codes if code < 0), None)
    cause = (
        f"killed by signal {killed}" if killed else (lines[-1] if lines else f"exit codes {codes}")
    )
    return HeadraceError(
        f"a process that writes the data set {spec.key} ended early: {cause}",
        hint="is there enough memory? The writers use one core each" if killed else None,
    )


def _write_here(
    spec: DatasetSpec, directory: Path, numbers: Sequence[int], progress: Callable[[int], None]
) -> list[Facts]:
    from headrace.datasets.file_of_events import write_file

    done = 0

    def tell(events: int) -> None:
        nonlocal done
        done += events
        progress(done)

    return [asdict(write_file(spec, number, directory, tell)) for number in numbers]
