"""Lines of `headrace watch` that would be longer than a terminal."""

from __future__ import annotations

from headrace.watching.client_counters import ClientCounts, Operations
from headrace.watching.clients import ClientSample
from headrace.watching.foreign_io import MovedBytes
from headrace.watching.view import clients, foreign
from headrace.watching.watcher import NodeSample


def test_rates_of_other_programs_are_not_cut_within_their_unit() -> None:
    """`written 123 M` of 123 MB/s."""
    moved = {name: MovedBytes(123_456_789, 987_654_321) for name in ("nvme0n1", "nvme10n1", "sdz")}
    lines = foreign(NodeSample(0.0, 1.0, (), 0.0, foreign_io=moved))
    assert lines == [
        "others: nvme0n1 read 123 MB/s written 988 MB/s,",
        "  nvme10n1 read 123 MB/s written 988 MB/s",
    ]
    few = {"sda": MovedBytes(2_000_000, 0), "sdb": MovedBytes(1_000_000, 0)}
    (line,) = foreign(NodeSample(0.0, 1.0, (), 0.0, foreign_io=few))
    assert line == "others: sda read 2.00 MB/s written -, sdb read 1.00 MB/s written -"


def test_operations_of_network_storage_are_not_cut() -> None:
    each = Operations(1234, 10**9, 50.0)
    counts = ClientCounts(each, each, each)
    sample = ClientSample("/a/long/name/of/a/mount", "lustre", counts, counts, waiting=12)
    lines = clients(NodeSample(0.0, 1.0, (), 0.0, clients=(sample,)))
    assert all(len(line) <= 80 for line in lines)
    parts = " ".join(line.strip() for line in lines).split(": ", 1)[1].split(", ")
    assert parts == [
        *(f"{kind} 1.00 GB/s 1234/s 41 ms" for kind in ("read", "write", "other")),
        "12 waiting",
    ]
