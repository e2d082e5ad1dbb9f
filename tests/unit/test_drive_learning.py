"""A drive is learnt from its answers alone: models with changed values, in virtual time, are learnt
by the script that reads real drives, and loads that were not part of it are predicted."""

from __future__ import annotations

import copy
import json
import random
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from headrace import _core
from headrace.catalog import entry
from headrace.cli import make_app
from headrace.drives.learning import (
    LearntDrive,
    NotLearntError,
    ReadLoad,
    block_device,
    learn_drive,
    modelled_device,
    modelled_loads,
)
from headrace.drives.learning.device import UNIT
from headrace.drives.learning.drive_file import write_learnt
from headrace.errors import RefusedError, StudyError

Spec = dict[str, Any]

DISK_LOADS = (
    ReadLoad(32, 3),
    ReadLoad(128, 1),
    ReadLoad(UNIT, 12),
    ReadLoad(UNIT, 6, first=0.2, last=0.3),
    ReadLoad(512, 1, sequential=True, first=0.4),
)
SSD_LOADS = (
    ReadLoad(UNIT, 6),
    ReadLoad(16, 3),
    ReadLoad(32, 12),
    ReadLoad(128, 4),
    ReadLoad(512, 2, sequential=True, first=0.4),
)


def changed_disk(name: str, seed: int) -> Spec:
    """Return a disk of the catalog with other values, which the script cannot know."""
    draw = random.Random(seed)
    table = copy.deepcopy(cast("Spec", entry("drives", name).table))
    table["rotation_rpm"] *= draw.uniform(0.85, 1.15)
    table["controller_overhead_us"] *= draw.uniform(0.7, 1.4)
    table["link_bytes_per_s"] *= draw.uniform(0.8, 1.2)
    table["queue"]["reordering"] = draw.uniform(0.1, 0.8)
    seek = table["seek"]
    slower = draw.uniform(0.95, 1.25)
    for field in ("average_ms", "short_root_ms", "long_slope_ms"):
        if field in seek:
            seek[field] *= slower
    if "rates" in table:
        faster = draw.uniform(0.8, 1.2)
        table["rates"] = {key: rate * faster for key, rate in table["rates"].items()}
    return table


def changed_ssd(name: str, seed: int) -> Spec:
    draw = random.Random(seed)
    table = copy.deepcopy(cast("Spec", entry("drives", name).table))
    for part, field in (
        ("controller", "read_overhead_us"),
        ("controller", "read_iops_max"),
        ("flash", "read_us"),
        ("flash", "channel_bytes_per_s"),
    ):
        table[part][field] *= draw.uniform(0.7, 1.3)
    table["link_bytes_per_s"] *= draw.uniform(0.8, 1.1)
    return table


def learnt(table: Spec, seconds: float) -> LearntDrive:
    device = modelled_device(table, seed=4, script_seed=2)
    return learn_drive(device, name="learnt", seconds=seconds, kind=None, say=lambda _: None)


def assert_predicts(found: LearntDrive, table: Spec, loads: tuple[ReadLoad, ...]) -> None:
    """Loads that were not learnt: IOPS and median within 10 %, p99 within 20 %."""
    truth = modelled_loads(table, loads, requests=6000, seed=11)
    said = modelled_loads(found.table, loads, requests=6000, seed=12)
    for load, real, model in zip(loads, truth, said, strict=True):
        assert model.iops == pytest.approx(real.iops, rel=0.1), load.name
        if load.sequential:
            continue
        assert model.p50_s == pytest.approx(real.p50_s, rel=0.1), load.name
        assert model.p99_s == pytest.approx(real.p99_s, rel=0.2), load.name


def value(found: LearntDrive, name: str) -> float:
    return next(each.value for each in found.values if each.name == name)


