"""Programs of daily use, recorded and not: the same output, the same calls on files, the same
files.

And all of what they read and write is seen.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.profiles.arena import Arena
from headrace.profiles.preloading import preloaded
from recorded_calls import LIBRARY, calls, read_trace
from recorded_programs import Program, compare

STREAMS = """
#include <stdio.h>
int main(void) {
    char to[16];
    FILE *in = fopen("numbers", "r");
    for (long n = 0; n < 1000; ++n) {
        fseek(in, n * 7, SEEK_SET);
        fread(to, 1, 4, in);
    }
    getc(in);
    fclose(in);
    FILE *out = fopen("out", "w");
    for (int n = 0; n < 3000; ++n) putc('a' + n % 26, out);
    printf("left to be written at exit");
    return 0;
}
"""
MULTI = (
    "import multiprocessing as m; p = m.get_context('fork').Pool(2); p.map(len, "
    "[open('numbers').read()]); p.close(); p.join()"
)
UPROOT = (
    "import uproot, numpy; f = uproot.recreate('o.root'); f['t'] = {'x': "
    "numpy.arange(999.0)}; f.close(); print(uproot.open('o.root:t')['x'].array().to_numpy().sum())"
)
SQLITE = (
    "create table t(x); insert into t values(1),(2),(3); select sum(x) from t; vacuum; drop "
    "table t;"
)

PROGRAMS: dict[str, Sequence[str]] = {
    "streams": ["./streams"],
    "sort": ["sh", "-c", "sort -R --random-source=numbers numbers > f; sort -o g numbers"],
    "awk": ["sh", "-c", "awk '{print $1 * 2}' numbers > f"],
    "cp": ["cp", "numbers", "copy"],
    "cat": ["sh", "-c", "cat numbers numbers > f; head -c 999 f > g; wc -c g"],
    "dd": ["dd", "if=numbers", "of=copy", "bs=4k", "status=none", "conv=fsync"],
    "tar": ["sh", "-c", "tar cf a.tar numbers && mkdir x && tar xf a.tar -C x"],
    "xz": ["sh", "-c", "xz -T1 -k numbers && xz -dc numbers.xz > f"],
    "gzip": ["sh", "-c", "gzip -n -k numbers && gunzip -c numbers.gz > f"],
    "grep": [
        "sh",
        "-c",
        "grep -c 7 numbers; sed -n '/99$/p' numbers > f; cut -c2 numbers > g; uniq -c g > h",
    ],
    "perl": ["perl", "-ne", "$s += $_; END { open F, '>f'; print F $s; print $s }", "numbers"],
    "find": [
        "sh",
        "-c",
        "mkdir a b; touch a/1 b/2; find a b -type f > f; sort f; rm -r a",
    ],
    "sqlite": ["sqlite3", "base.db", SQLITE],
    "gcc": ["gcc", "-O0", "-c", "streams.c", "-o", "s.o"],
    "git": ["git", "init", "-q", "repository"],
    "python": [
        sys.executable,
        "-S",
        "-E",
        "-c",
        "d = open('numbers').read(); open('f', 'w').write(d[::-1]); print(len(d))",
    ],
    "uproot": [sys.executable, "-c", UPROOT],
    "multiprocessing": [sys.executable, "-c", MULTI],
}
# Threads or workers of which each takes what it finds.
BY_FILE = {"multiprocessing", "uproot"}
# Written with the time in them.
CHANGING = {"gzip": {"numbers.gz"}, "tar": {"a.tar"}, "uproot": {"o.root"}}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "streams.c").write_text(STREAMS)
    subprocess.run(["cc", "-O2", "-w", "-o", folder / "streams", folder / "streams.c"], check=True)
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_the_same_when_it_is_recorded(
    name: str, place: Path, streams: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = Program(
        PROGRAMS[name],
        "files" if name in BY_FILE else "tasks",
        frozenset(CHANGING.get(name, ())),
    )
    job = compare(program, place, [streams / "streams", streams / "streams.c"], tmp_path, capfd)
    assert job.unseen is not None
    assert job.unseen.read_bytes < 4096 and job.unseen.written_bytes < 4096, job.notes


def test_a_parent_that_goes_on_late_leaves_the_childs_calls_the_same(
    place: Path, tmp_path: Path
) -> None:
    """On a busy machine a parent returns from vfork long after its child has become a program."""
    (place / "numbers").write_text("1\n")
    trace = tmp_path / "trace"
    with Arena([tmp_path]) as arena, preloaded(arena) as environment:
        added = {key: environment[key] for key in ("LD_PRELOAD", "HEADRACE_RECORD")}
        soon = calls(["sh", "-c", "cat numbers; true"], added, trace)
    lines = trace.read_text().splitlines()
    (resumed,) = (line for line in lines if "fork resumed>" in line)
    child = resumed.rpartition("= ")[2]
    # Once the recorder's library has its place there.
    last = max(
        n for n, line in enumerate(lines) if line.startswith(f"{child} ") and LIBRARY in line
    )
    lines.insert(last + 1, resumed)
    lines.remove(resumed)
    trace.write_text("\n".join(lines))
    assert read_trace(trace, 0) == soon
    assert any("numbers" in call for call in soon.by_task["0.0"])
