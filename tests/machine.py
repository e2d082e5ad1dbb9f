"""Looks at the machine for the system tests.

What of loop devices, mounts and queues is not as it was.
"""

from __future__ import annotations

from pathlib import Path

from headrace.system import block_queue, loops, mounts

QueueFacts = tuple[str | None, int | None, int | None, str]


def queue_of(disk: str) -> QueueFacts:
    """Everything of a queue that Headrace may change."""
    return (
        block_queue.read_scheduler(disk),
        block_queue.read_number(disk, "nr_requests"),
        block_queue.read_depth(disk),
        Path(f"/sys/block/{disk}/queue/read_ahead_kb").read_text(),
    )


def loops_below(folder: Path) -> list[str]:
    return [name for name, file in loops.attached().items() if file.is_relative_to(folder)]


def mounts_below(folder: Path) -> list[Path]:
    return [
        mount.directory for mount in mounts.read_mounts() if mount.directory.is_relative_to(folder)
    ]
