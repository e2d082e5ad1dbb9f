"""Traces that lack events, because they were lost when the trace was recorded: all commands say so.

Their requests, rates and depths are lower bounds.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import make_app
from headrace.drives.traces import read_trace
from headrace.errors import StudyError
from headrace.traces import open_trace, summarise
from headrace.traces.tiles import prepare_traces

REAL = Path(__file__).parents[1] / "golden" / "traces" / "random"
_NOTE = 1 << 26
"""The bit of an action that makes a record a notification."""


def records(file: Path) -> list[bytes]:
    """Return the records of a file of blktrace, version 7."""
    data, found, at = file.read_bytes(), list[bytes](), 0
    while at < len(data):
        end = at + 48 + struct.unpack_from("=H", data, at + 46)[0]
        found.append(data[at:end])
        at = end
    return found


def is_note(record: bytes) -> bool:
    return bool(struct.unpack_from("=I", record, 28)[0] & _NOTE)


def numbered_by_linux(all_records: list[bytes]) -> list[bytes]:
    """Return records with numbers as Linux 6.19 gives them: notifications have none."""
    found, sequence = list[bytes](), 0
    for record in all_records:
        sequence += not is_note(record)
        number = 0 if is_note(record) else sequence
        found.append(record[:4] + struct.pack("=I", number) + record[8:])
    return found


def copied(
    place: Path, without: slice, *, number: Callable[[list[bytes]], list[bytes]] = list
) -> Path:
    """Copy the real trace without some records of CPU 0. Return the run's name."""
    for cpu in (0, 1):
        shutil.copy(f"{REAL}.blktrace.{cpu}", place / f"sda.blktrace.{cpu}")
    kept = number(records(place / "sda.blktrace.0"))
    assert any(is_note(each) for each in kept) and not any(is_note(each) for each in kept[without])
    del kept[without]
    (place / "sda.blktrace.0").write_bytes(b"".join(kept))
    return place / "sda"


def told(arguments: list[str]) -> str:
    ended = CliRunner().invoke(make_app(), arguments)
    assert ended.exit_code == 0, ended.output
    return " ".join(ended.stderr.split())


@pytest.mark.parametrize("number", [list, numbered_by_linux])
def test_events_that_the_kernel_dropped_are_counted(
    tmp_path: Path, number: Callable[[list[bytes]], list[bytes]]
) -> None:
    run = copied(tmp_path, slice(100, 137), number=number)
    found = summarise(open_trace(run))
    assert (found.missing, found.values["missing_events"]) == (37, 37)
    assert "37 events are missing" in told(["trace", "show", str(run)])
    assert "37 events are missing" in told(["trace", "convert", str(run), str(tmp_path / "a.csv")])
    (drawn,) = prepare_traces([found], ["a"], 100, 50)
    assert "37 events are missing in the trace" in drawn.notes()
    with pytest.raises(StudyError) as caught:
        read_trace(run)
    assert "37 events are missing" in str(caught.value.problems[0])


@pytest.mark.parametrize("number", [list, numbered_by_linux])
def test_a_whole_trace_lacks_nothing(
    tmp_path: Path, number: Callable[[list[bytes]], list[bytes]]
) -> None:
    run = copied(tmp_path, slice(0, 0), number=number)
    assert summarise(open_trace(run)).missing == 0
    assert "missing" not in told(["trace", "show", str(run)])


def test_events_that_a_capture_lost_are_counted_once(tmp_path: Path) -> None:
    run = copied(tmp_path, slice(100, 137))
    text = '{"trace": 1, "devices": ["sda"], "files": [], "begin_monotonic_ns": 0, "lost": 40}'
    (tmp_path / "trace.json").write_text(text)
    assert summarise(open_trace(run.with_suffix(".blktrace.0"))).missing == 40


EVENT = "  8,0    0  {n:>7} {t:>14.9f}  4000  {letter}   R {n} + 8 [job]\n"
TEXT = "".join(
    EVENT.format(n=8 * n, t=n / 1000, letter=letter) for n in range(1, 9) for letter in "DC"
)
ISSUE = "  job-4000 [001] ..... {t:.6f}: block_rq_issue: 8,0 R 4096 () {sector} + 8 [job]\n"
FTRACE = "".join(ISSUE.format(t=100 + n / 1000, sector=8 * n) for n in range(8))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (TEXT + "\nSkips: 2 forward (1,234 -   0.5%)\n", 1234),
        (TEXT + "\nSkips: 2 forward (1.234 -   0,5%)\n", 1234),
        (TEXT + "\nSkips: 0 forward (0 -   0.0%)\n", 0),
        (TEXT + "  Total:                     99 events (dropped 12),        5 KiB data\n", 12),
        (FTRACE + "CPU:1 [LOST 17 EVENTS]\n" + FTRACE, 17),
        (FTRACE + "CPU:1 [17 EVENTS DROPPED]\n" + FTRACE, 17),
        (FTRACE + "job 4000 [001] 100.5: PERF_RECORD_LOST lost 23\n" + FTRACE, 23),
    ],
)
def test_texts_that_say_how_many_events_were_lost(tmp_path: Path, text: str, missing: int) -> None:
    (tmp_path / "trace.txt").write_text(text)
    assert summarise(open_trace(tmp_path / "trace.txt")).missing == missing


def test_trace_cmd_may_not_say_how_many_events_it_dropped(tmp_path: Path) -> None:
    (tmp_path / "trace.txt").write_text(FTRACE + "CPU:1 [EVENTS DROPPED]\n" + FTRACE)
    found = summarise(open_trace(tmp_path / "trace.txt"))
    assert found.missing == 0
    assert "events were lost here (CPU:1 [EVENTS DROPPED])" in str(found.damages[0])


CSV = "time_ns,op,sector,sectors\n" + "".join(f"{n},read,{8 * n},8\n" for n in range(8))
IOLOG = "fio version 2 iolog\n/dev/sda add\n" + "".join(
    f"/dev/sda read {4096 * n} 4096\n" for n in range(8)
)


@pytest.mark.parametrize("text", [TEXT, FTRACE, CSV, IOLOG])
def test_a_byte_order_mark_and_line_ends_of_windows_lose_no_request(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "trace").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    found = summarise(open_trace(tmp_path / "trace"))
    assert (found.total.requests, found.damage_count) == (8, 0)
