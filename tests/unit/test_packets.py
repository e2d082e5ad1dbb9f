from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.measure.packets import Packetiser
from headrace.workloads import Packet


@given(
    files=st.lists(st.integers(0, 5000), min_size=1, max_size=6),
    speeds=st.lists(st.integers(10, 5000), min_size=1, max_size=8),
    limit=st.one_of(st.none(), st.integers(1, 3)),
    cluster=st.integers(1, 700),
)
def test_every_event_is_handed_out_once(
    files: list[int], speeds: list[int], limit: int | None, cluster: int
) -> None:
    """Workers of different speed pull until the query is done.

    No event twice, none left, never more readers than allowed.
    """
    names = [(f"f{index}", events) for index, events in enumerate(files)]
    packetiser = Packetiser(
        names,
        workers=len(speeds),
        first_events=None,
        workers_per_server=limit,
        cluster_events=cluster,
    )
    seen = {name: [False] * events for name, events in names}
    free_at = dict.fromkeys(range(len(speeds)), 0.0)
    waiting: set[int] = set()
    reading: set[int] = set()
    now = 0.0
    while free_at:
        ready = {worker: at for worker, at in free_at.items() if worker not in waiting}
        worker = min(ready, key=lambda each: ready[each])
        now = max(now, free_at[worker])
        reading.discard(worker)
        answer = packetiser.next(worker, now)
        if answer != "wait":
            waiting.clear()  # a packet was finished: whoever waits asks again
        if answer is None:
            del free_at[worker]
        elif answer == "wait":
            waiting.add(worker)
            assert reading, "a worker waits though nobody reads"
        else:
            assert isinstance(answer, Packet)
            reading.add(worker)
            assert limit is None or len(reading) <= limit
            assert answer.first_event % cluster == 0, "a packet begins where a cluster begins"
            for event in range(answer.first_event, answer.first_event + answer.events):
                assert not seen[answer.file][event]
                seen[answer.file][event] = True
            free_at[worker] = now + answer.events / speeds[worker]
    assert all(all(events) for events in seen.values())


def test_a_faster_worker_gets_larger_packets() -> None:
    packetiser = Packetiser(
        [("a", 10**6), ("b", 10**6)], workers=2, first_events=1000, workers_per_server=None
    )
    packetiser.next(0, 0.0)
    packetiser.next(1, 0.0)
    fast = packetiser.next(0, 0.1)
    slow = packetiser.next(1, 1.0)
    assert isinstance(fast, Packet) and isinstance(slow, Packet)
    assert fast.events > 5 * slow.events


@given(
    files=st.lists(st.integers(1, 3000), min_size=1, max_size=4),
    workers=st.integers(1, 5),
    limit=st.one_of(st.none(), st.integers(1, 2)),
    fates=st.lists(st.booleans(), max_size=60),
)
def test_when_workers_die_every_event_is_in_one_result_or_given_up(
    files: list[int], workers: int, limit: int | None, fates: list[bool]
) -> None:
    """`fates`: whether the worker whose turn it is dies with the packet in its hands.

    A new one takes its place.
    """
    names = [(f"f{index}", events) for index, events in enumerate(files)]
    packetiser = Packetiser(names, workers=workers, first_events=200, workers_per_server=limit)
    held: dict[int, list[Packet]] = {number: [] for number in range(workers)}
    busy: set[int] = set()
    results: list[Packet] = []
    number, now = workers, 0.0
    for turn in range(10_000):
        if not held:
            break
        worker = sorted(held)[turn % len(held)]
        now += 0.01
        if worker in busy and turn < len(fates) and fates[turn]:
            packetiser.died(worker, "killed")
            del held[worker]
            busy.discard(worker)
            held[number] = []
            number += 1
            continue
        answer = packetiser.next(worker, now)
        busy.discard(worker)
        if answer == "wait":
            assert busy, "a worker waits though nobody reads"
        elif answer is None:
            results += held.pop(worker)
            # One that is told that nothing is left ends; should another die later, a new worker is
            # started.
            if not held and packetiser.events_left:
                held[number] = []
                number += 1
        else:
            assert isinstance(answer, Packet)
            busy.add(worker)
            held[worker].append(answer)
            assert limit is None or len(busy) <= limit
    assert not held
    given_up = [Packet(each.file, each.first_event, each.events) for each in packetiser.given_up]
    seen = sorted((each.file, each.first_event, each.events) for each in [*results, *given_up])
    for name, events in names:
        runs = [(first, count) for file, first, count in seen if file == name]
        assert sum(count for _, count in runs) == events
        ends = [0, *[first + count for first, count in runs]]
        assert [first for first, _ in runs] == ends[:-1], "no event twice, none left out"
    assert packetiser.summary().events_not_processed == sum(each.events for each in given_up)
