"""The page cache, the memory limit, delay accounting and facts of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.system import page_cache
from headrace.system.cgroups import MemoryLimit
from headrace.system.facts import delay_accounting, enable_delay_accounting, facts
from headrace.system.journal import Journal
from headrace.system.memory_limits import MemoryLimits
from headrace.system.page_cache import _resident_by_mincore  # pyright: ignore[reportPrivateUsage]
from headrace.system.shared_settings import holders

# Alone: they count pages in the page cache and drop all of it, and switch delay accounting.
pytestmark = pytest.mark.machine

SIZE = 8 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(SIZE))
    return path


def test_files_are_dropped_and_warmed(file: Path) -> None:
    assert page_cache.resident_bytes([file]) == SIZE
    assert page_cache.drop_files([file]) == 0, "dirty pages are written first"
    assert page_cache.resident_bytes([file]) == 0
    assert page_cache.warm([file, file]) == 2 * SIZE


def test_both_ways_of_counting_agree(file: Path) -> None:
    page_cache.drop_files([file])
    with file.open("rb") as handle:
        os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        handle.seek(1 << 20)
        handle.read(100_000)
        counted = page_cache.resident_bytes([file])
        assert 0 < counted < SIZE
        assert _resident_by_mincore(handle.fileno()) == counted


def test_an_empty_or_missing_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert page_cache.resident_bytes([tmp_path / "empty"]) == 0
    assert page_cache.warm([tmp_path / "empty"]) == 0
    for function in (page_cache.resident_bytes, page_cache.drop_files, page_cache.warm):
        with pytest.raises(HeadraceError, match="cannot be read"):
            function([tmp_path / "missing"])


@pytest.mark.usefixtures("needs_root")
def test_everything_is_dropped(file: Path) -> None:
    assert page_cache.can_drop_all()
    page_cache.drop_all()
    assert page_cache.resident_bytes([file]) == 0


ALLOCATE = "import os, sys; sys.stdin.read(); held = bytearray(int(sys.argv[1])); print(len(held))"


def _allocate(limit: MemoryLimit, size: int) -> int:
    """Exit code of a process under the limit that takes `size` bytes of memory."""
    child = subprocess.Popen(
        [sys.executable, "-c", ALLOCATE, str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    limit.add(child.pid)
    child.communicate()
    return child.returncode


READ = (
    "import sys; sys.stdin.read(); "
    "f = open(sys.argv[1], 'rb'); [*map(len, iter(lambda: f.read(1 << 20), b''))]"
)


@pytest.mark.usefixtures("needs_root")
def test_the_memory_limit_bounds_jobs_and_their_page_cache(journal: Journal, file: Path) -> None:
    with MemoryLimit(journal, 48 << 20) as limit:
        assert limit.read() == 48 << 20
        assert _allocate(limit, 1 << 20) == 0
        assert limit.killed() == 0
        assert _allocate(limit, 200 << 20) == -9
        assert limit.killed() == 1
        assert (limit.peak_bytes() or 0) <= 48 << 20

        big = file.with_name("big")
        big.write_bytes(bytes(96 << 20))
        page_cache.drop_files([big])
        child = subprocess.Popen([sys.executable, "-c", READ, str(big)], stdin=subprocess.PIPE)
        limit.add(child.pid)
        child.communicate()
        assert (child.returncode, limit.killed()) == (0, 1), "the kernel drops pages, no process"
        assert 16 << 20 < page_cache.resident_bytes([big]) <= 48 << 20
        group = limit.group
    assert not group.exists()
    limit.close()


@pytest.mark.usefixtures("needs_root")
def test_each_job_has_a_group_that_goes_with_it(journal: Journal, file: Path) -> None:
    big = file.with_name("big")
    big.write_bytes(bytes(96 << 20))
    page_cache.drop_files([big])
    limits = MemoryLimits(journal)
    limits.limit_each(48 << 20)

    def read() -> tuple[int, Path]:
        child = subprocess.Popen([sys.executable, "-c", READ, str(big)], stdin=subprocess.PIPE)
        limits.adopt(child.pid)
        group = limits.groups[-1]
        child.communicate()
        return page_cache.resident_bytes([big]), group

    first, group = read()
    assert 0 < first <= 48 << 20
    # What the first has left counts to no other: the second keeps as much again.
    second, other = read()
    assert other != group and not group.exists()
    assert first < second <= 96 << 20
    limits.lift()
    assert not other.exists()


@pytest.mark.usefixtures("needs_root")
def test_the_memory_limit_goes_while_processes_stay(journal: Journal) -> None:
    limit = MemoryLimit(journal, 64 << 20)
    child = subprocess.Popen(["sleep", "60"])
    limit.add(child.pid)
    limit.close()
    assert child.poll() is None
    child.kill()
    child.wait()
    with pytest.raises(HeadraceError, match="cannot be put under"):
        limit.add(child.pid)


@pytest.mark.usefixtures("needs_root")
def test_delay_accounting_is_switched_back(journal: Journal) -> None:
    entry = enable_delay_accounting(journal)
    assert delay_accounting()
    if entry is not None:
        again = enable_delay_accounting(journal)
        assert again is not None
        assert "needs it too" in journal.undo(entry).text and delay_accounting()
        journal.undo(again)
        assert not delay_accounting() or holders("/proc/sys/kernel/task_delayacct")


def test_facts_are_whole_and_can_be_written() -> None:
    found = facts()
    assert json.loads(json.dumps(found)) == found
    for name in (
        "kernel",
        "cpu_model",
        "cores",
        "memory_bytes",
        "virtualization",
        "versions",
        "os",
    ):
        assert found[name], name
    assert found["memory_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found["cpus"] >= found["cores"] >= 1
    assert found["versions"]["python"] == sys.version.split()[0]
