"""`headrace drive`: wrong options and too few measurements are refused in words of the user."""

from __future__ import annotations

import importlib
import json
import lzma
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import cli
from headrace.cli.drive.emulated import _storage  # pyright: ignore[reportPrivateUsage]
from headrace.drives import Load, run_drive
from headrace.errors import Problem, StudyError
from headrace.system import emulator
from headrace.system.emulator import lasting

SSD = "mtron-msp-sata7035064"
DISK = "wd-wd3200bekt"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def headrace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs `headrace drive WORDS` in an empty folder: exit code, output,
    errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")

    def run(line: str, *more: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headrace", "drive", *line.split(), *more])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capfd.readouterr()
        return code, said.out, " ".join(said.err.split())

    return run


def trace(requests: int, *, path: str = "trace.csv", op: str = "read") -> str:
    """Write a trace of random requests with response times; return its name."""
    draw = random.Random(1)
    lines, time_ns = ["time_ns,op,sector,sectors,response_ns"], 0
    for _ in range(requests):
        time_ns += draw.randrange(10_000_000, 40_000_000)
        sector = draw.randrange(0, 600_000_000, 8)
        lines.append(f"{time_ns},{op},{sector},8,{draw.randrange(4_000_000, 20_000_000)}")
    Path(path).write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("requests", [1, 31, 49])
def test_a_fit_needs_enough_requests(headrace: Command, requests: int) -> None:
    code, _, said = headrace(f"fit {DISK} {trace(requests)} --out f.toml")
    assert code == 2
    assert f"{requests} reads and 0 writes" in said
    assert "at least 50 reads or 50 writes" in said
    assert not Path("f.toml").exists()


def test_a_fit_needs_a_job(headrace: Command) -> None:
    Path("e.json").write_text(json.dumps({"jobs": []}))
    code, _, said = headrace(f"fit {DISK} e.json --out f.toml")
    assert code == 2 and said.startswith("e.json: jobs: holds no jobs")


COMMANDS = ("run {disk}", "validate {disk} t.csv", "replay {disk} t.csv --out o.csv")
WITH_RAID = (*COMMANDS, "fit {disk} t.csv --out f.toml")


@pytest.mark.parametrize("command", [*WITH_RAID, "attach {disk}"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--raid 6 --drives 4 --chunk 0", "--chunk: not a chunk size (given: 0)"),
        ("--raid 6 --drives 4 --chunk 700", "--chunk: not a chunk size (given: 700)"),
        ("--raid 5 --drives 0", "--drives: RAID 5 cannot have that many drives (given: 0)"),
        ("--raid 10 --drives 5", "allowed: 4 to 512, an even number"),
        ("--raid 7 --drives 4", "--raid: not a RAID level (given: 7); allowed: 0, 1, 5, 6, 10"),
        ("--chunk 16k", "--chunk: only a RAID has a chunk size (given: 16k)"),
        ("--drives 2", "--drives: only a RAID has several drives (given: 2)"),
    ],
)
def test_a_raid_that_cannot_be(headrace: Command, command: str, options: str, words: str) -> None:
    trace(60, path="t.csv")
    code, _, said = headrace(f"{command.format(disk=DISK)} {options}")
    assert code == 2 and said.startswith("command line: ") and words in said
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"run {DISK} --rw read --fsync 4", "--fsync: --rw read writes nothing (given: 4)"),
        (f"run {DISK} --iodepth 1024 --numjobs 1025", "1025 jobs with 1024"),
        (f"replay {DISK} t.csv --out o.csv --iodepth 4", "allowed: with --closed"),
        (f"validate {SSD} t.csv --angles 3", f"--angles: {SSD} has no platter (given: 3)"),
    ],
)
def test_an_option_without_effect_is_refused(headrace: Command, command: str, words: str) -> None:
    trace(60, path="t.csv")
    code, _, said = headrace(command)
    assert code == 2 and said.startswith("command line: ") and words in said
    assert not Path("o.csv").exists()


@pytest.mark.parametrize("command", WITH_RAID)
@pytest.mark.parametrize(("level", "least"), [(0, 2), (5, 3), (6, 4)])
def test_a_raid_needs_the_number_of_drives(
    headrace: Command, command: str, level: int, least: int
) -> None:
    trace(60, path="t.csv")
    code, _, said = headrace(f"{command.format(disk=DISK)} --raid {level}")
    assert code == 2
    assert f"--drives: RAID {level} needs the number of its drives" in said
    assert f"{least} to 512" in said


