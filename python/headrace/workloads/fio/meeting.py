"""Synchronises the clients of a trial before their first request.

Starting a client takes longer than some measurements.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from headrace.errors import HeadraceError
from headrace.system.own_programs import own_program
from headrace.workloads import JobInput

_PATIENCE_S = 120


class Meeting:
    """One client's side of the barrier."""

    def __init__(self, job: JobInput, label: str) -> None:
        if job.meeting is None:
            raise HeadraceError("jobs that start together need a place to meet")
        self._program = str(own_program("headrace-metadata"))
        self._place = (str(job.meeting.absolute()), f"meet-{label}")
        self._client, self._clients = str(job.job), str(job.jobs)

    @classmethod
    def of(cls, job: JobInput, label: str) -> Meeting | None:
        """Return None for a client without others to wait for.

        It is the only one, or starts later in a slot that has become free.
        """
        return cls(job, label) if job.jobs > 1 and job.job < job.jobs else None

    @property
    def command(self) -> list[str]:
        """The program that ends when all clients are ready."""
        return [self._program, "meet", *self._place, self._client, self._clients, str(_PATIENCE_S)]

    def wait(self) -> None:
        """Return when all clients are ready. Raises HeadraceError with the cause otherwise."""
        end = subprocess.run(
            self.command, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if end.returncode != 0:
            words = end.stderr.decode(errors="replace").strip()
            raise HeadraceError(words or "the clients did not come together")

    @contextmanager
    def kept(self) -> Generator[None]:
        """Tell the waiting clients when this client fails within the context."""
        try:
            yield
        except BaseException:
            reason = f"client {self._client} failed before the others could start"
            subprocess.run(
                [self._program, "stop", *self._place, self._clients, reason],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            raise
