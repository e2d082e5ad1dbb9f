"""Every entry of the catalog loads, every value has a source or a reason, and mistakes are told by
file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog import SHELVES, entry, names, unsourced
from headrace.errors import StudyError

ALL = [(shelf, name) for shelf in SHELVES for name in names(shelf)]


@pytest.mark.parametrize(("shelf", "name"), ALL, ids=[f"{shelf}/{name}" for shelf, name in ALL])
def test_an_entry_loads_and_every_value_has_a_source_or_a_reason(shelf: str, name: str) -> None:
    found = entry(shelf, name)
    assert found.name == name
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
