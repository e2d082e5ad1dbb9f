"""Faults in a study file.

Their words, the factor `fault`, drives by name or file, and what cannot be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, StudyError
from headrace.faults import kinds
from headrace.library import load_study
from headrace.plan import make_plan
from headrace.study.load import load_study_text
from headrace.study.model import Study
from headrace.study.resolve import resolve

HEAD = """
headrace = 1
[target.disk]
kind = "block"
drive = "seagate-st3750640ns"
[target.mirror]
kind = "block"
drive = "seagate-st3750640ns"
raid = { level = 1, drives = 2 }
[workload.reads]
kind = "random"
"""

WORDS: dict[str, dict[str, Any]] = {
    "media-error": {
        "access": "read",
        "share": 0.5,
        "first": "1 MiB",
        "length": "4 KiB",
        "at_most": 3,
    },
    "latency-spike": {"extra": "20 ms"},
    "stall": {"duration": "1 s"},
    "slow-drive": {"factor": 3},
    "drop-off": {"drive": 1},
    "power-loss": {"duration": "500 ms"},
    "degraded": {"drive": 1},
    "rebuild": {},
}


def study(text: str, tmp_path: Path) -> Study:
    return load_study_text(text, file=tmp_path / "study.toml", base=tmp_path)


def fault(what: str, **more: Any) -> Any:
    kind = kinds()[what]
    return kind(kind.Options.model_validate({"what": what, **WORDS.get(what, {}), **more}))


@pytest.mark.parametrize("what", WORDS)
def test_every_fault_of_a_drive_has_the_same_words_for_model_and_emulator(what: str) -> None:
    made = fault(what, at="2 s", name="mine")
    modelled = made.model()
    assert modelled is not None and modelled.host is None and modelled.drive is not None
    assert modelled.drive["from_s"] == 2.0 and made.options.label == "mine"
    ends = made.options.duration
    assert modelled.drive.get("until_s") == (None if ends is None else 2.0 + ends)
    assert {**modelled.drive, "from_s": 0.0, "until_s": ends} == {
        **made.spec(0.0, ends),
        "until_s": ends,
    }


def test_a_range_is_given_in_sectors() -> None:
    modelled = fault("media-error").model()
    assert modelled is not None and modelled.drive is not None
    wanted = {"first_sector": 2048, "sectors": 8, "probability": 0.5, "only": "read", "at_most": 3}
    assert wanted.items() <= modelled.drive.items()


def test_the_factor_fault_chooses_what_affects_a_cell(tmp_path: Path) -> None:
    text = HEAD + (
        '[factors]\nfault = ["none", "slow", "degraded"]\n[[exclude]]\ntarget = "disk"\nfault = '
        '"degraded"\n'
        '[[fault]]\nwhat = "slow-drive"\nname = "slow"\nfactor = 2\n[[fault]]\nwhat = '
        '"degraded"\ntarget = "mirror"\n'
    )
    made = study(text, tmp_path)

    def affects(target: str, level: str | None) -> list[str]:
        levels = {} if level is None else {"fault": level}
        return [each.label for each in resolve(made, target, "reads", levels).faults]

    assert affects("disk", "none") == [] and affects("disk", "slow") == ["slow"]
    assert affects("disk", "degraded") == [] and affects("mirror", "degraded") == ["degraded"]
    assert affects("mirror", None) == ["slow", "degraded"], "without the factor all affect it"
    with pytest.raises(StudyError) as caught:
        study(text.replace('"none", "slow"', '"none", "slw"'), tmp_path)
    assert "slow" in caught.value.problems[0].problem and caught.value.problems[0].line > 0


def test_a_target_has_no_cell_of_a_fault_of_another_one(tmp_path: Path) -> None:
    text = HEAD + (
        '[factors]\nfault = ["none", "slow", "degraded"]\nslots = [1, 2]\n'
        '[[fault]]\nwhat = "slow-drive"\nname = "slow"\nfactor = 2\n[[fault]]\nwhat = '
        '"degraded"\ntarget = "mirror"\n'
    )
    cells = {trial.cell: trial for trial in make_plan(study(text, tmp_path)).trials}.values()
    faults = {
        target: {trial.levels["fault"] for trial in cells if trial.target == target}
        for target in ("disk", "mirror")
    }
    assert faults == {"disk": {"none", "slow"}, "mirror": {"none", "slow", "degraded"}}
    assert len(cells) == 2 * 5


def test_a_target_that_no_level_affects_keeps_one_cell(tmp_path: Path) -> None:
    """A fault that is no level must not affect it instead."""
    text = HEAD + (
        '[factors]\nfault = ["degraded"]\n[[fault]]\nwhat = "slow-drive"\nfactor = 2\n'
        '[[fault]]\nwhat = "degraded"\ntarget = "mirror"\n'
    )
    made = study(text, tmp_path)
    cells = {trial.target: trial.levels for trial in make_plan(made).trials}
    assert set(cells) == {"disk", "mirror"}
    assert resolve(made, "disk", "reads", cells["disk"]).faults == ()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ('what = "stall"', "missing"),
        ('what = "slow-drive"\nfactor = 0.5', "more than 1"),
        ('what = "latency-spike"', "missing"),
        ('what = "media-eror"', "media-error"),
        ('what = "media-error"\nshare = 1.5', "at most 1"),
    ],
)
def test_a_fault_that_cannot_be_is_named_with_its_line(
    words: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError) as caught:
        study(f"{HEAD}[[fault]]\n{words}\n", tmp_path)
    found = caught.value.problems[0]
    assert problem in str(found) and found.line >= 12


@pytest.mark.parametrize("words", ['what = "stal"', 'what = "slow-drive"\nfactor = 0.5'])
def test_a_fault_that_cannot_be_is_not_also_missed_as_a_level(words: str, tmp_path: Path) -> None:
    what = words.split('"')[1]
    with pytest.raises(StudyError) as caught:
        study(f'{HEAD}[factors]\nfault = ["none", "{what}"]\n[[fault]]\n{words}\n', tmp_path)
    assert len(caught.value.problems) == 1, caught.value.problems


def test_a_fault_says_which_targets_it_cannot_affect(tmp_path: Path) -> None:
    made = study(HEAD, tmp_path)
    disk, mirror = (resolve(made, name, "reads", {}).target_options for name in ("disk", "mirror"))
    assert fault("degraded").check_on("disk", disk) and not fault("degraded").check_on(
        "mirror", mirror
    )
    assert fault("drop-off").check_on("disk", disk), "it has no drive 1"
    assert not fault("drop-off").check_on("mirror", mirror)
    image = made.targets["disk"].options.model_copy(update={"drive": None, "image": "x.img"})
    assert "drive of the catalog" in fault("media-error").check_on("disk", image)[0].what


def test_an_unknown_drive_is_named_where_it_stands_and_a_near_one_suggested(tmp_path: Path) -> None:
    for text in (
        HEAD.replace(
            '"seagate-st3750640ns"\n[target.mirror]', '"seagate-st3750640n"\n[target.mirror]'
        ),
        HEAD + '[factors]\ndrive = ["seagate-st3750640n"]\n',
    ):
        with pytest.raises(StudyError) as caught:
            study(text, tmp_path)
        found = caught.value.problems[0]
        assert found.file.name == "study.toml" and found.line > 0
        assert 'did you mean "seagate-st3750640ns"' in found.problem


def test_a_drive_file_is_relative_to_the_study_wherever_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    catalog = Path(__file__).parents[2] / "python/headrace/catalog/drives/wd-wd3200bekt.toml"
    text = catalog.read_text().replace('name = "wd-wd3200bekt"', 'name = "mine"')
    (folder / "mine.toml").write_text(text)
    (folder / "study.toml").write_text(
        HEAD.replace('"seagate-st3750640ns"', '"mine.toml"', 1)
        + '[factors]\ndrive = ["mine.toml"]\n'
    )
    monkeypatch.chdir(elsewhere)
    loaded = load_study(folder / "study.toml")
    for levels in ({}, {"drive": "mine.toml"}):
        options = resolve(loaded.study, "disk", "reads", levels).target_options
        assert options.drive == str(folder / "mine.toml")
    assert loaded.check("simulate") == []


@pytest.mark.parametrize(
    ("raid", "problem"),
    [
        ("{ level = 5, drives = 2 }", "takes 3 drives"),
        ("{ level = 10, drives = 5 }", "even number"),
        ('{ level = 5, drives = 3, by = "kernel" }', "btrfs"),
        ('{ level = 0, drives = 2, by = "kernel" }', "btrfs"),
    ],
)
def test_a_raid_that_cannot_be_is_refused(raid: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        study(HEAD.replace("{ level = 1, drives = 2 }", raid), tmp_path)
    assert problem in caught.value.problems[0].problem


def test_a_fault_without_a_model_is_said_before_a_simulation(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(HEAD + '[[fault]]\nwhat = "throttle"\nread_iops = 10\n')
    problems = load_study(tmp_path / "study.toml").check("simulate")
    assert any("throttle has no model" in problem.what for problem in problems)
    with pytest.raises(HeadraceError, match="throttle has no model"):
        load_study(tmp_path / "study.toml").run(tmp_path / "results", engine="simulate")
