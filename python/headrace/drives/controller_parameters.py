"""Controller and cache parameters of a disk by DiskSim's names, as fields of a drive table.

DiskSim (Carnegie Mellon University) published parameters of real disks, extracted by DIXtrac. Names
are those of its manual and its parameter files; times are in milliseconds, lengths in sectors.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, cast

import tomlkit

from headrace._core import SECTOR_BYTES
from headrace.document import Document
from headrace.errors import FileProblem, StudyError
from headrace.whole_file import write_errors, write_new

READ_AHEAD = {1: "track", 2: "cylinder", 3: "always", 4: "track_by_track"}
"""By `buffer_continuous_read`; 0 is none."""

_OVERHEADS = {
    f"{op}_{place}_over_after_{before}": f"{op}_{place}_after_{before}_us"
    for op in ("read", "write")
    for place in ("hit", "miss")
    for before in ("read", "write")
} | {f"{op}_completion_overhead": f"{op}_completion_us" for op in ("read", "write")}
_FLAGS = ("hold_bus_entire_read_xfer", "read_ahead_over_requested", "allow_read_hits_on_write_data")
_NUMBERS = ("bulk_sector_transfer_time", "low_write_water_mark", "buffer_continuous_read")
_REQUIRED = (*_OVERHEADS, *_FLAGS, *_NUMBERS)
_FIRST, _LAST, _SECTORS, _TRACK_SKEW, _CYLINDER_SKEW = range(5)
"""Columns of `zones`."""

_AS_MODELLED: dict[str, tuple[float, ...]] = {
    "time_scale_for_overheads": (1,),
    "set_watermark_by_reqsize": (0, 1),
    "calc_sector_by_sector": (0, 1),
    "enable_caching_in_buffer": (1, 2),
    "combine_seq_writes": (1,),
    "write_hit_stop_prefetch": (1,),
    "read_directly_to_buffer": (0, 1),
    "immed_transfer_partial_hit": (1,),
    "never_disconnect": (0, 1),
}
"""Values of parameters of which the model has no field, and does what they say. Others: 0."""
_OF_THE_DRIVE = frozenset(
    {
        *("print_stats", "avg_sectors_per_cylinder", "max_queue_length", "scheduling_policy"),
        *("number_of_buffer_segments", "maximum_number_of_write_segments", "segment_size_in_blks"),
        *("maximum_read_ahead_blks", "fast_write_level", "zones"),
    }
)
"""What a drive's own table states, or what concerns DiskSim alone."""


@dataclass(frozen=True)
class CompletedDrive:
    """A drive table with a controller's parameters."""

    table: dict[str, Any]
    fields: tuple[tuple[str, str], ...]
    """Fields that were set, by their dotted path, and the parameters they follow from."""
    not_modelled: tuple[str, ...]
    """Parameters with a value that no field of the model expresses."""


def completed(drive: Document, controller: Document) -> CompletedDrive:
    """Return the table of a disk with the parameters of its controller.

    Raises StudyError with the lines of missing and unusable parameters.
    """
    given = controller.values
    problems = _problems(drive, controller)
    if problems:
        raise StudyError(problems)
    table: dict[str, Any] = copy.deepcopy(drive.values)
    fields: list[tuple[str, str]] = []

    def put(path: str, value: object, parameter: str) -> None:
        *outer, last = path.split(".")
        inner = table
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
        fields.append((path, parameter))

    for parameter, field in _OVERHEADS.items():
        put(f"overhead.{field}", round(given[parameter] * 1e3, 6), parameter)
    if sector_ms := given["bulk_sector_transfer_time"]:
        rate = SECTOR_BYTES / (sector_ms * 1e-3)
        put("link_bytes_per_s", rate, "bulk_sector_transfer_time")
    put("hold_link", bool(given["hold_bus_entire_read_xfer"]), "hold_bus_entire_read_xfer")
    if rule := given["buffer_continuous_read"]:
        put("buffer.read_ahead", READ_AHEAD[rule], "buffer_continuous_read")
    else:
        put("buffer.read_ahead_bytes", 0, "buffer_continuous_read")
    put("buffer.write_water_mark", given["low_write_water_mark"], "low_write_water_mark")
    kept = not given["read_ahead_over_requested"]
    put("buffer.keep_sent", kept, "read_ahead_over_requested")
    cached = table["buffer"].get("write_cache_bytes", 1) > 0
    kept = cached and bool(given["allow_read_hits_on_write_data"])
    put("buffer.keep_written", kept, "allow_read_hits_on_write_data")
    if given.get("zones"):
        for zone, row in zip(table["zone"], given["zones"], strict=True):
            zone["track_skew_sectors"] = row[_TRACK_SKEW]
            zone["cylinder_skew_sectors"] = row[_CYLINDER_SKEW]
        fields.append(("zone", "zones: skews at a track and a cylinder switch"))
    return CompletedDrive(table, tuple(fields), _not_modelled(given))


