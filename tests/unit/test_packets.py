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
    """Workers of different speed pull until the query is done: no event twice, none left, never more readers than allowed."""
    names = [(f"f{index}", events) for index, events in enumerate(files)]
    packetiser = Packetiser(
        names, workers=len(speeds), first_events=None, workers_per_server=limit, cluster_events=cluster
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
