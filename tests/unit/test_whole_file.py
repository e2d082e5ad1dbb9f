"""Files are written whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.report.whole_file import write_whole


def test_an_old_file_stays_when_the_new_one_cannot_be_finished(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("old")

    def no_space_left(part: Path) -> None:
        part.write_text("half a")
        raise OSError(28, "No space left on device")

    with pytest.raises(
        HeadraceError, match=r"page\.html cannot be written: No space left"
    ) as error:
        write_whole(file, no_space_left, "--html names another file")
    assert error.value.hint == "--html names another file"
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


KILLED = """
import os, signal, sys
from pathlib import Path
from headrace.report.whole_file import write_whole
def write(part):
    part.write_text("half a")
    os.kill(os.getpid(), signal.SIGKILL)
write_whole(Path(sys.argv[1]), write)
"""


def test_a_kill_leaves_the_old_file_and_the_next_write_replaces_it(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("old")
    ended = subprocess.run([sys.executable, "-c", KILLED, file])
    assert ended.returncode == -signal.SIGKILL and file.read_text() == "old"
    write_whole(file, lambda part: part.write_text("new"))
    assert file.read_text() == "new" and list(tmp_path.iterdir()) == [file]


def test_a_pipe_is_written_directly() -> None:
    wrote = "from pathlib import Path; from headrace.report.whole_file import write_whole; "
    wrote += "write_whole(Path('/dev/stdout'), lambda file: file.write_text('page'))"
    ended = subprocess.run([sys.executable, "-c", wrote], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("page", "")
