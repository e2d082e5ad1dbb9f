"""What the probes' totals say against a trial: other I/O on the device."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.probes.block import competing_io

MIB = 1 << 20


def device(read: int, written: int = 0) -> dict[str, Any]:
    return {"bytes_read": read, "bytes_written": written}


@pytest.mark.parametrize(
    ("totals", "jobs_read", "duration_s", "jobs_written"),
    [
        (device(1000 * MIB), 1000 * MIB, 10, None),
        (device(1000 * MIB), 950 * MIB, 10, None),  # 5 %
        (device(30 * MIB), 15 * MIB, 10, None),  # half of little
        (device(300 * MIB), 100 * MIB, 300, None),  # below 1 MiB/s
        (device(100 * MIB, 500 * MIB), 100 * MIB, 10, None),  # writes not looked at
        (device(100 * MIB, 500 * MIB), 100 * MIB, 10, 500 * MIB),
        (device(100 * MIB, 10 * MIB), 100 * MIB, 10, 500 * MIB),  # still dirty
    ],
)
def test_no_competition(
    totals: dict[str, Any], jobs_read: int, duration_s: float, jobs_written: int | None
) -> None:
    assert competing_io(totals, jobs_read, duration_s, jobs_written) is None


def test_other_reads_and_writes_are_told_of() -> None:
    found = competing_io(device(1000 * MIB), 600 * MIB, 10)
    assert found is not None
    assert found[0] == "competing-io"
    assert found[1] == (
        "the device moved 1.05 GB, of which the jobs caused 629 MB: 40 % was other I/O"
    )
    assert competing_io(device(100 * MIB, 500 * MIB), 100 * MIB, 10, 100 * MIB) is not None


def test_dirty_pages_of_the_jobs_do_not_hide_other_reads() -> None:
    assert competing_io(device(1000 * MIB, 10 * MIB), 100 * MIB, 10, 5000 * MIB) is not None
