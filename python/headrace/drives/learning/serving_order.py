"""Makes the kernel's I/O scheduler pass requests on in their order while a drive is learnt.

A scheduler sorts the requests that the drive does not hold yet, as mq-deadline sorts twelve reads
of a drive that takes one at a time: their times would be those of the scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import UnsupportedLevelError
from headrace.system import block_queue, devices
from headrace.system.journal import Journal
from headrace.system.shared_settings import set_file

IN_ORDER = {"fifo_batch": 1, "read_expire": 0, "write_expire": 0}
"""Of mq-deadline: every request is past its deadline at once, and the oldest is next
(block/mq-deadline.c, `deadline_check_fifo`). Without a scheduler requests would wait to be
submitted when the device holds no more."""


@contextmanager
def served_in_order(device: Path) -> Generator[str | None]:
    """Serve requests in their order for the block; yield the scheduler that sorts them all the
    same, because setting it is not allowed."""
    name = device.resolve().name
    disk = devices.parent_disk(name) or name
    scheduler = block_queue.read_scheduler(disk)
    if scheduler in (None, "none") or not device.is_block_device():
        yield None
        return
    if os.geteuid() != 0:
        yield scheduler
        return
    with Journal.open(f"headrace drive learn {device}") as journal:
        try:
            _set_in_order(journal, disk)
        except (OSError, UnsupportedLevelError):
            yield scheduler
            return
        yield None


def _set_in_order(journal: Journal, disk: str) -> None:
    queue = block_queue.Queue(journal, disk)
    try:
        queue.set_scheduler("mq-deadline")
    except UnsupportedLevelError:
        queue.set_scheduler("none")
        return
    for name, value in IN_ORDER.items():
        set_file(journal, Path("/sys/block") / disk / "queue/iosched" / name, str(value))
