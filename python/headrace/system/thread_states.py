"""Base layer: the time that a process and its descendants wait for storage, by samples.

A native thread looks at the states of all their threads at random moments
(`crates/threadstates`). The samples share out the time asleep, which other counters tell exactly.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

from headrace._core import ThreadSampler
from headrace.system.accounting import Times
from headrace.system.wait_channels import channel_of

_ENDED = frozenset("ZXx")
SAMPLES_ENOUGH = 50
"""So many bound the time on run queues."""
_LITTLE = 0.01
"""Share of the wall time; less time asleep than this needs no samples of it."""


@dataclass(frozen=True)
class SampledStates:
    """Mean numbers of threads over a time."""

    samples: int
    alive: float
    asleep: float
    waiting: float
    """Asleep until storage has done something: in state D, or in a request of FUSE or NFS."""
    cost_ns: int
    """CPU time of sampling that counts as that of the process."""
    waited_ns: int
    """Time on run queues of sampling, which the kernel adds to that of the process."""

    def storage_wait_ns(self, wall_ns: int, used: Times) -> int | None:
        """Return the time that the threads waited for storage; None when no sample tells.

        `used`: their time on CPUs and on run queues, without that of sampling.
        """
        asleep_ns = max(0.0, self.alive * wall_ns - used.run_ns - used.wait_cpu_ns)
        if self.asleep > 0:
            return round(asleep_ns * self.waiting / self.asleep)
        return 0 if self.samples and asleep_ns < _LITTLE * wall_ns else None

    def wait_cpu_ns(self, wall_ns: int, used: Times) -> int:
        """Return the time of `used` on run queues, as far as samples allow (`queued_ns`)."""
        awake = 1 - self.asleep / self.alive if self.alive > 0 else 1.0
        return queued_ns(used, round(self.alive * wall_ns), awake, self.samples)


def queued_ns(used: Times, lived_ns: int, awake: float, samples: int) -> int:
    """Return the time that threads waited for a CPU.

    The kernel may count sleep, too (seen with Linux 6.18 on busy CPUs: 430 ms of a sleep of 1 s).
    `used` has its counts, `lived_ns` is the lifetime of all threads, and `awake` the share of
    samples that showed a thread that ran or could run: they bound it to three standard deviations.
    """
    if samples < SAMPLES_ENOUGH:
        return used.wait_cpu_ns
    deviation = math.sqrt(max(0.0, awake * (1 - awake)) / samples)
    most_ns = lived_ns * (awake + 3 * deviation + 3 / samples) - used.run_ns
    return min(used.wait_cpu_ns, max(0, round(most_ns)))


class StateSampling:
    """Samples a process and its descendants until `end`. Raises OSError when it cannot start."""

    def __init__(self, process: int) -> None:
        self._in_itself = process == os.getpid()
        self._sampler = ThreadSampler(process)

    def end(self) -> SampledStates:
        """Return what was seen."""
        states, samples, sampled_ns, *used_ns = self._sampler.stop()
        cost_ns, waited_ns = used_ns if self._in_itself else (0, 0)
        return states_of(states, samples, sampled_ns, cost_ns=cost_ns, waited_ns=waited_ns)


def states_of(
    states: Iterable[tuple[str, bytes, float]],
    samples: int,
    sampled_ns: float,
    *,
    cost_ns: int,
    waited_ns: int,
) -> SampledStates:
    """Return the mean numbers of threads from times by letter and kernel function; pure."""
    alive = asleep = waiting = 0.0
    for letter, function, time_ns in states:
        if letter in _ENDED:
            continue
        alive += time_ns
        if letter != "R":
            asleep += time_ns
            waiting += time_ns if _for_storage(letter, function) else 0.0
    whole_ns = sampled_ns or 1.0
    return SampledStates(
        samples, alive / whole_ns, asleep / whole_ns, waiting / whole_ns, cost_ns, waited_ns
    )


def _for_storage(letter: str, function: bytes) -> bool:
    kind = channel_of(function).kind
    if letter == "S":  # FUSE and Lustre let signals interrupt their requests
        return kind in ("fuse", "network")
    return letter == "D" and kind not in ("memory", "child")
