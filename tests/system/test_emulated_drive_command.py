"""`headrace drive attach`, `attached` and `detach`, as a user calls them.

`headrace undo` after the emulator was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_server import run_command
from headrace.system import emulator, loops
from headrace.system.journal import Journal
from headrace.system.mounts import mount
from headrace.system.waiting import wait_until
from machine import mounts_below

pytestmark = pytest.mark.usefixtures("needs_root", "journal_place")

DISK = "seagate-st3750640ns"
COMMAND = [sys.executable, "-c", "from headrace.cli import main; main()"]


def headrace(
    *words: str, code: int = 0, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    if before:
        done = subprocess.run(
            [*before, *COMMAND, *words], capture_output=True, text=True, check=False, timeout=120
        )
    else:
        done = run_command(words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def attach(*words: str) -> dict[str, Any]:
    return json.loads(headrace("drive", "attach", *words, "--json").stdout)


def listed(emulator_pid: int) -> list[dict[str, Any]]:
    """What `attached` says of one emulator: another may have the name of its device by now."""
    return [
        row
        for row in json.loads(headrace("drive", "attached", "--json").stdout)
        if row["pid"] == emulator_pid
    ]


def test_attach_list_detach(journal_place: Path) -> None:
    made = attach(
        DISK,
        "--size",
        "64MiB",
        "--raid",
        "1",
        "--drives",
        "2",
        "--scheduler",
        "bfq",
        "--read-ahead",
        "64KiB",
    )
    device = made["device"]
    try:
        assert made["size_bytes"] == 64 << 20
        assert made["queue"]["scheduler"] == "bfq"
        with Path(device).open("rb") as file:
            assert file.read(4096) == bytes(4096)
        (row,) = listed(made["pid"])
        assert row["device"] == device
        assert row["drives"] == [DISK]
        assert row["raid"] == "RAID 1 of 2"
        assert row["report"]["reads"] > 0
        assert headrace("undo").stdout.strip() == "nothing to undo"
    finally:
        headrace("drive", "detach", device)
    assert listed(made["pid"]) == []
    assert list(journal_place.iterdir()) == []


def test_one_that_is_mounted_stays(tmp_path: Path) -> None:
    device = attach(DISK, "--size", "64MiB")["device"]
    try:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        with Journal.open("a test", tmp_path / "own") as journal:
            mount(journal, device, tmp_path, "ext4")
            assert "in use" in headrace("drive", "detach", device, code=4).stderr
    finally:
        headrace("drive", "detach", device)


def test_undo_after_the_emulator_was_killed(journal_place: Path) -> None:
    made = attach(DISK, "--size", "64MiB")
    (label,) = {loops.label_of(Path(made["device"]).name)}
    assert label is not None
    os.kill(made["pid"], signal.SIGKILL)
    said = headrace("undo").stdout
    assert "FAILED" not in said
    assert loops.labelled(label) == [], said
    assert all(one.pid != made["pid"] for one in emulator.running())
    assert list(journal_place.iterdir()) == []


def of_another_attach(seen: str, temporary: Path) -> bool:
    """Whether the emulator of a command that attaches is there, or what it mounts."""
    if seen == "mount":
        return mounts_below(temporary) != []
    programs = (entry / "cmdline" for entry in Path("/proc").iterdir() if entry.name.isdigit())
    for program in programs:
        with contextlib.suppress(OSError):
            words = program.read_bytes().split(b"\0")
            if words[0].endswith(b"headrace-emulator") and str(temporary).encode() in words[1]:
                return True
    return False


# What it mounts is there for a moment only: beside other tests, looking can come too late.
@pytest.mark.parametrize("seen", ["process", pytest.param("mount", marks=pytest.mark.machine)])
def test_a_stop_while_it_attaches_leaves_nothing(
    seen: str, tmp_path: Path, journal_place: Path
) -> None:
    temporary = tmp_path / "temporary files"
    temporary.mkdir()
    command = subprocess.Popen(
        [*COMMAND, "drive", "attach", DISK, "--size", "64MiB"],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert wait_until(lambda: of_another_attach(seen, temporary), 30, 0.001)
    command.send_signal(signal.SIGTERM)
    said, _ = command.communicate(timeout=60)
    assert command.returncode == 128 + signal.SIGTERM, said
    assert not of_another_attach("process", temporary)
    assert mounts_below(temporary) == [] and list(temporary.iterdir()) == []
    assert list(journal_place.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("seagate-st3750640",), 2, 'did you mean "seagate-st3750640ns"'),
        ((DISK, "--size", "500GiB"), 3, "is kept in memory"),
        ((DISK, "--size", "2TB"), 2, "not as large"),
        ((DISK, "--size", "many"), 2, "--size"),
        ((DISK, "--size", "1GiB", "--raid", "4"), 2, "not a RAID level"),
        ((DISK, "--size", "1GiB", "--raid", "10", "--drives", "5"), 2, "an even number"),
        ((DISK, "--size", "1GiB", "--drives", "5"), 2, "a RAID"),
        ((DISK, "--size", "1GiB", "--scheduler", "elevator"), 2, "no such scheduler"),
        (("intel-670p-1tb", "--size", "1GiB"), 6, "headrace simulate"),
    ],
)
def test_what_cannot_be_is_said_beforehand(
    words: tuple[str, ...], code: int, said: str, journal_place: Path
) -> None:
    assert said in " ".join(headrace("drive", "attach", *words, code=code).stderr.split())
    assert not journal_place.exists() or list(journal_place.iterdir()) == []


def test_without_root() -> None:
    done = headrace(
        "drive",
        "attach",
        DISK,
        "--size",
        "64MiB",
        code=3,
        before=("setpriv", "--reuid=65534", "--clear-groups"),
    )
    assert "needs root" in done.stderr
    assert "simulate" in done.stderr


def test_another_user_is_told_whose_the_drives_are() -> None:
    """`attached` said that there were none, and `detach` that the device is not readable."""
    made = attach(DISK, "--size", "64MiB")
    try:
        other = ("setpriv", "--reuid=65534", "--clear-groups")
        for words in (("attached",), ("detach", made["device"])):
            said = " ".join(headrace("drive", *words, code=3, before=other).stderr.split())
            assert made["device"] in said and "run it as root" in said
    finally:
        headrace("drive", "detach", made["device"])
