"""Servers that answer a client at once, through a switch with small buffers, against measurements
of timeouts at 1 Gb/s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comparisons.root_reads import simulated
from headrace.targets.links import ETHERNET_BYTES, data_share
from rows import Comparison, Row, relative

PACKET_BYTES = 1500
RATE_BYTES_PER_S = 125e6 * data_share(PACKET_BYTES, ETHERNET_BYTES)
"""Of data, without headers."""
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
QUERY_LATENCY_NS = 25_000
"""Of each port: a round trip within a rack takes 0.1 ms without queues (DCTCP, 2.3.3)."""
QUERY_RTO_NS = 10_000_000
QUERY_TCP = {
    "initial_window_packets": 2,
    "min_rto_ns": QUERY_RTO_NS,
    "port_buffer_bytes": 100 * PACKET_BYTES,
    "recovery": "sack",
    "congestion": "reno",
    "restart": "request",
}
"""New Reno with selective acknowledgements (DCTCP, 4). Each response begins with about 2 packets
(4.2.1), and its window builds up over its round trips (3.2)."""
BLOCK_LATENCY_NS = 50_000
"""Of each port. Not stated; a smoothed round trip with its queue takes 2 ms (Chen et al.)."""
BLOCK_TCP = {
    "initial_window_packets": 3,
    "min_rto_ns": 200_000_000,
    "port_buffer_bytes": 128 << 10,
    "recovery": "sack",
    "congestion": "cubic",
    "delayed_ack_ns": 40_000_000,
}
"""The defaults of Linux in 2009: selective acknowledgements without tail loss probes (since 3.10),
CUBIC (since 2.6.19), first windows of RFC 3390, delayed acknowledgements of 40 ms."""


def scenario(
    servers: int,
    call_bytes: int,
    tcp: dict[str, Any],
    latency_ns: int,
    *,
    jobs: int = 1,
    calls: int = 1,
) -> Any:
    """Return a client that reads calls from all servers, an equal part from each; jobs follow one
    another."""
    port = {"rate_bytes_per_s": RATE_BYTES_PER_S, "latency_ns": latency_ns}
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
        "tcp": tcp,
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": jobs}},
    }


def timeouts_per_sender() -> list[Row]:
    """Return one row per number of senders of blocks (Chen et al.)."""
    cases = [
        scenario(senders, senders * BLOCK_BYTES, BLOCK_TCP, BLOCK_LATENCY_NS, calls=BLOCKS)
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
    numbers = range(1, MOST_SERVERS + 1)
    outcomes = simulated(
        [scenario(n, QUERY_BYTES, QUERY_TCP, QUERY_LATENCY_NS, jobs=QUERIES) for n in numbers]
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
    "Reno with SACK, 100 packets of buffer at each port, no timeouts up to ten servers. Chen et "
    "al. (WREN 2009): 100 blocks of 256 KB from each sender, 1 Gb/s, 128 KB of buffer, timeouts "
    "of at least 200 ms; their number by the authors' fit.",
    null="nothing is lost: bytes at the rate of the link, and no timeouts with as many servers as "
    "were measured (40).",
    rows=rows,
    notes=(
        "Nothing was fitted, but the mechanism was built, and opening files and copies left out of "
        "the queries, when these numbers were known. The hosts are those of each source. First: "
        "New Reno with selective acknowledgements (RFC 6675, 5681), round trips of 0.1 ms, 100 "
        "packets of 1500 B, responses that begin with 2 packets. Second: Linux of 2009, "
        "so CUBIC (RFC 9438) and selective acknowledgements without tail loss probes, first "
        "windows of 3 packets, delayed acknowledgements of 40 ms, round trips of 0.2 ms (assumed).",
        "That the window of each response begins anew (`restart`) was chosen after these rows "
        "were known. The first paper says that windows build up over the round trips of a "
        "response (3.2) and reckons with about 2 packets of each server in the first, but not "
        "why. It decides: with three seeds, at most 1 % of the queries have a timeout with up to "
        "12 servers (14 with the seed of the table, then), and 0.1 % with ten; with windows that "
        "are kept (RFC 2861) up to 1 server, and 10 % with ten.",
        "Other values, with three seeds: servers with at most 1 %, and the share of ten servers. "
        "First windows of 3 and 10 packets: 11, 0.1 %; 7, 10 %. Round trips of 0.2 ms: 15, 0.1 %. "
        "100 kB of buffer, with which the paper itself reckons: 5, 10 %. NewReno without "
        "selective acknowledgements: 12, 0.03 %. RACK: 12, 0.03 %. CUBIC: 20 or more, 0.1 %. "
        "Delayed acknowledgements (200 ms): 14, 0.6 %. Tried with one seed: a new connection for "
        "each query, 1 server, 93 %; kept windows and 17 520 B of socket buffer, 10 or 11 "
        "servers, 0.8 %: it would explain the measurement as well, and the paper does not name "
        "the buffer.",
        "Links carry headers: 117.7 MB/s are data. Without them (125 MB/s) the rows were 8.6 ms, "
        "14 servers, 0.1 %, and 0.5, 1.3, 3.5, 29 and 42 timeouts; the other values and rules "
        "below and above were tried without.",
        "That no timeouts means at most 1 % of 1000 queries is a choice. With at most 0.5 % it is "
        "12 servers too, with at most 5 % 13.",
        "The second measurement is not met with up to 8 senders. Other rules, with three seeds, "
        "timeouts of a sender with 2, 4, 8, 16 and 32 senders (as compared: 0.2, 1.3, 3.4, 28, "
        "42). Acknowledgements that are not delayed: 0.7, 1.1, 2.9, 19, 69. NewReno: 0.2, 0.5, "
        "1.9, 17, 41; NewReno and Reno: 0.2, 0.8, 1.4, 12, 33. RACK and tail loss probes (RFC "
        "8985), which that kernel did not have: 0, 0, 0, 0.3, 35. Round trips of 0.1 and 0.3 ms: "
        "0.8, 1.8, 6.8, 32, 44 and 0, 1.2, 2.7, 27, 38. Windows that begin anew: 0, 0.5, 1.3, 13, "
        "28. First windows of 10 packets: 0, 1.5, 4.1, 32, 56.",
        "Its buffer decides: with 64 KB 2, 4.6, 27, 45, 47, and with 16 KB 11, 29, 26, 64, 133. "
        "The switch shares 768 KB among 48 ports, 16 KB each, and 128 KB is the most that a port "
        "may get; how much it got is not stated. The fit (3.5 timeouts per sender up to ten "
        "senders, then 35) is taken from summaries of the paper. It implies 1.8, 3.6, 7.3, 10 and "
        "14 s for all blocks, and the model takes 0.5, 1.9, 6.7, 20 and 27 s: a block waits for "
        "the timeout of any one sender.",
        "Acknowledgements have a random delay of up to one packet's time: without it phases "
        "decide. An earlier model (timeouts where a connection's share of the buffer is less than "
        "four packets) had none up to 25 servers, and 0, 0, 0, 0 and 19 timeouts of a sender.",
        "No figures at 25 to 100 Gb/s were found; the first paper calls those at 10 Gb/s "
        "qualitatively similar. The curves of Phanishayee et al. (FAST '08) were not found as "
        "numbers, so they are not compared.",
    ),
)
