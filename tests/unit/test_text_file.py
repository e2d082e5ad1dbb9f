"""Text of other programs as it reaches users: quoted in mail, compressed, in UTF-16, in a pipe."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.drives.fio import read_fio_results
from headrace.errors import StudyError
from headrace.meters.http_client import password_of
from headrace.profiles.importing import read
from headrace.text_file import decoded
from headrace.traces import open_trace
from headrace.workloads.mdtest.imported import read_results
from mdtest_output import ior_output, mdtest_output

MDTEST = mdtest_output("1.9.3", {"File creation": [56220.165]}, of="files")
IOR = ior_output("3.2.0", {"read": [5342.25]})
STRACE = "".join(
    f'7 1700000000.{n:06d} pread64(3</data/events of a long name>, "", 4096, {4096 * n}) = 4096\n'
    for n in range(1000)
)
"""Longer than the beginning by which the format is told."""


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [MDTEST, IOR], ids=["mdtest", "IOR"])
def test_results_of_windows_and_editors_are_read(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "plain.txt").write_text(text)
    (tmp_path / "saved.txt").write_bytes(text.encode(encoding))
    assert read_results(tmp_path / "saved.txt") == read_results(tmp_path / "plain.txt")


def test_the_encoding_is_told_by_the_first_bytes() -> None:
    for text in ("SUMMARY rate\n", "µs – Größe\n"):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            assert decoded(text.encode(encoding)) == text
    assert decoded(b"") == ""
    assert decoded(b"\xff and text") == "\ufffd and text"


@pytest.mark.parametrize(
    ("pack", "ending", "command"),
    [
        (gzip.compress, "gz", "gzip -dk"),
        (lzma.compress, "xz", "xz -dk"),
        (bz2.compress, "bz2", "bzip2 -dk"),
    ],
)
def test_a_compressed_file_is_named_with_the_command_that_unpacks_it(
    tmp_path: Path, pack: Callable[[bytes], bytes], ending: str, command: str
) -> None:
    file = tmp_path / f"my result.{ending}"
    file.write_bytes(pack(MDTEST.encode()))
    readers = (read_results, lambda each: read(each, "job"), lambda each: read_fio_results(each, 1))
    for reader in readers:
        with pytest.raises(StudyError) as failed:
            reader(file)
        assert f"{command} 'my result.{ending}'" in str(failed.value.problems[0])


@pytest.mark.parametrize(
    "before",
    ["> ", "> > ", ">>", "| ", "2018-11-08T12:08:45.123Z ", "[2018-11-08 12:08:45] "],
)
@pytest.mark.parametrize("text", [MDTEST, IOR], ids=["mdtest", "IOR"])
def test_a_quoted_or_logged_text_is_read(tmp_path: Path, text: str, before: str) -> None:
    (tmp_path / "plain.txt").write_text(text)
    lines = [before + line for line in text.splitlines()]
    (tmp_path / "quoted.txt").write_text("Hello,\n" + "\n".join(lines) + "\n")
    assert read_results(tmp_path / "quoted.txt") == read_results(tmp_path / "plain.txt")


@pytest.mark.parametrize("dashes", ["–", "—", "-", "––"])
def test_dashes_that_an_editor_replaced_are_no_lost_end(tmp_path: Path, dashes: str) -> None:
    text = MDTEST.replace("-- finished", f"{dashes} finished").replace("mdtest-", "mdtest–")
    (tmp_path / "mail.txt").write_text(text.replace("  ", "\u00a0 "))
    (found,) = read_results(tmp_path / "mail.txt")
    assert found.whole
    assert (found.program, found.rates["file_creation"].mean) == ("mdtest 1.9.3", 56220.165)


def test_a_recording_in_a_pipe_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "trace.txt").write_text(STRACE)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(STRACE))
    writer.start()
    found = read(pipe, "job")
    writer.join()
    assert len(found.steps) == len(read(tmp_path / "trace.txt", "job").steps) >= 1000


def test_a_recording_in_utf_16_is_read(tmp_path: Path) -> None:
    (tmp_path / "trace.txt").write_bytes(STRACE.encode("utf-16"))
    assert int(read(tmp_path / "trace.txt", "job").steps.length.sum()) == 4096 * 1000


def test_a_trace_in_a_pipe_is_refused_as_such(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StudyError) as failed:
        open_trace(tmp_path / "pipe")
    assert "is a pipe" in str(failed.value.problems[0])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_trace_in_utf_16_is_named_as_such(tmp_path: Path, encoding: str) -> None:
    line = "  8,52   0        1     0.000000000   276  D  DS 983947432 + 64 [kworker/0:1H]\n"
    (tmp_path / "a trace.txt").write_bytes(line.encode(encoding))
    with pytest.raises(StudyError) as failed:
        open_trace(tmp_path / "a trace.txt")
    assert "UTF-8: iconv -f UTF-16 -t UTF-8 'a trace.txt'" in str(failed.value.problems[0])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_password_has_no_byte_order_mark(tmp_path: Path, encoding: str, end: str) -> None:
    """With the mark of an editor before it, a meter refused the password."""
    (tmp_path / "secret").write_bytes(f"pässword{end}".encode(encoding))
    assert password_of(str(tmp_path / "secret")) == "pässword"
