"""The job process: receive a specification, report ready, wait for the release, run, report.

Protocol with the launcher (pickled messages): a JobSpec, the network namespace and the offset of
the node's clock are received, `ready` is sent with what the job offers to those after it; `go` is
received, unless the job begins at once; with packets, `next` is sent with the output so far, and a
packet or None is received, repeatedly; at the end the fields of `launchers.Reported` are sent.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headrace import workloads
from headrace.errors import HeadraceError, describe
from headrace.jobs import JobOutput, Packet
from headrace.launchers import JobSpec
from headrace.launchers.channel import Channel
from headrace.probes.family_ledger import FamilyMeter
from headrace.probes.ledger import LedgerMeter
from headrace.protocols.repeats import REPEATED
from headrace.system.children import ChildFailedError
from headrace.system.network_namespaces import enter


def serve(channel: Channel) -> int:
    """Run one job. Return the exit code of the process."""
    spec: JobSpec
    namespace: str | None
    offset_s: float
    (spec, namespace, offset_s), _ = channel.receive()

    def now() -> float:
        return time.monotonic() + offset_s

    def fail(cause: str) -> int:
        failed_s = now()
        channel.send(("failed", cause, failed_s, failed_s, None, None))
        return 1

    try:
        _prepare(spec, namespace)
    except HeadraceError as error:
        return fail(error.message)
    part = workloads.kinds()[spec.kind]
    workload = part(spec.name, part.Options.model_validate(spec.options))
    feed = _Feed(channel, offset_s)
    given = replace(
        spec.input,
        packets=feed.pull if spec.packets else None,
        report_so_far=feed.keep if spec.packets else None,
        clock_offset_s=offset_s,
    )
    try:
        offered = workload.get_ready(given)
    except HeadraceError as error:
        return fail(error.message)
    process = workload.measured_process
    if process is None:
        meter = LedgerMeter(network=spec.network, threads=workload.threads, by_url=spec.by_url)
    else:
        meter = FamilyMeter(process, network=spec.network, threads=workload.threads)
    channel.send(("ready", offered))
    if not spec.at_once:
        channel.receive()
    start, repeats = now(), REPEATED.requests
    meter.begin()
    try:
        output = workload.run(given)
    except HeadraceError as error:
        word = error.exit if isinstance(error, ChildFailedError) else "failed"
        channel.send((word, error.message, start, now(), None, meter.end(0.0)))
        return 1
    except BaseException as error:
        traceback.print_exc()
        cause = f"{type(error).__name__}: {error}".splitlines()[0][:400]
        channel.send(("failed", cause, start, now(), None, meter.end(0.0)))
        return 1
    waited_s = output.read_wait_s + (output.open_s or 0.0)
    row = meter.end(waited_s, asynchronous=output.asynchronous)
    end = now()
    output = replace(output, request_repeats=REPEATED.requests - repeats)
    channel.send(("ok", None, start, end, _on_clock(output, offset_s), row))
    return 0


def _on_clock(output: JobOutput, offset_s: float) -> JobOutput:
    """Return an output with the times of its phases on the engine's clock."""
    phases = [(name, begun + offset_s, end + offset_s) for name, begun, end in output.phases]
    return replace(output, phases=phases)


class _Feed:
    """Requests packets for a job; each request brings the output of the packets before it."""

    def __init__(self, channel: Channel, offset_s: float) -> None:
        self._channel = channel
        self._offset_s = offset_s
        self._so_far: JobOutput | None = None

    def keep(self, output: JobOutput) -> None:
        self._so_far = _on_clock(output, self._offset_s)

    def pull(self) -> Iterator[Packet]:
        while True:
            self._channel.send(("next", self._so_far))
            packet, _ = self._channel.receive()
            if packet is None:
                return
            yield packet


def _prepare(spec: JobSpec, namespace: str | None) -> None:
    """Redirect the job's output; take on its environment and network. Raises HeadraceError."""
    try:
        _redirect(spec.log)
    except OSError as error:
        raise HeadraceError(f"the job's log cannot be made: {describe(error)}") from error
    os.environ.update(spec.environment)
    if namespace is not None:
        enter(namespace)


def _redirect(log: Path) -> None:
    """Redirect output of the job to its log, away from the user's terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    with contextlib.suppress(OSError):
        os.close(handle)