def _problems(drive: Document, controller: Document) -> list[FileProblem]:
    given = controller.values
    found: list[FileProblem] = []
    if drive.values.get("kind") != "hdd":
        kind = drive.values.get("kind", "")
        found.append(drive.problem(("kind",), "has no such controller", given=kind, allowed="hdd"))
    for name in _REQUIRED:
        value = given.get(name)
        if value is None:
            found.append(controller.problem((name,), "is missing", allowed="a number"))
        elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            found.append(
                controller.problem(
                    (name,), "must be a number", given=value, allowed="0 or more, as DiskSim has it"
                )
            )
    ahead = given.get("buffer_continuous_read")
    if not found and ahead and ahead not in READ_AHEAD:
        found.append(
            controller.problem(
                ("buffer_continuous_read",),
                "is not a rule of read-ahead that is modelled",
                given=ahead,
                allowed="0 (none), "
                + ", ".join(f"{number} ({name})" for number, name in READ_AHEAD.items()),
            )
        )
    return found + _zone_problems(drive, controller)


def _zone_problems(drive: Document, controller: Document) -> list[FileProblem]:
    rows: object = controller.values.get("zones")
    if rows is None:
        return []
    zones = cast("list[dict[str, Any]]", drive.values.get("zone", []))
    columns = "[first cylinder, last cylinder, sectors per track, track skew, cylinder skew]"
    if not isinstance(rows, list) or len(cast("list[object]", rows)) != len(zones):
        allowed = f"{len(zones)} rows, as the drive has zones"
        return [controller.problem(("zones",), "must be a table of the drive's", allowed=allowed)]
    found: list[FileProblem] = []
    for number, (zone, row) in enumerate(zip(zones, cast("list[object]", rows), strict=True)):
        place = ("zones", number)
        if not _is_row(row):
            found.append(controller.problem(place, "is not a zone", given=row, allowed=columns))
        elif row[_SECTORS] != zone.get("sectors_per_track"):
            found.append(
                controller.problem(
                    place,
                    "has other sectors per track than the drive's zone",
                    given=row[_SECTORS],
                    allowed=str(zone.get("sectors_per_track")),
                )
            )
    return found


def _is_row(row: object) -> TypeGuard[list[float]]:
    if not isinstance(row, list):
        return False
    cells = cast("list[object]", row)
    return len(cells) == _CYLINDER_SKEW + 1 and all(
        isinstance(cell, int | float) and not isinstance(cell, bool) and cell >= 0 for cell in cells
    )


def _not_modelled(given: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{name} = {value}"
        for name, value in given.items()
        if name not in _REQUIRED
        and name not in _OF_THE_DRIVE
        and value not in _AS_MODELLED.get(name, (0,))
    )


def write_completed(made: CompletedDrive, drive: Document, controller: Path, path: Path) -> None:
    """Write a new drive file: the drive's own with the fields that were set and their sources.

    Raises HeadraceError if it cannot be written.
    """
    document: Any = tomlkit.parse(drive.raw.decode())
    document["name"] = path.stem
    source = document.setdefault("source", tomlkit.table())
    for field, parameter in made.fields:
        *outer, last = field.split(".")
        into, values = document, made.table
        for name in outer:
            values = values[name]
            into = into.setdefault(name, tomlkit.inline_table())
        if last == "zone":
            for zone, completed_zone in zip(document["zone"], values["zone"], strict=True):
                zone |= completed_zone
        else:
            into[last] = values[last]
        source[field] = f"{controller.name}: {parameter}"
    text = tomlkit.dumps(document)
    with write_errors(path):
        write_new(path, text)  # another program may have made it meanwhile
