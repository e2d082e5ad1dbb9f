"""Studies on the user's own ROOT files, from the study file to records.

Nothing of the user's is touched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import headrace
from headrace.engine.measure.placing import OURS
from own_root_files import done_trials, identities, write_user_file

STUDY = """
headrace = 1
title = "own files"
[target.here]
kind = "path"
path = "storage"
create = true
{workloads}
{more}
[plan]
repeats = {{ min = 1 }}
[run]
slots = 2
shortest = 0
foreign_load = "warning"  # a shared machine is never quiet
"""
LOOK = """
[workload.look-{reader}]
kind = "scan"
data = {data}
reader = "{reader}"
variable = "Hit_pt"
columns = ["number", "nHit*"]
bins = 10
verify = true
"""
WRITE = """
[workload.write-{reader}]
kind = "skim"
data = {data}
reader = "{reader}"
fraction = 1.0
keep = 0.25
"""
SCANNED_BY, SKIMMED_BY = ("uproot", "event-loop", "rdataframe"), ("uproot", "rdataframe")
"""One study has them all: to import ROOT, and to compile for it, takes longest."""


def study(
    folder: Path,
    data: str,
    more: str = "",
    scanned_by: Sequence[str] = ("uproot",),
    skimmed_by: Sequence[str] = ("uproot",),
) -> headrace.library.LoadedStudy:
    file = folder / "study.toml"
    workloads = [
        *(LOOK.format(data=data, reader=reader) for reader in scanned_by),
        *(WRITE.format(data=data, reader=reader) for reader in skimmed_by),
    ]
    file.write_text(STUDY.format(workloads="".join(workloads), more=more))
    return headrace.load_study(file)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of the same name, one of them in a folder with a space, and one of an odd name."""
    return [
        write_user_file(tmp_path / "mine" / "of day 1" / "data.root", 600, seed=1),
        write_user_file(tmp_path / "mine" / "of day 2" / "data.root", 300, seed=2),
        write_user_file(tmp_path / "mine" / "of day 2" / "odd #?%ä[1].root", 150, seed=3),
    ]


DATA = '{ files = ["mine/*/*.root"] }'


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(tmp_path / "journals"))


def test_own_files_are_scanned_and_skimmed_on_copies(files: list[Path], tmp_path: Path) -> None:
    before = identities(files)
    loaded = study(tmp_path, DATA, "", SCANNED_BY, SKIMMED_BY)
    made = loaded.run(tmp_path / "results", cache_dir=tmp_path / "cache")
    found = done_trials(made)
    values = [uproot.open({str(file): "deep/Events"})["Hit_pt"].array() for file in files[:2]]
    expected, _ = np.histogram(np.concatenate([np.ravel(each) for each in values]), 10, (0, 200))
    for reader in SCANNED_BY:
        looked = found[f"look-{reader}"]["results"]
        assert looked["histogram"]["counts"][1:-1] == list(expected), reader
        assert looked["variable"] == "Hit_pt", reader
    for reader in SKIMMED_BY:
        assert found[f"write-{reader}"]["results"]["events_kept"] == 225, reader
    assert identities(files) == before
    # Two jobs read two files; every file is on the target, as an inode of its own.
    [place] = (tmp_path / "storage" / OURS / "datasets").iterdir()
    copies = sorted(place.glob("*.root"))
    assert sorted(copy.read_bytes() for copy in copies) == sorted(
        file.read_bytes() for file in files
    )
    assert not {copy.stat().st_ino for copy in copies} & {file.stat().st_ino for file in files}


def test_a_damaged_copy_is_made_again_and_a_changed_file_copied_anew(
    files: list[Path], tmp_path: Path
) -> None:
    loaded = study(tmp_path, DATA)
    loaded.run(tmp_path / "first", cache_dir=tmp_path / "cache")
    [place] = (tmp_path / "storage" / OURS / "datasets").iterdir()
    copy = place / "data.root"
    with copy.open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    before = identities(files)
    done_trials(loaded.run(tmp_path / "second", cache_dir=tmp_path / "cache"))
    assert copy.read_bytes() == files[0].read_bytes()
    assert identities(files) == before
    write_user_file(files[0], 900, seed=4)
    before = identities(files)
    found = done_trials(loaded.run(tmp_path / "third", cache_dir=tmp_path / "cache"))
    assert found["write-uproot"]["results"]["events_kept"] == (900 + 300) // 4
    assert copy.read_bytes() == files[0].read_bytes()
    assert identities(files) == before


