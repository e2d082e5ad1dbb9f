"""Standard streams that are closed, full, or cannot show every letter."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

from headrace.system.waiting import wait_until

PROGRAM = """
import os, subprocess, sys
from headrace.cli._streams import secure_streams
secure_streams()
kept = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("Größe")
os.set_inheritable(kept, True)
subprocess.run(["sh", "-c", "echo from the program; echo fault >&2"], close_fds=False, check=True)
"""


def test_what_a_program_prints_never_lands_in_a_file_that_took_the_place_of_a_closed_stream(
    tmp_path: Path,
) -> None:
    for closed in (">&-", "<&- >&- 2>&-"):
        kept = tmp_path / "records"
        subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", PROGRAM, str(kept)],
            check=True,
        )
        assert kept.read_bytes() == b"", closed


def test_letters_that_the_terminal_cannot_show_are_replaced(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'headrace = 1\ntitle = "Größe"\ntarget.t = { kind = "path", path = "." }\n'
        'workload.w = { kind = "metadata" }\n'
    )
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "plan", str(study)],
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.startswith("Gr??e"), ended.stderr


def test_numbers_stay_numbers_where_the_terminal_lacks_their_characters() -> None:
    """In Latin-1 `−12 %` was `?12?%`, and `127 561` was `127?561`."""
    said = "from headrace.cli._streams import secure_streams; secure_streams(); "
    said += "print('−12\u202f% (−13 – −11), 127\u202f561, ≥\u202f4, 2 ± 1 µs, Größe…')"
    for encoding, words in (
        ("latin-1", "-12 % (-13 - -11), 127 561, >= 4, 2 ± 1 µs, Größe."),
        ("ascii", "-12 % (-13 - -11), 127 561, >= 4, 2 +- 1 us, Gr??e."),
    ):
        ended = subprocess.run(
            [sys.executable, "-c", said],
            env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"},
            capture_output=True,
            check=True,
        )
        assert ended.stdout.decode(encoding) == f"{words}\n"


def test_an_output_without_space_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "headrace", "drive", "list", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 6
    assert ended.stderr == "headrace: output cannot be written: No space left on device\n"


def test_a_study_goes_on_while_standard_error_has_no_space(tmp_path: Path) -> None:
    """The log of a long run may be on a disk that is full, and its results on another."""
    study = tmp_path / "study.toml"
    study.write_text(
        'headrace = 1\ntitle = "Full"\ntarget.t = { kind = "path", path = "." }\n'
        'site.node.drives = { t = "samsung-870-evo-1tb" }\n'
        'workload.w = { kind = "scan", data = { shape = "bench", events = 2000, files = 1 } }\n'
        "factors.slots = [1, 2]\n"
        "plan.repeats = { min = 1 }\n"
    )
    command = [sys.executable, "-m", "headrace"]
    with Path("/dev/full").open("w") as full:

        def end(*words: str) -> int:
            ended = subprocess.run(
                [*command, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=full
            )
            return ended.returncode

        assert end("simulate", "study.toml", "--results", "results") == 0
        assert len(list((tmp_path / "results/trials").iterdir())) == 2
        assert end("simulate", "missing.toml") == 2, "the code says it if the message cannot"
        assert end("missing-command") == 2


def test_no_folder_for_temporary_files_is_one_message(tmp_path: Path) -> None:
    lines = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    lines += "sys.argv = ['headrace', 'why', '--', 'true']\nfrom headrace.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 6, ended.stderr
    assert ended.stderr.startswith("headrace: there is no space for temporary files\n")
    assert "TMPDIR" in ended.stderr


def test_the_locale_c_without_utf_8_spells_letters_too() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PRINTED],
        env={**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "-> 16 slots\n"


PRINTED = """
from headrace.cli._console import out
from headrace.cli._streams import secure_streams
secure_streams()
out.print("\\u2192 16 slots")
"""

PROGRESS = """
import sys
from headrace.cli._console import err
for number in range(100):
    err.print("trial", number)
sys.exit(5)
"""


def test_the_exit_code_is_the_commands_own_when_nobody_reads_its_progress() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run([sys.executable, "-c", PROGRESS], stderr=writer, env=environment)
    os.close(writer)
    assert ended.returncode == 5


def test_a_reader_that_is_slow_gets_all_of_a_pipe_that_does_not_block() -> None:
    """Programs that share a pipe make it so. Python drops what does not fit at once."""
    command = [sys.executable, "-m", "headrace", "validate", "--schema"]
    whole = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    assert len(whole) > 200_000  # more than a pipe holds
    read, write = os.pipe()
    os.set_blocking(write, False)
    with subprocess.Popen(command, stdout=write) as process, os.fdopen(read, "rb") as reader:
        os.close(write)
        assert wait_until(lambda: _full(read), 60, 0.05)
        assert reader.read() == whole
        assert process.wait() == 0


def test_a_reader_that_leaves_a_pipe_that_does_not_block_ends_the_command() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    command = [sys.executable, "-m", "headrace", "validate", "--schema"]
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        assert wait_until(lambda: _full(read), 60, 0.05)
        os.close(read)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")


def _full(pipe: int) -> bool:
    """Whether less than a page fits into a pipe."""
    (unread,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return unread > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - select.PIPE_BUF
