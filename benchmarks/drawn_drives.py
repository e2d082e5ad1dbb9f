"""Drives whose layout and values are all drawn at random, as a truth for `headrace drive learn`."""

from __future__ import annotations

import copy
import math
import random
from typing import Any, cast

from headrace.catalog import entry

Spec = dict[str, Any]

DISK_ODDITIES = (
    "small buffer",
    "no queue",
    "long settle",
    "two zones",
    "slow bus",
    "no read-ahead",
)


def _log_uniform(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def drawn_ssd(number: int) -> Spec:
    """Return an SSD of this number that is full of data: SATA or NVMe, one to 80 dies."""
    draw = random.Random(f"ssd {number}")
    sata = number % 2 == 0
    read_us = draw.uniform(25, 100)
    program_us = read_us * draw.uniform(8, 25)
    planes, page_bytes = draw.choice((1, 2, 4)), draw.choice((4096, 8192, 16384))
    limit = _log_uniform(draw, 15e3, 120e3) if sata else _log_uniform(draw, 80e3, 1e6)
    table: Spec = {
        "kind": "ssd",
        "name": f"drawn-{number}",
        "capacity_bytes": draw.randint(30, 120) * 1_000_000_512,
        "link_bytes_per_s": draw.uniform(200e6, 560e6) if sata else draw.uniform(1e9, 7e9),
        "link_duplex": not sata,
        "queue_depth": 32 if sata else 128,
        "spare_ratio": draw.uniform(0.07, 0.28),
        "write_buffer_bytes": int(_log_uniform(draw, 256 << 10, 32 << 20)),
        "controller": {
            "read_overhead_us": _log_uniform(draw, 5, 60),
            "write_overhead_us": _log_uniform(draw, 5, 60),
            "read_iops_max": limit,
            "write_iops_max": limit * draw.uniform(0.5, 1.0),
        },
        "flash": {
            "channels": draw.choice((1, 2, 4, 8, 10)),
            "dies_per_channel": draw.choice((1, 2, 4, 8)),
            "planes": planes,
            "page_bytes": page_bytes,
            "pages_per_block": 256,
            "read_us": read_us,
            "program_us": program_us,
            "erase_us": draw.uniform(1500, 6000),
            "channel_bytes_per_s": _log_uniform(draw, 40e6, 1.2e9),
        },
        "mapping": {"ftl": "page", "unit_bytes": 4096},
        "garbage_collection": draw.choice(("incremental", "blocking")),
        "read_priority": draw.choice(
            (
                {"kind": "fifo"},
                {"kind": "between_operations"},
                {"kind": "suspend", "suspend_us": 20.0},
            )
        ),
        "initial": {"state": "filled", "fill": 1.0},
    }
    if draw.random() < 0.4:
        share = draw.uniform(0.15, 0.4)
        table["slc_cache"] = {
            "bytes": draw.randint(500, 2000) * 1_000_000,
            "program_us": program_us * share,
        }
    return table


def drawn_disk(number: int) -> Spec:
    """Return a disk with one odd value, the others drawn near those of a disk of the catalog."""
    draw = random.Random(f"disk {number}")
    name = draw.choice(("seagate-st3750640ns", "sas-10k-146gb", "sata-7200-500gb", "wd-wd3200bekt"))
    table = copy.deepcopy(cast("Spec", entry("drives", name).table))
    table["name"] = f"drawn-disk-{number}"
    table["rotation_rpm"] *= draw.uniform(0.85, 1.15)
    table["controller_overhead_us"] *= draw.uniform(0.7, 1.4)
    table["queue"]["reordering"] = draw.uniform(0.1, 0.8)
    odd = DISK_ODDITIES[number % len(DISK_ODDITIES)]
    if odd == "small buffer":
        table["buffer"] |= {
            "segments": 2,
            "segment_bytes": 96 << 10,
            "read_ahead_bytes": 64 << 10,
            "write_cache_bytes": 128 << 10,
        }
    elif odd == "no queue":
        table["queue"]["depth"] = 1
    elif odd == "long settle":
        table["write_settle_ms"] = 2.2
    elif odd == "two zones":
        table["rates"]["zones"] = 2
    elif odd == "slow bus":
        table["link_bytes_per_s"] = 33e6
    else:
        table["buffer"]["read_ahead_bytes"] = 0
    return table
