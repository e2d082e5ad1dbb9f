"""Programs that wait for their writes: what their calls show, and what simulations of them say."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import pytest

from headrace.profiles.steps import Op, RecordedFile, Recording, columns
from headrace.verdict.advice import Advice
from headrace.verdict.calls import accesses_of
from headrace.verdict.observation import ConnectionUse, Observation, StoragePlace, TimeShare
from headrace.verdict.present import ReadTimes, recorded_times
from headrace.verdict.requests import advise_requests
from headrace.verdict.simulating import advise, simulated_advice
from headrace.verdict.variants import Variant, alternatives
from headrace.verdict.volumes import present_volume
from headrace.verdict.words import access_words
from headrace.verdict.writes import copy_rate, grouped, recorded_writes

MS = 1_000_000
DISK = StoragePlace("block", "sda1", "ext4", True, 128 << 10)
LOG = RecordedFile("/data/log", 0, created=True)
Row = tuple[int, ...]


def appended(count: int, length: int, sync_ns: int, work_ns: int = MS) -> list[Row]:
    """Work, append to the first file, and sync, so often."""
    rows: list[Row] = [(0, 1000, 0, Op.OPEN, 0, 0, 0, 0)]
    now = 1000
    for number in range(count):
        now += work_ns
        rows.append((now, now + 4000, 0, Op.WRITE, 0, number * length, length, work_ns))
        rows.append((now + 4000, now + 4000 + sync_ns, 0, Op.SYNC, 0, 0, 0, 0))
        now += 4000 + sync_ns
    return rows


def job(rows: list[Row], *files: RecordedFile) -> Recording:
    steps = columns(rows)
    cpu_ns = int(steps.cpu_ns.sum())
    return Recording("job", "test", files or (LOG,), steps, int(steps.end_ns.max()), cpu_ns=cpu_ns)


def advised(recording: Recording) -> Advice:
    places = {file.path: DISK for file in recording.files}
    return advise(recording, DISK, places, measure=False)


def test_syncs_have_the_bytes_since_the_sync_before_of_their_file() -> None:
    other = RecordedFile("/data/other", 0, created=True)
    rows = appended(30, 1000, 8 * MS)
    end = rows[-1][1]
    # Of another file, before its only sync; and a sync that had nothing to do.
    rows += [
        (end, end + 1000, 0, Op.WRITE, 1, 0, 500_000, 0),
        (end + 1000, end + 9 * MS, 0, Op.SYNC, 1, 0, 0, 0),
        (end + 9 * MS, end + 9 * MS + 2000, 0, Op.SYNC, 1, 0, 0, 0),
    ]
    found = recorded_writes(job(rows, LOG, other), [0, 1])
    assert found.sync_s == pytest.approx(8e-3, rel=0.01)
    assert found.sync_bytes == pytest.approx((30 * 1000 + 500_000) / 31)
    assert found.rate_bytes_per_s is None
    assert found.most


def test_large_syncs_tell_a_rate_and_few_small_ones_nothing() -> None:
    found = recorded_writes(job(appended(5, 20_000_000, 200 * MS)), [0])
    assert (found.sync_s, found.rate_bytes_per_s) == (None, pytest.approx(100e6))
    few = recorded_writes(job(appended(5, 1000, 8 * MS)), [0])
    assert not few.known and few.most


@pytest.mark.parametrize("direct", [False, True])
def test_a_synchronous_write_is_a_sync_of_its_own_bytes(direct: bool) -> None:
    log = replace(LOG, synchronous=True, direct=direct)
    rows = [(n * 10 * MS, n * 10 * MS + 9 * MS, 0, Op.WRITE, 0, n, 4096, 0) for n in range(40)]
    found = recorded_writes(job(rows, log), [0])
    assert (found.sync_s, found.sync_bytes) == (pytest.approx(9e-3), 4096)
    assert found.direct_s is None


def test_direct_writes_wait_for_the_drive_and_not_for_a_flush() -> None:
    rows = [(n * 2 * MS, n * 2 * MS + MS, 0, Op.WRITE, 0, n * 8192, 8192, 0) for n in range(100)]
    recording = job(rows, replace(LOG, direct=True))
    found = recorded_writes(recording, [0])
    assert (found.direct_s, found.sync_s) == (pytest.approx(1e-3), None)
    advice = advised(recording)
    assert abs(advice.error) < 0.02
    assert not any("instead of" in change.name for change in advice.changes)


def test_a_throttled_writer_writes_as_fast_as_the_drive() -> None:
    """Quick at first; then each MiB waits for the drive. A pause of the program is no such wait."""
    rows: list[Row] = []
    now = 0
    for number in range(200):
        lasted = 10 * MS if number >= 100 else 300_000
        rows.append((now, now + lasted, 0, Op.WRITE, 0, number << 20, 1 << 20, 0))
        now += lasted + (500 * MS if number == 150 else 0)
    recording = job(rows)
    rate = recorded_writes(recording, [0]).rate_bytes_per_s
    assert rate == pytest.approx((1 << 20) / 10e-3, rel=0.02)
    # Copies are as fast as those that waited for nothing.
    assert copy_rate(recording) == pytest.approx((1 << 20) / 300e-6, rel=0.02)


def test_syncs_are_simulated_as_they_were_measured_and_fewer_save_their_time() -> None:
    recording = job(appended(200, 100, 8 * MS))
    advice = advised(recording)
    assert abs(advice.error) < 0.03
    seconds = {change.name: change.seconds for change in advice.changes}
    work_s = 0.2
    assert seconds["one fsync instead of 10"] == pytest.approx(work_s + 20 * 8e-3, rel=0.05)
    assert seconds["an NVMe drive with power-loss protection"] < seconds["a SATA SSD"]
    assert seconds["a SATA SSD"] < 2 * work_s
    # The flush of a drive of the catalog may be as much again as it is modelled.
    ssd = next(change for change in advice.changes if change.name == "a SATA SSD")
    flushes = (ssd.seconds - advice.at_once_s) / advice.present_s
    assert advice.uncertainty(ssd) == pytest.approx(abs(advice.error) + flushes)


def test_files_that_are_synced_once_each_cannot_be_grouped() -> None:
    rows: list[Row] = []
    for number in range(60):
        at = number * 10 * MS
        rows.append((at, at + 4000, 0, Op.WRITE, number, 0, 3000, 0))
        rows.append((at + 4000, at + 9 * MS, 0, Op.SYNC, number, 0, 0, 0))
    files = [RecordedFile(f"/data/{number}", 0, created=True) for number in range(60)]
    advice = advised(job(rows, *files))
    assert abs(advice.error) < 0.05
    assert [change.name for change in advice.changes] == [
        "a SATA SSD",
        "an NVMe drive with power-loss protection",
    ]


@pytest.mark.parametrize("kind", ["direct", "synchronous", "fsync"])
@pytest.mark.parametrize("read_ns", [4 * MS, 8 * MS, 15 * MS])
def test_time_in_which_one_thread_reads_and_another_one_writes_counts_once(
    read_ns: int, kind: str
) -> None:
    """It counted for both, was 34 % too long, and there was no advice."""
    rows: list[Row] = []
    for n in range(100):
        at = n * 9 * MS
        if kind == "fsync":
            rows.append((at, at + 4000, 0, Op.WRITE, 0, n << 12, 4096, 0))
            rows.append((at + 4000, at + 8 * MS, 0, Op.SYNC, 0, 0, 0, 0))
        else:
            rows.append((at, at + 8 * MS, 0, Op.WRITE, 0, n << 12, 4096, 0))
    for n in range(900 * MS // (read_ns + MS)):
        at = n * (read_ns + MS)
        rows.append((at, at + read_ns, 1, Op.READ, 1, (n * 77 % 1009) << 20, 4096, 0))
    file = RecordedFile(
        "/data/file", 0, created=True, direct=kind == "direct", synchronous=kind == "synchronous"
    )
    advice = advised(job(sorted(rows), file, RecordedFile("/data/second", 2 << 30)))
    assert abs(advice.error) < 0.1, advice
    assert "a SATA SSD" in {change.name for change in advice.changes}


def in_order(piece_ns: int, length: int) -> list[Row]:
    """Read 40 MiB: what is read ahead at once, 128 KiB, comes after such a time."""
    rows, now = list[Row](), 0
    for offset in range(0, 40 << 20, length):
        lasted = piece_ns if offset % (128 << 10) == 0 else length // 4
        rows.append((now, now + lasted, 0, Op.READ, 0, offset, length, 0))
        now += lasted
    return rows


@pytest.mark.parametrize(
    ("piece_ns", "answer_s"), [(4_400_000, 10e-3), (4_400_000, 1e-3), (300_000, 100e-6)]
)
@pytest.mark.parametrize("length", [32 << 10, 128 << 10])
@pytest.mark.parametrize("kind", ["network", "block"])
def test_what_is_read_ahead_at_once_has_one_answer(
    kind: Literal["network", "block"], length: int, piece_ns: int, answer_s: float
) -> None:
    """The answer, known from reads after the program, was added to the time of each piece: three
    times too long with a FUSE server that has several requests at once, and no advice."""
    recording = job(in_order(piece_ns, length), RecordedFile("/data/file", 40 << 20))
    place = replace(FAST, kind=kind)
    times = replace(
        recorded_times(recording, [0], 128 << 10), random_s=answer_s, own_random=True, own_reads=16
    )
    if kind == "block" and answer_s > 2e-3:
        place = replace(place, kind="network")  # a block device that takes so long is a disk
    present = Variant("", present_volume(place, times, copy_bytes_per_s=8e9))
    advice = simulated_advice(recording, [0], present, [], recording, times)
    assert abs(advice.error) < 0.08, advice


def test_what_is_not_reproduced_gets_no_advice() -> None:
    """Reads in order that come faster than one answer after the other, and reads at random."""
    rows = in_order(4_400_000, 128 << 10)
    end = rows[-1][1]
    for n in range(30):
        at = end + n * 10 * MS
        rows.append((at, at + 10 * MS, 0, Op.READ, 1, (n * 77 % 1009) << 20, 4096, 0))
    files = RecordedFile("/data/file", 40 << 20), RecordedFile("/data/second", 2 << 30)
    place = replace(FAST, kind="network")
    advice = advise(job(rows, *files), place, {file.path: place for file in files}, measure=False)
    assert advice.error > 0.15
    assert not advice.changes


@pytest.mark.parametrize("later_ns", [0, MS, 7 * MS])
def test_time_in_which_several_threads_wait_for_syncs_counts_once(later_ns: int) -> None:
    """Threads that commit at once share the answer of the drive; it counted once for each."""
    rows = appended(100, 100, 8 * MS)
    second = [
        (start + later_ns, end + later_ns, 1, op, 1, *rest) for start, end, _, op, _, *rest in rows
    ]
    other = RecordedFile("/data/second", 0, created=True)
    recording = job(rows + second, LOG, other)
    advice = advised(recording)
    assert abs(advice.error) < 0.05
    seconds = {change.name: change.seconds for change in advice.changes}
    alone = {change.name: change.seconds for change in advised(job(rows)).changes}
    ssd = "a SATA SSD"
    assert seconds[ssd] == pytest.approx(alone[ssd], abs=0.1 * advice.present_s)


def test_grouping_keeps_the_last_sync_and_adds_no_pause() -> None:
    recording = job(appended(25, 100, 8 * MS))
    fewer = grouped(recording, 10)
    assert int((fewer.steps.op == Op.SYNC).sum()) == 3
    assert fewer.steps.op[-1] == Op.SYNC
    assert len(fewer.steps) == len(recording.steps)


def test_an_unknown_rate_is_in_the_time_of_the_flush() -> None:
    found = recorded_writes(job(appended(50, 4096, 200_000)), [0])
    ideal = present_volume(DISK, ReadTimes(), found).get("ideal")
    assert ideal is not None
    assert ideal["write_bytes_per_s"] == 0
    assert ideal["flush_ns"] == pytest.approx(200_000 - 2 * 20_000, rel=0.01)


@pytest.mark.parametrize(
    ("file", "op", "words"),
    [
        (LOG, Op.SYNC, "40 fsyncs of 9 ms (log); 164 kB written"),
        (replace(LOG, synchronous=True), Op.WRITE, "40 synchronous writes of 9 ms (log); 328 kB"),
        (replace(LOG, direct=True), Op.WRITE, "40 direct writes of 9 ms (log); 328 kB written"),
        (LOG, Op.WRITE, "40 writes of 9 ms (log); 328 kB written"),
    ],
)
def test_the_calls_that_waited_and_their_file_are_named(
    file: RecordedFile, op: Op, words: str
) -> None:
    rows: list[Row] = []
    for number in range(40):
        at = number * 10 * MS
        rows.append((at, at + 1000, 0, Op.WRITE, 1, 0, 4096, 0))
        rows.append((at + 1000, at + 1000 + 9 * MS, 0, op, 0, 0, 4096 * (op == Op.WRITE), 0))
    recording = job(rows, file, RecordedFile("/data/quick", 0, created=True))
    (access,) = accesses_of(recording, {"/data/log": DISK, "/data/quick": DISK})
    assert access_words(access).startswith(words)
    assert access.slow_other_files == ("/data/log",)


@pytest.mark.parametrize(("op", "kind"), [(Op.READ, ""), (Op.WRITE, "direct writes")])
def test_calls_past_the_page_cache_copy_nothing(op: Op, kind: str) -> None:
    """1 MiB in 0.6 ms: a fast drive, or a copy from the page cache, which is no wait."""
    rows = [(n * MS, n * MS + 600_000, 0, op, 0, n << 20, 1 << 20, 0) for n in range(100)]
    past = RecordedFile("/data/file", 100 << 20, direct=True)
    for file, waited_s in ((past, 0.06), (replace(past, direct=False), 0.0)):
        (access,) = accesses_of(job(rows, file), {file.path: DISK})
        assert access.waited_s == pytest.approx(waited_s), file
    assert accesses_of(job(rows, past), {past.path: DISK})[0].slowest_other == kind


@pytest.mark.parametrize(("present_bytes", "offered"), [(128 << 10, 1), (8 << 20, 0)])
def test_a_read_ahead_that_it_has_is_no_change(present_bytes: int, offered: int) -> None:
    rows = [(n * 9 * MS, n * 9 * MS + MS, 0, Op.READ, 0, n << 20, 1 << 20, 0) for n in range(100)]
    recording = job(rows, RecordedFile("/data/file", 100 << 20))
    times = ReadTimes(random_s=1e-3, rate_bytes_per_s=1e9)
    place = replace(DISK, read_ahead_bytes=present_bytes)
    found = alternatives(place, present_volume(place, times), times, recording)
    assert sum(each.name.startswith("read-ahead") for each in found) == offered


def test_the_rate_of_direct_reads_is_that_of_the_calls_alone() -> None:
    """Nothing is read ahead while the program works between them."""
    rows = [(n * 9 * MS, n * 9 * MS + MS, 0, Op.READ, 0, n << 20, 1 << 20, 0) for n in range(100)]
    past = RecordedFile("/data/file", 100 << 20, direct=True)
    found = recorded_times(job(rows, past), [0])
    assert found.rate_bytes_per_s == pytest.approx((1 << 20) / 1e-3)


FAST = replace(DISK, rotational=False)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("length", [4096, 1 << 20, 4 << 20])
def test_reads_at_random_of_a_fast_drive_take_their_time_once(length: int, direct: bool) -> None:
    """100 us and 0.6 GB/s: neither a copy that is in this time already, nor a second answer for a
    second half, and no disk."""
    lasted, step_ns, count = 100_000 + int(length / 0.6), 16 * MS, 200
    places = [(number * 77) % count for number in range(count)]
    rows = [
        (n * step_ns, n * step_ns + lasted, 0, Op.READ, 0, 9 * at * length, length, 0)
        for n, at in enumerate(places)
    ]
    file = RecordedFile("/data/file", 9 * count * length, direct=direct)
    recording = replace(job(rows, file), duration_ns=(count - 1) * step_ns + lasted)
    advice = advise(recording, FAST, {file.path: FAST}, measure=False)
    waits_s = count * lasted * 1e-9
    assert advice.present_s - advice.measured_s == pytest.approx(0, abs=0.03 * waits_s)
    copies_s = 0 if direct else count * length / 8e9
    idle_s = advice.measured_s - waits_s
    assert advice.at_once_s - idle_s == pytest.approx(copies_s, abs=0.01 * waits_s)


def test_direct_reads_in_order_take_their_time_once() -> None:
    """The answer of the drive is in the time of each call, and was added to it."""
    rows = [(n * 2 * MS, n * 2 * MS + MS, 0, Op.READ, 0, n << 20, 1 << 20, 0) for n in range(500)]
    file = RecordedFile("/data/file", 500 << 20, direct=True)
    for lone in (job(rows, file), job([(*row[:5], row[5] * 2, *row[6:]) for row in rows], file)):
        advice = advise(lone, FAST, {file.path: FAST}, measure=False)
        assert advice.present_s - advice.measured_s == pytest.approx(0, abs=0.015)


@pytest.mark.parametrize("answer_bytes", [64 << 10, 3 << 20])
def test_a_large_answer_of_a_server_takes_its_time_once(answer_bytes: int) -> None:
    """An answer of 3 MiB counted six times: as often as a drive has requests for so much."""
    use = ConnectionUse(1, 100, 100 * answer_bytes, 100 * 200, 1e-3)
    shares = (TimeShare("connection", "server:80", 4.0), TimeShare("cpu", "", 1.0))
    seen = Observation(("client",), 5.0, shares, connection_use=use)
    recording = Recording("client", "test", (), columns([]), 5_000 * MS, cpu_ns=1_000 * MS)
    advice = advise_requests(seen, recording)
    assert abs(advice.error) < 0.01
    assert any(change.name == "a local copy on a SATA SSD" for change in advice.changes)


@pytest.mark.parametrize("slow_copies", [False, True])
@pytest.mark.parametrize("length", [64 << 10, 1 << 20])
def test_reads_in_order_far_ahead_of_which_is_read(length: int, slow_copies: bool) -> None:
    """Of 16 MiB that come at once, with a read-ahead of 8 MiB, one read waits: the others were
    taken for hits of the page cache, and reads that lost their CPU for the rate of the storage."""
    place = replace(DISK, read_ahead_bytes=8 << 20)
    at_once, rows, now = 16 << 20, list[Row](), 0
    for offset in range(0, 640 << 20, length):
        copy = length // 4 + (2 * MS if slow_copies and offset // length % 4 == 3 else 0)
        lasted = copy if offset % at_once else 100 * MS
        rows.append((now, now + lasted, 0, Op.READ, 0, offset, length, 0))
        now += lasted
    file = RecordedFile("/data/file", 640 << 20)
    advice = advise(job(rows, file), place, {file.path: place}, measure=False)
    assert abs(advice.error) < 0.1, advice
    (ssd,) = [each for each in advice.changes if each.name == "an NVMe drive"]
    assert advice.saved(ssd) > 0.4


@pytest.mark.parametrize("lasted_us", [1000, 1600, 1900, 2400, 5000, 12000])
def test_reads_at_random_take_their_time_whatever_it_is(lasted_us: int) -> None:
    """Storage that took 1.6 ms was a disk, which takes 2.2 ms at least: 38 % off, so no advice."""
    chosen, lasted = random.Random(1), lasted_us * 1000
    rows = [
        (n * lasted, (n + 1) * lasted, 0, Op.READ, 0, chosen.randrange(1 << 24) << 12, 4096, 0)
        for n in range(400)
    ]
    assert abs(advised(job(rows, RecordedFile("/data/file", 1 << 36))).error) < 0.06


def of_threads(threads: int, count: int, op: Op, lasted_ns: int, length: int) -> Recording:
    """Return a job whose threads call at the same time, each at places of its own."""
    rows = sorted(
        (n * lasted_ns + thread * 1000, (n + 1) * lasted_ns, thread, op, 0,
         ((n * threads + thread) * 77 % 1009) << 26, length, 0)
        for n in range(count) for thread in range(threads)
    )  # fmt: skip
    file = RecordedFile("/data/file", 1009 << 26, direct=op == Op.WRITE)
    return job(rows, file)


@pytest.mark.parametrize("op", [Op.READ, Op.WRITE])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_time_in_which_several_threads_wait_counts_once(threads: int, op: Op) -> None:
    """Eight threads waited eight times as long as the program ran."""
    recording = of_threads(threads, 80, op, 12 * MS, 4096)
    advice = advised(recording)
    assert advice.trusted, advice
    assert {each.name for each in advice.changes} >= {"a SATA SSD"}


def test_streams_of_several_threads_share_the_rate() -> None:
    """Of four files that are read in order at the same time each has a quarter of the rate."""
    length, rows = 1 << 20, list[Row]()
    for n in range(100):
        for thread in range(4):
            start = n * 40 * MS + thread * 1000
            rows.append((start, (n + 1) * 40 * MS, thread, Op.READ, thread, n * length, length, 0))
    files = [RecordedFile(f"/data/{number}", 100 << 20) for number in range(4)]
    found = recorded_times(job(sorted(rows), *files), [0, 1, 2, 3], 128 << 10)
    assert found.rate_bytes_per_s == pytest.approx(4 * length / 40e-3, rel=0.05)
    places = {file.path: FAST for file in files}
    advice = advise(job(sorted(rows), *files), FAST, places, measure=False)
    assert advice.trusted, advice
