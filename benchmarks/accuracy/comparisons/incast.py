"""Servers that answer a client at once, through a switch with small buffers, against measurements
of timeouts at 1 Gb/s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comparisons.root_reads import simulated
from rows import Comparison, Row, relative

RATE_BYTES_PER_S = 125e6
LATENCY_NS = 50_000
"""Of each port, so that a round trip takes 0.2 ms: 0.1 to 0.3 ms are stated (DCTCP)."""
PACKET_BYTES = 1500
BLOCKS = 100
BLOCK_BYTES = 256 << 10
TIMEOUTS = {2: 7.0, 4: 14.0, 8: 28.0, 16: 35.0, 32: 35.0}
"""Senders: timeouts while 100 blocks are sent, by the fit that Chen et al. give of theirs (3.5 per
sender up to ten, then 35)."""
QUERY_BYTES = 1_000_000
QUERIES = 1000
MOST_SERVERS = 40
LAST_WITHOUT = 10
"""Servers up to which queries of 1 MB had no timeouts (DCTCP, 4.2.1)."""
LARGEST_SHARE = 0.01
"""Of queries with a timeout, that still counts as none."""
QUERY_RTO_NS = 10_000_000
LINUX_RTO_NS = 200_000_000


def scenario(
    servers: int,
    call_bytes: int,
    *,
    jobs: int = 1,
    calls: int = 1,
    buffer_bytes: int,
    rto_ns: int,
    recovery: str = "newreno",
    congestion: str = "reno",
) -> Any:
    """Return a client that reads calls from all servers, an equal part from each; jobs follow one
    another."""
    port = {"rate_bytes_per_s": RATE_BYTES_PER_S, "latency_ns": LATENCY_NS}
    host = {
        "cores": 4,
        "memory_bytes": 64_000_000_000,
        "network": port,
        "call_ns": 0,
        "copy_bytes_per_s": 1e15,
    }
    part = -(-call_bytes // servers)
    quick = {"capacity_bytes": 10**12, "read_ns": 0, "write_ns": 0, "idle_w": 0.0, "active_w": 0.0}
    rates = {"read_bytes_per_s": 1e12, "write_bytes_per_s": 1e12}
    volume = {"name": "export", "filesystem": {"kind": "xfs"}, "ideal": {**quick, **rates}}
    return {
        "name": "incast",
        "seed": 1,
        "nodes": [{**host, "name": "client", "count": 1}],
        "servers": [{**host, "name": "server", "count": servers, "volumes": [volume]}],
        "services": [
            {
                "name": "store",
                "kind": "orangefs",
                "targets": [{"host": "server", "volume": "export"}],
                "tuning": {
                    "stripe_bytes": part,
                    "read_request_bytes": part,
                    "server_request_ns": 0,
                    "server_byte_ns": 0.0,
                    "client_request_ns": 0,
                    "metadata_read_ns": 0,
                    "open_round_trips": 0,
                },
            }
        ],
        "files": [{"name": "data", "on": {"service": "store"}, "bytes": part * servers * calls}],
        "profiles": [
            {
                "name": "job",
                "steps": [
                    {"do": "open", "file": "data"},
                    {
                        "do": "pattern",
                        "file": "data",
                        "count": calls,
                        "length_bytes": part * servers,
                    },
                ],
            }
        ],
        "tcp": {
            "initial_window_packets": 3,
            "min_rto_ns": rto_ns,
            "port_buffer_bytes": buffer_bytes,
            "recovery": recovery,
            "congestion": congestion,
        },
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": jobs}},
    }


def timeouts_per_sender() -> list[Row]:
    """Return one row per number of senders of blocks (Chen et al.)."""
    cases = [
        scenario(
            senders,
            senders * BLOCK_BYTES,
            calls=BLOCKS,
            buffer_bytes=128 << 10,
            rto_ns=LINUX_RTO_NS,
        )
        for senders in TIMEOUTS
    ]
    return [
        relative(
            f"{senders} senders, blocks of 256 KB, timeouts of a sender",
            "timeouts",
            outcome["counters"]["tcp"]["timeouts"] / senders,
            measured,
            0.0,
            "assumption",
        )
        for (senders, measured), outcome in zip(TIMEOUTS.items(), simulated(cases), strict=True)
    ]


def _share_late(outcome: Any) -> float:
    """Return the share of queries that took as long as a timeout, and so had one."""
    late = sum(job["end_ns"] - job["start_ns"] >= QUERY_RTO_NS for job in outcome["jobs"])
    return late / len(outcome["jobs"])


def queries() -> list[Row]:
    """Return the rows of queries of 1 MB (DCTCP)."""
    buffer_bytes = 100 * PACKET_BYTES
    numbers = range(1, MOST_SERVERS + 1)
    outcomes = simulated(
        [
            scenario(n, QUERY_BYTES, jobs=QUERIES, buffer_bytes=buffer_bytes, rto_ns=QUERY_RTO_NS)
            for n in numbers
        ]
    )
    shares = [_share_late(outcome) for outcome in outcomes]
    lost = [n for n, share in zip(numbers, shares, strict=True) if share > LARGEST_SHARE]
    without = min(lost, default=MOST_SERVERS + 1) - 1
    query_ms = outcomes[0]["end_ns"] / QUERIES / 1e6
    ideal_ms = QUERY_BYTES / RATE_BYTES_PER_S * 1e3
    return [
        relative("1 MB, the fastest query", "ms", query_ms, 8.0, ideal_ms, "assumption"),
        relative(
            "1 MB, servers up to which there are no timeouts",
            "servers",
            float(without),
            float(LAST_WITHOUT),
            float(MOST_SERVERS),
            "assumption",
        ),
        Row(
            f"1 MB from {LAST_WITHOUT} servers, queries with a timeout",
            "%",
            100.0 * shares[LAST_WITHOUT - 1],
            0.0,
            100.0 * shares[LAST_WITHOUT - 1],
            0.0,
            "assumption",
            error_unit="points",
        ),
    ]


def rows(_data: Path | None) -> list[Row]:
    """Return the rows of both measurements."""
    return queries() + timeouts_per_sender()


COMPARISON = Comparison(
    title="Servers that answer at once",
    model="TCP and switches",
    source="Alizadeh et al., DCTCP (SIGCOMM 2010, 4.2.1): 1 MB from n servers at 1 Gb/s, TCP New "
    "Reno, 100 packets of buffer at each port, no timeouts up to ten servers. Chen et al. (WREN "
    "2009): 100 blocks of 256 KB from each sender, 1 Gb/s, 128 KB of buffer, timeouts of at least "
    "200 ms; their number by the authors' fit.",
    null="nothing is lost: bytes at the rate of the link, and no timeouts with as many servers as "
    "were measured (40).",
    rows=rows,
    notes=(
        "Nothing was fitted, but the mechanism was built, and opening files and copies left out of "
        "the queries, when these numbers were known. Only the "
        "rules of TCP are in it: NewReno (RFC 6582) and Reno (RFC 5681), as the first paper names "
        "them; the second says less of its kernel. Round trips of 0.2 ms (0.1 to 0.3 ms are "
        "stated), first windows of three packets (RFC 3390).",
        "The model errs in both directions. Timeouts of few servers are too frequent in the first "
        "measurement: the share of queries with one rises from 1 to 2 % with two to five servers "
        "to 9 % with ten and 23 % with twenty, instead of beginning at ten; and they are too rare "
        "with up to 16 senders in the second. An earlier model (timeouts where a connection's "
        "share of the buffer is less than four packets) had none up to 25 servers, and 0, 0, 0, 0 "
        "and 19 timeouts of a sender.",
        "That no timeouts means at most 1 % of 1000 queries is a choice. With none at all it is 1 "
        "server too, with at most 2 % 5 servers, with at most 5 % 6, and with at most 10 % 12.",
        "Other rules, with three seeds: servers with at most 1 %, and the share of ten servers; "
        "timeouts of a sender with 2, 4, 8, 16 and 32 senders. Selective acknowledgements (RFC "
        "6675): 1 to 2 servers, 11 %; 0, 0.5, 2, 6, 52. RACK and tail loss probes (RFC 8985): 5 to "
        "13 servers, 1 %; 0, 0, 0, 0.2, 17. CUBIC with NewReno: 1 server, 8 %; 0, 0, 1, 16, 53; "
        "with RACK, the default of [site.tcp]: 3 to 4 servers, 0.2 to 0.6 %; 0, 0, 0, 0.1, 33.",
        "Round trips of 0.1 and 0.3 ms: 5 and 9 % of the queries of ten servers; 0, 0.3, 2, 15, 49 "
        "and 0, 0, 2, 9, 37. First windows of 2 and 10 packets: 7 and 10 %; 0.5, 0.8, 0.8, 8, 42 "
        "and 1, 0.3, 1, 9, 42.",
        "Acknowledgements have a random delay of up to one packet's time. Without it 8 % of the "
        "queries of ten servers; 0.5, 0.5, 1, 24, 57: phases decide. Twice of it: 7 %; 0.5, 0.3, "
        "2, 10, 42. A window that grows while the sender's own port is what holds it back: 8 %; "
        "0.5, 1.5, 1, 11, 45. Delayed acknowledgements, of every second packet or after 40 ms, "
        "tried with NewReno: 12 %; 0, 0.3, 2, 11, 34.",
        "The second measurement's switch shares 768 KB among its ports. The fit (3.5 timeouts per "
        "sender up to ten senders, then 35) is taken from summaries of the paper.",
        "No figures at 25 to 100 Gb/s were found; the first paper calls those at 10 Gb/s "
        "qualitatively similar. The curves of Phanishayee et al. (FAST '08) were not found as "
        "numbers, so they are not compared.",
    ),
)
