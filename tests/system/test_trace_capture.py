"""Capturing on a real loop device.

Every request of a known load is there with its process, and nothing stays behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, RefusedError
from headrace.system import blktrace, tracefs
from headrace.system.journal import Journal, pending_journals, undo
from headrace.system.loops import attach
from headrace.traces import Capture, open_trace, summarise, traced_device

# Alone: the kernel drops events of a trace whose reader gets no CPU in time.
pytestmark = pytest.mark.machine

REQUESTS = 500
SETUP, TEARDOWN = 0xC0481273, 0x1276
"""BLKTRACESETUP (_IOWR(0x12, 115, 72 bytes)) and BLKTRACETEARDOWN of include/uapi/linux/fs.h."""


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Journal]:
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(tmp_path / "journal"))
    with Journal.open("test") as opened:
        yield opened


@pytest.fixture
def loop(journal: Journal, tmp_path: Path) -> str:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    return attach(journal, image).name


def fio(device: str, *options: str) -> list[str]:
    return [
        "fio", "--name=load", f"--filename=/dev/{device}", "--direct=1", "--ioengine=psync",
        "--bs=8k",
        f"--number_ios={REQUESTS}", "--output-format=json", *options,
    ]  # fmt: skip


def instances() -> list[str]:
    """Names of our trace instances, looked at through a mount of our own."""
    script = (
        "d=$(mktemp -d); mount -t tracefs headrace-test $d && ls $d/instances; umount $d; rmdir $d"
    )
    found = subprocess.run(
        ["sh", "-c", script], check=True, capture_output=True, text=True
    ).stdout.split()
    return [name for name in found if name.startswith(tracefs.PREFIX)]


def test_every_request_is_there_with_its_process(
    journal: Journal, loop: str, tmp_path: Path
) -> None:
    before = len(journal.open_entries)
    capture = Capture(journal, [traced_device(loop)], tmp_path / "trace")
    capture.start()
    assert len(instances()) >= 1
    subprocess.run(fio(loop, "--rw=randread"), check=True, capture_output=True)
    subprocess.run(fio(loop, "--rw=write"), check=True, capture_output=True)
    left = capture.finish(("fio",))
    assert left.lost == 0
    found = summarise(open_trace(tmp_path / "trace"))
    for op in ("read", "write"):
        of_fio = [part.amount(op, "completed") for part in found.processes if part.name == "fio"]
        assert sum(count for count, _ in of_fio) == REQUESTS
        assert sum(size for _, size in of_fio) == REQUESTS * 8192
    latency = found.total.queue_to_complete
    assert latency is not None and latency.mean_ns > 0
    assert (
        open_trace(tmp_path / "trace").begin_monotonic_ns
        == left.begin_monotonic_ns
        <= found.first_ns
    )
    assert len(journal.open_entries) == before
    with pytest.raises(RefusedError):
        Capture(journal, [traced_device(loop)], tmp_path / "trace").start()


def locked_down(place: Path) -> bool:
    """Whether the kernel keeps blktrace's files to itself (kernel_lockdown(7)), looked at through a
    mount of our own."""
    place.mkdir()
    subprocess.run(["mount", "-t", "securityfs", "headrace-test", place], check=True)
    try:
        file = place / "lockdown"
        return file.exists() and "[none]" not in file.read_text()
    finally:
        subprocess.run(["umount", place], check=True)


def test_blktrace_sees_what_tracefs_sees_or_says_why_not(
    journal: Journal, loop: str, tmp_path: Path
) -> None:
    before = len(journal.open_entries)
    capture = Capture(journal, [traced_device(loop)], tmp_path / "trace", "blktrace")
    if locked_down(tmp_path / "security"):
        with pytest.raises(HeadraceError, match="locked down"):
            capture.start()
        capture.abandon()
    else:
        capture.start()
        subprocess.run(fio(loop, "--rw=randread"), check=True, capture_output=True)
        left = capture.finish()
        assert (left.by, left.lost) == ("blktrace", 0)
        found = summarise(open_trace(tmp_path / "trace"))
        of_fio = [
            part.amount("read", "completed") for part in found.processes if part.name == "fio"
        ]
        assert of_fio == [(REQUESTS, REQUESTS * 8192)]
        assert left.begin_monotonic_ns <= found.first_ns
    assert len(journal.open_entries) == before
    # No trace is left on the disk: another may begin.
    root, entry = blktrace.expect_trace(journal, tmp_path / "security", loop)
    assert root.is_dir()
    assert "not there" in journal.undo(entry).text


def test_a_trace_of_another_is_left_alone(journal: Journal, loop: str, tmp_path: Path) -> None:
    """The kernel sets a trace up even where its files cannot be read.

    Here another's, of which our journal says nothing.
    """
    device = os.open(f"/dev/{loop}", os.O_RDONLY)
    try:
        fcntl.ioctl(device, SETUP, struct.pack("@32sHIIQQI4x", b"", 0xFFFF, 4096, 2, 0, 0, 0))
        mountpoint = tmp_path / "debugfs"
        mountpoint.mkdir()
        with pytest.raises(HeadraceError, match="another blktrace is at work"):
            blktrace.expect_trace(journal, mountpoint, loop)
        assert "another's" in blktrace.end_trace(loop, None)
        number = (mountpoint / "block" / loop / "dropped").stat().st_ino
        assert blktrace.end_trace(loop, number + 1) == "left alone: it is another's"
        assert blktrace.end_trace(loop, number) == "ended"
        assert blktrace.end_trace(loop, number) == "not there"
    finally:
        with contextlib.suppress(OSError):
            fcntl.ioctl(device, TEARDOWN)
        os.close(device)


def test_a_device_without_requests_says_where_there_were_some(
    journal: Journal, loop: str, tmp_path: Path
) -> None:
    image = tmp_path / "other"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    other = attach(journal, image).name
    capture = Capture(journal, [traced_device(other)], tmp_path / "trace")
    capture.start()
    subprocess.run(fio(loop, "--rw=randread"), check=True, capture_output=True)
    left = capture.finish()
    assert left.events == 0 and left.moved[loop] >= REQUESTS
    with pytest.raises(HeadraceError) as caught:
        summarise(open_trace(tmp_path / "trace"))
    assert loop in str(caught.value.problems[0])  # type: ignore[attr-defined]


def test_what_is_no_device_is_refused() -> None:
    for given, words in (("no-such-device", "no such device"), ("/dev/null", "not a block device")):
        with pytest.raises(HeadraceError, match=words):
            traced_device(given)


def test_after_a_kill_undo_removes_the_instance_and_the_trace_is_read(
    loop: str, tmp_path: Path
) -> None:
    place = tmp_path / "killed"
    argv = [
        str(Path(sys.executable).with_name("headrace")),
        "trace",
        "capture",
        "--device",
        loop,
        "--out",
        str(place),
    ]
    running = subprocess.Popen(argv)
    try:
        deadline = time.monotonic() + 30
        mine: list[str] = []
        while not mine and time.monotonic() < deadline:
            time.sleep(0.2)
            found = [
                json.loads(line)
                for file in (tmp_path / "journal").glob(f"*-{running.pid}-*.jsonl")
                for line in file.read_text().splitlines()
            ]
            if any(line.get("action") == "end_process" for line in found):
                mine = [
                    line["args"]["name"]
                    for line in found
                    if line.get("action") == "remove_trace_instance"
                ]
        time.sleep(1.0)
        subprocess.run(fio(loop, "--rw=randread"), check=True, capture_output=True)
        time.sleep(0.5)
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert mine and mine[0] in instances()
    pending = [each for each in pending_journals() if each.pid == running.pid]
    assert len(pending) == 1
    assert all(result.done for result in undo(pending[0].file))
    assert mine[0] not in instances()
    assert not [each for each in pending_journals() if each.pid == running.pid]
