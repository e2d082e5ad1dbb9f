"""Scheduler and workers of Dask for one trial: children of jobs, in the user's Python.

Every connection has TLS with one key made for the trial, which processes receive in their
environment. Scheduler and workers listen on loopback unless an interface is named.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.system.children import Child
from headrace.system.cluster_keys import credentials_of_a_trial
from headrace.system.own_variables import users_environment
from headrace.system.waiting import remaining, wait_until

ADDRESS = "DASK_SCHEDULER_ADDRESS"
_LOOPBACK = "127.0.0.1"
_START_S = 60.0
_CLOSE_S = 10.0
_LOOK_S = 0.05
_HOOK = Path(__file__).with_name("hook.py")
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""One thread each, as Dask sets them in workers that its nanny starts."""


def credentials() -> dict[str, str]:
    """Return Dask's variables for TLS with a key of its own."""
    certificate, key = credentials_of_a_trial()
    roles = {
        f"{_TLS}{role}__{what}": text
        for role in ("SCHEDULER", "WORKER", "CLIENT")
        for what, text in (("CERT", certificate), ("KEY", key))
    }
    always = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    return {f"{_TLS}CA_FILE": certificate, **roles, **always}


def names_of_credentials() -> tuple[str, ...]:
    """Return the names of all variables that the first job offers to the others."""
    return (ADDRESS, *credentials())


def _listens(interface: str | None) -> list[str]:
    where = ["--host", _LOOPBACK] if interface is None else ["--interface", interface]
    return [*where, "--no-dashboard", "--dashboard-address", f"{_LOOPBACK}:0"]


class Scheduler:
    """The scheduler of a trial."""

    def __init__(
        self,
        python: str,
        folder: Path,
        log: Path,
        variables: Mapping[str, str],
        interface: str | None,
    ) -> None:
        """Start it and wait for its address. Raises HeadraceError."""
        file = folder / "scheduler.json"
        words = [python, "-m", "distributed.cli.dask_scheduler", "--protocol", "tls", "--port", "0"]
        words += ["--scheduler-file", str(file), *_listens(interface)]
        environment = {**users_environment(), **variables}
        self._child = Child(
            words, directory=folder, stdout=log, stderr=log, environment=environment
        )
        self.address = ""

        def known() -> bool:
            self.address = _address_in(file)
            return bool(self.address) or not self._child.running

        if not wait_until(known, _START_S, _LOOK_S) or not self.address:
            self._child.kill()
            said = self._child.wait().last_words
            raise HeadraceError(f"the Dask scheduler does not start: {said or 'no reason given'}")

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def failure(self) -> str | None:
        """Return how it failed; None while it runs, and when the script has ended it."""
        if self._child.running:
            return None
        try:
            self._child.wait().check()
        except HeadraceError as error:
            return error.message
        return None

    def end(self) -> None:
        """Kill it: its workers then close."""
        self._child.kill()
        self._child.wait()


def _address_in(file: Path) -> str:
    try:
        return str(json.loads(file.read_text())["address"])
    except (OSError, ValueError, KeyError):
        return ""


class Worker:
    """A worker process of the trial's scheduler."""

    def __init__(
        self,
        python: str,
        folder: Path,
        log: Path,
        variables: Mapping[str, str],
        *,
        name: str,
        interface: str | None,
        threads: int,
        memory_bytes: int,
    ) -> None:
        """Start it; `variables` have the address of the scheduler and the key."""
        self._said = b""
        self.tasks: int | None = None
        """Number of tasks that it has run, once it closes."""
        self.ready = False
        self.closing = False
        self._hears, tells = os.pipe()
        hears, self._tells = os.pipe()
        words = [python, "-m", "distributed.cli.dask_worker", variables[ADDRESS], "--no-nanny"]
        words += ["--nworkers", "1", "--nthreads", str(threads), "--name", name]
        words += ["--memory-limit", str(memory_bytes), "--local-directory", str(folder)]
        words += ["--death-timeout", "60", "--preload", str(_HOOK), *_listens(interface)]
        environment = {
            **dict.fromkeys(_THREADS, str(threads)),
            **users_environment(),
            **variables,
            "HEADRACE_WORKER": f"{hears},{tells}",
        }
        try:
            self._child = Child(
                words,
                directory=folder,
                stdout=log,
                stderr=log,
                environment=environment,
                keep_open=(hears, tells),
            )
        finally:
            os.close(hears)
            os.close(tells)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def fileno(self) -> int:
        """File descriptor, for select: readable when `hear` returns at once."""
        return self._hears

    @property
    def running(self) -> bool:
        """Whether it has neither ended nor begun to close."""
        return not self.closing and self._child.running

    def hear(self, timeout_s: float) -> bool:
        """Take in what it says. Return whether it still runs, as `running`."""
        if not select.select([self._hears], [], [], timeout_s)[0]:
            return self.running
        data = os.read(self._hears, 4096)
        if not data:  # it has ended
            self._child.wait()
            return False
        self._said += data
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            self.ready |= word == "ready"
            if word == "closing":
                self.closing, self.tasks = True, int(rest)
        return self.running

    def await_ready(self) -> None:
        """Wait until the scheduler knows it. Raises HeadraceError."""
        for left_s in remaining(_START_S):
            if self.ready:
                return
            if not self.hear(min(1.0, left_s)) and not self.ready:
                raise HeadraceError(
                    f"a Dask worker does not start: {self._child.wait().last_words}"
                )
        self._child.kill()
        said = self._child.wait().last_words
        raise HeadraceError(f"a Dask worker does not reach its scheduler: {said}")

    def await_close(self) -> None:
        """Wait until it closes, as it does without scheduler; not for ever."""
        wait_until(lambda: not self.hear(_LOOK_S), _CLOSE_S, 0.0)

    def check(self) -> None:
        """Raise ChildFailedError when it ended before it was told to close."""
        if not self.closing and not self._child.running:
            self._child.wait().check()
