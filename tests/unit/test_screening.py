"""Screening: which configurations stay, and the smaller study file that has exactly them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import RefusedError, StudyError, UsageError
from headrace.library import load_study, screen
from headrace.plan.cells import Cell, key, matches
from headrace.plan.cover import covering
from headrace.report.screening import why_left_out
from headrace.study.narrow import narrowed_text
from headrace.whatif.screening import ScreenedStudy

# -- partial cells that select some cells --

FACTORS: dict[str, list[Any]] = {
    "target": ["a", "b"],
    "workload": ["scan"],
    "filesystem": ["ext4", "xfs", {"name": "btrfs"}],
    "slots": [1, 2, 4],
}
# Target b has no filesystem to vary.
EVERY: list[Cell] = [
    {"target": target, "workload": "scan", "filesystem": filesystem, "slots": slots}
    for target in ("a", "b")
    for filesystem in (FACTORS["filesystem"] if target == "a" else [None])
    for slots in FACTORS["slots"]
]


@given(st.sets(st.sampled_from(range(len(EVERY))), min_size=1))
def test_partial_cells_select_the_kept_cells_and_no_other(numbers: set[int]) -> None:
    kept = [EVERY[number] for number in sorted(numbers)]
    boxes = covering(kept, EVERY, FACTORS)
    selected = [cell for cell in EVERY if not boxes or any(matches(cell, box) for box in boxes)]
    assert [key(cell) for cell in selected] == [key(cell) for cell in kept]
    assert all(boxes), "a partial cell names a factor"


def test_cells_that_are_a_product_are_one_partial_cell() -> None:
    kept = [cell for cell in EVERY if cell["target"] == "a" and cell["slots"] != 2]
    assert covering(kept, EVERY, FACTORS) == [{"target": ["a"], "slots": [1, 4]}]


# -- the text of a study --

TEXT = """#:schema study.schema.json
# Why this study exists.
headrace = 1
title = "small"   # a title

[target.disk]
kind = "block"
drive = "wd-wd3200bekt"

[target.flash]
kind = "block"
drive = "corsair-f40"

[workload.scan]
kind = "scan"
data = { events = 2000, files = 4 }

[factors]
filesystem = ["ext4", "xfs"]
slots = [
  1,  # one job
  2,
  4,  # all cores
]

[[exclude]]   # makes no sense
filesystem = "xfs"
slots = [1, 2]

