"""What a terminal or a pipe gets: lines of progress that fit, help whose reader has ended."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from headrace.labels import plain
from headrace.library import load_study
from workspace import ROOT

PROGRAM = """
from headrace.cli._progress import Display
from headrace.library import load_study
trial = load_study({study!r}).plan().trials[0]
display = Display()
display.note("others " * 30)
display.trial_finished(trial, "invalid", ["programs " * 20], "summary " * 12)
"""
STUDY = str(ROOT / "studies" / "what-if-five-drives.toml")


def in_terminal(program: str, columns: int) -> list[str]:
    """The lines that a program writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 65_536):
                written += part
        except OSError:  # EIO: the program has closed its end
            pass
        os.close(ours)
    assert running.returncode == 0, written
    return written.decode().replace("\x1b[2m", "").replace("\x1b[0m", "").split("\r\n")


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_of_progress_break_between_words(columns: int) -> None:
    lines = in_terminal(PROGRAM.format(study=STUDY), columns)
    assert max(map(len, lines)) <= columns
    words = " ".join(lines).split()
    assert [words.count(word) for word in ("others", "programs", "summary")] == [30, 20, 12]
    indented = [line for line in lines if "programs" in line]
    assert all(line.startswith(" " * 13) for line in indented), "below the trial"


def test_truth_is_written_as_in_the_study() -> None:
    assert (plain(True), plain({"exclusive": False})) == ("true", "exclusive false")


def test_a_pipe_gets_one_line_for_each_message() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(study=STUDY)], capture_output=True, text=True
    )
    trial = load_study(STUDY).plan().trials[0]
    note, line, reason = ended.stderr.rstrip("\n").split("\n")
    assert note.count("others") == 30 and reason.count("programs") == 20
    assert trial.target in line and line.count("summary") == 12


def test_completion_for_a_home_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    program = "from headrace.cli import main; main()"
    (tmp_path / "home").touch()
    ended = subprocess.run(
        [sys.executable, "-c", program, "--install-completion", "bash"],
        env={**os.environ, "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 3, ended.stderr
    first, hint = ended.stderr.splitlines()
    assert first.startswith("headrace: completion cannot be installed: ")
    assert hint == "  headrace --show-completion prints it"


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_help_whose_reader_has_ended_is_no_defect(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = "from headrace.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_names_between_colons_are_no_pictures(tmp_path: Path) -> None:
    """`fio.json:a: …` was printed as `fio.json🅰 …`."""
    code = (
        "from headrace.cli._console import err, out\n"
        "from headrace.report.text_table import TextTable\n"
        "err.print('fio.json:a: no')\n"
        "table = TextTable('x:b:')\n"
        "table.add_row('disk:fire: 1')\n"
        "out.print(table, 'y:car:')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "fio.json:a: no\n"
    assert ended.stdout.split() == ["x:b:", "disk:fire:", "1", "y:car:"]
