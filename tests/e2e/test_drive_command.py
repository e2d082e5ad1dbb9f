"""`headrace drive`: list, show, run, replay and fit, as a user calls them."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from command_server import run_command
from headrace.catalog import entry, names


def headrace(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = run_command(words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_list_and_show_say_where_values_come_from() -> None:
    rows = json.loads(headrace("drive", "list", "--json").stdout)
    names = {row["name"] for row in rows}
    assert {"wd-wd3200bekt", "corsair-f40", "seagate-st3750640ns"} <= names
    assert all(
        row["kind"] in ("hdd", "ssd") and row["capacity_bytes"] > 0 and row["sources"]
        for row in rows
    )
    shown = json.loads(headrace("drive", "show", "wd-wd3200bekt", "--json").stdout)
    assert shown["rpm"] == 7200


def test_run_has_fios_words_and_equal_seeds_give_equal_bytes() -> None:
    words = (
        "drive",
        "run",
        "wd-wd3200bekt",
        "--rw",
        "randread",
        "--bs",
        "4k",
        "--iodepth",
        "8",
        "--runtime",
        "20",
        "--json",
    )
    first, second = headrace(*words).stdout, headrace(*words).stdout
    assert first == second
    result = json.loads(first)
    assert result["provenance"] == "simulated"
    assert 60 < result["read"]["iops"] < 200


def test_several_depths_are_runs_on_one_drive() -> None:
    """A disk whose write cache the first run has filled takes no more writes at once."""
    words = ("drive", "run", "wd-wd3200bekt", "--rw", "randwrite", "--runtime", "0.1")
    result = json.loads(headrace(*words, "--iodepth", "1,1,32", "--json").stdout)
    assert [run["iodepth"] for run in result["runs"]] == [1, 1, 32]
    alone = json.loads(headrace(*words, "--iodepth", "1", "--json").stdout)
    assert result["runs"][0] == {"iodepth": 1} | {
        key: value for key, value in alone.items() if key not in ("drive", "provenance")
    }
    assert result["runs"][1]["write"]["iops"] < 0.5 * result["runs"][0]["write"]["iops"]
    lines = headrace(*words, "--iodepth", "1,32").stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("write")] == ["1", "32"]
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        ("drive", "run", "nosuch"),
        ("drive", "run", "wd-wd3200bekt", "--bs", "4x"),
        ("drive", "run", "wd-wd3200bekt", "--iodepth", "0"),
        ("drive", "run", "wd-wd3200bekt", "--iodepth", "1,0"),
        ("drive", "run", "wd-wd3200bekt", "--iodepth", "1,"),
        ("drive", "run", "wd-wd3200bekt", "--rw", "sideways"),
        ("drive", "run", "wd-wd3200bekt", "--offset", "2t"),
        ("drive", "run", "wd-wd3200bekt", "--scheduler", "elevator"),
        ("drive", "run", "wd-wd3200bekt", "--drives", "2"),
        ("drive", "run", "wd-wd3200bekt", "--raid", "0", "--drives", "2", "--chunk", "x"),
    ],
)
def test_a_mistake_is_one_message(words: tuple[str, ...]) -> None:
    assert headrace(*words, code=2).stderr.strip()


@pytest.mark.parametrize(("level", "drives"), [("7", "2"), ("5", "2")])
def test_an_impossible_raid_is_a_mistake_of_the_options(level: str, drives: str) -> None:
    """Not of the drive's file, which is sound."""
    words = ("drive", "run", "wd-wd3200bekt", "--raid", level, "--drives", drives)
    said = headrace(*words, code=2).stderr
    assert said.startswith("command line: --") and ".toml" not in said


def test_a_raid_of_ssds_reads_what_its_drives_read_together() -> None:
    def iops(*words: str) -> float:
        drive = ("drive", "run", "samsung-870-evo-1tb", "--rw", "randread", "--runtime", "0.5")
        return json.loads(headrace(*drive, *words, "--json").stdout)["read"]["iops"]

    array = ("--raid", "0", "--drives", "3")
    assert iops("--iodepth", "96", *array) > 2.7 * iops("--iodepth", "32")
    assert iops("--iodepth", "1", *array) == pytest.approx(iops("--iodepth", "1"), rel=0.01)


