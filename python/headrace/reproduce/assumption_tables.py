"""Reproduction: what no source of the studies states, what is used, and the alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Edits = tuple[tuple[str, str], ...]
"""(old text, new text): each must be there."""


@dataclass(frozen=True)
class Alternative:
    """Another value of an assumption."""

    label: str
    studies: Edits = ()
    """In every study file that has the text."""
    catalog: tuple[tuple[str, Edits], ...] = ()
    """(`shelf/entry`, edits)."""


@dataclass(frozen=True)
class Assumption:
    """What no source states."""

    name: str
    used: str
    why: str
    alternatives: tuple[Alternative, ...]


SAMPLE = "profiles/cms-tau-analysis-sample"
JOB = "profiles/cms-tau-analysis"


def _nodes(names: Sequence[str], *edits: tuple[str, str]) -> tuple[tuple[str, Edits], ...]:
    """The same edits in several nodes of the catalog."""
    return tuple((f"nodes/{name}", edits) for name in names)


CLUSTER = ("dell-r210", "dell-r710")
FERMICLOUD = ("fermicloud-server", "fermicloud-client")
_READ_AHEAD = 'read_ahead = "two_windows"\n', 'read_ahead = "on_demand"\n'


_DIRTY = (
    "writeback = { dirty_background_ratio = 0.10, dirty_ratio = 0.40, of_all_memory = true }\n",
    "",
)
_DIRTY_SOURCE = (
    'writeback = "RHEL 5 and its rebuilds (2.6.18): vm.dirty_background_ratio 10, '
    'vm.dirty_ratio 40"\n',
    "",
)
_COLD_SKIM = 'slots = 1\ncache = "cold" # of the servers, too\n'
_BUSY = "read_ns = 25_400_000\nwrite_ns = 25_400_000\n"


def _load(label: str, nanoseconds: int, times: str = "") -> Alternative:
    """Another load of the storage element: accesses of 12.7 ms, waiting for others."""
    edits: list[tuple[str, str]] = [(_BUSY, f"read_ns = {nanoseconds}\nwrite_ns = {nanoseconds}\n")]
    if times:
        edits.append(('service_time = "exponential"\n', times))
    return Alternative(label, catalog=(("servers/storage-element", tuple(edits)),))


def _reads(size: int) -> tuple[tuple[str, Edits], ...]:
    """Reads of this size in cluster-energy's jobs."""
    edit = ("length_bytes = 5_461\n", f"length_bytes = {size}\n")
    return tuple((name, (edit,)) for name in (SAMPLE, JOB))


