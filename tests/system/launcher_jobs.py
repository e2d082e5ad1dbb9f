"""A workload for test_launcher_contract.py, which adds it as another package would.

Jobs that end in every way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from headrace.jobs import JobInput, JobOutput
from headrace.workloads import Workload, WorkloadOptions

PATIENCE_S = 60.0


class Options(WorkloadOptions):
    do: Literal[
        "meet",
        "wait",
        "grow",
        "exit",
        "signal",
        "raise",
        "lose",
        "leave",
        "abandon",
        "read",
        "look",
        "tell",
        "spin",
    ]


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.01)


def child(job: JobInput) -> None:
    """A process that the job leaves alone; it holds every open file of the job."""
    started = subprocess.Popen(["sleep", "600"], close_fds=False)
    (job.scratch / "child").write_text(str(started.pid))


class Contract(Workload):
    """What each job does is its option."""

    kind = "contract"
    Options = Options

    def check(self) -> list[object]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return []

    def run(self, job: JobInput) -> JobOutput:
        (job.scratch / "began").touch()
        return getattr(self, self.options.do)(job)

    def meet(self, job: JobInput) -> JobOutput:
        """Ends only when all jobs run at once."""
        place = job.scratch.parent
        until(lambda: len(list(place.glob("*/began"))) == job.jobs)
        return JobOutput(events=1)

    def wait(self, job: JobInput) -> JobOutput:
        child(job)
        until((job.scratch.parent / "end").exists)
        return JobOutput(events=1)

    def grow(self, job: JobInput) -> JobOutput:
        size = 200 << 20
        return JobOutput(events=len(bytearray(size)) // size)

    def exit(self, job: JobInput) -> JobOutput:
        os._exit(7)

    def signal(self, job: JobInput) -> JobOutput:
        os.kill(os.getpid(), signal.SIGTERM)
        return JobOutput()

    def raise_(self, job: JobInput) -> JobOutput:
        print("what the job printed", flush=True)
        raise ValueError(f"said by {os.environ['CONTRACT']}")

    def lose(self, job: JobInput) -> JobOutput:
        return JobOutput(results={"function": lambda: None})

    def leave(self, job: JobInput) -> JobOutput:
        child(job)
        return JobOutput(events=1)

    def abandon(self, job: JobInput) -> JobOutput:
        # A fork without exec keeps the job's connection open; it is no process of the job's group.
        apart, tell = os.pipe()
        if (pid := os.fork()) == 0:
            os.setsid()
            os.write(tell, b"x")
            time.sleep(30)
            os._exit(0)
        os.read(apart, 1)  # before that, it would be killed with the job's group
        (job.scratch / "child").write_text(str(pid))
        os._exit(3)

    def read(self, job: JobInput) -> JobOutput:
        assert job.packets is not None
        return JobOutput(events=sum(packet.events for packet in job.packets()))

    def tell(self, job: JobInput) -> JobOutput:
        """Notes its clock, and the same time on the engine's."""
        begun = time.monotonic()
        time.sleep(0.01)
        return JobOutput(
            phases=[("read", begun, time.monotonic())],
            results={"own_s": begun, "engine_s": begun + job.clock_offset_s},
        )

    def spin(self, job: JobInput) -> JobOutput:
        """Uses a CPU for half a second of CPU time."""
        while time.process_time() < 0.5:
            pass
        return JobOutput(events=1)

    def look(self, job: JobInput) -> JobOutput:
        return JobOutput(results={"network": Path("/proc/self/ns/net").stat().st_ino})


setattr(Contract, "raise", Contract.raise_)
