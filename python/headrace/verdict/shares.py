"""Where the wall time of a program went, from counts of different sources; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.verdict.doing import STORAGE, Doing
from headrace.verdict.observation import Access, ShareKind, StoragePlace, TimeShare
from headrace.watching.estimate import Together
from headrace.watching.ledger import YIELDING

_OF_DOING: dict[Doing, ShareKind] = {
    "sleep": "sleep", "connection": "connection", "pipe": "pipe", "lock": "lock",
    "file-lock": "file-lock",
}  # fmt: skip
_ASLEEP: tuple[Doing, ...] = (
    "sleep", "connection", "pipe", "lock", "file-lock", "other", "stopped",
)  # fmt: skip
SAMPLES_LEAST = 10
"""Fewer samples say nothing of shares."""
_SAMPLES_ENOUGH = 50
"""So many bound the time on storage."""
_NOISE = 0.05
"""Samples differ from the times of calls by so much of the wall time; more is page faults."""
_ROUNDING = 1e-6
"""A smaller part of the wall time is what sums of fractions leave."""
_MEMORY_LEAST = 0.02
"""A smaller part of the wall time under memory pressure is that of any program that starts."""


@dataclass(frozen=True)
class Counts:
    """What was counted of a program. Times in seconds, summed over its threads."""

    wall_s: float
    cpu_s: float
    wait_cpu_s: float = 0.0
    kernel_block_s: float = 0.0
    """The kernel's delay accounting, where it is on."""
    memory_stall_s: float = 0.0
    """Some task of the machine waited for memory (PSI)."""
    threads: int = 1
    """That made calls which were recorded."""
    all_threads: int = 1
    """With those of which nothing was recorded."""
    samples: Mapping[Doing, int] = field(default_factory=dict[Doing, int])
    busy: Mapping[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """Samples by the number of threads that ran or waited for a CPU, and that waited for storage;
    empty if that is not known."""
    connections: Sequence[str] = ()
    mapped_on: StoragePlace | None = None
    """Where the data file is whose pages it has mapped and used most."""
    together: Together | None = None
    """How its threads shared the moments of the samples in `busy`; None if that is not known."""


@dataclass(frozen=True)
class ProgramParts:
    """Where the wall time went."""

    shares: tuple[TimeShare, ...]
    """The largest first."""
    summed_threads: int = 0
    """As of `Observation`."""
    waits_bounds_s: tuple[float, float] | None = None
    """As of `Observation`."""
    of_wait: float = 1.0
    """Part of the wall time that a wait of a thread for storage counts, on average."""


class _OfMoments(NamedTuple):
    """Mean parts of a moment: of a thread that runs, runs or could run, and waits."""

    running: float = 1.0
    awake: float = 1.0
    waiting: float = 1.0


def parts_of(counts: Counts, accesses: Sequence[Access]) -> ProgramParts:
    """Return the parts of the wall time.

    Waits for storage are the largest of three counts: of the recorded calls, of samples, and of
    the kernel's delay accounting; what calls do not show are page faults of maps. The times of
    threads count as the threads shared each moment (`watching/together.py`). What is more than the
    wall time then, an error of samples or all of what is known, is cut off in proportion.
    """
    wall_s, counts = counts.wall_s, _believed(counts)
    on_storage = [each for each in accesses if each.place.kind in ("block", "network", "unknown")]
    of = _of_moments(counts)
    each_of = of or _OfMoments()
    cpu_s, wait_cpu_s = _awake_s(counts, each_of)
    storage_s = _storage_s(counts, on_storage) * each_of.waiting
    counted_s = cpu_s + wait_cpu_s + storage_s
    scale = min(1.0, wall_s / counted_s) if counted_s > 0 else 1.0
    found = [
        TimeShare("cpu", "", cpu_s * scale),
        TimeShare("wait-cpu", "", wait_cpu_s * scale),
        *_storage(counts, on_storage, storage_s * scale, each_of.waiting),
    ]
    found += others(counts, max(0.0, wall_s - sum(share.seconds for share in found)))
    least_s = _ROUNDING * wall_s
    threads = max(counts.threads, counts.all_threads)
    return ProgramParts(
        tuple(
            sorted((share for share in found if share.seconds > least_s), key=lambda s: -s.seconds)
        ),
        threads if of is None and threads > 1 and scale < 1 - _NOISE else 0,
        _bounds_s(counts, storage_s * scale) if of is not None else None,
        each_of.waiting * scale,
    )


def _of_moments(counts: Counts) -> _OfMoments | None:
    """Return what looks at all threads show; None if there are too few."""
    together = counts.together
    if together is None or together.looks < SAMPLES_LEAST:
        return None
    waited = sum(
        part
        for state, part in together.parts.items()
        if state.wait is not None and state.wait.kind not in YIELDING
    )
    waiting = sum(waiting * number for (_, waiting), number in counts.busy.items())
    of_wait = waited / waiting if waiting else 1.0
    return _OfMoments(together.part_of_running, together.part_of_awake, of_wait)


def _awake_s(counts: Counts, of: _OfMoments) -> tuple[float, float]:
    """Return how much of the wall time threads ran, and waited for a CPU."""
    awake_s = (counts.cpu_s + counts.wait_cpu_s) * of.awake
    cpu_s = min(awake_s, counts.cpu_s * of.running)
    return cpu_s, awake_s - cpu_s if counts.wait_cpu_s else 0.0


def _bounds_s(counts: Counts, waited_s: float) -> tuple[float, float] | None:
    """Return how long nothing but waits for storage held the program up, at least and at most."""
    together = counts.together
    if together is None:
        return None
    look_s = counts.wall_s / together.looks
    alone_s = max(0.0, waited_s - together.beside_counted * look_s)
    return alone_s, max(waited_s, min(counts.wall_s, alone_s + together.beside * look_s))


def _storage_s(counts: Counts, on_storage: Sequence[Access]) -> float:
    """Return how long threads waited for storage, summed."""
    wall_s = counts.wall_s
    free_s = max(0.0, _busy_most(counts) * wall_s - counts.cpu_s - counts.wait_cpu_s)
    calls_s = min(sum(each.waited_s for each in on_storage), _possible_s(counts))
    seen_s = sum(_sampled_s(counts, each) for each in STORAGE)
    looks = sum(counts.busy.values())
    if looks >= SAMPLES_LEAST and (counts.mapped_on is not None or not calls_s):
        # Page faults, and calls that were not recorded, beside threads that run, too.
        waiting = sum(waiting * number for (_, waiting), number in counts.busy.items())
        seen_s = max(seen_s, wall_s * waiting / looks)
    storage_s = min(free_s, max(calls_s, seen_s))
    # The kernel's count is of all threads, recorded or not.
    most_s = max(counts.threads, counts.all_threads) * wall_s - counts.cpu_s - counts.wait_cpu_s
    return max(storage_s, min(max(free_s, most_s), counts.kernel_block_s))


def _sampled_s(counts: Counts, what: Doing) -> float:
    total = sum(counts.samples.values())
    return counts.wall_s * counts.samples.get(what, 0) / total if total >= SAMPLES_LEAST else 0.0


def _possible_s(counts: Counts) -> float:
    """Return the longest time on storage that samples allow.

    A call that lost its CPU lasts, too, and its thread runs or could run in samples.
    """
    numbers = {waiting: 0 for _, waiting in counts.busy}
    for (_, waiting), number in counts.busy.items():
        numbers[waiting] += number
    if not numbers and counts.threads <= 1:
        numbers = {1: sum(counts.samples.get(each, 0) for each in STORAGE)}
    total = sum(counts.samples.values())
    if not numbers or total < _SAMPLES_ENOUGH:
        return math.inf
    found = [(1, counts.samples.get("other", 0)), *numbers.items()]
    # Threads wait together: their number counts in the variance as its square.
    hits = sum(threads * number for threads, number in found)
    variance = sum(threads**2 * number for threads, number in found)
    return counts.wall_s * (hits + 3 * math.sqrt(variance) + 3) / total


def _believed(counts: Counts) -> Counts:
    """Return the counts without time on run queues in which the threads slept.

    The kernel may count it (seen with Linux 6.18 on busy CPUs: 430 ms of a sleep of 1 s). Samples
    bound what is left.
    """
    if sum(counts.busy.values()) < _SAMPLES_ENOUGH:
        return counts
    running_s = counts.wall_s * _mean_most((each, n) for (each, _), n in counts.busy.items())
    most_s = max(0.0, running_s - counts.cpu_s)
    return replace(counts, wait_cpu_s=min(counts.wait_cpu_s, most_s))


def _busy_most(counts: Counts) -> float:
    """Return how many threads were busy at once, on average over the wall time, at most.

    Of threads that take turns, such as those of a shell and its commands, one is.
    """
    threads = float(max(1, counts.threads))
    if sum(counts.busy.values()) < _SAMPLES_ENOUGH:
        return threads
    at_once = ((max(1, sum(each)), number) for each, number in counts.busy.items())
    return min(threads, _mean_most(at_once))


def _mean_most(numbers: Iterable[tuple[int, int]]) -> float:
    """Return the mean of values that were seen so often, and three standard deviations of it."""
    seen = list(numbers)
    total = sum(number for _, number in seen)
    mean = sum(value * number for value, number in seen) / total
    squares = sum((value - mean) ** 2 * number for value, number in seen)
    return mean + 3 * math.sqrt(squares) / total


def _storage(
    counts: Counts, accesses: Sequence[Access], storage_s: float, of_wait: float
) -> list[TimeShare]:
    """Divide the waits for storage: memory first, the rest as the calls waited."""
    waited_s = sum(each.waited_s for each in accesses)
    calls_s = waited_s * of_wait
    lost = sum(each.again_s for each in accesses) / waited_s if waited_s > 0 else 0.0
    memory_s = min(storage_s, max(counts.memory_stall_s, lost * storage_s))
    if memory_s < _MEMORY_LEAST * counts.wall_s:
        memory_s = 0.0
    left_s = storage_s - memory_s
    found = [TimeShare("memory", "", memory_s)]
    by_calls_s = min(left_s, calls_s)
    if calls_s > 0 and left_s - by_calls_s < _NOISE * counts.wall_s:
        by_calls_s = left_s
    for each in accesses:
        if each.waited_s > 0:
            kind = _kind(each.place)
            part_s = by_calls_s * each.waited_s / waited_s
            found.append(TimeShare(kind, each.place.name, part_s))
    # Page faults, and programs without a recording.
    network_s = _sampled_s(counts, "network") + _sampled_s(counts, "fuse")
    block_s = max(_sampled_s(counts, "block"), counts.kernel_block_s)
    unseen_s = left_s - by_calls_s
    if unseen_s > 0 and counts.mapped_on is not None:
        place = counts.mapped_on
        found.append(TimeShare(_kind(place), place.name, unseen_s))
    elif unseen_s > 0:
        of_network = network_s / (network_s + block_s) if network_s + block_s > 0 else 0.0
        found.append(TimeShare("network", "", unseen_s * of_network))
        found.append(TimeShare("block", "", unseen_s * (1 - of_network)))
    return _merged(found)


def _kind(place: StoragePlace) -> ShareKind:
    return "network" if place.kind == "network" else "block"


def _merged(shares: Sequence[TimeShare]) -> list[TimeShare]:
    """Add up calls and page faults of one place."""
    summed: dict[tuple[ShareKind, str], float] = {}
    for share in shares:
        key = share.kind, share.where
        summed[key] = summed.get(key, 0.0) + share.seconds
    return [TimeShare(kind, where, seconds) for (kind, where), seconds in summed.items()]


def others(counts: Counts, rest_s: float) -> list[TimeShare]:
    """Return the time that no other part explains, divided as the samples show."""
    kinds: dict[Doing, int] = {each: counts.samples.get(each, 0) for each in _ASLEEP}
    total = sum(kinds.values())
    if sum(counts.samples.values()) < SAMPLES_LEAST or not total:
        return [TimeShare("other", "", rest_s)]
    where = counts.connections[0] if len(counts.connections) == 1 else ""
    summed: dict[ShareKind, float] = {}
    for what, number in kinds.items():
        kind = _OF_DOING.get(what, "other")
        if kind == "lock" and counts.connections:
            kind = "connection"  # a thread of a client library reads the socket for it
        summed[kind] = summed.get(kind, 0.0) + rest_s * number / total
    return [
        TimeShare(kind, where if kind == "connection" else "", seconds)
        for kind, seconds in summed.items()
    ]
