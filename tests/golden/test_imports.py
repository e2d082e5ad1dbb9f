"""What other tools really wrote, imported: every access is there, of the right process, at the
right place.

strace 6.1 traced a small C program (threads, a child, vectors, a stream) with `-o` and to its
own standard error, where it tears lines. XRootD 6.2's client recorded a Python job against a
server on the same machine. Darshan's listing is the example of its manual (darshan-util, "Guide
to darshan-dxt-parser output").
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.profiles.importing import read
from headrace.profiles.steps import Op, Recording

SAMPLES = Path(__file__).parent / "imports"

EVENTS, OUT = "events.root", "out.root"
TRACED = [
    ("OPEN", EVENTS, 0, 0), ("READ", EVENTS, 0, 100), ("SEEK", EVENTS, 5000, 0),
    ("READ", EVENTS, 5000, 10),
    ("READ", EVENTS, 70000, 200), ("READ", EVENTS, 80000, 300), ("OPEN", OUT, 0, 0),
    ("WRITE", OUT, 0, 100),
    ("WRITE", OUT, 1000, 50), ("SYNC", OUT, 0, 0),
    ("OPEN", EVENTS, 0, 0), ("READ", EVENTS, 4096, 64), ("CLOSE", EVENTS, 0, 0),  # the thread
    ("READ", EVENTS, 5010, 20),  # the child, on the descriptor of its parent
    # the stream's buffer
    ("OPEN", EVENTS, 0, 0), ("READ", EVENTS, 0, 4096), ("CLOSE", EVENTS, 0, 0),
    ("STAT", EVENTS, 0, 0), ("CLOSE", OUT, 0, 0), ("CLOSE", EVENTS, 0, 0),
]  # fmt: skip


def moves(job: Recording, names: tuple[str, ...]) -> list[tuple[str, str, int, int]]:
    steps = job.steps
    rows = zip(
        *(getattr(steps, name).tolist() for name in ("op", "file", "offset", "length")), strict=True
    )
    paths = [Path(file.path).name for file in job.files]
    return [
        (Op(op).name, paths[file], offset, length)
        for op, file, offset, length in rows
        if paths[file] in names
    ]


@pytest.mark.parametrize("sample", ["strace-y.txt", "strace-stderr.txt"])
def test_strace_of_threads_and_children(sample: str) -> None:
    job = read(SAMPLES / sample, "job")
    assert moves(job, (EVENTS, OUT)) == TRACED
    assert job.processes == 3
    of_data = job.steps.take(job.steps.length == 64)
    assert (
        of_data.thread.tolist() != [0]
        and 0 < int((of_data.end_ns - of_data.start_ns)[0]) < 1_000_000
    )
    facts = {Path(file.path).name: file for file in job.files}
    assert (facts[EVENTS].bytes, facts[EVENTS].created, facts[OUT].created) == (80_300, False, True)
    assert facts["libc.so.6"].software
    if sample == "strace-y.txt":
        assert facts[EVENTS].path == "/data/job/events.root"


def test_xrootd_6_with_quotes() -> None:
    job = read(SAMPLES / "xrootd-6.csv", "job")
    assert moves(job, (EVENTS, OUT)) == [
        ("OPEN", EVENTS, 0, 0), ("STAT", EVENTS, 0, 0), ("READ", EVENTS, 0, 300),
        ("READ", EVENTS, 1_000_000, 65_536),
        ("READ", EVENTS, 100, 40), ("READ", EVENTS, 5000, 64), ("READ", EVENTS, 2_000_000, 1000),
        ("READ", EVENTS, 2_999_000, 1000), ("CLOSE", EVENTS, 0, 0),
        ("OPEN", OUT, 0, 0), ("WRITE", OUT, 0, 5000), ("WRITE", OUT, 5000, 1000),
        ("SYNC", OUT, 0, 0), ("CLOSE", OUT, 0, 0),
    ]  # fmt: skip
    assert [(file.bytes, file.created) for file in job.files] == [(3_000_000, False), (0, True)]
    assert "1 actions that failed are left out" in job.notes[1]


def test_darshan_s_own_example() -> None:
    job = read(SAMPLES / "darshan-dxt.txt", "job")
    pieces = [(262_144 * number, 262_144) for number in range(4)]
    assert moves(job, ("testFile",)) == [
        *(("WRITE", "testFile", *piece) for piece in pieces),
        *(("READ", "testFile", *piece) for piece in pieces),
    ]
    assert (job.duration_ns, job.command[0]) == (1_000_000_000, "./ior")
    # 0.8 ms between the last write and the first read.
    assert job.steps.cpu_ns.tolist()[4] == pytest.approx(800_000, abs=1)
