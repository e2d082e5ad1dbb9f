"""Drive files that users write: what is wrong is named with its line, field and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog import entry
from headrace.drives.running import Load, run_drive
from headrace.errors import StudyError

DISK = """kind = "hdd"
name = "mine"
capacity_bytes = 500_107_862_016
rotation_rpm = 7200.0
heads = 4
rates = { outer_bytes_per_s = 110e6 }
link_bytes_per_s = 300e6
queue = { depth = 32 }

[seek]
curve = "sheet"
track_to_track_ms = 0.8
average_ms = 8.5

[source]
heads = "assumption"
"""


def told(tmp_path: Path, old: str, new: str) -> str:
    file = tmp_path / "disk.toml"
    assert old in DISK
    file.write_text(DISK.replace(old, new))
    with pytest.raises(StudyError) as caught:
        entry("drives", str(file))
    return str(caught.value).replace(str(file), "disk.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'kind = "hdd"',
            'kind = "disk"',
            'disk.toml:1: kind: not one of the allowed values (given: "disk"); allowed: hdd, ssd',
        ),
        ('kind = "hdd"', "", "disk.toml: kind: is missing; allowed: hdd, ssd"),
        ('name = "mine"', "name = 5", "disk.toml:2: name: must be text (given: 5)"),
        ('name = "mine"', 'name = ""', 'disk.toml:2: name: must not be empty (given: "")'),
        (
            "rotation_rpm = 7200.0",
            "rotation_rpm = 5.4",
            "disk.toml:4: rotation_rpm: cannot be true (given: 5.4); allowed: 60 to 60000",
        ),
        (
            "rotation_rpm = 7200.0",
            'rotation_rpm = "7200"',
            'disk.toml:4: rotation_rpm: must be a number (given: "7200")',
        ),
        (
            "heads = 4",
            "heads = [4]",
            "disk.toml:5: heads: must be a whole number from 0 to 4294967295 (given: [4])",
        ),
        (
            'curve = "sheet"',
            'curve = ""',
            'disk.toml:11: seek.curve: not one of the allowed values (given: ""); allowed: sheet, '
            "two_piece, table",
        ),
        ('curve = "sheet"', "", "disk.toml:10: seek.curve: is missing"),
        (
            "depth = 32",
            "dpth = 32",
            'disk.toml:8: queue.dpth: unknown field; did you mean "depth"? (given: "dpth"); '
            "allowed: depth, ",
        ),
        ("queue = { depth = 32 }", "queue = 32", "queue: must be a table (given: 32)"),
        (
            'heads = "assumption"',
            "heads = 4",
            "disk.toml:16: source.heads: must be text (given: 4)",
        ),
    ],
)
def test_each_mistake_of_a_drive_is_told_at_its_field(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert message in told(tmp_path, old, new)


def test_a_drive_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "my disk.toml"
    file.write_text(DISK.replace('name = "mine"\n', ""))
    drive = entry("drives", str(file))
    assert drive.name == "my disk"
    assert run_drive(drive.table, Load(rw="read", bs_bytes=4096, runtime_s=1))["read"]["iops"] > 0


def test_a_drive_s_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "disk.toml"
    file.write_text("\ufeff" + DISK.replace("\n", "\r\n"))
    assert entry("drives", str(file)).name == "mine"
