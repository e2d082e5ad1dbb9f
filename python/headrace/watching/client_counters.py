"""Counters of the kernel's clients of network storage: bytes, operations and their times.

Parsers of NFS (`/proc/PID/mountstats`), Lustre (`llite/*/stats`) and CephFS (debugfs `metrics`);
pure. All count since the mount, for all programs of the node together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Operations:
    """Operations of one kind."""

    number: int = 0
    bytes: int = 0
    time_s: float = 0.0
    """From the call to its end, summed over operations. NFS: execute time, Lustre and CephFS:
    latency."""
    round_trip_s: float = 0.0
    """Part of it between request and reply (NFS only)."""

    def __add__(self, other: Operations) -> Operations:
        return Operations(
            self.number + other.number,
            self.bytes + other.bytes,
            self.time_s + other.time_s,
            self.round_trip_s + other.round_trip_s,
        )

    def __sub__(self, earlier: Operations) -> Operations:
        """Return the increase since `earlier`, never below zero."""
        return Operations(
            max(0, self.number - earlier.number),
            max(0, self.bytes - earlier.bytes),
            max(0.0, self.time_s - earlier.time_s),
            max(0.0, self.round_trip_s - earlier.round_trip_s),
        )


@dataclass(frozen=True)
class ClientCounts:
    """What a client did."""

    read: Operations = Operations()
    write: Operations = Operations()
    other: Operations = Operations()
    """Opens, lookups, attributes and whatever else."""

    def __add__(self, other: ClientCounts) -> ClientCounts:
        return ClientCounts(
            self.read + other.read, self.write + other.write, self.other + other.other
        )

    def __sub__(self, earlier: ClientCounts) -> ClientCounts:
        """Return the increase since `earlier`, never below zero."""
        return ClientCounts(
            self.read - earlier.read, self.write - earlier.write, self.other - earlier.other
        )

    @property
    def by_name(self) -> dict[str, Operations]:
        """The three kinds by name."""
        return {"read": self.read, "write": self.write, "other": self.other}


def nfs_counts(mountstats: str) -> Iterator[tuple[str, ClientCounts]]:
    """Yield directory and counts of each NFS mount of a mountstats file.

    Bytes are those that servers read and wrote (fields 5 and 6 of `bytes:`). An operation has
    number, transmissions, timeouts, bytes sent and received, and ms queued, until the reply, and
    in all (net/sunrpc/stats.c, rpc_clnt_show_stats).
    """
    for part in mountstats.split("\ndevice "):
        head, _, rest = part.removeprefix("device ").partition("\n")
        words = head.split(" ")
        if " with fstype nfs" not in head:
            continue
        directory = _unescaped(words[words.index("on", 2) + 1])
        served = (0, 0)
        kinds = {name: Operations() for name in ("read", "write", "other")}
        _, _, operations = rest.partition("per-op statistics\n")
        for line in rest.splitlines():
            fields = line.split()
            if fields[:1] == ["bytes:"]:
                served = (int(fields[5]), int(fields[6]))
        for line in operations.splitlines():
            fields = line.replace(":", " ").split()
            if len(fields) < 9 or not fields[1].isdigit():
                continue
            kind = fields[0].lower() if fields[0] in ("READ", "WRITE") else "other"
            time_s, trip_s = int(fields[8]) / 1e3, int(fields[7]) / 1e3
            kinds[kind] += Operations(int(fields[1]), 0, time_s, trip_s)
        yield (
            directory,
            ClientCounts(
                kinds["read"] + Operations(bytes=served[0]),
                kinds["write"] + Operations(bytes=served[1]),
                kinds["other"],
            ),
        )


def _unescaped(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def lustre_counts(stats: str) -> ClientCounts:
    """Return the counts of a Lustre client (`lprocfs_stats_print`, obdclass/lprocfs_status.c).

    A line is: name, number, `samples`, unit, and where they are kept min, max, sum. Before 2.14
    operations have no times. Reads and writes are those of programs, from the page cache too.
    """
    kinds = {name: Operations() for name in ("read", "write", "other")}
    for line in stats.splitlines():
        fields = line.split()
        if len(fields) < 4 or fields[2] != "samples":
            continue
        name, number, unit = fields[0], int(fields[1]), fields[3].strip("[]")
        total = int(fields[6]) if len(fields) > 6 else 0
        if name in ("read_bytes", "write_bytes"):
            kinds[name.removesuffix("_bytes")] += Operations(number, total)
        elif name in ("read", "write"):
            # The same calls again, with their times.
            kinds[name] += Operations(time_s=total / 1e6)
        else:
            kinds["other"] += Operations(number, 0, total / 1e6 if unit == "usecs" else 0.0)
    return ClientCounts(**kinds)


def ceph_counts(metrics: str) -> ClientCounts:
    """Return the counts of a CephFS client (fs/ceph/debugfs.c): `metrics`, since Linux 5.17
    `metrics/latency` and `metrics/size` one after the other.

    Times are number x mean, which the kernel rounds to microseconds.
    """
    kinds = {name: Operations() for name in ("read", "write", "other")}
    columns: list[str] = []
    for line in metrics.splitlines():
        fields = line.split()
        if fields[:1] == ["item"]:
            columns = fields
            continue
        if len(fields) != len(columns) or not fields or not fields[1].isdigit():
            continue
        row = dict(zip(columns[1:], fields[1:], strict=True))
        kind = {"read": "read", "write": "write", "metadata": "other"}.get(fields[0])
        if kind is not None and "avg_lat(us)" in row:
            number = int(row["total"])
            kinds[kind] += Operations(number, 0, number * int(row["avg_lat(us)"]) / 1e6)
        elif kind is not None and "total_sz(bytes)" in row:
            kinds[kind] += Operations(bytes=int(row["total_sz(bytes)"]))
    return ClientCounts(**kinds)
