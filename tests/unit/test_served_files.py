"""The files that `headrace serve` finds below its folder: while a run writes, and when many."""

from __future__ import annotations

import io
import os
import re
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from headrace.serving import folders, history_pages
from headrace.serving.captured_pages import found_traces
from headrace.serving.curves import WhatIfCurve
from headrace.serving.files import listed
from headrace.serving.folders import folders_and_left_out, named_folder, results_folders
from headrace.serving.pace import pace_of
from headrace.serving.runs import is_study, study_files
from headrace.serving.what_if_pages import LastPoints, measured_points, offered
from headrace.serving.what_if_site import offered_sites
from headrace.serving.what_if_study import recorded_profiles
from headrace.system.waiting import wait_until
from synthetic_records import Truth, plan_of, write_results

CELLS = [{"target": "d", "workload": "scan", "slots": 1}]
TRACE = '{"devices": ["sda"]}'


@contextmanager
def records_being_made(results: Path) -> Generator[None]:
    """Make records as a run does: in a hidden folder, which is then renamed and here removed."""
    ended = threading.Event()

    def make() -> None:
        for number in range(1_000_000):
            if ended.is_set():
                return
            making, made = results / f".making-{number}", results / "trials" / f"{number}"
            (making / "series").mkdir(parents=True)
            making.rename(made)
            shutil.rmtree(made)

    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_files_are_found_while_a_run_writes(tmp_path: Path) -> None:
    """The pages said "The folder changed while it was read", every time that they were loaded."""
    results = write_results(tmp_path / "r", plan_of(CELLS, 1), Truth(), series=False)
    for number in range(30):
        (tmp_path / f"folder{number}").mkdir()
    (tmp_path / "s.toml").write_text("headrace = 1\n[outline]\n[site]\nnode = 1\n")
    with records_being_made(results):
        for _ in range(100):
            assert [*study_files(tmp_path)] == ["s.toml"]
            assert recorded_profiles(tmp_path) == ["s.toml"]
            assert [*found_traces(tmp_path)] == []
            assert offered_sites(tmp_path)[2][1] == [("file/s.toml", "s.toml")]


def test_trials_are_searched_for_traces_alone(tmp_path: Path) -> None:
    """A look at each of 20 000 trials took seconds, several times for one page."""
    results = write_results(tmp_path / "r", plan_of(CELLS, 1), Truth(), series=False)
    (trial,) = (results / "trials").iterdir()
    for place in (trial, results / ".making-1", tmp_path / "trials"):
        (place / "trace").mkdir(parents=True)
        (place / "trace" / "trace.json").write_text(TRACE)
        (place / "trace" / "study.toml").write_text("headrace = 1\n")
    assert [*study_files(tmp_path)] == ["trials/trace/study.toml"]
    names = [each.name for each in found_traces(tmp_path)]
    assert names == [f"r/trials/{trial.name}/trace", "trials/trace"]


def test_a_pipe_is_no_study(tmp_path: Path) -> None:
    """To open it waits for a writer: the page, or the whole server, waited for ever."""
    os.mkfifo(tmp_path / "pipe.toml")
    assert not is_study(tmp_path / "pipe.toml")
    assert [*study_files(tmp_path)] == recorded_profiles(tmp_path) == []


def looked_at(root: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]) -> list[str]:
    """Files of trials whose state is asked for, or that are opened, by a look."""
    found: list[str] = []
    trials = str(root / "trials")

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(path: Any, *given: Any, **named: Any) -> Any:
            if not isinstance(path, int) and os.fsdecode(path).startswith(f"{trials}/"):
                found.append(os.fsdecode(path))
            return call(path, *given, **named)

        return noting

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", noted(os.stat))
        patched.setattr(io, "open", noted(io.open))
        look()
    return found


