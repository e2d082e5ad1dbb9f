"""The job process: receive an order, report ready, wait for the release, run, report the result.

Protocol with the job pool (pickled messages): JobOrder is received, `ready` is sent; `go` is
received; with packets, `next` is sent and a packet or None is received, repeatedly; at the end
`done` with output and ledger is sent, or `failed` with the cause.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.engine.measure.fork_server import Channel
from headrace.errors import HeadraceError
from headrace.workloads import JobInput, Packet


@dataclass(frozen=True)
class JobOrder:
    """Everything that a job process needs to know."""

    kind: str
    name: str
    options: dict[str, Any]
    job: int
    input: JobInput
    packets: bool
    network: bool
    log: Path
    namespace: str | None = None
    """Network namespace of its node."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables it needs to reach the storage."""


def serve(channel: Channel) -> int:
    """Run one job. Return the exit code of the process."""
    from headrace import workloads
    from headrace.probes.ledger import LedgerMeter
    from headrace.system.children import ChildFailedError

    order: JobOrder
    order, _ = channel.receive()
    _redirect(order.log)
    os.environ.update(order.environment)
    if order.namespace is not None:
        from headrace.system.cluster.namespaces import enter

        try:
            enter(order.namespace)
        except HeadraceError as error:
            now = time.monotonic()
            channel.send(("failed", now, now, error.message, None))
            return 1
    part = workloads.kinds()[order.kind]
    workload = part(order.name, part.Options.model_validate(order.options))
    given = replace(order.input, packets=(lambda: _pull(channel)) if order.packets else None)
    meter = LedgerMeter(network=order.network)
    channel.send(("ready",))
    channel.receive()
    start = time.monotonic()
    meter.begin()
    try:
        output = workload.run(given)
    except HeadraceError as error:
        word = error.exit if isinstance(error, ChildFailedError) else "failed"
        channel.send((word, start, time.monotonic(), error.message, meter.end(0.0)))
        return 1
    except BaseException as error:
        traceback.print_exc()
        cause = f"{type(error).__name__}: {error}".splitlines()[0][:400]
        channel.send(("failed", start, time.monotonic(), cause, meter.end(0.0)))
        return 1
    row = meter.end(output.read_wait_s, asynchronous=output.asynchronous)
    end = time.monotonic()
    channel.send(("done", start, end, output, row))
    return 0


def _pull(channel: Channel) -> Iterator[Packet]:
    while True:
        channel.send(("next",))
        packet, _ = channel.receive()
        if packet is None:
            return
        yield packet


def _redirect(log: Path) -> None:
    """Redirect output of the job to its log, away from the user's terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    with contextlib.suppress(OSError):
        os.close(handle)