def test_a_replay_overwrites_no_file(headrace: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Path("mine.csv")
    mine.write_text("my own words\n")
    code, _, said = headrace(f"replay {DISK} not-there.csv --out mine.csv")
    assert code == 4 and "mine.csv already exists" in said, "before the trace is read"
    assert mine.read_text() == "my own words\n"
    code, _, said = headrace(f"replay {DISK} not-there.csv --out nowhere/x.csv")
    assert code == 2 and "nowhere is not a folder" in said
    assert headrace(f"replay {DISK} {trace(20)} --out /dev/null")[0] == 0, "it holds nothing"
    assert headrace(f"replay {DISK} trace.csv --out new.csv")[0] == 0
    assert len(Path("new.csv").read_text().splitlines()) == 21


def test_a_share_of_reads_belongs_to_a_mixed_load(headrace: Command) -> None:
    code, _, said = headrace(f"run {DISK} --rw read --rwmixread 50")
    assert code == 2 and "--rwmixread: --rw read is not a mixed load (given: 50)" in said
    words = f"run {DISK} --runtime 1 --json --rw"
    half = headrace(f"{words} randrw --rwmixread 50")
    assert half[0] == 0 and half == headrace(f"{words} randrw")
    assert half != headrace(f"{words} randrw --rwmixread 0")


def test_no_requests_means_no_limit_as_in_fio(headrace: Command) -> None:
    words = f"run {DISK} --rw randread --runtime 1 --json"
    unlimited = headrace(f"{words} --number-ios 0")
    assert unlimited == headrace(words)
    assert json.loads(unlimited[1])["read"]["requests"] > 10
    assert json.loads(headrace(f"{words} --number-ios 9")[1])["read"]["requests"] == 9


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--bs 0", "--bs: is not allowed (given: 0); allowed: 512 to 1073741824 bytes"),
        ("--bs 700", "--bs: is not allowed (given: 700); allowed: a multiple of 512 bytes"),
        ("--iodepth 0", "--iodepth: out of range (given: 0); allowed: 1 to 1048576"),
        ("--iodepth -1", "--iodepth: out of range (given: -1); allowed: 1 to 1048576"),
        ("--numjobs 0", "--numjobs: out of range (given: 0); allowed: 1 to 65536"),
        ("--fsync -3", "--fsync: out of range (given: -3); allowed: 0 to 4294967295"),
        ("--randseed -1", "--randseed: out of range (given: -1); allowed: 0 to"),
        ("--number-ios -1", "--number-ios: out of range (given: -1); allowed: 0 to"),
        (f"--number-ios {1 << 70}", "--number-ios: out of range"),
        ("--rw rw --rwmixread 200", "--rwmixread: out of range (given: 200); allowed: 0 to 100"),
        ("--runtime 0", "--runtime: is not allowed (given: 0); allowed: 0.000001 to"),
        ("--offset 2t", "--offset: is not allowed (given: 2t); allowed: offsets below"),
        ("--size 1t", "--size: is not allowed (given: 1t); allowed: 4096 to"),
    ],
)
def test_a_load_that_cannot_be_names_the_option(headrace: Command, options: str, said: str) -> None:
    code, _, error = headrace(f"run {DISK} {options}")
    assert code == 2 and error.startswith(f"command line: {said}")


@pytest.mark.parametrize("command", [*WITH_RAID, "show {disk}", "attach {disk}"])
def test_an_unknown_drive_is_a_wrong_argument(headrace: Command, command: str) -> None:
    trace(60, path="t.csv")
    code, _, said = headrace(command.format(disk="wd-wd3200be"))
    assert code == 2 and said.startswith("command line: DRIVE: ")
    assert 'did you mean "wd-wd3200bekt"? (given: "wd-wd3200be")' in said
    code, _, said = headrace(command.format(disk="nosuch"))
    assert code == 2 and "allowed: cheetah-9lp, " in said and "/catalog/" not in said


def test_an_unknown_controller_is_a_wrong_option(headrace: Command) -> None:
    code, _, said = headrace(f"run {DISK} --raid 0 --drives 2 --controller nosuch")
    assert code == 2 and said.startswith("command line: --controller: ")


def test_kinds_with_few_requests_have_no_heading(headrace: Command) -> None:
    code, shown, _ = headrace(f"validate {DISK} {trace(1)}")
    assert code == 0 and "Response times" in shown and "Kinds of request" not in shown
    assert "Kinds of request" in headrace(f"validate {DISK} {trace(60)}")[1]


def test_a_fit_says_what_is_fitted(headrace: Command) -> None:
    _, _, said = headrace(f"fit {DISK} {trace(50)} --out f.toml --force --angles 1")
    assert said.startswith(f"fitting {DISK} to trace.csv: ")


