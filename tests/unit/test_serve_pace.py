"""How fast a run gets on: by the times of its records, not by those of their files."""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path

from headrace.serving.folders import ResultsFolder
from headrace.serving.pace import pace_of

SKEW_S = 3600.0


def running(folder: Path, planned: int) -> ResultsFolder:
    counts = {"valid": len(list((folder / "trials").iterdir()))}
    return ResultsFolder("r", folder, "r", "measure", "", planned, counts, True, False)


def trial(folder: Path, name: str, started_s: float | None, written_s: float) -> None:
    file = folder / "trials" / name / "trial.json"
    file.parent.mkdir(parents=True)
    started = (
        None
        if started_s is None
        else datetime.datetime.fromtimestamp(started_s, datetime.UTC).isoformat()
    )
    file.write_text(json.dumps({"started_utc": started, "duration_s": 8.0}))
    os.utime(file, (written_s, written_s))


def test_the_clock_of_a_file_server_changes_no_pace(tmp_path: Path) -> None:
    """A server whose clock is an hour ahead made of a run that stands still one that goes on."""
    now_s = time.time()
    (tmp_path / ".lock").write_text("1")
    os.utime(tmp_path / ".lock", (now_s, now_s - 50 + SKEW_S))
    for number in range(4):  # each takes 10 s with its set-up
        started_s = now_s - 48 + 10 * number
        trial(tmp_path, f"{number}", started_s, started_s + 9 + SKEW_S)
    pace = pace_of(running(tmp_path, 10))
    assert pace is not None and (pace.trials, pace.left) == (4, 6)
    assert abs(pace.mean_s - 38 / 4) < 0.1, "from the begin of the first to the end of the last"
    assert 9 < pace.since_last_s < 13


def test_records_of_an_earlier_run_do_not_count_and_simulated_ones_have_no_date(
    tmp_path: Path,
) -> None:
    now_s = time.time()
    (tmp_path / ".lock").write_text("1")
    os.utime(tmp_path / ".lock", (now_s, now_s - 20))
    trial(tmp_path, "old", now_s - 500, now_s - 490)
    assert pace_of(running(tmp_path, 3)) is None
    for number in (1, 2):
        trial(tmp_path, f"{number}", None, now_s - 20 + 10 * number)
    pace = pace_of(running(tmp_path, 3))
    assert pace is not None and (pace.trials, pace.left) == (2, 0)
    assert abs(pace.mean_s - 10) < 0.1
