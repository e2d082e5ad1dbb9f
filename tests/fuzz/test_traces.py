"""Damaged traces of every format.

Statistics and rows with the damage named, or an error that names the file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.traces import convert, open_trace, read_rows, summarise
from mutations import damaged_bytes, damaged_text, fuzz, refused_by_name

REAL = Path(__file__).parents[1] / "golden" / "traces" / "random"
BINARY = REAL.with_name("random.blktrace.0").read_bytes()[:20_000]
BLKPARSE = """\
  8,0    1        1     0.000000000   100  Q   R 2048 + 8 [job]
  8,0    1        2     0.000001000   100  G   R 2048 + 8 [job]
  8,0    1        3     0.000002000   100  D   R 2048 + 8 [job]
  8,0    1        4     0.000102000     0  C   R 2048 + 8 [0]
  8,0    0        5     0.000202000   101  D  WS 4096 + 16 [kworker/0:1]
  8,0    0        6     0.000302000     0  C  WS 4096 + 16 [0]
"""
FTRACE = """\
# tracer: nop
     job-100     [001] d..1.   10.000001: block_rq_issue: 8,0 R 4096 () 2048 + 8 none,0,0 [job]
  <idle>-0       [001] d.h1.   10.000101: block_rq_complete: 8,0 R () 2048 + 8 none,0,0 [0]
     job-100     [000] d..1.   10.000201: block_rq_issue: 8,0 WS 8192 () 4096 + 16 [job]
  <idle>-0       [000] d.h1.   10.000301: block_rq_complete: 8,0 WS () 4096 + 16 [0]
"""
IOLOG_2 = (
    "fio version 2 iolog\n/d add\n/d open\n/d read 4096 4096\n/d wait 100\n/d write 8192 "
    "512\n/d close\n"
)
IOLOG_3 = (
    "fio version 3 iolog\n0 /d add\n0 /d open\n5 /d read 4096 4096\n9 /d write 8192 512\n9 "
    "/d close\n"
)


def written(ending: str, place: Path) -> str:
    out = place / f"converted.{ending}"
    convert(open_trace(REAL), out)
    return "\n".join(out.read_text().splitlines()[:40]) + "\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Each text format; those that Headrace writes as it writes them."""
    place = tmp_path_factory.mktemp("converted")
    return [BLKPARSE, FTRACE, IOLOG_2, IOLOG_3, written("csv", place), written("iolog", place)]


def used(file: Path, place: Path) -> None:
    trace = open_trace(file)
    summarise(trace)
    list(read_rows(trace))
    convert(trace, place / "out.csv")


@fuzz(250)
@given(data=st.data())
def test_a_damaged_trace_is_read_or_refused_by_name(
    data: st.DataObject, texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "traces"
    place.mkdir(exist_ok=True)
    if data.draw(st.booleans()):
        file = place / "a trace.txt"
        file.write_text(data.draw(damaged_text(texts)))
    else:
        file = place / "damaged.blktrace.0"
        file.write_bytes(data.draw(damaged_bytes([BINARY, *(text.encode() for text in texts)])))
    refused_by_name(lambda: used(file, place), file, place / "out.csv")
