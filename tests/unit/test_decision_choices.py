"""What tells configurations of several result sets apart: every setting that differs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from decided import answered, results_of
from headrace import decide, simulate
from headrace.analysis.read import Records, read
from headrace.decision.cells import configured
from headrace.whatif.scaling import scaled_configurations

STUDY = """
headrace = 1
title = "choices"
{site}
[target.scratch]
kind = "block"
drive = "samsung-870-evo-1tb"
{target}
[workload.scan]
kind = "scan"
data = {{ events = 2000, files = 4, {data} }}
[factors]
{factors}
slots = [1, 4]
[run]
{run}
[plan]
repeats = {{ min = 2 }}
"""


def simulated(root: Path, **parts: str) -> Path:
    texts = {"site": "", "target": "", "data": 'codec = "zlib"', "factors": "", "run": ""}
    root.mkdir()
    (root / "s.toml").write_text(STUDY.format(**{**texts, **parts}))
    return simulate(root / "s.toml", root / "r")


def keys_of(*results: Path) -> dict[str, int]:
    """Configurations by name, with their number of trials."""
    made, _ = decide(results)
    return {
        each.candidate.key: sum(len(part.trials) for part in each.candidate.evidence)
        for each in made.choice.judged
    }


@pytest.mark.parametrize(
    ("section", "one", "other", "words"),
    [
        ("target", 'filesystem = "xfs"', 'filesystem = "ext4"', ("xfs", "ext4")),
        ("target", 'scheduler = "bfq"', "", ("scheduler bfq", "scheduler not set")),
        ("target", 'read_ahead = "1 MiB"', 'read_ahead = "128 KiB"', ("1 MiB", "128 KiB")),
        ("target", 'mount = "noatime"', "", ("noatime", "mount not set")),
        ("target", "raid = { level = 0, drives = 2 }", "", ("scratch, raid level 0, ", "")),
        ("run", 'cache = "warm"', "", ("cache warm", "cache cold")),
        ("run", 'memory_limit = "4 GiB"', 'memory_limit = "8 GiB"', ("4 GiB", "8 GiB")),
        ("data", 'codec = "lz4"', 'codec = "zlib"', ("codec lz4", "codec zlib")),
        (
            "site",
            '[site.node]\nlink = "1 GbE"',
            '[site.node]\nlink = "10 GbE"',
            ("1 GbE", "10 GbE"),
        ),
    ],
)
def test_result_sets_that_differ_in_a_setting_are_configurations_of_their_own(
    tmp_path: Path, section: str, one: str, other: str, words: tuple[str, str]
) -> None:
    """Their trials were averaged as repeats of one configuration."""
    first = simulated(tmp_path / "a", **{section: one})
    second = simulated(tmp_path / "b", **{section: other})
    found = keys_of(first, second)
    assert len(found) == 4 and set(found.values()) == {2}, found
    for word in words:
        assert sum(word in key for key in found) >= 2, found


def test_result_sets_of_equal_settings_are_one_configuration(tmp_path: Path) -> None:
    """How carefully trials are observed, and where a folder is, changes nothing."""
    first = simulated(tmp_path / "a", run='series_interval = "2 s"')
    second = simulated(tmp_path / "b", run='timeout = "5 min"')
    found = keys_of(first, second)
    assert set(found) == {"scratch, 1 slot", "scratch, 4 slots"}


def test_a_factor_of_one_study_is_a_setting_of_another(tmp_path: Path) -> None:
    varied = simulated(tmp_path / "a", factors='filesystem = ["xfs", "ext4"]')
    stated = simulated(tmp_path / "b", target='filesystem = "xfs"', run='cache = "cold"')
    other = simulated(tmp_path / "c", target='filesystem = "btrfs"')
    found = keys_of(varied, stated, other)
    one_slot = {key: trials for key, trials in found.items() if "1 slot" in key}
    assert one_slot == {
        "scratch, xfs, 1 slot": 4, "scratch, ext4, 1 slot": 2, "scratch, btrfs, 1 slot": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    "factors",
    [
        'filesystem = ["xfs", "ext4"]',
        'scheduler = ["none", "bfq"]',
        'read_ahead = ["128 KiB", "1 MiB"]',
        '"target.scratch.mount" = ["noatime", "nodiratime"]',
        'cache = ["cold", "warm"]',
    ],
)
def test_levels_of_one_study_are_configurations_of_their_own(tmp_path: Path, factors: str) -> None:
    found = keys_of(simulated(tmp_path / "a", factors=factors))
    assert len(found) == 4 and set(found.values()) == {2}, found


def with_location(records: Records, **facts: object) -> Records:
    places = [{**place, **facts} for place in records.trials["location"]]
    return replace(records, trials=records.trials.assign(location=places))


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"filesystem": "xfs"}, {"filesystem": "ext4"}, ("filesystem xfs", "filesystem ext4")),
        (
            {"mount_options": ["rw", "noatime"]},
            {"mount_options": ["rw", "relatime"]},
            ("rw,noatime", "rw,relatime"),
        ),
        (
            {"devices": [{"name": "sda", "scheduler": "bfq"}]},
            {"devices": [{"name": "sdb", "scheduler": "none"}]},
            ("scheduler bfq", "scheduler none"),
        ),
    ],
)
def test_what_an_administrator_changed_between_two_runs_tells_them_apart(
    tmp_path: Path, one: dict[str, object], other: dict[str, object], words: tuple[str, str]
) -> None:
    """The study file is the same; only the records say what the storage was."""
    first = with_location(results_of(tmp_path / "a", {"a": 0.0}, seed=1), **one)
    second = with_location(results_of(tmp_path / "b", {"a": 0.1}, seed=2), **other)
    made = answered([first, second])
    keys = [each.candidate.key for each in made.choice.judged]
    assert len(keys) == 4 and all(sum(word in key for key in keys) == 2 for word in words), keys


def test_names_that_a_mount_gets_do_not_tell_result_sets_apart(tmp_path: Path) -> None:
    first, second = (
        with_location(
            results_of(tmp_path / name, {"a": 0.0}, seed=seed),
            devices=[f"sd{name}"],
            free_bytes=seed,
            mount_options=["rw", f"port={seed}", f"clientaddr=10.0.0.{seed}"],
        )
        for name, seed in (("a", 1), ("b", 2))
    )
    assert len(answered([first, second]).choice.judged) == 2


def test_an_option_of_the_target_is_not_taken_for_a_factor_of_the_same_name(
    tmp_path: Path,
) -> None:
    """`cache` of a server and of the run: one hid the other."""
    records = results_of(tmp_path / "a", {"a": 0.0})
    levels = [
        {**each, "run.cache": ("cold", "warm")[place % 2]}
        for place, each in enumerate(records.trials["levels"])
    ]
    run = [{**each, "cache": level["run.cache"]} for each, level in zip(
        records.trials["run"], levels, strict=True)]  # fmt: skip
    first = replace(records, trials=records.trials.assign(levels=levels, run=run))
    second = results_of(tmp_path / "b", {"a": 0.0}, seed=2)
    second = replace(
        second, trials=second.trials.assign(target_options=[{"cache": "big"}] * len(second))
    )
    found = answered([first, second]).choice.basis.candidates
    assert {each.configuration for each in found if "big" in each.configuration}
    assert {each.configuration for each in found if "warm" in each.configuration}


def test_a_trial_that_failed_early_is_of_the_setting_of_its_folder(tmp_path: Path) -> None:
    """It does not know what it would have been on, and was a configuration of its own."""
    first = with_location(results_of(tmp_path / "a", {"a": 0.0}, seed=1), filesystem="xfs")
    second = with_location(results_of(tmp_path / "b", {"a": 0.1}, seed=2), filesystem="ext4")
    trials = first.trials.assign(
        location=[{}, *first.trials["location"][1:]], valid=[False, *first.trials["valid"][1:]]
    )
    basis = answered([replace(first, trials=trials), second]).choice.basis
    assert not basis.incomplete and len(basis.candidates) == 4


def test_a_simulation_is_of_the_measured_setting_that_it_has(tmp_path: Path) -> None:
    """A measurement on XFS must not count in place of a simulation of ext4, nor give its error."""
    xfs = simulated(tmp_path / "a", target='filesystem = "xfs"')
    ext4 = simulated(tmp_path / "b", target='filesystem = "ext4"')
    records = read(xfs)
    measured = replace(records, trials=records.trials.assign(provenance="measured"))
    apart = answered([measured, read(ext4)]).choice.basis
    assert apart.model_error_source == "assumed" and len(apart.candidates) == 4
    same = answered([measured, read(xfs)]).choice.basis
    assert same.model_error_source == "compared" and len(same.candidates) == 2


def test_configurations_that_only_a_folder_tells_apart_are_found_again_at_more_nodes(
    tmp_path: Path,
) -> None:
    """The question what more nodes would change was not asked of them."""
    first = simulated(tmp_path / "a")
    second = simulated(tmp_path / "b", target="raid = { level = 0, drives = 2 }")
    text = (second / "study.toml").read_text()
    assert "raid" in text
    sets = configured([read(first), read(second)])
    basis = answered(list(sets)).choice.basis
    names = [each.configuration for each in basis.candidates]
    found = scaled_configurations(sets, names, 2)
    assert sum(len(each.trials) for each in found) == 8
    again = answered(found).choice.basis
    assert {each.nodes for each in again.candidates} == {2} and len(again.candidates) == 4


def test_a_copied_folder_counts_once_beside_one_of_another_setting(tmp_path: Path) -> None:
    first = simulated(tmp_path / "a")
    shutil.copytree(first, tmp_path / "copy")
    second = simulated(tmp_path / "b", target='filesystem = "xfs"')
    assert set(keys_of(first, tmp_path / "copy", second).values()) == {2}
