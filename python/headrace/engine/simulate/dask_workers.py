"""Simulations on the workers of a Dask cluster: one scenario per task.

Dask hands the tasks out, and hands out again those of a worker that was lost. Outcomes arrive in
any order and are passed on in the order of the scenarios.
"""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from headrace.engine.simulate.simulator import Finished, Simulator
from headrace.engine.simulate.worker_task import TaskAnswer, simulate_one
from headrace.errors import HeadraceError, describe
from headrace.launchers.remote.dask_client import (
    client_of,
    require_headrace,
    workers_of,
)
from headrace.launchers.remote.launcher import check_version

if TYPE_CHECKING:
    from distributed import Client, Future

_POLL_S = 0.1
_LOOK_S = 2.0
"""Time between two looks at the cluster while nothing arrives."""
_NO_WORKERS_S = 60.0
"""How long a cluster may be without workers."""
_AHEAD = 4
"""Tasks submitted per thread of a worker, so that no worker waits for its next one."""


@contextmanager
def dask_workers(address: str) -> Generator[Simulator]:
    """Connect to the scheduler at HOST:PORT.

    Raises HeadraceError when it cannot be reached, has no workers, or one of them has another
    Headrace.
    """
    client = client_of(address, "--on")
    try:
        workers = workers_of(client)
        if not workers:
            raise HeadraceError(
                f"the Dask cluster at {address} has no workers",
                hint="start one: docs/cluster.md has the commands",
            )
        require_headrace(client, list(workers))
        yield DaskWorkers(client, address, sum(each["nthreads"] for each in workers.values()))
    finally:
        # Its tasks go with it; a scheduler that is gone must not hold up the end.
        with contextlib.suppress(Exception):
            client.close(timeout=2)


class DaskWorkers(Simulator):
    """The threads of all workers of a Dask cluster; also of those that join it later."""

    def __init__(self, client: Client, address: str, threads: int) -> None:
        self._client = client
        self._address = address
        self._window = max(8, threads * _AHEAD)
        self.at_once = max(64, 4 * self._window)

    @override
    def run(
        self,
        scenarios: Sequence[str],
        finished: Finished,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        sweep = _Sweep(self._client, self._address, scenarios)
        try:
            for index, found in sweep.answers(self._window, cancelled, progress):
                if not finished(index, found.outcome, found.refusal) and not cancelled():
                    return
        finally:
            sweep.close()


class _Sweep:
    """Scenarios as tasks of a cluster."""

    def __init__(self, client: Client, address: str, scenarios: Sequence[str]) -> None:
        self._client = client
        self._address = address
        self._scenarios = scenarios
        self._topic = f"headrace-{uuid.uuid4().hex}"
        self._futures: dict[int, Future[TaskAnswer]] = {}
        self._done: queue.SimpleQueue[tuple[int, TaskAnswer | BaseException]] = queue.SimpleQueue()
        self._simulated_ns: dict[int, int] = {}
        self._looked_s = self._had_workers_s = time.monotonic()
        client.subscribe_topic(self._topic, self._reported)

    def answers(
        self, window: int, cancelled: Callable[[], bool], progress: Callable[[int], None]
    ) -> Generator[tuple[int, TaskAnswer]]:
        """Yield the answers in the order of the scenarios; those that have come, when stopped."""
        arrived: dict[int, TaskAnswer] = {}
        submitted = following = 0
        while following < len(self._scenarios):
            while submitted < len(self._scenarios) and len(self._futures) < window:
                self._submit(submitted)
                submitted += 1
            if (one := self._next()) is not None:
                arrived[one[0]] = one[1]
            while following in arrived:
                yield following, arrived.pop(following)
                following += 1
            progress(sum(list(self._simulated_ns.values())))
            if cancelled():
                yield from sorted(arrived.items())
                return

    def close(self) -> None:
        """Cancel what still runs."""
        with contextlib.suppress(Exception):
            self._client.cancel(list(self._futures.values()), force=True)
        self._futures.clear()
        with contextlib.suppress(Exception):
            self._client.unsubscribe_topic(self._topic)

    def _submit(self, index: int) -> None:
        future: Future[TaskAnswer] = self._client.submit(
            simulate_one,
            self._scenarios[index],
            index,
            self._topic,
            version("headrace"),
            key=f"{self._topic}-{index}",
            pure=False,
        )
        self._futures[index] = future

        def ended(future: Future[TaskAnswer]) -> None:  # in a thread of Dask's
            try:
                self._done.put((index, future.result()))
            except BaseException as error:
                self._done.put((index, error))

        future.add_done_callback(ended)

    def _next(self) -> tuple[int, TaskAnswer] | None:
        """Return the next answer that arrives; None after a moment. Raises HeadraceError."""
        try:
            index, answer = self._done.get(timeout=_POLL_S)
        except queue.Empty:
            self._look()
            return None
        del self._futures[index]
        if isinstance(answer, BaseException):
            raise self._lost(f"{type(answer).__name__}: {answer}")
        check_version(f"worker {answer.worker}", answer.version)
        self._simulated_ns[index] = answer.simulated_ns
        return index, answer

    def _look(self) -> None:
        """Raise HeadraceError when the scheduler is lost, or has had no workers for long."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        try:
            workers = workers_of(self._client)
        except Exception as error:
            raise self._lost(describe(error)) from error
        if workers:
            self._had_workers_s = now_s
        elif now_s - self._had_workers_s > _NO_WORKERS_S:
            raise self._lost(f"it has had no workers for {_NO_WORKERS_S:.0f} s")

    def _reported(self, event: tuple[float, Any]) -> None:
        index, simulated_ns = event[1]
        self._simulated_ns[index] = max(simulated_ns, self._simulated_ns.get(index, 0))

    def _lost(self, why: str) -> HeadraceError:
        return HeadraceError(f"the Dask cluster at {self._address} does not go on: {why}")
