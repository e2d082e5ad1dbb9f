"""Traces by `headrace.traces`: a real one summed up, drawn, converted.

And every way in which a trace can be wrong.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from headrace.cli import make_app
from headrace.errors import HeadraceError, StudyError
from headrace.traces import convert, draw, lacking, open_trace, read_rows, summarise
from headrace.traces.tiles import prepare_traces

REAL = Path(__file__).parents[1] / "golden" / "traces" / "random"
"""2000 random reads and writes of fio, sixteen in flight, on a loop device."""


def test_a_real_trace_summed_up() -> None:
    found = summarise(open_trace(REAL))
    reads, writes = found.total.amount("read"), found.total.amount("write")
    assert reads[0] + writes[0] == found.total.requests == 2000
    assert 0.65 < reads[0] / 2000 < 0.75
    assert found.total.queue_depth_max == 16
    assert [part.name for part in found.processes] == ["fio"]
    for latency in (found.total.queue_to_complete, found.total.dispatch_to_complete):
        assert latency is not None and latency.count == 2000 == sum(latency.bin_count)
    assert found.total.sequential_fraction < 0.01
    assert found.values["devices"] == [[7, 0, 2000]]
    assert sum(count for _, count in found.total.values["read"]["sizes_bytes"]) == reads[0]


@pytest.mark.parametrize("ending", ["csv", "iolog", "parquet"])
def test_what_is_converted_has_every_request(tmp_path: Path, ending: str) -> None:
    trace = open_trace(REAL)
    out = tmp_path / f"trace.{ending}"
    assert convert(trace, out) == 2000
    rows = next(read_rows(trace))
    if ending == "parquet":
        table = pq.read_table(out).to_pydict()
        assert table["sector"] == rows.sector.tolist()
        latencies = [
            done - issued
            for done, issued in zip(table["complete_ns"], table["time_ns"], strict=True)
        ]
        assert latencies == (rows.complete_ns - rows.time_ns).tolist()
        return
    back = summarise(open_trace(out))
    first = summarise(trace)
    assert back.total.amount("read") == first.total.amount("read")
    assert (
        back.total.values["seek_distance_absolute"] == first.total.values["seek_distance_absolute"]
    )
    if ending == "csv":
        assert back.total.queue_to_complete == first.total.queue_to_complete
        assert back.total.dispatch_to_complete == first.total.dispatch_to_complete
    assert list(tmp_path.iterdir()) == [out]


def test_devices_of_a_trace_are_files_of_an_iolog(tmp_path: Path) -> None:
    """All were written as one file: requests in order on two devices became seeks."""
    lines = "".join(f"{time},read,{8 * (time // 2)},8,8:{16 * (time % 2)}\n" for time in range(10))
    (tmp_path / "two.csv").write_text(f"time_ns,op,sector,sectors,device\n{lines}")
    trace = open_trace(tmp_path / "two.csv")
    assert summarise(trace).total.values["seeks"] == 0
    convert(trace, tmp_path / "two.iolog")
    text = (tmp_path / "two.iolog").read_text()
    assert [line for line in text.splitlines() if line.startswith("0 drive-8-16")] == [
        *(f"0 drive-8-16 {word}" for word in ("add", "open")),
        *(f"0 drive-8-16 read {offset} 4096" for offset in range(0, 5 * 4096, 4096)),
        "0 drive-8-16 close",
    ]
    back = summarise(open_trace(tmp_path / "two.iolog"))
    assert back.total.values["seeks"] == 0
    assert back.values["devices"] == [[0, 1, 5], [0, 2, 5]]


def test_a_picture_needs_no_folder_for_a_cache(tmp_path: Path) -> None:
    """Matplotlib printed two lines where HOME cannot be written to, as in a batch job."""
    (tmp_path / "home").write_text("no folder")
    without = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(tmp_path / "home"))
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "trace", "plot", REAL, "--out", tmp_path / "a.png"],
        env={**without, **homes},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == f"written: {tmp_path / 'a.png'}\n"


@pytest.mark.slow
def test_pictures_have_labelled_axes_and_stay_small(tmp_path: Path) -> None:
    found = summarise(open_trace(REAL))
    for kind in ("png", "svg", "html"):
        draw([found, found], tmp_path / f"two.{kind}", ["before", "after"])
        assert (tmp_path / f"two.{kind}").stat().st_size < 1_700_000
    svg = (tmp_path / "two.svg").read_text()
    for words in (
        "before: reads",
        "after: writes",
        "Offset (GB)",
        "MB/s",
        "IOPS",
        "Seeks/s",
        "Queue depth",
        "fio ",
        "(s)",
    ):
        assert words in svg, words
    # Bokeh's own script, which is embedded, names places that it does not go to.
    page = re.sub(r"<script.*?</script>", "", (tmp_path / "two.html").read_text(), flags=re.S)
    assert not re.search(r"(src|href)=\"https?:", page)
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")


def test_a_journal_far_away_does_not_flatten_the_picture(tmp_path: Path) -> None:
    near = [f"{1000 * n},read,{1_000_000 + 8 * (n % 50)},8" for n in range(960)]
    far = [f"{1000 * n + 500},write,{800_000_000 + 8 * n},8" for n in range(40)]
    (tmp_path / "trace.csv").write_text(
        "time_ns,op,sector,sectors\n" + "\n".join(near + far) + "\n"
    )
    (run,) = prepare_traces([summarise(open_trace(tmp_path / "trace.csv"))], ["a"], 100, 50)
    reads, writes = run.offsets
    assert (
        511_900_000 < reads.low_bytes <= 512_000_000
        and 512_204_800 <= reads.high_bytes < 512_300_000
    )
    assert (reads.shown, reads.elsewhere()) == (1.0, "")
    # The writes are drawn too, where they lie.
    assert 409_590_000_000 < writes.low_bytes <= 409_600_000_000
    assert 409_600_150_000 <= writes.high_bytes < 409_600_300_000
    assert writes.shown >= 0.95 and int(writes.cells.sum()) >= 38
    assert run.notes() == ["requests in flight are not known: no completions in the trace"]
    even = [f"{1000 * n},read,{80_000 * n},8" for n in range(1000)]
    (tmp_path / "even.csv").write_text("time_ns,op,sector,sectors\n" + "\n".join(even) + "\n")
    (run,) = prepare_traces([summarise(open_trace(tmp_path / "even.csv"))], ["b"], 100, 50)
    (panel,) = run.offsets
    assert (panel.shown, panel.elsewhere(), panel.low_bytes) == (1.0, "", 0)


@pytest.mark.slow
def test_what_a_picture_leaves_out_is_told_in_it_and_in_words(tmp_path: Path) -> None:
    # Reads in one place but for a few; two small writes, which would be a panel of two dots.
    near = [f"{1000 * n},read,{1_000_000 + 8 * (n % 50)},64,{500}" for n in range(1960)]
    far = [f"{1000 * n + 500},read,{800_000_000 + 8 * n},64,{500}" for n in range(40)]
    few = ["700,write,5000,8,500", "900700,write,5008,8,500"]
    lines = ["time_ns,op,sector,sectors,response_ns", *near, *far, *few]
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")
    found = summarise(open_trace(tmp_path / "trace.csv"))
    told = draw([found], tmp_path / "picture.svg")
    assert told == [
        "trace.csv: offsets of reads: 2 % of the reads lie elsewhere",
        "trace.csv: offsets of 2 writes (8.19 kB) are not drawn",
    ]
    picture = (tmp_path / "picture.svg").read_text()
    draw([found], tmp_path / "picture.html")
    page = (tmp_path / "picture.html").read_text()
    for words in told:
        assert words in picture and words in page
    assert "Offsets of reads" in picture and "Offsets of writes" not in picture
    said = CliRunner().invoke(
        make_app(), ["trace", "plot", str(tmp_path / "trace.csv"), "--out", str(tmp_path / "p.png")]
    )
    assert all(words in " ".join(said.stderr.split()) for words in told)


def test_few_requests_that_move_much_have_a_panel(tmp_path: Path) -> None:
    reads = [f"{1000 * n},read,{1_000_000 + 8 * (n % 50)},8,500" for n in range(2000)]
    writes = [f"{100_000 * n + 500},write,{900_000_000 + 2048 * n},2048,500" for n in range(13)]
    (tmp_path / "trace.csv").write_text(
        "\n".join(["time_ns,op,sector,sectors,response_ns", *reads, *writes])
    )
    (run,) = prepare_traces([summarise(open_trace(tmp_path / "trace.csv"))], ["a"], 160, 50)
    assert [panel.word for panel in run.offsets] == ["reads", "writes"]
    assert (run.notes(), run.has(0), run.has(1)) == ([], True, True)


def blkparse(events: list[tuple[float, str, int, int]]) -> str:
    """Text as blkparse prints it."""
    lines = [
        f"  8,0    {n % 4}  {n:>7} {time_s:>14.9f}  {4000 + n % 3}  {letter:>1}   W {sector} + "
        f"{sectors} [job]"
        for n, (time_s, letter, sector, sectors) in enumerate(events, 1)
    ]
    return "\n".join(lines) + "\nCPU0 (sda):\n Reads Queued:  0,  0KiB\n"


def ftrace(events: list[tuple[float, str, int, int]]) -> str:
    """Text as tracefs prints it."""
    names = {"Q": "block_bio_queue", "D": "block_rq_issue", "C": "block_rq_complete"}
    lines = []
    for time_s, letter, sector, sectors in events:
        size = f"{sectors * 512} " if letter == "D" else ""
        rest = (
            f"8,0 W {size}() {sector} + {sectors}"
            if letter != "Q"
            else f"8,0 W {sector} + {sectors}"
        )
        lines.append(
            f"   job-4000    [001] ..... {time_s + 100:.6f}: {names[letter]}: {rest} [job]"
        )
    return "# tracer: nop\n#\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize("text", [blkparse, ftrace])
def test_a_text_in_which_requests_are_dispatched_twice(
    tmp_path: Path, text: Callable[[list[tuple[float, str, int, int]]], str]
) -> None:
    # A request of 100 us each ms; every tenth is dispatched a second time, without a requeue.
    events: list[tuple[float, str, int, int]] = []
    for n in range(100):
        begin_s = n * 1e-3
        events.append((begin_s, "D", 8 * n, 8))
        events += [(begin_s + 20e-6, "D", 8 * n, 8)] * (n % 10 == 0)
        events.append((begin_s + 100e-6, "C", 8 * n, 8))
    (tmp_path / "trace.txt").write_text(text(events))
    found = summarise(open_trace(tmp_path / "trace.txt"))
    assert (found.values["reissues"], found.values["unfinished"]) == (10, 0)
    assert (found.total.amount("write"), found.total.amount("write", "completed")[0]) == (
        (110, 110 * 4096),
        100,
    )
    assert found.total.queue_depth_max == 1
    assert found.total.queue_depth_mean == pytest.approx(100 * 100e-6 / found.duration_s, rel=1e-3)
    assert sum(len(rows) for rows in read_rows(found.trace)) == 100
    (run,) = prepare_traces([found], ["a"], 160, 50)
    assert int(run.cells.depth_max.max()) == 1
    assert run.cells.depth_mean.mean() == pytest.approx(found.total.queue_depth_mean, rel=1e-3)


@pytest.mark.parametrize("text", [blkparse, ftrace])
def test_a_text_without_completions_knows_no_queue_depth(
    tmp_path: Path, text: Callable[[list[tuple[float, str, int, int]]], str]
) -> None:
    (tmp_path / "trace.txt").write_text(text([(n * 1e-3, "D", 8 * n, 8) for n in range(600)]))
    found = summarise(open_trace(tmp_path / "trace.txt"))
    assert (found.total.queue_depth_mean, found.total.queue_depth_max) == (None, None)
    said = CliRunner().invoke(make_app(), ["trace", "show", str(tmp_path / "trace.txt")])
    assert said.exit_code == 0 and "requests in flight: not known" in said.stdout
    told = draw([found], tmp_path / "picture.svg")
    assert told == ["trace.txt: requests in flight are not known: no completions in the trace"]
    assert "Queue depth" not in (tmp_path / "picture.svg").read_text()


def _show_iolog(folder: Path, lines: int) -> tuple[str, int]:
    """What `trace show` says of an iolog without waits, and the most memory it took, KiB."""
    text = ["fio version 2 iolog", "/dev/sdb add", "/dev/sdb open"]
    text += [f"/dev/sdb read {4096 * (7919 * n % 1_000_003)} 4096" for n in range(lines)]
    (folder / "trace.iolog").write_text("\n".join(text) + "\n")
    program = (
        "import atexit, sys; sys.argv[0] = 'headrace'; from headrace.cli import main;"
        "atexit.register(lambda: sys.stderr.write(open('/proc/self/status').read())); main()"
    )
    command = [sys.executable, "-c", program, "trace", "show", "trace.iolog"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    return said.stdout, int(said.stderr.split("VmHWM:")[1].split()[0])


@pytest.mark.slow
def test_an_iolog_without_waits_has_no_rates_no_depth_and_little_memory(tmp_path: Path) -> None:
    _, few_kib = _show_iolog(tmp_path, 1_000)
    shown, most_kib = _show_iolog(tmp_path, 1_000_000)
    # What the interpreter and its libraries take differs by machine; the lines must add little.
    assert most_kib - few_kib < 40 * 1024, f"{most_kib - few_kib} KiB more for a million lines"
    assert "the trace has no times" in shown and "B/s" not in shown
    assert "requests in flight: not known" in shown
    with pytest.raises(StudyError) as caught:
        draw([summarise(open_trace(tmp_path / "trace.iolog"))], tmp_path / "picture.png")
    assert "trace.iolog: file: has no times" in str(caught.value.problems[0])


@pytest.mark.slow
def test_equal_traces_give_equal_pictures(tmp_path: Path) -> None:
    found = summarise(open_trace(REAL))
    for name in ("a", "b"):
        draw([found], tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def fault_of(path: Path, device: str | None = None) -> str:
    with pytest.raises(StudyError) as caught:
        summarise(open_trace(path, device))
    return str(caught.value.problems[0])


def captured(place: Path, **changes: object) -> Path:
    """A folder as `headrace trace run` leaves it."""
    place.mkdir()
    for cpu in (0, 1):
        shutil.copy(f"{REAL}.blktrace.{cpu}", place / f"loop0.blktrace.{cpu}")
    values: dict[str, object] = {
        "trace": 1, "devices": ["loop0"], "files": ["loop0.blktrace.0", "loop0.blktrace.1"],
        "begin_monotonic_ns": 0,
        "lost": 0, "moved": {},
    }  # fmt: skip
    (place / "trace.json").write_text(json.dumps({**values, **changes}))
    return place


@pytest.mark.parametrize(("kept", "lost"), [((0, 1, 4), (2, 3)), ((2, 3), (0, 1)), ((0,), ())])
def test_a_cpu_whose_file_is_lost_is_named(
    tmp_path: Path, kept: tuple[int, ...], lost: tuple[int, ...]
) -> None:
    for cpu in kept:
        shutil.copy(f"{REAL}.blktrace.{cpu % 2}", tmp_path / f"sdb.blktrace.{cpu}")
    found = summarise(open_trace(tmp_path / "sdb"))
    assert found.values["cpus_without_file"] == lost
    said = CliRunner().invoke(make_app(), ["trace", "show", str(tmp_path / "sdb")]).stderr
    named = f"no file of CPU {', '.join(map(str, lost))}: unless it was offline"
    assert (named in " ".join(said.split())) == bool(lost)


def test_an_empty_trace_names_the_cpus_whose_files_are_lost(tmp_path: Path) -> None:
    shutil.copy(f"{REAL}.blktrace.1", tmp_path / "sdb.blktrace.1")
    assert "no file of CPU 0: they may be there" in fault_of(tmp_path / "sdb")


def test_a_trace_of_completions_alone_says_which_events_are_missing(tmp_path: Path) -> None:
    line = "  8,52   3        1     0.000843237     0  C  WS 983947432 + 64 [0]\n"
    (tmp_path / "done.txt").write_text(line)
    assert "allowed: events that queue (Q) or issue (D) requests" in fault_of(tmp_path / "done.txt")


def test_what_is_wrong_with_a_trace_is_told(tmp_path: Path) -> None:
    assert "there is no such trace" in fault_of(tmp_path / "nothing")
    (tmp_path / "empty").write_bytes(b"")
    assert "is empty" in fault_of(tmp_path / "empty")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "not a trace that Headrace captured" in fault_of(folder)
    assert "another device; allowed: loop0" in fault_of(captured(tmp_path / "a"), "sdb").replace(
        " (given: sdb)", ""
    )
    assert "version" in fault_of(captured(tmp_path / "b", trace=2))
    idle = captured(tmp_path / "c", files=[], moved={"vda": 17})
    assert (
        "holds no requests; while it was captured these disks had some: vda (17 requests)"
        in fault_of(idle)
    )
    assert "of this device" in fault_of(REAL, "8:0")
    assert "major:minor" in fault_of(REAL, "sda")


def test_a_trace_of_which_no_line_can_be_read_says_why(tmp_path: Path) -> None:
    """A CSV with fractions, as many programs write them, is not merely without requests."""
    file = tmp_path / "a.csv"
    file.write_text("time_ns,op,sector,sectors\n0.5,R,0,8\n1.5,R,8,8\n")
    place = ".*a.csv:2: time_ns"
    said = f"no requests that can be read; the first problem: {place}: must be a whole number, "
    assert re.search(said, fault_of(file))
    with pytest.raises(StudyError) as failed:
        convert(open_trace(file), tmp_path / "b.csv")
    assert re.search(said, str(failed.value.problems[0]))
    assert not (tmp_path / "b.csv").exists()


def test_what_convert_leaves_out_is_told(tmp_path: Path) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "b.csv"
    bad = "".join(f"{at}.5,read,8,8\n" for at in range(30))
    file.write_text(f"time_ns,op,sector,sectors\n1,read,0,8\n{bad}")
    ended = CliRunner().invoke(make_app(), ["trace", "convert", str(file), str(out)])
    assert ended.exit_code == 0
    said = " ".join(ended.stderr.split())
    assert "time_ns: must be a whole number, not negative (0.5)" in said
    shown = said.count("must be a whole number")
    assert f"… and {30 - shown} more" in said and 0 < shown < 30


def test_a_truncated_trace_says_where_and_keeps_the_rest(tmp_path: Path) -> None:
    place = captured(tmp_path / "cut")
    file = place / "loop0.blktrace.1"
    file.write_bytes(file.read_bytes()[:20_000])
    found = summarise(open_trace(place))
    assert found.damage_count == 1
    assert "loop0.blktrace.1 at byte 19" in str(found.damages[0])
    assert 1000 < found.total.requests <= 2000


def test_what_a_killed_capture_left_is_a_trace(tmp_path: Path) -> None:
    place = captured(tmp_path / "killed")
    (place / "trace.json").unlink()
    assert summarise(open_trace(place)).total.requests == 2000


def test_lost_events_are_in_the_statistics(tmp_path: Path) -> None:
    assert summarise(open_trace(captured(tmp_path / "lost", lost=5))).values["lost_events"] == 5


def test_a_way_to_capture_that_there_is_not() -> None:
    with pytest.raises(StudyError) as caught:
        lacking("strace")
    assert "--with" in str(caught.value.problems[0]) and "tracefs, blktrace" in str(
        caught.value.problems[0]
    )


def test_pictures_that_cannot_be_made(tmp_path: Path) -> None:
    found = summarise(open_trace(REAL))
    with pytest.raises(StudyError, match="not a kind of picture"):
        draw([found], tmp_path / "x.gif")
    with pytest.raises(HeadraceError, match="cannot be written") as caught:
        draw([found], tmp_path / "no" / "x.png")
    assert caught.value.exit_code == 6
    with pytest.raises(StudyError):
        convert(open_trace(REAL), tmp_path / "x.doc")
