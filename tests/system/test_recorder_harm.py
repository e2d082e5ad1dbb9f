"""No program is harmed by being recorded, whatever it does to descriptors, processes, signals and
limits (recorded/unruly.c)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.profiles.recorder import record
from headrace.profiles.steps import Op, Recording, load
from headrace.system.waiting import wait_until
from workspace import HEADRACE, Workspace

SOURCE = Path(__file__).parent / "recorded" / "unruly.c"


@pytest.fixture(scope="module")
def unruly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("unruly") / "unruly"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-pthread", "-o", program, SOURCE], check=True)
    return program


@dataclass(frozen=True)
class Outcome:
    """Everything that a program leaves behind."""

    exit_code: int
    printed: bytes
    files: dict[str, bytes]


def outcome(exit_code: int, printed: bytes, place: Path) -> Outcome:
    files = {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }
    return Outcome(exit_code, printed, files)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The working directory of both runs: paths are the same."""
    folder = tmp_path / "place"
    folder.mkdir()
    folder.chmod(0o777)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def empty(place: Path) -> None:
    subprocess.run(["find", place, "-mindepth", "1", "-delete"], check=True)


def both(
    program: Path, name: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> tuple[Outcome, Outcome, Recording]:
    """The outcome without and with the recorder, and the recording.

    Both print to the same kind of file.
    """
    # With every descriptor that is inherited: the recorder passes them on, too.
    plain = subprocess.run([program, name], check=False, close_fds=False)
    alone = outcome(plain.returncode, capfd.readouterr().out.encode(), place)
    empty(place)
    found = record([str(program), name], "job", place)
    return alone, outcome(found.exit_code, capfd.readouterr().out.encode(), place), found.recording


SEEN_WHOLE = [
    "dup2_everywhere",
    "take_every_descriptor",
    "close_all",
    "fork_raw",
    "vfork_and_spawn",
    "signals",
    "signals_of_work",
    "threads",
    "cancelled",
    "bad_pointers",
    "daemonise",
    "look_around",
    "new_root",
    "shared_memory_child",
]


@pytest.mark.parametrize("name", SEEN_WHOLE)
def test_the_program_does_what_it_does_alone_and_all_of_it_is_seen(
    unruly: Path, name: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, seen, recording = both(unruly, name, place, capfd)
    assert alone.exit_code == 0, alone
    assert seen == alone
    assert recording.unseen is not None
    assert (recording.unseen.read_bytes, recording.unseen.written_bytes) == (0, 0), recording.notes
    # What nobody waited for is not in the kernel's counts; else nothing is worth a note.
    assert recording.notes == () or name == "daemonise"
    written = recording.steps.length[recording.steps.op == Op.WRITE].sum()
    assert written >= sum(map(len, alone.files.values()))


def test_a_handler_that_jumps_out_of_a_call_costs_that_call_s_record_alone(
    unruly: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, seen, recording = both(unruly, "signals_that_jump", place, capfd)
    assert seen == alone
    assert (recording.steps.op == Op.READ).sum() > 50_000


@pytest.mark.parametrize(
    ("name", "exit_code", "note"),
    [
        ("limits", 0, "a program limits its memory"),
        ("sandbox", 5, "a program forbade itself system calls (seccomp)"),
        ("strict_sandbox", 5, "a program forbade itself system calls (seccomp)"),
    ],
)
def test_a_recording_that_must_end_early_harms_nothing_and_is_said(
    unruly: Path,
    name: str,
    exit_code: int,
    note: str,
    place: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    alone, seen, recording = both(unruly, name, place, capfd)
    assert alone.exit_code == exit_code
    assert seen == alone
    assert any(note in each for each in recording.notes), recording.notes
    # What is missing is what the program wrote from then on.
    assert recording.unseen is not None
    of_files = (
        recording.steps.length[recording.steps.op == Op.WRITE].sum()
        + recording.unseen.written_bytes
    )
    assert 0 <= of_files - sum(map(len, alone.files.values())) < 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", place], check=True)
    yield place
    # What looks at all mounts in passing (another test's watch, statfs) has it open for a moment.
    assert wait_until(
        lambda: subprocess.run(["umount", place], capture_output=True).returncode == 0, 60, 0.1
    )


WRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for n in range(30000): os.write(fd, b"0123456789")
"""


def test_a_full_disk_ends_the_recording_and_not_the_program(
    small_disk: Path, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    found = record([sys.executable, "-c", WRITES, str(written)], "job", small_disk)
    assert found.exit_code == 0
    assert written.read_bytes() == b"0123456789" * 30_000
    assert any("the place of the recording was full" in note for note in found.recording.notes)
    writes = int((found.recording.steps.op == Op.WRITE).sum())
    assert 1000 < writes < 30_000
    assert found.recording.unseen is not None
    assert found.recording.unseen.written_bytes == 10 * (30_000 - writes)


@pytest.mark.parametrize(("program_ends", "ends"), [(0, 6), (3, 3)])
@pytest.mark.parametrize("command", ["record", "why"])
def test_a_recording_that_a_full_disk_cut_is_no_success(
    small_disk: Path, tmp_path: Path, command: str, program_ends: int, ends: int
) -> None:
    workspace = Workspace(tmp_path, tmp_path / "cache", {"TMPDIR": str(tmp_path)})
    kept = ["--out", small_disk / "job.toml"] if command == "record" else ["--keep", small_disk]
    code = f"{WRITES}\nsys.exit({program_ends})"
    ended = workspace.run(command, *kept, "--", sys.executable, "-c", code, tmp_path / "written")
    assert "place of the recording was full" in " ".join(ended.stderr.split()).lower()
    assert ended.returncode == ends, ended.stderr
    (profile,) = small_disk.glob("*.toml")
    assert any("was full" in note for note in load(str(profile)).notes)


def fill(disk: Path, free_bytes: int = 0) -> None:
    room = os.statvfs(disk)
    (disk / "others").write_bytes(bytes(room.f_bavail * room.f_frsize - free_bytes))


@pytest.mark.parametrize("free_bytes", [0, 64 << 10], ids=["full", "nearly full"])
def test_a_recording_without_room_is_kept_elsewhere(
    small_disk: Path, tmp_path: Path, free_bytes: int
) -> None:
    workspace = Workspace(tmp_path, tmp_path / "cache", {"TMPDIR": str(tmp_path)})
    profile = small_disk / "job.toml"
    assert workspace.run("record", "--out", profile, "--", "true").returncode == 0
    steps = small_disk / "job.steps.parquet"
    before = profile.read_text(), steps.read_bytes()
    fill(small_disk, free_bytes)
    written = tmp_path / "written"
    words = ["--", sys.executable, "-c", WRITES, written]
    ended = workspace.run("record", "--out", profile, *words)
    assert ended.returncode == 6, ended.stderr
    said = " ".join(ended.stderr.split())
    assert "job.toml: the profile cannot be written: No space left on device; it is kept" in said
    assert "errno" not in said
    (kept,) = tmp_path.glob("headrace-*/job.toml")
    assert str(kept) in "".join(ended.stderr.split())
    found = load(str(kept))
    assert int((found.steps.op == Op.WRITE).sum()) == 30_000
    assert not any("full" in note for note in found.notes)
    # The profile that was to be replaced is what it was.
    assert (profile.read_text(), steps.read_bytes()) == before
    assert sorted(path.name for path in small_disk.iterdir()) == [
        "job.steps.parquet",
        "job.toml",
        "others",
    ]


def test_room_nowhere_is_said_before_the_program_runs(tmp_path: Path) -> None:
    """No file can grow anywhere, as with each disk full."""
    limit = 'ulimit -f 0; trap "" XFSZ; exec "$@"'
    profile, ran = tmp_path / "job.toml", tmp_path / "ran"
    words = ["sh", "-c", limit, "sh", HEADRACE, "record", "--out", profile, "--", "touch", ran]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 6, ended.stderr
    said = " ".join(ended.stderr.split())
    assert said.endswith("the recording cannot be kept: File too large")
    assert not ran.exists()


def test_nothing_of_the_recording_is_ever_to_be_found(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # No pipe behind `ls`: the shell may still have it open when its descriptors are listed.
    command = ["sh", "-c", "find . | sort; ls /proc/self/fd; ls /proc/$$/fd; true"]
    subprocess.run(command, check=True, close_fds=False)
    alone = capfd.readouterr().out
    assert record(command, "job", place).exit_code == 0
    assert capfd.readouterr().out == alone
    assert not list(place.iterdir())