ASSUMPTIONS: dict[str, tuple[Assumption, ...]] = {
    "worker-node-ssd": (
        Assumption(
            "load of the storage element by other jobs",
            "half: accesses take twice 12.7 ms, exponentially distributed (M/M/1)",
            "the study does not state it",
            (
                _load("none", 12_700_000, "\n"),
                _load("a quarter", 16_933_333),
                _load("three quarters", 50_800_000),
            ),
        ),
        Assumption(
            "commands that a drive gets at once",
            "1",
            "drivers of 2.6.18 in IDE mode; the study does not state the controller",
            (Alternative("as the drives allow (32)", studies=(("queue_depth = 1\n", ""),)),),
        ),
    ),
    "cluster-energy": (
        Assumption(
            "a page of GlusterFS on the link",
            "780 us per request: 128 KiB on 1 GbE, of another node in two cases of three",
            "worked out from the io-cache translator's page",
            (
                Alternative(
                    "none",
                    studies=(("tuning = { client_delay_ns = 780_000 }", "tuning = {}"),),
                ),
            ),
        ),
        Assumption(
            "read-ahead of nodes and NAS",
            "that of 2.6.18, with two windows",
            "Rocks 5.3 is CentOS 5.4; the NAS is taken for alike",
            (Alternative("on demand, since 2.6.23", catalog=_nodes(CLUSTER, _READ_AHEAD)),),
        ),
        Assumption(
            "access times",
            "written at every read",
            "the default of 2.6.18; the study names no mount options",
            (Alternative("not written", studies=(('"strictatime"', '"noatime"'),)),),
        ),
        Assumption(
            "bytes of a read",
            "5 461: a basket of 16 384 bytes, packed to a third",
            "PoolOutputModule's default; how far it packs depends on the data",
            (
                Alternative("packed to a sixth", catalog=_reads(2_731)),
                Alternative("packed to two thirds", catalog=_reads(10_922)),
            ),
        ),
        Assumption(
            "jobs of the cluster",
            "start within 20 s, with CPU times that differ by up to a tenth",
            "no source says; equal jobs would stay in step",
            (
                Alternative(
                    "start at once",
                    catalog=(
                        (SAMPLE, (("stagger_ns = 400_000_000\n", "stagger_ns = 0\n"),)),
                        (JOB, (("stagger_ns = 20_000_000_000\n", "stagger_ns = 0\n"),)),
                    ),
                ),
                Alternative(
                    "with equal CPU times",
                    catalog=tuple(
                        (name, (("cpu_spread = 0.1\n", "cpu_spread = 0.0\n"),))
                        for name in (SAMPLE, JOB)
                    ),
                ),
            ),
        ),
        Assumption(
            "rate at which a core copies out of the page cache",
            "3 GB/s",
            "usual for a core of 2009",
            (
                Alternative(
                    "1.5 GB/s",
                    catalog=_nodes(
                        CLUSTER, ("copy_bytes_per_s = 3e9\n", "copy_bytes_per_s = 1.5e9\n")
                    ),
                ),
            ),
        ),
    ),
    "storage-options": (
        Assumption(
            "what servers' caches hold before the skim",
            "nothing, as for IOzone",
            "no source says",
            (
                Alternative(
                    "all of it",
                    studies=((_COLD_SKIM, _COLD_SKIM.replace("cold", "warm")),),
                ),
            ),
        ),
        Assumption(
            "how the six disks of a server are used",
            "RAID 5 of 500 GB disks (2.5 TB; the slides say 2 TB)",
            "the slides state the disks only",
            (
                Alternative("RAID 0", studies=(("level = 5", "level = 0"),)),
                Alternative("RAID 10", studies=(("level = 5", "level = 10"),)),
            ),
        ),
        Assumption(
            "dirty limits of servers and clients",
            "RHEL 5's: 40 % of all memory",
            "Scientific Linux 5, as for their read-ahead",
            (
                Alternative(
                    "today's: 20 % of available memory",
                    catalog=_nodes(FERMICLOUD, _DIRTY, _DIRTY_SOURCE),
                ),
            ),
        ),
        Assumption(
            "read-ahead of servers and clients",
            "that of 2.6.18, with two windows",
            "Scientific Linux 5; no source names the kernel",
            (Alternative("on demand, since 2.6.23", catalog=_nodes(FERMICLOUD, _READ_AHEAD)),),
        ),
        Assumption(
            "scheduler of the servers' disks",
            "CFQ of 2.6.18, its default",
            "no source says",
            (
                Alternative("deadline", studies=(('"cfq-2.6.18"', '"deadline"'),)),
                Alternative("noop", studies=(('"cfq-2.6.18"', '"noop"'),)),
            ),
        ),
        Assumption(
            "filesystem of the servers",
            "ext3",
            "the default of Scientific Linux 5",
            (Alternative("XFS", studies=(('filesystem = "ext3"', 'filesystem = "xfs"'),)),),
        ),
        Assumption(
            "memory of a client",
            "2 GB, so that a file of 2 GB does not stay in its cache",
            "usual for virtual machines of 2011",
            (
                Alternative(
                    "4 GB",
                    catalog=(
                        (
                            "nodes/fermicloud-client",
                            (("memory_bytes = 2_147_483_648\n", "memory_bytes = 4_294_967_296\n"),),
                        ),
                    ),
                ),
            ),
        ),
        Assumption(
            "Lustre's disks in its virtual machine",
            "written through (QEMU before 1.2)",
            "the study names neither the hypervisor's version nor its cache mode",
            (
                Alternative(
                    "written back",
                    catalog=(
                        (
                            "servers/lustre-fermicloud",
                            (("write_through = true\n", "write_through = false\n"),),
                        ),
                    ),
                ),
            ),
        ),
        Assumption(
            "clients of the skim",
            "start within 10 s, with CPU times that differ by a tenth",
            "equal ones would march in step",
            (
                Alternative(
                    "start at once, with equal CPU times",
                    catalog=(
                        (
                            "profiles/nova-skim",
                            (
                                ("cpu_spread = 0.1\n", "cpu_spread = 0.0\n"),
                                ("stagger_ns = 10_000_000_000\n", "stagger_ns = 0\n"),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
}
