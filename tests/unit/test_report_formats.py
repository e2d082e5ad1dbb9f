"""Report files: what is in the findings is in each of them, and nothing else."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from headrace.analysis.findings import Findings
from headrace.errors import HeadraceError
from headrace.report import write_report
from headrace.report.latex import escape, latex_text
from headrace.report.series import SAMPLES_AT_MOST, thin, trial_series
from headrace.report.terminal import ledger_bar, print_report
from headrace.report.tidy import tidy_table
from headrace.report.write import UnknownFormatError
from sample_findings import sample_findings, write_series

HOSTILE = 'a_b & 100 % "quoted" <script>alert(1)</script> [red]x[/red] \\ {~^#$}'


def printed(findings: Findings, width: int = 80, *, colour: bool = False) -> str:
    out = io.StringIO()
    print_report(
        findings,
        Console(
            file=out,
            width=width,
            force_terminal=colour,
            color_system="standard" if colour else None,
        ),
    )
    return out.getvalue()


def test_every_estimate_is_in_the_long_table() -> None:
    findings = sample_findings(energy=True, left_out=3)
    rows = tidy_table(findings).to_pylist()
    expected = {
        (curve.levels["filesystem"], curve.levels["scheduler"], point.slots, name): estimate
        for curve in findings.curves
        for point in curve.points
        for name, estimate in point.metrics.items()
    }
    found = {
        (row["level_filesystem"], row["level_scheduler"], row["slots"], row["metric"]): row
        for row in rows
        if row["about"] == "point"
    }
    assert found.keys() == expected.keys()
    for key, estimate in expected.items():
        row = found[key]
        assert (row["value"], row["low"], row["high"], row["n"]) == (
            estimate.value,
            estimate.low,
            estimate.high,
            estimate.n,
        )
        assert tuple(row["trials"].split()) == estimate.trials
        assert row["provenance"] == ("modelled" if key[-1] == "energy_j_per_job" else "measured")
    assert sum(row["about"] == "left out" for row in rows) == 3
    ledger = [row["value"] for row in rows if row["about"] == "ledger" and row["slots"] == 8][:5]
    assert sum(ledger) == pytest.approx(1)


def test_csv_and_parquet_are_the_same_table(tmp_path: Path) -> None:
    csv_file, parquet_file = write_report(tmp_path, sample_findings(), ["csv", "parquet"])
    with csv_file.open(newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    query = f"SELECT about, metric, value, slots FROM '{parquet_file}'"
    stored = duckdb.sql(query).fetchall()
    assert len(rows) == len(stored)
    for row, (about, name, value, slots) in zip(rows, stored, strict=True):
        assert (row["about"], row["metric"] or None) == (about, name)
        assert (float(row["value"]) if row["value"] else None) == value
        assert (int(row["slots"]) if row["slots"] else None) == slots


def test_energy_has_a_column_only_when_there_is_energy() -> None:
    assert "energy_j_per_job" not in tidy_table(sample_findings())["metric"].to_pylist()
    assert "energy_j_per_job" in tidy_table(sample_findings(energy=True))["metric"].to_pylist()


def test_latex_is_well_formed_whatever_the_names() -> None:
    text = latex_text(
        sample_findings(title=HOSTILE, targets=(HOSTILE,), left_out=1), {"rate-0": HOSTILE}
    )
    assert (
        re.findall(r"\\begin\{(\w+)\}", text).count("tabular") == text.count(r"\end{tabular}") >= 3
    )
    unescaped = re.sub(r"\\[\\{}%&_#$,]", "", text)
    assert unescaped.count("{") == unescaped.count("}")
    found = re.findall(
        r"\\begin\{tabular\}\{((?:[lrc]|p\{[^}]*\})+)\}(.*?)\\end\{tabular\}", text, flags=re.DOTALL
    )
    assert len(found) == text.count(r"\end{tabular}")
    for specification, body in found:
        columns = len(re.sub(r"\{.*?\}", "", specification))
        for line in body.splitlines():
            if line.endswith(r"\\"):
                assert len(re.findall(r"(?<!\\)&", line)) == columns - 1, line


def test_latex_escapes_every_special_character() -> None:
    assert escape("50 % of a_b & c") == r"50 \% of a\_b \& c"
    assert escape("\\") == r"\textbackslash{}"
    assert escape("1\u202f234 ≥ −2") == r"1\,234 $\geq$ $-$2"


@pytest.mark.slow
def test_latex_figures_are_drawn_and_equal_for_equal_findings(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        files = write_report(folder, sample_findings(), ["latex"])
        assert {file.name for file in files} >= {
            "report.tex",
            "rate-0.pdf",
            "efficiency-0.svg",
            "ledger-0.png",
        }
    for name in ("rate-0.svg", "efficiency-0.pdf", "ledger-0.svg"):
        assert (first / "report-figures" / name).read_bytes() == (
            second / "report-figures" / name
        ).read_bytes()
    drawn = (first / "report-figures" / "rate-0.svg").read_text()
    assert "Event rate (events/s)" in drawn
    assert "Job slots in use" in drawn


def test_the_terminal_fits_80_columns_and_is_plain_when_piped() -> None:
    text = printed(
        sample_findings(targets=("scratch", "a-storage-with-a-long-name"), energy=True, left_out=40)
    )
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert "scratch feeds 4 slots of higgs" in text.replace("\n", " ").replace("  ", " ")
    assert "and 32 more in report.html" in text


def test_the_terminal_prints_names_as_they_are() -> None:
    text = printed(
        sample_findings(title="[red]x[/red]", targets=("[bold]disk[/bold]",), left_out=0), width=200
    )
    assert "[red]x[/red]" in text
    assert "[bold]disk[/bold] feeds" in text


def test_the_terminal_marks_what_is_not_measured() -> None:
    text = printed(sample_findings(provenance="simulated"), width=120)
    assert "(simulated)" in text
    assert "marks: s simulated" in text
    assert "marks:" not in printed(sample_findings(), width=120)


def test_findings_of_no_valid_trial_say_so() -> None:
    nothing = replace(
        sample_findings(left_out=3), curves=(), effects=(), combined=(), trials_done=0
    )
    assert "No trial can be trusted" in printed(nothing)
    assert "invalid" in printed(nothing)


@pytest.mark.parametrize(
    "shares",
    [
        {"on_cpu": 1.0},
        {"on_cpu": 0.333, "wait_block": 0.333, "other": 0.334},
        {"wait_cpu": 0.026, "other": 0.974},
    ],
)
def test_a_ledger_bar_is_always_whole(shares: dict[str, float]) -> None:
    assert len(ledger_bar(shares)) == 20


def test_series_are_summed_over_devices_and_thinned(tmp_path: Path) -> None:
    write_series(tmp_path, "0001-x-r0", seconds=2000)
    series = trial_series(tmp_path, "0001-x-r0")
    assert len(series["block"]["time_s"]) == SAMPLES_AT_MOST
    rates = [rate for rate in series["block"]["read_bytes_per_s"] if rate is not None]
    assert sum(rates) / len(rates) == pytest.approx(1.6e8, rel=0.02), "two devices of 80 MB/s"
    latencies = [value for value in series["block"]["read_latency_ms"] if value is not None]
    assert sum(latencies) / len(latencies) == pytest.approx(9, rel=0.02), (
        "latency is a mean over requests, not a sum"
    )
    assert series["block"]["write_latency_ms"][0] is None
    assert max(value or 0 for value in series["block"]["busy"]) <= 1
    assert trial_series(tmp_path, "no-such-trial") == {}


def test_thinning_keeps_what_was_moved() -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {"time_s": [float(i) for i in range(1000)], "rate": [float(i % 7) for i in range(1000)]}
    )
    assert thin(frame, 100)["rate"].mean() == pytest.approx(frame["rate"].mean())


def test_bad_requests_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="no report format 'pdf'") as raised:
        write_report(tmp_path, sample_findings(), ["html", "pdf"])
    assert "html, csv, latex, parquet" in (raised.value.hint or "")
    with pytest.raises(UnknownFormatError, match="has no trial 'nine'"):
        write_report(tmp_path, sample_findings(), ["html"], ["nine"])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "trials").mkdir()
    for folder in (".", "", ".."):
        with pytest.raises(UnknownFormatError, match="has no trial"):
            write_report(tmp_path, sample_findings(), ["html"], [folder])


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (report,) = write_report(tmp_path, sample_findings(), ["csv"])
    before = report.read_bytes()
    (tmp_path / ".report.csv.part").mkdir()
    with pytest.raises(HeadraceError, match="cannot be written"):
        write_report(tmp_path, sample_findings(repeats=4), ["csv"])
    assert report.read_bytes() == before