def read_latency_us(drive: str, *words: str) -> float:
    said = headrace(
        "drive", "run", drive, "--rw", "randread", "--runtime", "1", "--json", *words
    ).stdout
    return json.loads(said)["read"]["latency_ns_mean"] / 1e3


def slow_flash(drive: str, times: float, tmp_path: Path) -> tuple[Path, float]:
    """Return the catalog's SSD with reads of flash that many times as slow, and a read's time."""
    text = entry("drives", drive).file.read_text()
    match = re.search(r"read_us = ([0-9.]+)", text)
    assert match is not None
    path = tmp_path / f"{drive}.toml"
    path.write_text(text.replace(match.group(), f"read_us = {float(match.group(1)) * times}"))
    return path, float(match.group(1)) * times


@pytest.mark.parametrize(
    "drive", [name for name in names("drives") if entry("drives", name).table["kind"] == "ssd"]
)
def test_what_is_read_of_an_ssd_is_read_from_its_flash(drive: str, tmp_path: Path) -> None:
    _, read_us = slow_flash(drive, 1, tmp_path)
    assert read_latency_us(drive) >= read_us
    slow, slow_us = slow_flash(drive, 100, tmp_path)
    assert read_latency_us(str(slow)) >= slow_us


def test_an_empty_ssd_answers_without_its_flash(tmp_path: Path) -> None:
    slow, slow_us = slow_flash("samsung-870-evo-1tb", 100, tmp_path)
    assert read_latency_us(str(slow), "--empty") < slow_us / 10
    # A trace that reads says that there was something.
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "time_ns,op,sector,sectors\n0,read,8000,8\n100000000,discard,0,2000000\n"
        "200000000,read,8000,8\n"
    )
    out = tmp_path / "out.csv"
    headrace("drive", "replay", str(slow), str(trace), "--out", str(out))
    first, _, third = (int(line.split(",")[4]) / 1e3 for line in out.read_text().splitlines()[1:])
    assert first >= slow_us > 10 * third


