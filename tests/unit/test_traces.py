"""Traces by `headrace.traces`: a real one summed up, drawn, converted; and every way in which a trace can be wrong."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.errors import StudyError
from headrace.traces import convert, draw, lacking, open_trace, read_rows, summarise
from headrace.traces.tiles import lay_out

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
            done - issued for done, issued in zip(table["complete_ns"], table["time_ns"], strict=True)
        ]
        assert latencies == (rows.complete_ns - rows.time_ns).tolist()
        return
    back = summarise(open_trace(out))
    first = summarise(trace)
    assert back.total.amount("read") == first.total.amount("read")
    assert back.total.values["seek_distance_absolute"] == first.total.values["seek_distance_absolute"]
    if ending == "csv":
        assert back.total.queue_to_complete == first.total.queue_to_complete
        assert back.total.dispatch_to_complete == first.total.dispatch_to_complete
    assert list(tmp_path.iterdir()) == [out]


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
    (tmp_path / "trace.csv").write_text("time_ns,op,sector,sectors\n" + "\n".join(near + far) + "\n")
    (run,) = lay_out([summarise(open_trace(tmp_path / "trace.csv"))], ["a"], 100, 50)
    assert 511_900_000 < run.low_bytes <= 512_000_000 and 512_204_800 <= run.high_bytes < 512_300_000
    assert run.shown == pytest.approx(0.96) and "4 % of all requests lie elsewhere" in run.elsewhere()
    assert run.has(0) and not run.has(1), "no panel where nothing lies"
    even = [f"{1000 * n},read,{80_000 * n},8" for n in range(1000)]
    (tmp_path / "even.csv").write_text("time_ns,op,sector,sectors\n" + "\n".join(even) + "\n")
    (run,) = lay_out([summarise(open_trace(tmp_path / "even.csv"))], ["b"], 100, 50)
    assert (run.shown, run.elsewhere(), run.low_bytes) == (1.0, "", 0)


def test_equal_traces_give_equal_pictures(tmp_path: Path) -> None:
    found = summarise(open_trace(REAL))
    for name in ("a", "b"):
        draw([found], tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def fault_of(path: Path, device: str | None = None) -> str:
    with pytest.raises(StudyError) as caught:
        summarise(open_trace(path, device))
    return str(caught.value.faults[0])


def captured(place: Path, **changes: object) -> Path:
    """A folder as `headrace trace run` leaves it."""
    place.mkdir()
    for cpu in (0, 1):
        shutil.copy(f"{REAL}.blktrace.{cpu}", place / f"loop0.blktrace.{cpu}")
    values: dict[str, object] = {
        "trace": 1, "devices": ["loop0"], "files": ["loop0.blktrace.0", "loop0.blktrace.1"], "begin_monotonic_ns": 0,
        "lost": 0, "moved": {},
    }  # fmt: skip
    (place / "trace.json").write_text(json.dumps({**values, **changes}))
    return place


def test_what_is_wrong_with_a_trace_is_told(tmp_path: Path) -> None:
    assert "there is no such trace" in fault_of(tmp_path / "nothing")
    (tmp_path / "empty").write_bytes(b"")
    assert "is empty" in fault_of(tmp_path / "empty")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "no trace that Headrace captured" in fault_of(folder)
    assert "another device; allowed: loop0" in fault_of(captured(tmp_path / "a"), "sdb").replace(
        " (given: sdb)", ""
    )
    assert "version" in fault_of(captured(tmp_path / "b", trace=2))
    idle = captured(tmp_path / "c", files=[], moved={"vda": 17})
    assert "holds no requests; while it was captured these disks had some: vda (17 requests)" in fault_of(
        idle
    )
    assert "of this device" in fault_of(REAL, "8:0")
    assert "major:minor" in fault_of(REAL, "sda")


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
    assert "--with" in str(caught.value.faults[0]) and "tracefs, blktrace" in str(caught.value.faults[0])


def test_pictures_that_cannot_be_made(tmp_path: Path) -> None:
    found = summarise(open_trace(REAL))
    for out, words in (
        (tmp_path / "x.gif", "no kind of picture"),
        (tmp_path / "no" / "x.png", "cannot be written"),
    ):
        with pytest.raises(StudyError) as caught:
            draw([found], out)
        assert words in str(caught.value.faults[0])
    with pytest.raises(StudyError):
        convert(open_trace(REAL), tmp_path / "x.doc")