@pytest.mark.slow  # 2 s of CPU time each
@pytest.mark.parametrize(
    ("name", "seed"), [("seagate-st3750640ns", 1), ("cheetah-9lp", 2), ("wd-wd3200bekt", 3)]
)
def test_a_disk_is_learnt_and_predicted(name: str, seed: int) -> None:
    table = changed_disk(name, seed)
    found = learnt(table, seconds=150)
    assert found.table["kind"] == "hdd"
    assert value(found, "rotation_rpm") == pytest.approx(table["rotation_rpm"], rel=1e-3)
    link = value(found, "link_bytes_per_s") * 1e6
    assert link == pytest.approx(table["link_bytes_per_s"], rel=0.02)
    assert value(found, "buffer.segments") == table["buffer"]["segments"]
    hit_us = value(found, "overhead.read_hit_after_read_us")
    assert hit_us == pytest.approx(table["controller_overhead_us"], rel=0.05)
    if name == "cheetah-9lp":
        assert value(found, "heads") == table["heads"]
        assert value(found, "track_skew_ms") == pytest.approx(table["head_switch_ms"], rel=0.02)
    assert_predicts(found, table, DISK_LOADS)


@pytest.mark.heavy  # 15 s of CPU time
def test_an_ssd_is_learnt_and_predicted() -> None:
    table = changed_ssd("corsair-f40", 5)
    found = learnt(table, seconds=60)
    assert found.table["kind"] == "ssd"
    assert value(found, "link_bytes_per_s") == pytest.approx(table["link_bytes_per_s"], rel=0.05)
    assert_predicts(found, table, SSD_LOADS)


def test_a_drive_of_another_kind_is_no_disk() -> None:
    device = modelled_device(entry("drives", "samsung-870-evo-1tb").table)
    with pytest.raises(NotLearntError, match="revolution"):
        learn_drive(device, name="x", seconds=30, kind="hdd", say=lambda _: None)


def test_a_device_that_cannot_be_opened_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"  # what the core says of it is what it says of a device
    with pytest.raises(OSError, match="No such file") as refused:
        _core.TimedBlockDevice(gone, False)
    assert isinstance(refused.value, FileNotFoundError)
    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(Path, "is_block_device", lambda _: True)
    with pytest.raises(StudyError, match="cannot be opened: No such file"):
        block_device(gone)


def test_the_file_is_a_drive_and_says_where_values_come_from(tmp_path: Path) -> None:
    found = learnt(changed_disk("hp-97560", 7), seconds=30)
    path = tmp_path / "my disk.toml"
    write_learnt(found, path, device="/dev/sdx", date="2026-01-02")
    table = tomllib.loads(path.read_text())
    assert table["name"] == "my disk"
    assert "/dev/sdx" in table["source"]["rotation_rpm"]
    missing = {name for name in table if name not in ("kind", "name", "about", "source")} - {
        name.split(".")[0] for name in table["source"]
    }
    assert not missing
    drive = cast("Spec", entry("drives", str(path)).table)
    _core.TimedModel(json.dumps(drive), 0, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", "--out", "x.toml"), "not found"),
        (("{file}", "--out", "x.toml"), "is no block device"),
        (("{file}", "--out", "x.toml", "--minutes", "11"), "--minutes"),
        (("{file}", "--out", "x.toml", "--kind", "tape"), "--kind"),
        (("{file}", "--out", "no/folder/x.toml"), "--out"),
    ],
)
def test_a_mistake_is_one_message(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    given = [word.format(file=file) for word in words]
    with pytest.raises(StudyError) as refused:
        CliRunner().invoke(make_app(), ["drive", "learn", *given], catch_exceptions=False)
    assert said in str(refused.value)


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    """Said before the reads, which take minutes: a drive file may have been edited."""
    mine = tmp_path / "mine.toml"
    mine.write_text("# my own words\n")
    with pytest.raises(RefusedError, match="is there already"):
        words = ["drive", "learn", "nowhere", "--out", str(mine)]
        CliRunner().invoke(make_app(), words, catch_exceptions=False)
    assert mine.read_text() == "# my own words\n"