def test_a_drive_larger_than_the_memory(headrace: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine lacks something (exit code 3), and nothing was started."""

    def nothing_missing(_: str) -> list[Problem]:
        return []

    def little() -> emulator.Limits:
        return emulator.Limits(floor_ns=1000, free_bytes=4 << 30, data_bytes=2 << 30)

    monkeypatch.setattr(emulator, "cannot_emulate", nothing_missing)
    limits = importlib.import_module("headrace.system.emulator.limits")  # a function hides it
    monkeypatch.setattr(limits, "limits", little)

    def never(*_: object, **_more: object) -> None:
        raise AssertionError("started")

    monkeypatch.setattr(lasting, "attach_lasting", never)
    code, _, said = headrace("attach corsair-f40 --memory", "1 PB")
    assert code == 3 and "--memory" in said and "only 2 GiB can be taken" in said


@pytest.mark.parametrize("chunk", ["64KiB", "3MiB"])
@pytest.mark.parametrize(("level", "drives"), [(0, 2), (1, 2), (5, 3), (6, 4), (10, 4)])
def test_an_attached_raid_ends_where_its_model_does(level: int, drives: int, chunk: str) -> None:
    """Drives end in a part of a chunk, which no level uses."""
    storage, size = _storage("sata-7200-500gb", level, drives, chunk)
    load = Load("read", 4096, number_ios=1, offset_bytes=size - 4096, raid={**storage["raid"]})
    assert run_drive({**storage["drives"][0]}, load)["read"]["requests"] == 1
    beyond = replace(load, offset_bytes=size, size_bytes=4096)
    with pytest.raises(StudyError):
        run_drive({**storage["drives"][0]}, beyond)


@pytest.mark.parametrize("iodepth", [1, 4])
def test_what_a_flush_takes_is_said(headrace: Command, iodepth: int) -> None:
    """A disk acknowledges writes from its cache: what a synchronous write costs is its flush."""
    load = f"run {DISK} --rw randwrite --fsync 1 --runtime 60 --iodepth {iodepth}"
    code, out, _ = headrace(load)
    found = json.loads(headrace(f"{load} --json")[1])
    write, flush = found["write"], found["flush"]
    # A flush after each write, and a slot has nothing else to wait for.
    assert flush["requests"] == pytest.approx(write["requests"], abs=iodepth)
    per_write_ms = iodepth * 60e3 / write["requests"]
    mean_ms = flush["latency_ns_mean"] / 1e6
    assert code == 0 and mean_ms > 5
    assert mean_ms == pytest.approx(per_write_ms - write["latency_ns_mean"] / 1e6, rel=0.02)
    (row,) = (line.split() for line in out.splitlines() if line.startswith("flush"))
    names = ("mean", "p50", "p99", "p999", "max")
    assert row[2] == "-"
    assert row[3::2] == [f"{flush[f'latency_ns_{name}'] / 1e6:.3f}" for name in names]
    assert "flush" not in headrace(f"run {DISK} --rw randwrite --runtime 1")[1]


@pytest.mark.parametrize("command", [f"validate {DISK}", f"replay {DISK}", f"fit {DISK}"])
def test_a_compressed_trace_is_refused_with_the_command_that_unpacks_it(
    headrace: Command, command: str
) -> None:
    Path("measured.csv.xz").write_bytes(lzma.compress(Path(trace(60)).read_bytes()))
    more = ("--out", "new") if not command.startswith("validate") else ()
    code, _, said = headrace(f"{command} measured.csv.xz", *more)
    assert code == 2
    assert "is compressed (xz)" in said and "xz -dk measured.csv.xz" in said


SHEET = """kind = "hdd"
name = "sheet"
capacity_bytes = 1_000_000_000_000
rotation_rpm = 7200.0
rates = { outer_bytes_per_s = 110e6 }
seek = { curve = "sheet", track_to_track_ms = 0.8, average_ms = 8.9 }
link_bytes_per_s = 300e6
"""


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ('kind = "hdd"', "", "sheet.toml: kind: is missing; allowed: hdd, ssd"),
        ("rotation_rpm = 7200.0", "", "sheet.toml: rotation_rpm: is missing"),
        (", average_ms = 8.9", "", "sheet.toml:6: seek.average_ms: is missing"),
        (
            "= 1_000_000_000_000",
            '= "1 TB"',
            'sheet.toml:3: capacity_bytes: must be a whole number, at least 0 (given: "1 TB")',
        ),
        ("= 7200.0", '= "fast"', 'sheet.toml:4: rotation_rpm: must be a number (given: "fast")'),
    ],
)
def test_what_a_drive_file_lacks_is_named(
    headrace: Command, line: str, instead: str, message: str
) -> None:
    """By the field, without places in the core's own text of the table."""
    assert line in SHEET
    Path("sheet.toml").write_text(SHEET.replace(line, instead))
    code, _, said = headrace("show sheet.toml")
    assert code == 2
    assert message in said and "column" not in said


def test_why_a_value_is_not_determined_is_said_below_the_table(
    headrace: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 80 columns the reasons had a column of twelve, and took six lines each."""
    monkeypatch.setenv("COLUMNS", "80")
    Path("sheet.toml").write_text(SHEET)
    read = {"total_ios": 1000, "iops": 72.1, "runtime": 60_000}
    job = {"job options": {"rw": "randread", "ioengine": "libaio", "direct": "1"}, "read": read}
    Path("fio.json").write_text(json.dumps({"jobs": [job]}))
    code, out, _ = headrace("fit sheet.toml fio.json --out new.toml")
    table, _, reasons = out.partition("not determined: ")
    assert code == 0
    assert reasons.startswith("seek.track_to_track_ms: no result given depends on it\n")
    first, last = table.index("seek.average_ms"), table.index("rates.outer_bytes_per_s")
    assert len(table[first:last].splitlines()) == 2
