"""Meter `csv`: logs of other clocks, aligned with a known CPU load; formats, units, local times."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headrace.engine.measure.cpu_load import CpuLoad
from headrace.meters import MeterWindow
from headrace.meters.alignment import align
from headrace.meters.csv_log import CsvLog, CsvOptions
from headrace.meters.power_log import LogFormat, read_log
from headrace.meters.sampling import ChannelResult, MeterSampler
from power_simulators import KnownLoad, PowerLogger

IDLE_W, BUSY_W = 60.0, 40.0


@dataclass(frozen=True)
class Trial:
    """A trial that ended some time ago, with the CPU load that everybody knows."""

    begin_s: float
    end_s: float
    share: Callable[[float], float]
    """Seconds since the release of the jobs -> share of the CPUs."""
    idle_s: float = 5.0

    def window(self) -> MeterWindow:
        count = round((self.end_s - self.begin_s + self.idle_s) * 4)
        first_s = self.begin_s - self.idle_s
        load = [
            (first_s + n / 4, self.share(first_s + (n - 0.5) / 4 - self.begin_s))
            for n in range(count + 1)
        ]
        return MeterWindow(self.begin_s, self.end_s, load)

    def power_w(self, time_s: float) -> float:
        return IDLE_W + BUSY_W * self.share(time_s - self.begin_s)

    def energy_j(self) -> float:
        steps = 10_000
        width = (self.end_s - self.begin_s) / steps
        return width * sum(self.power_w(self.begin_s + (n + 0.5) * width) for n in range(steps))


def bursts(time_s: float) -> float:
    """Jobs of 40 s that compute, wait and compute again."""
    if not 0 <= time_s < 40:
        return 0.02
    return 0.95 if time_s < 12 or 20 <= time_s < 33 else 0.15


def trial(share: Callable[[float], float] = bursts, seconds: float = 40.0) -> Trial:
    """It ended 50 s ago: time that a log may be late."""
    end_s = time.monotonic() - 50
    return Trial(end_s - seconds, end_s, share)


def write_log(
    file: Path,
    of: Trial,
    *,
    ahead_s: float = 0.0,
    before_s: float = 60.0,
    after_s: float = 45.0,
    form: Callable[[float], str] = repr,
    value: Callable[[float, float], str] = lambda _, watts: f"{watts:.2f}",
    header: str = "time,Power (W)",
    interval_s: float = 1.0,
) -> Path:
    """Write what a meter with a clock that is `ahead_s` ahead logs; noise of 1 %."""
    dice, wall_s = random.Random(7), time.time() - time.monotonic()
    lines = [header]
    separator = ";" if ";" in header else ","
    for n in range(math.ceil((of.end_s - of.begin_s + before_s + after_s) / interval_s)):
        time_s = of.begin_s - before_s + n * interval_s
        watts = of.power_w(time_s) * (1 + dice.uniform(-0.01, 0.01))
        lines.append(f"{form(time_s + wall_s + ahead_s)}{separator}{value(time_s, watts)}")
    file.write_text("\n".join(lines) + "\n")
    return file


def result(file: Path, window: MeterWindow, **options: Any) -> ChannelResult:
    columns = options.pop("columns", {"Power (W)": "W"})
    given = {"file": str(file), "columns": columns, "wait": 0, **options}
    meter = CsvLog("log", CsvOptions.model_validate(given))
    sampler = MeterSampler({"log": meter})
    sampler.start()
    sampler.stop()
    results, rows = sampler.results(window)
    assert not sampler.failed, sampler.failed
    assert bool(rows) == bool(results[0].integral.energy_j)
    return results[0]


@pytest.mark.slow
def test_a_log_is_aligned_with_the_load_that_the_engine_saw(tmp_path: Path) -> None:
    """In real time: a machine with a known load, and a logger whose clock is 6.3 s behind."""
    begin_s = time.monotonic() + 1.5

    def share(time_s: float) -> float:
        return 0.9 if 0 <= time_s - begin_s < 1.2 or 2.0 <= time_s - begin_s < 4 else 0.05

    def power_w(time_s: float) -> float:
        return IDLE_W + BUSY_W * share(time_s)

    log = tmp_path / "watts.csv"
    with (
        KnownLoad(tmp_path / "stat", share) as machine,
        PowerLogger(log, power_w, ahead_s=-6.3, interval_s=0.1),
    ):
        load = CpuLoad(str(machine.file))
        load.start()
        time.sleep(begin_s + 4 - time.monotonic())
        load.stop()
        window = MeterWindow(begin_s, begin_s + 4, load.periods)
        form = {"time": ("Date", "Time"), "time_format": "%d.%m.%Y %H:%M:%S.%f", "zone": "UTC"}
        found = result(log, window, **form, search=10, idle=1.5, wait=8)
    made = found.integral
    assert made.usable, made.reasons
    assert made.energy_j == pytest.approx(
        4 * (IDLE_W + BUSY_W * (3.2 * 0.9 + 0.8 * 0.05) / 4), 0.03
    )
    offset_s = float(found.notes[0].partition(" is ")[2].partition(" s ")[0])
    assert "behind" in found.notes[0] and offset_s == pytest.approx(6.3, abs=0.25), found.notes


@pytest.mark.parametrize("ahead_s", [-21.7, 0.0, 12.4])
def test_the_offset_of_the_clock_is_found(tmp_path: Path, ahead_s: float) -> None:
    known = trial()
    found = result(write_log(tmp_path / "log.csv", known, ahead_s=ahead_s), known.window())
    made = found.integral
    assert made.usable, made.reasons
    assert made.energy_j == pytest.approx(known.energy_j(), rel=0.01)
    assert made.uncertainty_j is not None and 0.01 < made.uncertainty_j / made.energy_j < 0.05
    (note,) = found.notes
    assert "correlation of its power with the CPU load, 0.9" in note, note
    if ahead_s:
        word = "ahead of" if ahead_s > 0 else "behind"
        offset_s = float(note.split(" s ")[0].rpartition(" ")[2])
        assert word in note and offset_s == pytest.approx(abs(ahead_s), abs=0.6), note


def test_one_step_of_the_load_is_enough_with_idle_time_before(tmp_path: Path) -> None:
    steady = trial(lambda time_s: 0.9 if 0 <= time_s < 30 else 0.02, seconds=30)
    file = write_log(tmp_path / "log.csv", steady, ahead_s=3.0)
    made = result(file, steady.window()).integral
    assert made.usable and made.energy_j == pytest.approx(steady.energy_j(), rel=0.015)
    # Without it, nothing changes.
    window = MeterWindow(steady.begin_s, steady.end_s, steady.window().load[21:])
    (reason,) = result(file, window).integral.reasons
    assert "the CPU load hardly changed" in reason and "state `idle`" in reason


def test_a_load_that_repeats_has_no_clear_peak(tmp_path: Path) -> None:
    waves = trial(lambda time_s: 0.9 if time_s % 10 < 5 else 0.1)
    found = result(write_log(tmp_path / "log.csv", waves), waves.window())
    (reason,) = found.integral.reasons
    assert "there is no clear peak" in reason and not found.integral.usable, reason
    assert found.integral.energy_j is None and not found.notes
    # Who knows the offset needs no peak.
    made = result(tmp_path / "log.csv", waves.window(), offset=0.0)
    assert made.integral.usable and "as stated" in made.notes[0]


def test_a_log_of_another_machine_does_not_follow_the_load(tmp_path: Path) -> None:
    known, dice = trial(), random.Random(3)
    file = write_log(tmp_path / "log.csv", known, value=lambda *_: f"{dice.uniform(60, 100):.1f}")
    made = result(file, known.window()).integral
    (reason,) = made.reasons
    assert not made.usable and made.energy_j is None
    assert "does not follow the CPU load" in reason or "no clear peak" in reason


def test_an_offset_larger_than_was_searched_is_not_believed(tmp_path: Path) -> None:
    known = trial()
    file = write_log(tmp_path / "log.csv", known, ahead_s=26.0, after_s=80)
    assert result(file, known.window()).integral.usable
    made = result(file, known.window(), search=20).integral
    assert not made.usable and made.energy_j is None


@pytest.mark.parametrize(("after_s", "usable"), [(0.5, True), (-6.0, False), (-120.0, False)])
def test_a_log_that_ends_too_early(tmp_path: Path, after_s: float, usable: bool) -> None:
    known = trial()
    file = write_log(tmp_path / "log.csv", known, before_s=100, after_s=after_s)
    found = result(file, known.window(), offset=0.0)
    assert found.integral.usable == usable, found.integral.reasons
    said = " ".join((*found.integral.reasons, *found.notes))
    if after_s == -6:
        assert "the log ends 7.0 s before the last job" in said
        assert "nothing is known for" in said
    if after_s == -120:
        assert "the log ended 81 s before the jobs began" in said, said


def test_the_end_of_a_trial_is_waited_for(tmp_path: Path) -> None:
    """A logger that writes a row late, and is in the middle of the next one."""
    end_s = time.monotonic()
    known = Trial(end_s - 40, end_s, bursts)
    file = write_log(tmp_path / "log.csv", known, after_s=0)
    whole = write_log(tmp_path / "whole.csv", known, after_s=5).read_text()
    meter = CsvLog(
        "log",
        CsvOptions.model_validate(
            {"file": str(file), "columns": {"Power (W)": "W"}, "offset": 0, "wait": 0.6}
        ),
    )
    sampler = MeterSampler({"log": meter})
    late = threading.Timer(0.2, lambda: file.write_text(whole + "17999999"))
    late.start()
    (found,), _ = sampler.results(known.window())
    late.join()
    assert found.integral.usable and len(found.notes) == 1, found.notes


def test_gaps_and_cells_without_a_value(tmp_path: Path) -> None:
    known = trial()

    def value(time_s: float, watts: float) -> str:
        return "---" if 20 < time_s - known.begin_s < 28 else f"{watts:.1f}"

    file = write_log(tmp_path / "log.csv", known, value=value)
    made = result(file, known.window(), offset=0.0).integral
    assert made.lost in (7, 8) and made.gaps == 1 and not made.usable
    assert "nothing is known for" in made.reasons[0]


@pytest.mark.parametrize("apart_s", [0.0, 7e-6])
def test_rows_of_several_packages_at_one_time_are_refused_by_name(
    tmp_path: Path, apart_s: float
) -> None:
    """They were "readings at a time that went back", or nothing was known of the trial."""
    known = trial()
    file = write_log(
        tmp_path / "turbostat.csv",
        known,
        header="Time,Package,PkgWatt",
        form=lambda at: repr(at),
        value=lambda _, watts: f"-,{watts:.2f}",
    )
    lines = file.read_text().splitlines()
    rows = [lines[0]]
    for line in lines[1:]:
        at, _, watts = line.split(",")
        rows.append(line)
        for package in (0, 1):
            rows.append(f"{float(at) + (package + 1) * apart_s:.7f},{package},{float(watts) / 2}")
    file.write_text("\n".join(rows) + "\n")
    found = result(file, known.window(), offset=0.0, columns={"PkgWatt": "W"})
    assert not found.integral.usable
    said = " ".join(found.integral.reasons)
    assert "have the time of the row before" in said and "turbostat: --Summary" in said


@pytest.mark.parametrize("stepped_s", [0.0, 1.5])
def test_a_clock_of_a_log_that_was_set_back_is_told(tmp_path: Path, stepped_s: float) -> None:
    known = trial()
    wall_s = time.time() - time.monotonic()
    file = write_log(
        tmp_path / "log.csv",
        known,
        form=lambda at: repr(at - stepped_s if at - wall_s > known.begin_s + 17 else at),
    )
    found = result(file, known.window(), offset=0.0)
    assert found.integral.energy_j == pytest.approx(known.energy_j(), rel=0.05)
    told = "the clock of the log went back once, by up to 0.5 s" in " ".join(found.notes)
    assert told == (stepped_s > 0)


# -- formats --


def rows(file: Path, text: str, **form: Any) -> tuple[list[float], list[float | None]]:
    file.write_text(text)
    given: dict[str, Any] = {
        "columns": {"P": "W"},
        "time": (),
        "time_format": None,
        "zone": None,
        **form,
    }
    log = read_log(LogFormat(str(file), **given))
    return log.times_s, next(iter(log.values.values()))


def at(*when: int, zone: str = "UTC", fold: int = 0) -> float:
    return datetime(*when, tzinfo=ZoneInfo(zone), fold=fold).timestamp()  # type: ignore[misc]


def test_times_and_numbers_as_loggers_write_them(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    noon = at(2026, 11, 23, 12)
    assert rows(file, "t,P\n2026-11-23T12:00:00Z,5\n2026-11-23 13:00:01+01:00,6.5 W\n") == (
        [noon, noon + 1],
        [5.0, 6.5],
    )
    assert rows(file, f"t,P\n{noon},5\n{noon + 1},\n")[1] == [5.0, None]
    assert rows(file, f"t;P\n{int(noon * 1000)};5\n")[0] == [noon]
    assert rows(file, "t\tP\n0.5\t5\n1.5\t6\n")[0] == [0.5, 1.5]
    german = "Logger 3000\n\nDatum;Uhrzeit;P\n23.11.2026;13:00:00;1.234,5\n"
    found = rows(
        file,
        german,
        time=("Datum", "Uhrzeit"),
        time_format="%d.%m.%Y %H:%M:%S",
        zone="Europe/Berlin",
        decimal=",",
    )
    assert found == ([noon], [1234.5])
    # The last line is still being written.
    assert rows(file, "t,P\n1,5\n2,60")[1] == [5.0]


def test_cells_between_quotes_can_hold_the_separator(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    quoted = '"t","Outlet 3, rack 1","P"\n"1","node, spare","5,25"\n'
    assert rows(file, quoted, decimal=",") == ([1.0], [5.25])
    assert rows(file, 't, "P"\n1, "6"\n') == ([1.0], [6.0])
    assert rows(file, 't,P,remark\n1,5,19" rack\n2,6,""\n') == ([1.0, 2.0], [5.0, 6.0])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_log_in_utf_16_is_read(tmp_path: Path, encoding: str) -> None:
    """Windows PowerShell writes it so. The last line is still being written."""
    file = tmp_path / "log.csv"
    file.write_bytes("t,P\r\n1,5\r\n2,6\r\n3,70".encode(encoding)[:-2])
    form = LogFormat(str(file), {"P": "W"}, (), None, None)
    assert read_log(form).values == {"P": [5.0, 6.0]}


def test_a_logger_that_was_restarted_writes_its_header_again(tmp_path: Path) -> None:
    assert rows(tmp_path / "log.csv", "t,P\n1,5\nt,P\n2,6\n") == ([1.0, 2.0], [5.0, 6.0])


def test_the_hour_that_comes_twice_in_autumn(tmp_path: Path) -> None:
    text = "t,P\n2026-10-25 02:59:58,5\n2026-10-25 02:59:59,5\n2026-10-25 02:00:00,5\n"
    times, _ = rows(tmp_path / "log.csv", text, zone="Europe/Berlin")
    assert times == [at(2026, 10, 25, 0, 59, 58), at(2026, 10, 25, 0, 59, 59), at(2026, 10, 25, 1)]


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such column": ("t,Q\n1,5\n", {}, "has no column P"),
    "no header": ("1\n", {}, "has no header with P"),
    "no rows": ("t,P\n", {}, "has no rows yet"),
    "the heading's unit": ("t,P (kW)\n1,5\n", {"columns": {"P (kW)": "W"}}, "says kW"),
    "a row's unit": ("t,P\n1,5 W\n2,0.5 kW\n", {}, "the value '0.5 kW' says kW"),
    "VA for W": ("t,P\n1,5 VA\n", {}, "says VA, `columns` says W"),
    "a comma": ("t;P\n1;5,5\n", {}, "line 2: '5,5' is not a number"),
    "a dot": ("t;P\n1;12.5\n", {"decimal": ","}, "'12.5' is not a number with decimal"),
    "words": ("t,P\n1,high\n", {}, "'high' is not a number"),
    "a time alone": ("t,P\n12:00:00,5\n", {}, "is not a time"),
    "a time without date": ("t,P\n12:00:00,5\n", {"time_format": "%H:%M:%S"}, "has no date"),
    "two kinds of time": ("t,P\n1,5\n1795435200,5\n", {}, "is not of the kind"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_log_is_one_message(tmp_path: Path, wrong: str) -> None:
    text, form, said = WRONG[wrong]
    file = tmp_path / "log.csv"
    file.write_text(text)
    columns = form.pop("columns", {"P": "W"})
    options = CsvOptions.model_validate({"file": str(file), "columns": columns, **form})
    (problem,) = CsvLog("log", options).check()
    assert said in problem.what and problem.fatal, problem
    assert problem.needed_by == "meter log" and problem.remedy


def test_options_that_cannot_be(tmp_path: Path) -> None:
    known = {"file": str(tmp_path / "log.csv")}
    for wrong, said in {
        "VA": "apparent power",
        "BTU": "unknown unit BTU",
    }.items():
        with pytest.raises(ValueError, match=said):
            CsvOptions.model_validate({**known, "columns": {"P": wrong}})
    with pytest.raises(ValueError, match="unknown time zone"):
        CsvOptions.model_validate({**known, "columns": {"P": "W"}, "zone": "Mars/Phobos"})
    (problem,) = CsvLog("log", CsvOptions.model_validate({**known, "columns": {"P": "W"}})).check()
    assert "cannot be read: No such file" in problem.what


def test_a_log_that_nobody_writes_is_told_before_the_run(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("t,P\n1,5\n2,6\n")
    options = CsvOptions.model_validate({"file": str(file), "columns": {"P": "W"}})
    assert not CsvLog("log", options).check()
    os.utime(file, (time.time() - 7200, time.time() - 7200))
    (problem,) = CsvLog("log", options).check()
    assert "nothing was written" in problem.what and not problem.fatal


def test_counters_in_kwh_and_apparent_power(tmp_path: Path) -> None:
    known = trial()
    total = {"kwh": 812.0}

    def counted(_: float, watts: float) -> str:
        total["kwh"] += watts / 3.6e6
        return f"{total['kwh']:.9f}"

    file = write_log(tmp_path / "log.csv", known, value=counted, header="time,E")
    made = result(file, known.window(), columns={"E": "kWh"}).integral
    assert made.usable and made.energy_j == pytest.approx(known.energy_j(), rel=0.02)
    file = write_log(tmp_path / "log.csv", known, header="time,S [VA]")
    columns = {"S [VA]": "VA"}
    made = result(file, known.window(), columns=columns, power_factor=0.9).integral
    assert made.usable and made.energy_j == pytest.approx(0.9 * known.energy_j(), rel=0.01)


def test_the_error_of_an_offset_covers_the_truth() -> None:
    """Of logs with noise and a slow mean, as plugs have them."""
    dice, errors, inside = random.Random(11), list[float](), 0
    for number in range(20):
        known = Trial(1000.0, 1040.0, bursts)
        ahead_s = dice.uniform(-20, 20)
        series: Sequence[tuple[float, float]] = [
            (n + ahead_s, known.power_w(n) + dice.gauss(0, 4)) for n in range(930, 1110)
        ]
        found = align(known.window().load, [series], 30.0)
        assert not found.doubt, (number, found)
        errors.append(abs(found.offset_s - ahead_s))
        inside += errors[-1] <= 3 * found.error_s
    assert inside >= 18 and max(errors) < 1.0, (inside, errors)
