"""What happens in a job process: told what to do, says that it is ready, waits for the release, runs, reports.

Conversation with the crew (pickled messages): in comes a JobOrder, out goes `ready`; in comes `go`; while packets are pulled `next` goes
out and a packet or None comes in; at the end `done` with output and ledger goes out, or `failed` with the cause.
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

from headrace.engine.measure.nursery import Channel
from headrace.errors import HeadraceError
from headrace.workloads import JobInput, Packet


@dataclass(frozen=True)
class JobOrder:
    """All that a job process needs to know."""

    kind: str
    name: str
    options: dict[str, Any]
    job: int
    input: JobInput
    packets: bool
    network: bool
    log: Path
    namespace: str | None = None
    """The network namespace of the node that it runs on."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What it needs to reach the storage."""


def serve(channel: Channel) -> int:
    """Runs one job. Returns the exit code of the process."""
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
    """What the job prints belongs to its log, not to the user's terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    with contextlib.suppress(OSError):
        os.close(handle)
