"""Recorded programs that become others, lose their first thread, move maps and rename files
(recorded/replaced.c)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from headrace.profiles.recorder import RecordedRun, record
from headrace.profiles.steps import Op

SOURCE = Path(__file__).parent / "recorded" / "replaced.c"
BYTES = 200 * 4096


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("replaced") / "replaced"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-pthread", "-o", program, SOURCE], check=True)
    return program


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of input; the working directory is another."""
    path = tmp_path / "input.bin"
    path.write_bytes(os.urandom(BYTES))
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    return path


def bytes_of(found: RecordedRun, op: Op, path: Path) -> int:
    """Bytes of a file that were read, or touched in a map."""
    steps, files = found.recording.steps, found.recording.files
    (number,) = (index for index, file in enumerate(files) if file.path == str(path))
    of_file = (steps.op == op) & (steps.file == number)
    return int(np.asarray(steps.length[of_file]).sum())


@pytest.mark.parametrize("how", ["execl", "execlp", "execle", "fexecve", "execveat", "by_number"])
def test_what_a_program_mapped_before_it_became_another_is_seen(
    replaced: Path, how: str, data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = record([str(replaced), how, str(data)], "job", data.parent)
    # The other program has all arguments, and the environment.
    assert (found.exit_code, capfd.readouterr().out) == (0, "given 5\n")
    assert bytes_of(found, Op.MAPPED_READ, data) == BYTES
    assert found.recording.notes == ()


def test_a_program_that_is_not_there_leaves_the_recording_as_it_is(
    replaced: Path, data: Path
) -> None:
    found = record([str(replaced), "in_vain", str(data)], "job", data.parent)
    assert found.exit_code == 0 and found.recording.notes == ()
    assert bytes_of(found, Op.READ, data) == BYTES


def test_files_have_names_after_the_first_thread_has_ended(replaced: Path, data: Path) -> None:
    found = record([str(replaced), "leader", str(data)], "job", data.parent)
    assert found.exit_code == 0
    assert bytes_of(found, Op.READ, data) == BYTES


def test_a_ring_that_is_closed_again_is_noted(replaced: Path, data: Path) -> None:
    found = record([str(replaced), "ring"], "job", data.parent)
    if found.exit_code == 8:  # a container may forbid it
        assert found.recording.notes == ()
    else:
        assert any("io_uring was used" in note for note in found.recording.notes)


def test_pages_of_a_map_that_was_moved_are_seen(replaced: Path, data: Path) -> None:
    found = record([str(replaced), "moved_map", str(data)], "job", data.parent)
    assert found.exit_code == 0
    assert bytes_of(found, Op.MAPPED_READ, data) == BYTES


def test_a_file_that_is_renamed_stays_the_file_that_the_job_made(
    replaced: Path, data: Path
) -> None:
    found = record([str(replaced), "renamed"], "job", data.parent)
    assert found.exit_code == 0
    (file,) = found.recording.files
    assert file.path == str(Path.cwd() / "part") and file.created
    ops = set(map(Op, found.recording.steps.op))
    assert {Op.WRITE, Op.READ, Op.STAT} <= ops
