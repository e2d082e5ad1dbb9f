"""A job profile in outline: bounds of its figures, the order of block reads, its steps."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import entry
from headrace.cli.watch import watch
from headrace.errors import RefusedError, UsageError
from headrace.outline.block_order import BlockReads, runs_of
from headrace.outline.figures import BoundedFigure, Seen, figures_of, sequential_share
from headrace.outline.open_files import OpenDataFile, OpenFiles, size_of
from headrace.outline.steps import files_and_steps
from headrace.watching.process import Moved

SEEN = Seen(
    wall_s=10.0,
    cpu_s=4.0,
    wait_cpu_s=0.5,
    wait_storage_s=1.0,
    sleep_s=4.5,
    uncertainty_s=0.01,
    moved=Moved(read=1_000_000, read_calls=250, storage_read=1_000_000),
    io_readable=True,
    looks=10,
    threads=1,
    several=False,
    memory_bytes=50_000_000,
)


def _seen(**changes: object) -> Seen:
    from dataclasses import replace

    return replace(SEEN, **changes)  # pyright: ignore[reportArgumentType]


def _steps(requests: list[tuple[int, int]], call_bytes: int) -> BoundedFigure:
    """The share that block reads of so many bytes show of calls of this size."""
    reads = runs_of(requests)
    calls = reads.bytes // call_bytes
    found = sequential_share(Moved(read=reads.bytes, read_calls=calls), reads)
    assert found is not None
    return found


def test_reads_in_order_are_seen_whatever_the_size_of_requests_and_calls() -> None:
    for sectors in (8, 256, 8192):
        requests = [
            (number * sectors, sectors) for number in range(1 << 17 >> sectors.bit_length())
        ]
        assert _steps(requests, 4096).value > 0.9


def test_reads_at_random_are_seen_when_calls_are_larger_than_requests() -> None:
    chosen = random.Random(1)
    small = [(chosen.randrange(10**9) * 8, 8) for _ in range(2000)]
    assert _steps(small, 4096).value < 0.02
    # Calls of 1 MiB, which the kernel cuts into requests of 128 KiB.
    places = [chosen.randrange(10**6) * 4096 for _ in range(200)]
    large = [(place + number * 256, 256) for place in places for number in range(8)]
    assert _steps(large, 1 << 20).value < 0.02


@pytest.mark.parametrize("reads", [1000, 4000, 16384])
def test_reads_at_random_of_a_small_file_are_in_no_order(reads: int) -> None:
    """One in sixteen of the first thousand neighbours one of those before, by chance."""
    for seed in range(20):
        places = random.Random(seed).sample(range(16384), reads)
        requests = [(8 * place, 8) for place in places]
        found = _steps(requests, 4096)
        assert found.low == 0.0 and found.value < 0.02 < runs_of(requests).by_chance


@pytest.mark.parametrize("reads", [1000, 4000])
def test_half_the_reads_of_a_small_file_are_in_order(reads: int) -> None:
    for seed in range(20):
        elsewhere = random.Random(seed).sample(range(20_000, 40_000), reads)
        requests = [(8 * place, 8) for pair in enumerate(elsewhere) for place in pair]
        found = _steps(requests, 4096)
        assert found.value == pytest.approx(0.5, abs=0.06) and found.low <= 0.5 <= found.high


def test_a_small_file_in_order_is_seen() -> None:
    found = _steps([(8 * number, 8) for number in range(1000)], 4096)
    assert found.low > 0.6  # calls can be as large as 1 MiB


def test_the_bounds_hold_what_a_mixture_can_be() -> None:
    chosen = random.Random(1)
    mixed: list[tuple[int, int]] = []
    for number in range(2000):  # half of the calls follow each other, between reads elsewhere
        mixed += [(number * 8, 8), (10**8 + chosen.randrange(10**8) * 8, 8)]
    found = _steps(mixed, 4096)
    assert found.value == pytest.approx(0.5, abs=0.01) and found.low <= 0.5 <= found.high
    # Nothing is known of what the page cache gave.
    reads = runs_of(mixed)
    half = sequential_share(Moved(read=2 * reads.bytes, read_calls=8000), reads)
    assert half is not None and half.high - half.low > 0.5


def test_without_block_reads_the_order_is_unknown() -> None:
    for block in (None, BlockReads(), BlockReads(5, 20480, 5, 20480, lost=1)):
        assert "sequential_share" not in figures_of(_seen(block=block))


def test_reads_of_pipes_are_in_the_bounds() -> None:
    alone, beside = (
        figures_of(_seen(others=frozenset(others)))["read_bytes"] for others in ((), ("pipes",))
    )
    assert (alone.low, alone.high) == (900_000, 1_000_000)
    assert (beside.low, beside.high) == (0, 1_000_000) and "pipes were open" in beside.source


def test_what_may_not_be_read_is_no_figure() -> None:
    found = figures_of(_seen(io_readable=False))
    assert "cpu_s" in found and not [name for name in found if "read" in name or "written" in name]


def test_the_steps_add_up_to_the_figures() -> None:
    moved = Moved(read=1_000_000, read_calls=250, written=30_000, write_calls=30)
    found = figures_of(_seen(moved=moved))
    files = [
        OpenDataFile("/data/a", 3_000_000, read=True),
        OpenDataFile("/data/b", 1_000_000, read=True, direct=True),
        OpenDataFile("/data/log", 500, written=True),
    ]
    sets, steps = files_and_steps(files, found)
    assert [each["name"] for each in sets] == ["f0", "f1", "written"]
    patterns = [step for step in steps if step["do"] == "pattern"]
    reads = [step for step in patterns if step.get("op") != "write"]
    assert sum(step["count"] for step in reads) == pytest.approx(250, abs=1)
    assert sum(step["count"] * step["length_bytes"] for step in reads) == pytest.approx(
        1e6, rel=0.01
    )
    assert {step["file"] for step in reads if step.get("access") == "direct"} == {"f1"}
    writes = [step for step in patterns if step.get("op") == "write"]
    assert sum(step["count"] * step["length_bytes"] for step in writes) == 30_000
    waits_s = sum(step["wait_ns"] for step in steps if step["do"] == "wait") / 1e9
    assert waits_s == pytest.approx(4.5, rel=1e-6)
    cpu_s = sum(step["cpu_ns"] * step["count"] for step in patterns) / 1e9
    assert cpu_s == pytest.approx(4.0, rel=0.01)


def _look(**channels: Any) -> OpenFiles:
    """What a program that sleeps has open; channels as of Popen."""
    with subprocess.Popen(["sleep", "600"], stderr=subprocess.DEVNULL, **channels) as job:
        try:
            found = OpenFiles()
            found.look([job.pid])
        finally:
            job.kill()
    return found


def test_open_files_and_what_else_can_be_read(tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(bytes(12345))
    with data.open("rb") as opened:
        found = _look(stdin=opened, stdout=subprocess.PIPE)
    assert [(each.path, each.bytes, each.read) for each in found.files] == [
        (str(data), 12345, True)
    ]
    assert not found.others  # a pipe that is only written to has no reads
    found = _look(stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert found.others == {"pipes"} and not found.files
    assert size_of(str(tmp_path)) == -1


def test_mapped_files_are_read_without_calls(tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(bytes(1 << 20))
    with data.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        found = OpenFiles()
        found.look([os.getpid()])
    assert found.mapped and str(data) in [each.path for each in found.files if each.mapped]
    moved = Moved(read=1000, read_calls=10, storage_read=1_000_000)
    for mapped, expected in ((True, 1_000_000), (False, 1000)):
        assert figures_of(_seen(moved=moved, mapped=mapped))["read_bytes"].value == expected


def test_a_watched_job_as_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, profile = tmp_path / "data.bin", tmp_path / "job.toml"
    data.write_bytes(os.urandom(1 << 20))
    program = (
        "import os, sys, time\nfile = os.open(sys.argv[1], os.O_RDONLY)\nwhile True:\n"
        "    os.pread(file, 4096, 0)\n    time.sleep(0.01)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(data)], stdin=subprocess.DEVNULL
    ) as job:
        try:
            deadline_s = time.monotonic() + 60
            while str(data) not in _opened(job.pid) and time.monotonic() < deadline_s:
                time.sleep(0.05)
            for _ in range(2):  # the second replaces the first
                watch(pid=[str(job.pid)], interval="0.5 s", once=True, profile=profile)
        finally:
            job.kill()
    table = entry("profiles", str(profile)).table
    assert table.outline.duration_s > 0.4
    assert [(each.path, each.bytes) for each in table.files] == [(str(data), 1 << 20)]
    assert table.outline.figures["read_bytes"].value > 0
    told = capsys.readouterr().err
    assert "unknown: how much of the whole job this is" in told and f"profile: {profile}" in told
    head = profile.read_text().partition("name =")[0]
    assert head.count("# ") > len(table.outline.figures)


def _opened(pid: int) -> list[str]:
    return [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]


def test_what_cannot_become_a_profile(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("name = 'mine'\n")
    with subprocess.Popen(["sleep", "600"]) as one, subprocess.Popen(["sleep", "600"]) as two:
        pids = [str(one.pid), str(two.pid)]
        try:
            with pytest.raises(UsageError, match="2 jobs are watched; a profile is of one"):
                watch(pid=pids, once=True, interval="0.1 s", profile=tmp_path / "job.toml")
            with pytest.raises(RefusedError, match="not overwritten"):
                watch(pid=pids[:1], once=True, interval="0.1 s", profile=mine)
        finally:
            one.kill()
            two.kill()
    assert tomllib.loads(mine.read_text()) == {"name": "mine"}
    assert not (tmp_path / "job.toml").exists()


def test_names_that_are_not_utf_8_and_names_with_control_characters(tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"run\xff.bin")
    data.write_bytes(b"x" * 4096)
    script = tmp_path / "job\x1b[31m\n.py"
    opens = "f = open(sys.argv[1], 'rb')\nprint(flush=True)\n"
    script.write_text(f"import sys, time\n{opens}time.sleep(600)\n")
    with subprocess.Popen([sys.executable, script, data], stdout=-1) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            out = tmp_path / "job.toml"
            watch(pid=[str(process.pid)], interval="0.2 s", once=True, profile=out)
        finally:
            process.kill()
    table = tomllib.loads(out.read_text())
    assert "job?[31m?.py" in table["outline"]["job"]