def test_pages_that_follow_a_run_look_at_new_records_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look, every second, asked for the state of each record: a load on the storage that is
    measured."""
    results = write_results(tmp_path / "r", plan_of(CELLS, 40), Truth(), series=False)
    away = tmp_path / "away"
    first, *_ = sorted((results / "trials").iterdir())
    first.rename(away)
    folders_and_left_out(tmp_path)

    def look() -> None:
        counts.append(sum(folders_and_left_out(tmp_path, anew=False)[0][0].counts.values()))
        folder = named_folder(tmp_path, "r", anew=False)
        pace_of(replace(folder, running=True))

    counts: list[int] = []
    (results / ".lock").write_text("1")
    look()
    assert looked_at(results, monkeypatch, look) == []
    away.rename(results / "trials" / first.name)
    new = looked_at(results, monkeypatch, look)
    assert set(new) == {str(results / "trials" / first.name / "trial.json")}
    assert looked_at(results, monkeypatch, look) == []
    assert counts == [39, 39, 40, 40]
    shutil.rmtree(results / "trials" / first.name)
    look()
    assert counts[-1] == 39


def test_a_record_that_takes_the_place_of_another_is_looked_at(tmp_path: Path) -> None:
    """As after `resume --retry-invalid`, within one look."""
    results = write_results(tmp_path / "r", plan_of(CELLS, 3), Truth(), series=False)
    assert named_folder(tmp_path, "r").counts == {"valid": 3}
    first, *_ = sorted((results / "trials").iterdir())
    making = results / ".making-1"
    shutil.copytree(first, making)
    (making / "trial.json").write_text("{}")
    first.rename(tmp_path / "aside")
    making.rename(first)
    assert named_folder(tmp_path, "r", anew=False).counts == {"valid": 2, "failed": 1}


def test_an_edited_record_is_seen_in_its_turn(tmp_path: Path) -> None:
    results = write_results(tmp_path / "r", plan_of(CELLS, 30), Truth(), series=False)
    assert named_folder(tmp_path, "r").counts == {"valid": 30}
    *_, last = sorted((results / "trials").iterdir())
    (last / "trial.json").write_text("{}")
    changed = {"valid": 29, "failed": 1}
    assert wait_until(lambda: named_folder(tmp_path, "r", anew=False).counts == changed, 30, 0.2)


def test_a_page_that_is_loaded_shows_a_record_that_was_edited(tmp_path: Path) -> None:
    results = write_results(tmp_path / "r", plan_of(CELLS, 3), Truth(), series=False)
    assert named_folder(tmp_path, "r").counts == {"valid": 3}
    first, *_ = sorted((results / "trials").iterdir())
    (first / "trial.json").write_text("{}")
    assert named_folder(tmp_path, "r").counts == {"valid": 2, "failed": 1}


def test_lists_say_how_many_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = listed((name for name in "abc"), 2)
    assert (found.shown, found.left_out) == (["a", "b"], 1)
    assert listed("ab", 2).left_out == 0
    for name in "abc":
        write_results(tmp_path / name, plan_of(CELLS, 1), Truth(), series=False)
    monkeypatch.setattr(folders, "FOLDERS_AT_MOST", 2)
    shown, left_out = folders_and_left_out(tmp_path)
    assert len(shown) == 2 and left_out.folders == 1


def test_what_was_chosen_is_among_the_choices() -> None:
    """The browser chose the first of the list instead, and simulated another job."""
    many = [(f"file/{number}", str(number)) for number in range(300)]
    groups, more = offered([("Recorded here", many)], "file/299")
    assert groups[0][1][-1] == ("file/299", "299") and len(groups[0][1]) == 201
    assert more == ["Recorded here: 99 more"]
    groups, more = offered([("Recorded here", many[:3])], "file/odd")
    assert groups[0] == ("Chosen", [("file/odd", "odd")]) and more == []


def test_a_folder_that_is_not_counted_has_its_title(tmp_path: Path) -> None:
    write_results(tmp_path / "r", plan_of(CELLS, 2), Truth(), title="Farm", series=False)
    (found,) = results_folders(tmp_path, counted=False)
    assert found == named_folder(tmp_path, "r", counted=False)
    assert (found.title, found.damage, found.counts) == ("Farm", "", {})
    assert named_folder(tmp_path, "r").counts == {"valid": 2}


def test_thousands_of_crosses_are_one_for_each_pixel() -> None:
    """A page with 20 000 measured trials was sent 1.4 MB for each figure and point."""
    points = [(float(slots), 100.0) for slots in (1, 2)]
    many = [(float(1 + n % 2), 50 + n / 1000) for n in range(20_000)]
    text = WhatIfCurve("Rate", points, many).svg()
    assert 20 < text.count('class="measured"') < 200
    assert WhatIfCurve("Rate", points, many[:400]).svg().count('class="measured"') == 400


def test_crosses_of_several_settings_name_what_differs(tmp_path: Path) -> None:
    """Crosses of jobs with another codec stood there as those of the job that was asked for."""
    cells = [
        {**CELLS[0], "slots": slots, "codec": codec, "filesystem": "ext4"}
        for slots in (1, 2)
        for codec in ("zstd", "lz4")
    ]
    write_results(tmp_path / "r", plan_of(cells, 1), Truth(), series=False)
    found, how = measured_points(tmp_path / "r", "scan", 1, "cold")
    assert len(found) == 4 and how == "measured with several levels of codec"


def test_runs_beyond_those_of_a_page_are_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300 nightly runs the first 200 could not be seen, nor what had changed in them."""
    monkeypatch.setattr(history_pages, "RUNS_AT_MOST", 3)
    monkeypatch.setattr(history_pages, "_STEP", 2)
    for day in range(1, 6):
        write_results(
            tmp_path / f"day{day}", plan_of(CELLS, 2), Truth(), title="Farm", series=False,
            created_utc=f"2026-01-0{day}T00:00:00+00:00",
        )  # fmt: skip
    pages = history_pages.HistoryPages(tmp_path)

    def page_of(query: str) -> str:
        scope = {"type": "http", "path": "/history", "query_string": query.encode(), "headers": []}
        return bytes(pages.show(Request(scope)).body).decode()

    def shown(page: str) -> list[str]:
        return re.findall(r'href="/results/(day\d)/"', page)

    newest = page_of("")
    assert shown(newest) == ["day3", "day4", "day5"] and "newer</a>" not in newest
    link = re.search(r'href="/history\?([^"]*)">2 earlier</a>', newest)
    assert link is not None
    earlier = page_of(unescape(link[1]))
    assert shown(earlier) == ["day1", "day2", "day3"]
    assert "2 newer</a>" in earlier and "earlier</a>" not in earlier


def test_records_are_read_again_only_when_they_have_changed(tmp_path: Path) -> None:
    """Each change of the drive read 20 000 records again before its first point."""
    results = write_results(tmp_path / "r", plan_of(CELLS, 3), Truth(), series=False)
    last = LastPoints()

    def points() -> list[object]:
        return [*last.of(named_folder(tmp_path, "r"), "scan", 1, "cold")[0]]

    first = points()
    assert len(first) == 3 and first[0] is points()[0]
    shutil.rmtree(next((results / "trials").iterdir()))
    assert len(points()) == 2
    assert last.of(named_folder(tmp_path, "r"), "scan", 2, "cold") == ([], "")
