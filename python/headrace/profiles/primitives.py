"""Steps of a profile, recorded or written by hand, as single operations in replay order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.scenario import AccessList, Events, Order, Pattern, Requests, Step

_SEQUENTIAL: Order = {"kind": "sequential"}


@dataclass(frozen=True, slots=True)
class Primitive:
    """One operation, preceded by work and sleep."""

    do: str
    """open, create, close, stat, delete, fsync, read, write, truncate, allocate, reserve, or empty
    (only work and sleep)."""
    file: str = ""
    offset_bytes: int = -1
    """-1: at the end of the file."""
    length_bytes: int = 0
    access: str = "buffered"
    cpu_ns: int = 0
    wait_ns: int = 0
    events: int = 0


def primitives(
    steps: Sequence[Step], file_bytes: Mapping[str, int], seed: int
) -> Iterator[Primitive]:
    """Yield every operation of the steps, with loops unrolled lazily. Pattern offsets are drawn
    from the seed.

    Raises HeadraceError for steps that only a simulated job can run (`stage`, `take`).
    """
    stream = random.Random(seed)
    for step in steps:
        yield from _of(step, file_bytes, stream)


def inner_steps(step: Step) -> list[Step]:
    """Return the steps within a step: those of a loop, or of the parts that threads share."""
    if step["do"] == "repeat":
        return step["steps"]
    if step["do"] == "parallel":
        return [*step.get("begin", []), *(inner for part in step["parts"] for inner in part)]
    return []


_CHANGING = frozenset({"create", "delete", "write", "truncate", "allocate", "reserve"})


def changed_by(steps: Sequence[Step]) -> frozenset[str]:
    """Return the names of the file sets that the steps write to, make anew, resize or remove."""
    found: set[str] = set()
    for step in steps:
        if inner := inner_steps(step):
            found |= changed_by(inner)
        elif _changes(step):
            found.add(str(step.get("file", "")))
    return frozenset(found)


def _changes(step: Step) -> bool:
    if step["do"] == "sequence" or step["do"] == "pattern":
        return step.get("op", "read") == "write"
    if step["do"] == "requests":
        return step.get("read_fraction", 1.0) < 1
    return step["do"] in _CHANGING


def _of(step: Step, file_bytes: Mapping[str, int], stream: random.Random) -> Iterator[Primitive]:
    if step["do"] == "compute":
        yield Primitive("nothing", cpu_ns=step["cpu_ns"])
    elif step["do"] == "wait":
        yield Primitive("nothing", wait_ns=step["wait_ns"])
    elif (
        step["do"] == "open"
        or step["do"] == "create"
        or step["do"] == "close"
        or step["do"] == "stat"
        or step["do"] == "delete"
        or step["do"] == "fsync"
    ):
        yield Primitive(step["do"], step["file"])
    elif step["do"] == "truncate" or step["do"] == "allocate" or step["do"] == "reserve":
        yield Primitive(step["do"], step["file"], step["offset_bytes"], step["length_bytes"])
    elif step["do"] == "read" or step["do"] == "write":
        at = step.get("offset_bytes")
        yield Primitive(
            step["do"],
            step["file"],
            -1 if at is None else at,
            step["length_bytes"],
            step.get("access", "buffered"),
        )
    elif step["do"] == "read-vector":
        for offset, length in step["ranges_bytes"]:
            yield Primitive("read", step["file"], offset, length)
    elif step["do"] == "repeat":
        for _ in range(step["times"]):
            for inner in step["steps"]:
                yield from _of(inner, file_bytes, stream)
    elif step["do"] == "parallel":
        for inner in inner_steps(step):
            yield from _of(inner, file_bytes, stream)
    elif step["do"] == "sequence":
        yield from _sequence(step)
    elif step["do"] == "pattern":
        yield from _pattern(step, file_bytes, stream)
    elif step["do"] == "events":
        yield from _events(step, file_bytes)
    elif step["do"] == "requests":
        yield from _requests(step, file_bytes, stream)
    else:
        raise HeadraceError(
            f"a step {step['do']!r} cannot be replayed",
            hint="headrace simulate takes it; a recorded profile can be replayed",
        )


def _sequence(step: AccessList) -> Iterator[Primitive]:
    ranges = step["ranges_bytes"]
    works = step.get("cpu_ns") or [0] * len(ranges)
    waits = step.get("wait_ns") or [0] * len(ranges)
    op, file, access = step.get("op", "read"), step["file"], step.get("access", "buffered")
    for (offset, length), cpu_ns, wait_ns in zip(ranges, works, waits, strict=True):
        yield Primitive(op, file, offset, length, access, cpu_ns, wait_ns)
    if step.get("cpu_after_ns") or step.get("events"):
        yield Primitive("nothing", cpu_ns=step.get("cpu_after_ns", 0), events=step.get("events", 0))


def _pattern(
    step: Pattern, file_bytes: Mapping[str, int], stream: random.Random
) -> Iterator[Primitive]:
    op, file, count, length = (
        step.get("op", "read"),
        step["file"],
        step["count"],
        step["length_bytes"],
    )
    begin = step.get("offset_bytes", 0)
    span = step.get("span_bytes", 0)
    if not span:
        span = count * length if op == "write" else file_bytes[file] - begin
    span //= step.get("parts", 1)  # every replayed job counts as the first
    offsets = _offsets(step.get("order", _SEQUENTIAL), count, length, span, stream)
    for at in offsets:
        yield Primitive(
            op,
            file,
            begin + at,
            length,
            step.get("access", "buffered"),
            step.get("cpu_ns", 0),
            events=step.get("events", 0),
        )


def _requests(
    step: Requests, file_bytes: Mapping[str, int], stream: random.Random
) -> Iterator[Primitive]:
    count = step.get("count", 0)
    if step.get("in_flight", 1) > 1 or not count:
        raise HeadraceError(
            "requests that overlap, or go on for a time, cannot be replayed",
            hint='kind = "random" runs them with fio',
        )
    file, length = step["file"], step["length_bytes"]
    span = step.get("span_bytes", 0) or file_bytes[file]
    for at in _offsets(step.get("order", _SEQUENTIAL), count, length, span, stream):
        op = "read" if stream.random() < step.get("read_fraction", 1.0) else "write"
        yield Primitive(op, file, at, length, step.get("access", "buffered"), step.get("cpu_ns", 0))


def _offsets(
    order: Order, count: int, length: int, span: int, stream: random.Random
) -> Iterator[int]:
    """Yield offsets like the simulator (crates/simulator, `offsets.rs`); random ones come from
    Python's generator."""
    kind = order["kind"]
    places, room = max(1, span // length), max(0, span - length)
    if kind == "sequential":
        yield from ((index % places) * length for index in range(count))
    elif kind == "strided":
        stride = order.get("stride_bytes", 0)
        yield from (index * stride % (room + 1) for index in range(count))
    elif kind == "random":
        yield from (stream.randrange(places) * length for _ in range(count))
    elif kind in ("permuted", "shuffled"):
        order_of_places = list(range(places))
        stream.shuffle(order_of_places)
        yield from (order_of_places[index % places] * length for index in range(count))
    elif kind == "clustered":
        window = order.get("window_bytes", 1)
        windows, within = max(1, span // window), max(1, window // length)
        for index in range(count):
            yield min(index * windows // count * window + stream.randrange(within) * length, room)
    else:
        free, at = max(0, span - count * length) / max(1, count), 0
        for _ in range(count):
            at = min(at + int(stream.expovariate(1 / free) if free else 0), room)
            yield at
            at += length


def _events(step: Events, file_bytes: Mapping[str, int]) -> Iterator[Primitive]:
    file, events, per_cluster = step["file"], step["events"], step["events_per_cluster"]
    reads, size, skip = (
        step["reads_per_cluster"],
        file_bytes[step["file"]],
        step.get("skip_fraction", 0.0),
    )
    cluster_bytes = size * per_cluster // events
    for cluster in range(-(-events // per_cluster)):
        if int((cluster + 1) * skip) > int(cluster * skip):
            continue
        mine = min(events, (cluster + 1) * per_cluster) - cluster * per_cluster
        length = min(step["read_bytes"], max(cluster_bytes, 1))
        begin, each = size * cluster * per_cluster // events, cluster_bytes // reads
        for read in range(reads):
            number = (read * _coprime(reads) + cluster) % reads if step.get("unordered") else read
            at = begin + number * each + max(0, each - length) // 2
            work = mine * step["cpu_ns_per_event"] * (read + 1) // reads
            work -= mine * step["cpu_ns_per_event"] * read // reads
            yield Primitive(
                "read",
                file,
                min(at, max(0, size - length)),
                length,
                step.get("access", "buffered"),
                work,
                events=mine if read == 0 else 0,
            )


def _coprime(count: int) -> int:
    from math import gcd

    near = max(1, int(count * 0.618))
    return next((step for step in range(near, 2 * near + 2) if gcd(step, count) == 1), 1)
