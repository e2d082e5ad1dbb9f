"""A file of another kind than the one that a command takes is named, in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.catalog import entry
from headrace.catalog.load import ROOT, names
from headrace.decision.offers import load_offers
from headrace.document import read_document
from headrace.errors import StudyError
from headrace.file_kinds import check_kind
from headrace.library import load_study
from headrace.study.first import first_study

SITE = "[site]\none_machine = true\n[site.node]\ncores = 4\n"
OFFERS = 'currency = "EUR"\n[drive.disk]\nprice = 100\n'
SHELVES = {
    "drives": "drive",
    "nodes": "node",
    "links": "link",
    "switches": "switch",
    "controllers": "controller",
    "servers": "server",
    "profiles": "profile",
    "prices": "price",
}


def drive(place: Path) -> Path:
    file = place / "my drive.toml"
    file.write_bytes((ROOT / "drives" / "cheetah-9lp.toml").read_bytes())
    return file


def refused(read: Callable[[], object]) -> tuple[str, str]:
    """The only problem of a file, and the hint."""
    with pytest.raises(StudyError) as error:
        read()
    (problem,) = error.value.problems
    return problem.words, error.value.hint or ""


def test_a_drive_and_a_site_are_no_studies(tmp_path: Path) -> None:
    """Each of their fields was unknown, in a line of its own."""
    said, hint = refused(lambda: load_study(drive(tmp_path)))
    assert said == "this file describes a drive, not a study"
    assert f"headrace drive show '{tmp_path}/my drive.toml'" in hint
    (tmp_path / "site.toml").write_text(SITE)
    said, hint = refused(lambda: load_study(tmp_path / "site.toml"))
    assert said == "this file describes a site, not a study"
    assert f"headrace simulate STUDY --site {tmp_path}/site.toml takes it" in hint


def test_a_study_is_no_drive_profile_site_or_offers(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(first_study(tmp_path, 4))
    for shelf, what in (("drives", "a drive"), ("profiles", "a job profile")):
        said, hint = refused(lambda shelf=shelf: entry(shelf, str(file)))
        assert said == f"this file describes a study, not {what}"
        assert f"headrace run {file}" in hint
    said, _ = refused(lambda: load_study(file, site=file))
    assert said == "this file describes a study, not a site"
    said, _ = refused(lambda: load_study(file, site=drive(tmp_path)))
    assert said == "this file describes a drive, not a site"
    said, _ = refused(lambda: load_offers(file))
    assert said == "this file describes a study, not offers (prices)"
    (tmp_path / "offers.toml").write_text(OFFERS)
    said, _ = refused(lambda: load_study(tmp_path / "offers.toml"))
    assert said == "this file describes offers (prices), not a study"


def test_every_entry_of_the_catalog_is_of_its_own_kind() -> None:
    for shelf, kind in SHELVES.items():
        for name in names(shelf):
            document = read_document(ROOT / shelf / f"{name}.toml")
            check_kind(document, kind)
            said, _ = refused(lambda document=document: check_kind(document, "study"))
            assert said.startswith("this file describes "), (name, said)


def test_what_is_of_no_kind_has_all_its_problems(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text("[target.a]\nkind = 'path'\n[wrkload.b]\nkind = 'scan'\n")
    with pytest.raises(StudyError) as error:
        load_study(file)
    assert "the version of the study file is missing" in error.value.message
    assert "wrkload" in error.value.message


def test_a_folder_is_no_study_and_may_have_one(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(first_study(tmp_path, 4))
    said, hint = refused(lambda: load_study(tmp_path))
    assert "is a directory" in said
    assert hint == f"the study in it is {tmp_path}/study.toml"