def test_replay_gives_every_request_its_time(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    lines = [
        f"{index * 20_000_000},read,{(index * 7919 * 8) % 600_000_000},8" for index in range(200)
    ]
    trace.write_text("time_ns,op,sector,sectors\n" + "\n".join(lines) + "\n")
    out = tmp_path / "out.csv"
    summary = json.loads(
        headrace("drive", "replay", "wd-wd3200bekt", str(trace), "--out", str(out), "--json").stdout
    )
    assert summary["requests"] == 200
    times = [int(line.split(",")[4]) for line in out.read_text().splitlines()[1:]]
    assert len(times) == 200
    assert 1e6 < sum(times) / 200 < 40e6
    closed = json.loads(
        headrace(
            "drive",
            "replay",
            "wd-wd3200bekt",
            str(trace),
            "--out",
            str(tmp_path / "closed.csv"),
            "--closed",
            "--json",
        ).stdout
    )
    assert closed["mode"] == "closed"


def random_trace(path: Path) -> Path:
    """Write a trace of reads and writes, some of which continue the one before, on a small part of
    a disk."""
    draw = random.Random(5)
    lines, time_ns, sector = ["time_ns,op,sector,sectors"], 0, 0
    for _ in range(1500):
        time_ns += draw.randint(20_000_000, 90_000_000)
        sector = sector + 8 if draw.random() < 0.3 else draw.randrange(0, 200_000_000, 8)
        lines.append(f"{time_ns},{draw.choice(('read', 'read', 'write'))},{sector},8")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_model_is_validated_by_the_times_of_a_drive(tmp_path: Path) -> None:
    trace, measured = random_trace(tmp_path / "asked.csv"), tmp_path / "measured by it.csv"
    headrace("drive", "replay", "sata-7200-500gb", str(trace), "--out", str(measured))

    def validated(drive: str, *more: str) -> dict[str, Any]:
        words = ("drive", "validate", drive, str(measured), *more, "--json")
        return json.loads(headrace(*words).stdout)

    plot = tmp_path / "both.svg"
    itself = validated("sata-7200-500gb", "--plot", str(plot))
    drawn = plot.read_text()
    assert drawn.startswith("<?xml") and "<dc:date>" not in drawn, "equal bytes for equal times"
    # Only the angle of the platter is unknown.
    assert itself["demerit_ns"] < 0.03 * itself["measured_mean_ns"]
    # With the angle at which it was measured, every request takes the same time.
    assert validated("sata-7200-500gb", "--angles", "1")["demerit_ns"] == 0
    slower = tmp_path / "slower.toml"
    table = dict(entry("drives", "sata-7200-500gb").table, controller_overhead_us=2100.0)
    slower.write_text(tomlkit.dumps(table))
    other = validated(str(slower))
    shift_ns = other["modelled_mean_ns"] - other["measured_mean_ns"]
    assert 1.5e6 < shift_ns < 2.5e6
    assert other["demerit_ns"] >= shift_ns
    assert other["null_demerit_ns"] > other["demerit_ns"] > itself["demerit_ns"]
    kinds = {kind["name"] for kind in other["kinds"]}
    assert {"sequential read after read", "far read after write"} <= kinds
    assert abs(sum(kind["part_of_error"] for kind in other["kinds"]) - 1) < 1e-9
    shown = headrace("drive", "validate", str(slower), str(measured)).stdout
    assert "demerit" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    array = ("--raid", "5", "--drives", "4", "--chunk", "16k")
    measured.unlink()
    headrace(*("drive", "replay", "sata-7200-500gb", str(trace), "--out", str(measured)), *array)
    assert validated("sata-7200-500gb", "--angles", "1", *array)["demerit_ns"] == 0
    assert validated("sata-7200-500gb", "--angles", "1")["demerit_ns"] > 0, "one drive is another"
    of_ssd = validated("samsung-870-evo-1tb")
    assert len(of_ssd["demerits_ns"]) == 1, "it has no platter"


def test_a_fit_that_does_not_meet_the_results_is_not_written(tmp_path: Path) -> None:
    options = {"rw": "randread", "bs": "4k", "iodepth": "1", "ioengine": "libaio", "direct": "1"}
    part = {"total_ios": 1000, "iops": 9000.0, "clat_ns": {"mean": 111_000.0}}
    nothing = {"total_ios": 0, "iops": 0.0, "clat_ns": {"mean": 0.0}}
    job = {"jobname": "ssd", "job options": options, "read": part, "write": nothing}
    results = tmp_path / "of an ssd.json"
    results.write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    fitted = tmp_path / "fitted.toml"
    words = ("drive", "fit", "sata-7200-500gb", str(results), "--runtime", "1", "--out")
    done = headrace(*words, str(fitted), code=5)
    assert "not written: the error of" in done.stderr
    assert "--error-limit" in done.stderr
    assert not fitted.exists()
    refused = json.loads(headrace(*words, str(fitted), "--json", code=5).stdout)
    assert refused["file"] is None
    assert refused["rms_error"] > 0.25
    headrace(*words, str(fitted), "--force")
    assert entry("drives", str(fitted)).name == "fitted"
    edited = fitted.read_text() + "# my own words\n"
    fitted.write_text(edited)
    again = headrace(*words, str(fitted), "--force", code=4)
    assert "already exists" in again.stderr
    assert fitted.read_text() == edited


def test_a_trace_without_response_times_validates_nothing(tmp_path: Path) -> None:
    trace = random_trace(tmp_path / "asked.csv")
    done = headrace("drive", "validate", "sata-7200-500gb", str(trace), code=2)
    assert (
        "asked.csv: response_ns: the trace does not have the completion of every request"
        in done.stderr
    )
    done = headrace("drive", "validate", "sata-7200-500gb", str(trace), "--plot", "x.gif", code=2)
    assert "--plot: no such format" in done.stderr


def test_a_request_past_the_end_is_told_by_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_ns,op,sector,sectors\n0,read,8,8\n10,read,900000000000,8\n")
    done = headrace(
        "drive", "replay", "wd-wd3200bekt", str(trace), "--out", str(tmp_path / "o.csv"), code=2
    )
    assert "trace.csv:3" in done.stderr.replace("\n", "")
