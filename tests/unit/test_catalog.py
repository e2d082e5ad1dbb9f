"""Every entry of the catalog loads, every value has a source or a reason, and mistakes are told by
file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog import SHELVES, entry, names, unsourced
from headrace.drives import Load, run_drive
from headrace.errors import StudyError
from headrace.study.fields import anchor_drives

ALL = [(shelf, name) for shelf in SHELVES for name in names(shelf)]


@pytest.mark.parametrize(("shelf", "name"), ALL, ids=[f"{shelf}/{name}" for shelf, name in ALL])
def test_an_entry_loads_and_every_value_has_a_source_or_a_reason(shelf: str, name: str) -> None:
    found = entry(shelf, name)
    assert found.name == name
    assert entry(shelf, str(found.file)).name == name  # as a file, which is checked
    assert unsourced(found) == []
    assert all(text.strip() for text in found.source.values())


def test_no_source_stands_for_a_field_that_is_not_there() -> None:
    for shelf, name in ALL:
        found = entry(shelf, name)
        for field in found.source:
            inner = [found.written]
            for part in field.split("."):
                values = [each[part] for each in inner if isinstance(each, dict) and part in each]
                inner = [
                    item
                    for value in values
                    for item in (value if isinstance(value, list) else [value])
                ]
            assert values, f"{shelf}/{name}: [source] names {field}, which the entry does not have"


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(StudyError) as caught:
        entry("drives", "corsair-f4")
    assert 'did you mean "corsair-f40"' in str(caught.value.problems[0])


def drive(tmp_path: Path, old: str, new: str) -> Path:
    text = entry("drives", "wd-wd3200bekt").file.read_text()
    assert old in text
    path = tmp_path / "own.toml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_an_impossible_geometry_is_told_by_line_and_field(tmp_path: Path) -> None:
    path = drive(tmp_path, "rotation_rpm = 7200", "rotation_rpm = 5")
    with pytest.raises(StudyError) as caught:
        entry("drives", str(path))
    fault = caught.value.problems[0]
    assert fault.field == "rotation_rpm"
    assert path.read_text().splitlines()[fault.line - 1].startswith("rotation_rpm")
    assert fault.allowed


def test_an_unknown_field_is_told(tmp_path: Path) -> None:
    path = drive(tmp_path, "rotation_rpm", "rotation_rmp")
    with pytest.raises(StudyError) as caught:
        entry("drives", str(path))
    assert "rotation_rmp" in str(caught.value.problems[0])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="the drive cannot be read: No such file"):
        entry("drives", str(tmp_path / "none.toml"))


def test_the_state_of_a_write_cache_is_stated_where_a_drive_is_named(tmp_path: Path) -> None:
    disk = "seagate-st3750640ns"

    def writes_per_s(drive: str, **options: Path) -> float:
        load = Load(rw="randwrite", bs_bytes=4096, iodepth=4, runtime_s=60, ramp_time_s=10)
        return run_drive(entry("drives", drive, **options).table, load)["write"]["iops"]

    through = writes_per_s(f"{disk} write-cache=off")
    assert through < 0.7 * writes_per_s(disk)
    assert writes_per_s(f"{disk} write-cache=on") == writes_per_s(disk)
    assert (
        entry("drives", f"{disk} write-cache=16MiB").table["buffer"]["write_cache_bytes"] == 2**24
    )
    # A file, too, wherever the study lies.
    (tmp_path / "my disk.toml").write_text(entry("drives", disk).file.read_text())
    assert writes_per_s("my disk.toml write-cache=off", base=tmp_path) == through
    anchored = anchor_drives({"drive": "my disk.toml write-cache=off"}, tmp_path)
    assert anchored == {"drive": f"{tmp_path}/my disk.toml write-cache=off"}
    for drive, message in (
        (f"{disk} write-cache=maybe", "on, off, or a size"),
        (f"{disk} write-cache=", "on, off, or a size"),
        (f"{disk} write-cache=9000 TB", "no drive|cannot be true|of this name"),
        ("corsair-f40 write-cache=off", "only a disk"),
        ("seagate-st375064ns write-cache=off", "did you mean"),
    ):
        with pytest.raises(StudyError, match=message):
            entry("drives", drive)


def test_a_file_with_a_dollar_sign_in_its_name_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a command line the shell replaces variables, and a study's paths come here replaced."""
    text = entry("drives", "samsung-870-evo-1tb").file.read_text()
    for name in ("a$HOME.toml", "b$no_such_variable.toml", "c$.toml"):
        file = tmp_path / name
        file.write_text(text)
        assert entry("drives", str(file)).file == file
    (tmp_path / "own.toml").write_text(text)
    monkeypatch.setenv("DRIVES", str(tmp_path))
    assert entry("drives", "$DRIVES/own.toml").file == tmp_path / "own.toml"
