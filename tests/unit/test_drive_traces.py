"""Traces: fio's iolog, blkparse's text and CSV say the same; what is wrong is told by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.drives import parse_fio_bytes, parse_fio_seconds, read_trace
from headrace.drives.traces import FLUSH, READ, WRITE
from headrace.errors import StudyError

CSV = "time_ns,op,sector,sectors\n0,read,8,8\n1000000,write,4096,16\n2500000,flush,0,0\n"
IOLOG3 = (
    "fio version 3 iolog\n0 f add\n0 f open\n0 f read 4096 4096\n1000 f write 2097152 8192\n"
    "2500 f sync 0 0\n2600 f close\n"
)
IOLOG2 = (
    "fio version 2 iolog\nf add\nf open\nf read 4096 4096\nf wait 1000\nf write 2097152 "
    "8192\nf wait 1500\nf sync 0 0\nf close\n"
)
BLKPARSE = (
    "  8,0    3        1     0.100000000   697  Q   R 8 + 8 [cat]\n"
    "  8,0    3        2     0.200000000   697  D   R 8 + 8 [cat]\n"
    "  8,0    1        3     0.201000000   700  D  WS 4096 + 16 [kjournald]\n"
    "  8,0    1        4     0.202500000   700  D  FN [kjournald]\n"
    "  8,0    1        5     0.203000000     0  C  WS 4096 + 16 [0]\n"
    "CPU0 (8,0):\n Reads Queued:           1,        4KiB\n"
)


@pytest.mark.parametrize(
    "text", [CSV, IOLOG2, IOLOG3, BLKPARSE], ids=["csv", "iolog2", "iolog3", "blkparse"]
)
def test_all_forms_say_the_same(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    trace = read_trace(path)
    assert trace.time_ns.tolist() == [0, 1_000_000, 2_500_000]
    assert trace.op.tolist() == [READ, WRITE, FLUSH]
    assert trace.sector.tolist()[:2] == [8, 4096]
    assert trace.sectors.tolist()[:2] == [8, 16]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("time_ns,op,sector,sectors\n0,read,8\n", 2),
        ("time_ns,op,sector,sectors\n0,read,8,8\n5,reed,8,8\n", 3),
        ("time_ns,op,sector,sectors\n0,read,8,0\n", 2),
        ("fio version 3 iolog\n0 f add\nx f read 0 4096\n", 3),
        ("fio version 2 iolog\nf read 100 4096\n", 2),
        ("fio version 9 iolog\n", 1),
        ("hello\n", 1),
    ],
)
def test_what_is_wrong_is_told_by_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(StudyError) as caught:
        read_trace(path)
    assert caught.value.problems[0].line == line


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time_ns,op,sector,sectors\n")
    with pytest.raises(StudyError):
        read_trace(path)


def test_the_response_times_are_written_beside_the_requests(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(CSV)
    trace = read_trace(path)
    trace.write(tmp_path / "out.csv", np.asarray([5, 6, 7], np.uint64))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "time_ns,op,sector,sectors,response_ns"
    assert lines[2] == "1000000,write,4096,16,6"


def test_sizes_and_times_mean_what_they_mean_to_fio() -> None:
    assert parse_fio_bytes("4k") == 4096
    assert parse_fio_bytes("1M") == 1 << 20
    assert parse_fio_bytes("65536") == 65536
    assert parse_fio_seconds("2m") == 120
    assert parse_fio_seconds("500ms") == 0.5
    with pytest.raises(ValueError, match="not a size"):
        parse_fio_bytes("4x")


def test_a_trace_of_several_devices_is_not_one_of_a_drive(tmp_path: Path) -> None:
    """Their requests were replayed, fitted and validated as if one drive had served them all."""
    path = tmp_path / "two devices.csv"
    header = "time_ns,op,sector,sectors,device,response_ns\n"
    path.write_text(f"{header}0,read,8,8,8:0,5000\n9000,read,8,8,8:16,5000\n")
    with pytest.raises(StudyError) as raised:
        read_trace(path)
    said = str(raised.value)
    assert "8:0, 8:16" in said
    assert f"trace convert '{path}' one.csv --device 8:0" in said
    path.write_text(f"{header}0,read,8,8,8:0,5000\n9000,read,8,8,,5000\n")
    assert len(read_trace(path)) == 2