[plan]
design = "screen"
repeats = { min = 2 }  # enough
"""


def test_a_narrowed_study_keeps_its_comments_and_loses_levels_and_design() -> None:
    factors = {"target": ["flash"], "filesystem": ["ext4", "xfs"], "slots": [1, 4]}
    only = [{"filesystem": ["xfs"], "slots": [4]}, {"site.node.drives.x": [{"drive": "d"}, "e"]}]
    made = narrowed_text(TEXT, factors, only, "where it is from")
    lines = made.splitlines()
    assert lines[:3] == ["#:schema study.schema.json", "# where it is from", lines[2]]
    for comment in ("# Why this", "# a title", "# one job", "# all cores", "# makes", "# enough"):
        assert comment in made
    values = tomllib.loads(made)
    assert values["factors"] == {
        "filesystem": ["ext4", "xfs"], "slots": [1, 4], "target": ["flash"],
    }  # fmt: skip
    assert values["exclude"] == [{"filesystem": "xfs", "slots": [1]}]
    assert "design" not in values["plan"] and values["plan"]["repeats"] == {"min": 2}
    assert values["only"] == [
        {"filesystem": "xfs", "slots": 4},
        {"site": {"node": {"drives": {"x": [{"drive": "d"}, "e"]}}}},
    ]


def test_an_exclude_that_matches_nothing_any_more_is_gone() -> None:
    every = {"target": ["disk", "flash"], "filesystem": ["ext4"], "slots": [1, 2, 4]}
    assert "exclude" not in tomllib.loads(narrowed_text(TEXT, every, [], "x"))
    less = {"filesystem": ["ext4", "xfs"], "slots": [4]}
    assert "exclude" not in tomllib.loads(narrowed_text(TEXT, less, [], "x"))


def study_file(folder: Path, more: str = "", text: str = TEXT) -> Path:
    file = folder / "small study.toml"
    file.write_text(text.replace('"screen"', '"full"') + more)
    return file


def test_only_keeps_the_cells_that_it_matches(tmp_path: Path) -> None:
    more = '[[only]]\ntarget = "flash"\nslots = 4\n[[only]]\nslots = 1\n'
    trials = load_study(study_file(tmp_path, more)).plan().trials
    found = {(each.target, each.levels["filesystem"], each.levels["slots"]) for each in trials}
    assert found == {
        ("flash", "ext4", 4), ("flash", "xfs", 4), ("flash", "ext4", 1), ("disk", "ext4", 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[[only]]\nslots = 3\n", "only[0].slots: the factor has no such level"),
        ("[[only]]\nslotz = 1\n", "only[0].slotz"),
        ("[[only]]\n", "keeps everything: it names no factor"),
        ('[[only]]\nfilesystem = "xfs"\nslots = 1\n', "matches none of 8 cells"),
    ],
)
def test_a_bad_only_is_named(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(StudyError) as raised:
        load_study(study_file(tmp_path, more)).plan()
    assert said in raised.value.message.replace("[[", "[").replace("]]", "]"), raised.value.message


# -- screening --

DRIVES = TEXT.replace('filesystem = ["ext4", "xfs"]\n', "").replace('filesystem = "xfs"\n', "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("screen with spaces")
    study_file(place, text=DRIVES.replace("slots = [1, 2]\n", "slots = 2\n"))
    return place


@pytest.fixture(scope="module")
def found(folder: Path) -> ScreenedStudy:
    return screen(folder / "small study.toml")


def test_the_smaller_study_has_the_configurations_that_could_win(
    found: ScreenedStudy, folder: Path
) -> None:
    assert found.file == folder / "small study-screened.toml"
    trials = load_study(found.file).plan().trials
    kept = {(each.candidate.target, each.candidate.slots) for each in found.screening.kept}
    assert {(each.target, each.levels["slots"]) for each in trials} == kept
    assert ("flash", 4) in kept and ("disk", 1) not in kept
    assert (found.trials.before, found.trials.after) == (8, len(trials))
    assert found.trials.after_s < found.trials.before_s
    wanted = found.screening.choice.wishes.want
    best = found.screening.kept[0].candidate.points[wanted.name]
    assert all("less" in why_left_out(one, wanted, best) for one in found.screening.left_out)
    assert found.screening.choice.basis.model_error_source == "assumed"


def test_a_smaller_error_of_the_model_keeps_fewer(folder: Path, tmp_path: Path) -> None:
    counts = [
        len(screen(folder / "small study.toml", tmp_path / f"{error}.toml", model_error=error)
            .screening.kept)
        for error in (0.0, 3.0)
    ]  # fmt: skip
    assert counts == [1, 4]


def test_what_no_configuration_has_is_no_matter_of_limits(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="price is unknown for every configuration") as refused:
        screen(folder / "small study.toml", tmp_path / "p.toml", want="price")
    assert refused.value.hint == "another metric for --want"


def test_a_limit_leaves_out_what_breaks_it(folder: Path, tmp_path: Path) -> None:
    made = screen(folder / "small study.toml", tmp_path / "b.toml", within="usable >= 200 GB")
    assert {each.candidate.target for each in made.screening.kept} == {"disk"}
    wanted = made.screening.choice.wishes.want
    whys = {why_left_out(one, wanted, 1.0) for one in made.screening.left_out}
    assert "breaks usable >= 200 GB" in whys
    with pytest.raises(RefusedError, match="usable >= 2 PB excludes every"):
        screen(folder / "small study.toml", tmp_path / "c.toml", within="usable >= 2 PB")
    assert not (tmp_path / "c.toml").exists()


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"want": "evnts/s"}, 'did you mean "events_per_s"'),
        ({"within": "evnts/s >= 3"}, "evnts/s"),
        ({"within": "price <= 5 XYZ"}, "XYZ"),
    ],
)
def test_bad_wishes_are_refused_before_anything_is_simulated(
    folder: Path, tmp_path: Path, wishes: dict[str, str], said: str
) -> None:
    simulated: list[int] = []
    with pytest.raises(StudyError, match=said):
        screen(
            folder / "small study.toml",
            tmp_path / "d.toml",
            progress=lambda done, total: simulated.append(done),
            **wishes,
        )
    assert not simulated


def test_no_file_is_overwritten_and_none_is_half_written(
    found: ScreenedStudy, folder: Path
) -> None:
    text = found.file.read_text()
    with pytest.raises(RefusedError, match="already exists"):
        screen(folder / "small study.toml")
    assert found.file.read_text() == text
    assert not list(folder.glob(".*"))
    with pytest.raises(UsageError, match="file, not a folder"):
        screen(folder / "small study.toml", found.file / "x.toml")


def test_a_target_without_a_model_is_kept_and_named(tmp_path: Path) -> None:
    file = study_file(tmp_path, text=DRIVES.replace("slots = [1, 2]\n", "slots = 2\n"))
    file.write_text(file.read_text() + f'[target.here]\nkind = "path"\npath = "{tmp_path}"\n')
    made = screen(file)
    trials = load_study(made.file).plan().trials
    assert {1, 4} <= {each.levels["slots"] for each in trials if each.target == "here"}
    assert any(name.startswith("here, scan") for name in made.screening.unknown)


def test_files_that_would_not_be_found_from_another_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    file = study_file(tmp_path, text=DRIVES.replace("slots = [1, 2]\n", "slots = 2\n"))
    (tmp_path / "own.toml").write_text(
        (Path("python/headrace/catalog/drives") / "corsair-f40.toml").read_text()
    )
    file.write_text(file.read_text().replace('"corsair-f40"', '"own.toml"'))
    with pytest.raises(UsageError, match="relative to its folder"):
        screen(file, tmp_path / "to" / "smaller.toml")
    assert not list((tmp_path / "to").iterdir())
    assert screen(file, tmp_path / "smaller.toml").trials.after < 8
