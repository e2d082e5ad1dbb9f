"""Files are written whole or not at all."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.whole_file import whole, write_new, write_whole


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
from headrace.whole_file import whole, write_new, write_whole
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
    wrote = "from pathlib import Path; from headrace.whole_file import write_whole; "
    wrote += "write_whole(Path('/dev/stdout'), lambda file: file.write_text('page'))"
    ended = subprocess.run([sys.executable, "-c", wrote], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("page", "")


def test_a_link_stays_and_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    file, link = tmp_path / "pages" / "page.html", tmp_path / "page.html"
    link.symlink_to(file)
    for text in ("new", "newer"):  # without a file to lead to, and with one
        write_whole(link, lambda part, text=text: part.write_text(text))
        assert link.is_symlink() and file.read_text() == text
        assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("stream", ["/dev/stdout", "/dev/fd/1", "/dev//stdout"])
def test_a_stream_into_a_file_gets_the_bytes_where_it_is(tmp_path: Path, stream: str) -> None:
    """What was printed before stays, what is printed later follows, and no link in /dev is
    replaced."""
    wrote = "from pathlib import Path; from headrace.whole_file import write_whole; "
    wrote += "print('before'); "
    wrote += f"write_whole(Path({stream!r}), lambda file: file.write_text('page\\n')); "
    wrote += "print('after')"
    with (tmp_path / "all.txt").open("w") as out:
        subprocess.run([sys.executable, "-c", wrote], stdout=out, check=True)
    assert (tmp_path / "all.txt").read_text() == "before\npage\nafter\n"
    assert Path("/dev/stdout").is_symlink()


def test_a_link_that_leads_in_a_circle_is_named(tmp_path: Path) -> None:
    link = tmp_path / "page.html"
    link.symlink_to("page.html")
    with pytest.raises(HeadraceError, match=r"page\.html cannot be written: Too many levels"):
        write_whole(link, lambda part: part.write_text("new"))
    assert list(tmp_path.iterdir()) == [link]


def test_a_pipe_gets_a_copy_of_what_is_not_written_in_order(tmp_path: Path) -> None:
    """Parquet and PNG are written with seeks."""
    pipe = tmp_path / "picture.png"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()

    def write(part: Path) -> int:
        with part.open("w") as file:
            file.write("xxx")
            file.seek(0)
            file.write("new")
        return 3

    assert whole(pipe, write, seeks=True) == 3
    reader.join()
    assert read == ["new"] and list(tmp_path.iterdir()) == [pipe]


def test_a_new_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """An empty study was left where the disk was full, and the next `init` refused to replace
    it."""
    file, link = tmp_path / "new.toml", tmp_path / "link.toml"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OSError, match="File too large"):
            write_new(file, "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list(tmp_path.iterdir())
    write_new(file, "µ")
    link.symlink_to("nothing")
    for there in (file, link):
        with pytest.raises(FileExistsError):
            write_new(there, "other")
    assert file.read_text("utf-8") == "µ" and link.is_symlink() and not link.exists()
