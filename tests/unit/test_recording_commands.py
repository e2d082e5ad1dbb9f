"""Commands on recordings and running programs: files that they write, options that go together,
lines of 80 columns. A mistake is one message, and nothing is started or left."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_server import run_command
from headrace import cli
from headrace.profiles.steps import Op, RecordedFile, Recording, columns, save

MS = 1_000_000
LONG = "x" * 300
FULL = "y" * 248
"""A name that can be, with an ending that makes it too long."""
TRACE = "time_ns,op,sector,sectors,pid\n"
STRACE = """\
7 1700000000.000001 openat(AT_FDCWD</d>, "a", O_RDONLY) = 3</d/a> <0.000010>
7 1700000000.000101 read(3</d/a>, "x"..., 100) = 100 <0.000010>
"""

Headrace = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def headrace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Headrace:
    """A command line of `headrace` in a folder with a profile and a trace."""
    monkeypatch.chdir(tmp_path)
    job("p.toml", "/data/in.root")
    job("spaced.toml", "/data/a b")
    moves = [(1000 * n, 8 * n) for n in range(100)] + [(1000 * n, 900 * n) for n in range(200, 230)]
    lines = [f"{time},read,{sector},8,5\n" for time, sector in moves]
    Path("t.csv").write_text(TRACE + "".join(lines))
    Path("s.txt").write_text(STRACE)
    Path("mine").write_text("mine\n")

    def run(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headrace", *shlex.split(line)])
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        else:
            code = 0
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


def job(name: str, data: str, notes: tuple[str, ...] = ()) -> None:
    rows: list[tuple[int, ...]] = [
        (0, MS, 0, Op.READ, 0, 0, 1000, MS),
        (2 * MS, 3 * MS, 0, Op.MAPPED_READ, 0, 4096, 8192, MS),
        (4 * MS, 5 * MS, 0, Op.WRITE, 0, 0, 7, MS),
        (6 * MS, 7 * MS, 0, Op.READ, 1, 0, 50, MS),
    ]
    files = (RecordedFile(data, 20_000), RecordedFile("/usr/lib/libx.so", 50, software=True))
    steps = columns(rows)
    save(
        Recording("job", "strace", files, steps, 3000 * MS, cpu_ns=2990 * MS, notes=notes),
        Path(name),
    )


def files(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("profile export p.toml mine", 4, "mine already exists"),
        ("profile show p.toml --picture mine", 4, "mine already exists"),
        ("trace convert t.csv mine --format csv", 4, "mine already exists"),
        ("trace convert t.csv t.csv", 4, "t.csv already exists"),
        ("trace plot t.csv --out mine", 4, "mine already exists"),
        ("why --page mine -- touch ran", 4, "mine already exists"),
        ("profile export spaced.toml y.fio --format fio", 2, "a file name with spaces"),
        ("profile export p.toml y --format otf2", 2, "allowed: csv, fio"),
        ("profile import s.txt --format nope", 2, "allowed: strace, darshan, xrootd"),
        ("why --page no/x.html -- touch ran", 2, "--page no/x.html: no is not a folder"),
        ("why --page . -- touch ran", 2, "--page .: is a folder, not a file"),
        ("record --out . -- touch ran", 2, "--out: is a folder, not a profile (given: .)"),
        ("record --out .. -- touch ran", 2, "--out: is a folder, not a profile (given: ..)"),
        ("record --out no/x.toml -- touch ran", 2, "--out no/x.toml: no is not a folder"),
        ("profile import s.txt --out .", 2, "--out: is a folder, not a profile"),
        ("profile import s.txt --out no/x.toml", 2, "no is not a folder"),
        ("profile export p.toml no/x.csv", 2, "no is not a folder"),
        ("profile show .", 2, "PROFILE: is a folder, not a profile"),
        ("trace convert t.csv no/x.csv", 2, "no is not a folder"),
        (f"record --out {LONG} -- touch ran", 2, "--out: cannot be used: File name too long"),
        (f"record --out {FULL} -- touch ran", 2, "--out: cannot be used: File name too long"),
        (f"profile show {LONG}", 2, "PROFILE: cannot be used: File name too long"),
        (f"profile export {LONG} x.csv", 2, "PROFILE: cannot be used: File name too long"),
        (f"profile export p.toml {LONG}", 2, "File name too long"),
        (f"profile import {LONG}", 2, "cannot be read: File name too long"),
        (f"profile import s.txt --out {LONG}", 2, "File name too long"),
        (f"trace show {LONG}", 2, "cannot be read: File name too long"),
        (f"why --page {LONG} -- touch ran", 2, "File name too long"),
        ('profile simulate p.toml --link "100 GbE"', 2, "--link 100 GbE: goes with --shared"),
        (
            "profile simulate p.toml --shared --link fast",
            2,
            '--link: there is no link of this name (given: "fast"',
        ),
        (
            "profile simulate p.toml --drive fast",
            2,
            '--drive: there is no drive of this name (given: "fast"',
        ),
        (
            'profile simulate p.toml --shared --link "2 x 0 GbE"',
            2,
            "--link 2 x 0 GbE: too slow a link; at least 1 kB/s",
        ),
        ("profile simulate p.toml --results mine", 2, "mine is a file, not a folder"),
        ('why --for "1 s" -- touch ran', 2, "--for 1 s: goes with --pid"),
        ('why --pid 1 --for "0 s"', 2, "--for 0 s: must be at least 100 ms"),
        ("why --pid 1 --for soon", 2, "--for soon: not a quantity"),
        ('watch --pid 1 --once --window "5 s"', 2, "--window 5 s: goes with --record"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_mistake_is_refused_before_anything_starts(
    headrace: Headrace, tmp_path: Path, line: str, code: int, words: str
) -> None:
    before = files(tmp_path)
    ended, _, said = headrace(line)
    assert (ended, "Traceback" in said) == (code, False), said
    assert words in said
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "line", ["record -- true", "profile show p.toml", "validate study.toml", "run study.toml"]
)
def test_a_current_directory_that_is_gone(headrace: Headrace, tmp_path: Path, line: str) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")  # the fixture restores the directory
    (tmp_path / "gone").rmdir()
    code, _, said = headrace(line)
    assert (code, "Traceback" in said) == (2, False), said
    assert "the current directory has been removed" in said


def test_what_is_written_anew(headrace: Headrace) -> None:
    assert headrace("profile export p.toml p.csv")[0] == 0
    assert headrace("profile export p.toml p.fio --format fio")[0] == 0
    assert Path("p.fio").read_text().startswith("fio version 3 iolog\n0 /data/in.root add\n")
    # A device stays what it is; a link, so that a mistake replaces no device of this machine.
    Path("device").symlink_to("/dev/null")
    assert headrace("profile export p.toml device")[0] == 0
    assert headrace("trace convert t.csv device --format csv")[0] == 0
    assert Path("device").is_symlink()
    for name in ("p.png", "p-2.png"):
        assert f"picture: {name}" in headrace("profile show p.toml --draw")[2]
        assert Path(name).exists()
    name = "n" * 250
    Path(name).write_text(STRACE)
    assert headrace(f"profile import {name}")[0] == 0
    assert Path(f"{name[:200]}.toml").exists()


def test_a_page_of_why_is_replaced(tmp_path: Path) -> None:
    for keep in ("kept", "kept", "kept"):
        ended = run_command(["why", "--page", "a.html", "--keep", keep, "--", "true"], tmp_path)
        assert ended.returncode == 0, ended.stderr
    assert "Why is it slow" in (tmp_path / "a.html").read_text()


MAPPED = """
import mmap
with open('data', 'rb') as f:
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    sum(m[at] for at in range(0, len(m), 300_000))
"""


def test_record_and_show_name_one_sum(tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as file:
        file.truncate(20_000_000)
    (tmp_path / "sub dir").mkdir()
    words = ["record", "--out", "sub dir/x.toml", "--", sys.executable, "-c", MAPPED]
    ended = run_command(words, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "headrace profile show 'sub dir/x.toml'" in ended.stderr
    recorded = ended.stderr.partition("steps, ")[2].partition(" read,")[0]
    shown = run_command(["profile", "show", "sub dir/x.toml"], tmp_path).stdout
    assert f"{recorded} in " in shown and recorded != "0 B", (ended.stderr, shown)


def test_words_of_a_profile(headrace: Headrace) -> None:
    job("noted.toml", "/data/in.root", ("a word " * 30,))
    code, out, said = headrace("profile show noted.toml")
    assert code == 0, said
    assert "threads: 1 " in f"{out} " and "threads: 1;" not in out
    assert "in 2 reads" in out and "in 1 write " in f"{out} " and "1 file, 50 B read" in out
    assert "of ? cores" not in out and "cores." in out
    assert said.startswith("note: a word") and max(map(len, said.splitlines())) <= 80


def test_medians_of_distances_are_whole_sectors(headrace: Headrace) -> None:
    code, out, said = headrace("trace show t.csv")
    assert code == 0, said
    assert "median 0 B" in " ".join(out.split())


@pytest.mark.parametrize("name", ["profile.toml", "verdict.html", "verdict.json"])
def test_files_of_the_user_in_the_folder_to_keep_stay(
    headrace: Headrace, tmp_path: Path, name: str
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / name).write_text("mine")
    before = files(tmp_path)
    for words in ("why --keep kept -- touch ran", "why --keep kept --pid 1"):
        code, _, said = headrace(words)
        assert code == 4 and name in said, said
    assert files(tmp_path) == before
