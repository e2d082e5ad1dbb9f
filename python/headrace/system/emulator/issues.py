"""Tell an emulated drive's process where to learn when the kernel issued each request.

The kernel's tracepoint `block_rq_issue` has a number and a layout, which are in tracefs.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.system.emulator.control import NoAnswerError, ask
from headrace.system.kernel_filesystems import glimpse

_EVENT = Path("events/block/block_rq_issue")
_SECTOR = re.compile(r"field:sector_t sector;\s*offset:(\d+);\s*size:8;")


def watch_issues(control: Path, device: Path) -> None:
    """Let the process at `control` watch the requests of its device.

    Without tracefs or the right to read it, the process knows only when requests arrive; its
    report then has no `submission_ns`.
    """
    found = _event()
    if found is None:
        return
    event, sector_at = found
    number = device.stat().st_rdev
    kernel_number = os.major(number) << 20 | os.minor(number)
    try:
        ask(control, "watch_issues", event=event, sector_at=sector_at, device=kernel_number)
    except NoAnswerError:
        raise
    except HeadraceError:
        return  # Refused by the kernel, as by one in lockdown.


def _event() -> tuple[int, int] | None:
    """Return the tracepoint's number and the offset of its sector."""
    with contextlib.suppress(OSError, HeadraceError), glimpse("tracefs") as root:
        number = int((root / _EVENT / "id").read_text())
        layout = _SECTOR.search((root / _EVENT / "format").read_text())
        return None if layout is None else (number, int(layout[1]))
    return None