def test_files_on_the_target_are_read_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In folders whose names have characters that a reader may interpret; ROOT compiles for them as
    for users."""
    monkeypatch.delenv("EXTRA_CLING_ARGS", raising=False)
    folders = [tmp_path / "storage" / "a b", tmp_path / "storage" / "a #1?b"]
    files = [
        write_user_file(folder / f"{number}.root", 300, number)
        for folder in folders
        for number in range(2)
    ]
    for folder in folders:
        (folder / "manifest.json").write_text('{"of": "the user"}')
    before = identities(files)
    data = '{ files = ["storage/a b", "storage/a #1?b"] }'
    study(tmp_path, data, "", SCANNED_BY, SKIMMED_BY)
    file = tmp_path / "study.toml"
    file.write_text(file.read_text().replace("slots = 2", "slots = 4"))  # every file has a job
    found = done_trials(
        headrace.load_study(file).run(tmp_path / "results", cache_dir=tmp_path / "cache")
    )
    assert len(found) == len(SCANNED_BY) + len(SKIMMED_BY)
    for reader in SKIMMED_BY:
        assert found[f"write-{reader}"]["results"]["events_kept"] == 300, reader
    assert identities(files) == before
    assert not (tmp_path / "storage" / OURS / "datasets").exists()
    assert not (tmp_path / "cache" / "datasets").exists()
    for folder in folders:
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["0.root", "1.root", "manifest.json"]


def test_packets_of_own_files_are_dealt_out_whole(files: list[Path], tmp_path: Path) -> None:
    study(tmp_path, DATA, "[factors]\nworkload = ['look-uproot']")
    file = tmp_path / "study.toml"
    file.write_text(file.read_text().replace("[run]", '[run]\nfeed = "packets"'))
    found = done_trials(
        headrace.load_study(file).run(tmp_path / "results", cache_dir=tmp_path / "cache")
    )
    assert sum(found["look-uproot"]["results"]["histogram"]["counts"]) == 3 * (600 + 300 + 150)


def test_staging_own_files(files: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        """
headrace = 1
title = "staged"
[target.server]
kind = "path"
path = "mine"
[target.here]
kind = "path"
path = "storage"
create = true
[workload.staged]
kind = "stage"
source = "server"
files_a_job = 2
verify = true
job = { kind = "scan", data = { files = ["mine/*/data.root"] }, variable = "Hit_pt" }
[plan]
repeats = { min = 1 }
[run]
slots = 1
shortest = 0
foreign_load = "warning"
"""
    )
    before = identities(files)
    found = done_trials(
        headrace.load_study(file).run(tmp_path / "results", cache_dir=tmp_path / "cache")
    )
    assert sum(found["staged"]["results"]["histogram"]["counts"]) == 3 * 900
    assert identities(files) == before
    assert not (tmp_path / "mine" / OURS / "datasets").exists()


def test_a_file_that_changes_while_the_study_runs_ends_in_a_failed_trial(
    files: list[Path], tmp_path: Path
) -> None:
    """On the target, where it is read in place: later trials would read other data."""
    write_user_file(tmp_path / "storage" / "a.root", 300)
    write_user_file(tmp_path / "storage" / "b.root", 300)
    loaded = study(tmp_path, '{ files = "storage/*.root" }')

    class Meddling(headrace.library.Silent):
        def trial_finished(self, trial: Any, status: str, reasons: list[str], summary: str) -> None:
            write_user_file(tmp_path / "storage" / "a.root", 600, seed=5)

    made = loaded.run(tmp_path / "results", cache_dir=tmp_path / "cache", observer=Meddling())
    found = [json.loads(file.read_text()) for file in sorted(made.glob("trials/*/trial.json"))]
    assert sorted(each["status"] for each in found) == ["done", "failed"]
    [cause] = [each["cause"] for each in found if each["status"] == "failed"]
    assert "a.root: was changed while the study ran" in str(cause)
