"""Records which pages this machine's kernel adds to the page cache for patterns of reads.

    python benchmarks/read_ahead_of_linux.py FOLDER

FOLDER is on ext4 or XFS; a file of 64 MiB is written into it, and removed. For each pattern it
prints a heading with the limits, in pages, of a window of read-ahead and of a large read of the
device, and then for each read its offset and length in bytes and the ranges of pages that were
added (tracepoint `filemap:mm_filemap_add_to_page_cache`). `crates/model` compares its read-ahead
with what a disk (8 MiB) and a loop device (128 KiB) gave. Needs root, and nobody who drops the page
cache meanwhile.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRACING = Path("/sys/kernel/tracing/instances")
FILE_BYTES = 64 << 20
READS_MOST = 100
SETTLE_S = 0.001
"""Between reads: what they start in the background is counted as theirs."""

Reads = list[tuple[int, int]]


def in_order(read_bytes: int, count: int, begin: int = 0, step: int = 0) -> Reads:
    return [(begin + number * (step or read_bytes), read_bytes) for number in range(count)]


def five_branches(chosen: random.Random) -> Reads:
    """Baskets of five branches, each in its order, a third of them skipped."""
    at = [0, 3_000_000, 7_100_000, 15_000_000, 22_333_000]
    reads: Reads = []
    for _ in range(150):
        branch, basket = chosen.randrange(5), chosen.randrange(2000, 60_000)
        if chosen.random() < 0.7:
            reads.append((at[branch], basket))
        at[branch] += basket
    return reads


def with_gaps(chosen: random.Random) -> Reads:
    reads: Reads = []
    offset = 0
    for _ in range(150):
        basket = chosen.randrange(3000, 90_000)
        if chosen.random() < 0.6:
            reads.append((offset, basket))
        offset += basket
    return reads


def patterns() -> dict[str, Reads]:
    chosen = random.Random(7)
    pages, last = FILE_BYTES // 4096, FILE_BYTES - 40_000
    found = {
        "sequential 4 KiB": in_order(4096, 300),
        "sequential 16 KiB": in_order(16_384, 120),
        "sequential 128 KiB": in_order(131_072, 12),
        "sequential 1 MiB": in_order(1 << 20, 3),
        "sequential 5000 B": in_order(5000, 300),
        "from the middle, 8 KiB": in_order(8192, 150, 12_345_678),
        "strided 60 of 100 kB": in_order(60_000, 59, 100_000, 100_000),
        "strided 20 of 30 KiB": in_order(20_480, 149, 30_720, 30_720),
        "random 4 KiB": [(chosen.randrange(pages) * 4096, 4096) for _ in range(150)],
        "random 40 kB": [(chosen.randrange(last), 40_000) for _ in range(100)],
    }
    streams = zip(in_order(12_288, 100), in_order(9000, 100, 30_000_000), strict=True)
    found["two streams"] = [read for pair in streams for read in pair]
    found["baskets of five branches"] = five_branches(chosen)
    found["baskets in order, 40 % skipped"] = with_gaps(chosen)
    found["to the end of the file"] = in_order(10_000, 100, FILE_BYTES - 1_000_000)
    return {name: reads[:READS_MOST] for name, reads in found.items()}


@contextmanager
def traced(inode: int) -> Iterator[Path]:
    """An instance of the kernel's tracing that sees the pages of one file."""
    place = TRACING / f"headrace-{os.getpid()}"
    place.mkdir()
    event = place / "events/filemap/mm_filemap_add_to_page_cache"
    try:
        (place / "buffer_size_kb").write_text("16384")
        (event / "filter").write_text(f"i_ino=={inode}")
        (event / "enable").write_text("1")
        yield place
    finally:
        (event / "enable").write_text("0")
        place.rmdir()


def added(place: Path, data: Path, reads: Reads) -> list[list[tuple[int, int]]]:
    """The ranges of pages, first and end, that each read added."""
    (place / "trace").write_text("")
    file = os.open(data, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        with (place / "trace_marker").open("w", buffering=1) as marker:
            for number, (offset, length) in enumerate(reads):
                marker.write(f"read {number}\n")
                os.pread(file, length, offset)
                time.sleep(SETTLE_S)
    finally:
        os.close(file)
    found: list[list[tuple[int, int]]] = [[] for _ in reads]
    of: list[tuple[int, int]] = []
    for line in (place / "trace").read_text().splitlines():
        if begin := re.search(r"tracing_mark_write: read (\d+)", line):
            of = found[int(begin[1])]
        elif folio := re.search(r"ofs=(\d+) order=(\d+)", line):
            start = int(folio[1]) // 4096
            end = start + (1 << int(folio[2]))
            if of and of[-1][1] == start:
                start = of.pop()[0]
            of.append((start, end))
    return found


def limits(folder: Path) -> tuple[int, int]:
    """Pages of a window at most, and of one large read, of the folder's device."""
    device = folder.stat().st_dev
    own = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    # A partition has the queue of its disk.
    queue = next(each / "queue" for each in (own, own.parent) if (each / "queue").is_dir())
    window_kib = int((queue / "read_ahead_kb").read_text())
    read_kib = int((queue / "max_sectors_kb").read_text())
    return window_kib // 4, max(window_kib, read_kib) // 4


def main(folder: Path) -> None:
    most = limits(folder)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="headrace-read-ahead-") as data:
        for _ in range(FILE_BYTES >> 20):
            data.write(os.urandom(1 << 20))
        data.flush()
        os.fsync(data.fileno())
        with traced(os.fstat(data.fileno()).st_ino) as place:
            for name, reads in patterns().items():
                print(f"# {name}; {most[0]} {most[1]}")
                for read, ranges in zip(reads, added(place, Path(data.name), reads), strict=True):
                    print(*read, *(f"{start}-{end}" for start, end in ranges))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
