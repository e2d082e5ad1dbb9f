"""What a drive is fitted to and validated with: files with one name, times of 0, files given twice,
and why a parameter is not determined."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headrace import cli
from headrace.catalog import CatalogEntry, entry
from headrace.drives import Fit, Trace, fit_drive, read_trace, replay_trace, validate_drive
from headrace.drives.fitted_file import write_fitted
from headrace.drives.fitting import NO_GAIN, TOO_VAGUE, UNTOUCHED
from headrace.drives.observed_traces import TraceReplay, observe_trace
from headrace.errors import StudyError

ONE_ANGLE = TraceReplay(angles=1)
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def headrace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs `headrace drive WORDS` in an empty folder: exit code, and all
    that it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["headrace", "drive", *words])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def disk(folder: Path, name: str, **values: float) -> CatalogEntry:
    """The catalog's disk with other values."""
    text = entry("drives", "wd-wd3200bekt").file.read_text()
    for key, value in values.items():
        text, count = re.subn(rf"\b{key} = [0-9._e]+", f"{key} = {value}", text, count=1)
        assert count == 1, key
    path = folder / f"{name}.toml"
    path.write_text(text)
    return entry("drives", str(path))


def measured(path: Path, drive: CatalogEntry, op: str = "read", seed: int = 1) -> Path:
    """A trace of random requests of one kind that a drive served, one after the other."""
    draw = np.random.default_rng(seed)
    sectors = draw.integers(0, 70_000_000, 200) * 8
    rows = [f"{number * 40_000_000},{op},{each},8" for number, each in enumerate(sectors)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["time_ns,op,sector,sectors", *rows]) + "\n")
    trace = read_trace(path)
    trace.write(path, replay_trace(drive, trace, iodepth=0, seed=3))
    return path


def with_times(path: Path, times_ns: list[int]) -> Path:
    trace = read_trace(path)
    trace.write(path, np.asarray(times_ns, np.uint64))
    return path


@pytest.fixture
def two_of_one_name(tmp_path: Path) -> tuple[Path, Path]:
    """Traces of reads and of writes, in two folders, with one name."""
    hidden = disk(tmp_path, "hidden", average_ms=9.5, controller_overhead_us=400.0)
    return (
        measured(tmp_path / "reads" / "m.csv", hidden),
        measured(tmp_path / "writes" / "m.csv", hidden, "write"),
    )


def test_files_of_one_name_are_left_out_one_by_one(
    tmp_path: Path, two_of_one_name: tuple[Path, Path]
) -> None:
    """They counted as one file, which left nothing to validate with."""
    start = disk(tmp_path, "start")
    fit = fit_drive(start, two_of_one_name, replay=ONE_ANGLE)
    assert [each.trace for each in fit.demerits] == [str(each) for each in two_of_one_name]
    assert all(each.left_out is not None for each in fit.residuals)
    assert NO_GAIN in {each.why for each in fit.parameters}
    # Writes that end in the cache tell nothing of seeks, nor reads of overheads beside them.
    assert [each.left_out for each in fit.demerits] == [
        pytest.approx(each.before, rel=0.2) for each in fit.demerits
    ]
    write_fitted(start, fit, two_of_one_name, tmp_path / "fitted.toml")
    source = entry("drives", str(tmp_path / "fitted.toml")).source["seek.average_ms"]
    assert all(str(each) in source for each in two_of_one_name)


def test_the_error_of_traces_left_out_is_their_demerit(
    tmp_path: Path, two_of_one_name: tuple[Path, Path]
) -> None:
    """It was that of some quantiles, beside a demerit of the fit."""
    fit = fit_drive(disk(tmp_path, "start"), two_of_one_name, replay=ONE_ANGLE)
    left = [each.left_out for each in fit.demerits if each.left_out is not None]
    assert len(left) == 2
    assert fit.cross_error == pytest.approx(float(np.sqrt(np.mean(np.square(left)))))


@pytest.mark.parametrize("command", ["fit", "validate"])
def test_a_file_given_twice_is_refused(tmp_path: Path, headrace: Command, command: str) -> None:
    """It counted twice, which made the standard errors too small."""
    drive = disk(tmp_path, "start")
    file = measured(tmp_path / "m.csv", drive)
    (tmp_path / "again.csv").symlink_to(file)
    code, said = headrace(command, str(drive.file), str(file), str(tmp_path / "again.csv"))
    assert code == 2
    assert "given twice" in said


def test_times_that_are_all_0_are_refused(tmp_path: Path) -> None:
    """They ended in a division by zero."""
    drive = disk(tmp_path, "start")
    file = measured(tmp_path / "m.csv", drive)
    with_times(file, [0] * 200)
    with pytest.raises(StudyError, match="every response time is 0"):
        fit_drive(drive, [file])
    with pytest.raises(StudyError, match="every response time is 0"):
        validate_drive(drive, [read_trace(file)])


def test_some_times_of_0_have_no_error_in_percent(tmp_path: Path, headrace: Command) -> None:
    """A coarse clock rounds those of a cache to 0; the table of errors divided by them."""
    drive = disk(tmp_path, "start")
    file = measured(tmp_path / "m.csv", drive)
    times = _times(read_trace(file))
    with_times(file, [0 if number % 4 == 0 else each for number, each in enumerate(times)])
    words = ("fit", str(drive.file), str(file), "--out", str(tmp_path / "f.toml"))
    code, said = headrace(*words, "--angles", "1", "--force")
    assert code == 0
    row = next(line for line in said.splitlines() if "read.p10_ns" in line)
    assert row.split()[-1] == "-"


def test_times_of_0_do_not_outweigh_the_others(tmp_path: Path) -> None:
    """The logarithm of a ratio to 0 was taken as that to a nanosecond."""
    drive = disk(tmp_path, "start")
    file = measured(tmp_path / "m.csv", drive)
    times = _times(read_trace(file))
    with_times(file, [0 if number % 10 == 0 else each for number, each in enumerate(times)])
    misfit = observe_trace(file, drive, TraceReplay(seed=3, angles=1)).misfit(drive.table)
    assert abs(misfit).max() < 1  # of the mean: the model itself served all the others


def _times(trace: Trace) -> list[int]:
    assert trace.response_ns is not None
    return [int(each) for each in trace.response_ns]


def test_it_is_said_why_a_parameter_is_not_determined(tmp_path: Path) -> None:
    """Of a result that the model misses widely it was said that it may agree without them."""
    drive = disk(tmp_path, "start")
    file = with_times(
        measured(tmp_path / "m.csv", drive), [5_000_000 + each for each in range(200)]
    )
    fit: Fit = fit_drive(drive, [file], replay=ONE_ANGLE)
    assert fit.rms_error > 0.25
    why = {each.name: each.why for each in fit.parameters}
    assert not any("agree" in each for each in why.values())
    assert set(why.values()) <= {"", UNTOUCHED, TOO_VAGUE, NO_GAIN}
    assert {UNTOUCHED, TOO_VAGUE} <= set(why.values())
    assert all(bool(why[each.name]) != each.determined for each in fit.parameters)
