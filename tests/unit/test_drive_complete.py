"""`headrace drive complete`: published parameters of a disk's controller become fields of its
table."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog import entry
from headrace.cli.drive.completed import complete as command
from headrace.errors import RefusedError, StudyError

DISK = """
kind = "hdd"
name = "old-disk"  # a comment that stays
about = "a disk of two zones"
capacity_bytes = 8_192_000
rotation_rpm = 6000.0
heads = 2
zone = [
  { cylinders = 50, sectors_per_track = 100 },
  { cylinders = 50, sectors_per_track = 60 },
]
seek = { curve = "two_piece", short_base_ms = 1.0, short_root_ms = 0.1, boundary_cylinders = 50, \
long_base_ms = 1.5, long_slope_ms = 0.01 }
link_bytes_per_s = 40e6
queue = { depth = 1, reordering = 0.0 }
buffer = { segments = 2, segment_bytes = 65536, read_ahead_bytes = 65536, write_cache_bytes = 0 }
"""
OVERHEADS = "".join(
    f"{op}_{place}_over_after_{before} = {value}\n"
    for value, (op, place, before) in enumerate(
        (
            (op, place, before)
            for op in ("read", "write")
            for place in ("hit", "miss")
            for before in ("read", "write")
        ),
        1,
    )
)
CONTROLLER = (
    OVERHEADS
    + """
read_completion_overhead = 0.25
write_completion_overhead = 0.5
bulk_sector_transfer_time = 0.1
hold_bus_entire_read_xfer = 1
read_ahead_over_requested = 1
allow_read_hits_on_write_data = 1
buffer_continuous_read = 4
low_write_water_mark = 0.5
immediate_buffer_read = 1
combine_seq_writes = 1
zones = [[0, 49, 100, 7.0, 11.0], [50, 99, 60, 5.0, 9.0]]
"""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "old drives"
    place.mkdir()
    (place / "disk.toml").write_text(DISK)
    (place / "controller.toml").write_text(CONTROLLER)
    monkeypatch.chdir(place)
    return place


def complete(drive: str, controller: str, output: str = "whole.toml") -> str:
    """The problems that are reported; empty without any."""
    try:
        command(Path(drive), Path(controller), Path(output))
    except StudyError as error:
        return str(error)
    return ""


def test_the_parameters_are_fields_of_the_new_drive_with_their_source(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete("disk.toml", "controller.toml") == ""
    said = capsys.readouterr().err
    assert "not modelled: immediate_buffer_read = 1" in said and "combine_seq_writes" not in said
    made = entry("drives", "whole.toml")
    table = made.written
    assert table["name"] == "whole"
    assert table["overhead"]["read_hit_after_read_us"] == 1000.0
    assert table["overhead"]["write_miss_after_write_us"] == 8000.0
    assert table["overhead"]["write_completion_us"] == 500.0
    assert table["link_bytes_per_s"] == pytest.approx(5.12e6)
    assert table["hold_link"] is True
    assert table["buffer"]["read_ahead"] == "track_by_track"
    assert table["buffer"]["write_water_mark"] == 0.5
    assert table["buffer"]["keep_sent"] is False
    assert table["buffer"]["keep_written"] is False, "it has no write cache"
    assert table["buffer"]["segments"] == 2
    assert [zone["cylinder_skew_sectors"] for zone in table["zone"]] == [11.0, 9.0]
    assert made.source["buffer.read_ahead"] == "controller.toml: buffer_continuous_read"
    assert "# a comment that stays" in (folder / "whole.toml").read_text()
    assert (folder / "disk.toml").read_text() == DISK


def test_a_bus_without_a_time_keeps_the_link_of_the_table(folder: Path) -> None:
    text = CONTROLLER.replace("transfer_time = 0.1", "transfer_time = 0.0")
    (folder / "controller.toml").write_text(text)
    assert complete("disk.toml", "controller.toml") == ""
    assert entry("drives", "whole.toml").written["link_bytes_per_s"] == 40e6


def test_a_drive_without_read_ahead_and_without_zones(folder: Path) -> None:
    text = CONTROLLER.replace("continuous_read = 4", "continuous_read = 0")
    (folder / "controller.toml").write_text(text[: text.index("zones =")])
    assert complete("disk.toml", "controller.toml") == ""
    made = entry("drives", "whole.toml").written
    assert made["buffer"]["read_ahead_bytes"] == 0 and "track_skew_sectors" not in made["zone"][0]


BAD = {
    "missing": ("low_write_water_mark = 0.5", "", "low_write_water_mark: is missing"),
    "negative": ("read_completion_overhead = 0.25", "read_completion_overhead = -1", "or more"),
    "a rule": ("continuous_read = 4", "continuous_read = 9", "4 (track_by_track)"),
    "zones": (", [50, 99, 60, 5.0, 9.0]]", "]", "allowed: 2 rows"),
    "a zone": ("[50, 99, 60, 5.0, 9.0]", "[50, 99, 61, 5.0, 9.0]", "zones[1]: has other sectors"),
    "a row": ("[50, 99, 60, 5.0, 9.0]", "[50, 99]", "zones[1]: is not a zone"),
    "a word": ("buffer_continuous_read = 4", 'buffer_continuous_read = "4"', "must be a number"),
}


@pytest.mark.parametrize(("there", "instead", "said"), BAD.values(), ids=BAD)
def test_wrong_parameters_are_named_with_their_line(
    folder: Path, there: str, instead: str, said: str
) -> None:
    assert there in CONTROLLER
    (folder / "controller.toml").write_text(CONTROLLER.replace(there, instead))
    assert said in complete("disk.toml", "controller.toml")
    assert not (folder / "whole.toml").exists()


def test_an_existing_file_stays(folder: Path) -> None:
    with pytest.raises(RefusedError, match="already exists"):
        complete("disk.toml", "controller.toml", "disk.toml")
    assert (folder / "disk.toml").read_text() == DISK


def test_an_ssd_has_no_such_controller(folder: Path) -> None:
    ssd = entry("drives", "samsung-870-evo-1tb").file.read_text()
    (folder / "ssd.toml").write_text(ssd)
    assert "allowed: hdd" in complete("ssd.toml", "controller.toml")
