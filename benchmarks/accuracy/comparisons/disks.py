"""Hard disk model against five real disks, request by request."""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path
from typing import Any

from headrace.catalog import entry
from headrace.document import read_document
from headrace.drives import read_trace, validate_drive
from headrace.drives.controller_parameters import completed
from headrace.drives.validating import Validation
from rows import Comparison, Missing, Row

DISKS = {
    "cheetah9lp": ("Cheetah 9LP", 0.107),
    "atlas10k": ("Atlas 10K", 0.268),
    "barracuda": ("Barracuda ST32171W", 0.348),
    "c2490a": ("HP C2490A", 0.254),
    "rz26": ("DEC RZ26", 0.341),
}
"""File name: the disk, and the demerit of DiskSim's own model in milliseconds."""
BUS_MS = {"c2490a": 0.14841}
"""Time of a sector on the bus: the published parameters of this disk have none; this one is of
DiskSim's own file for it."""
SPARES = {"rz26": 1}
"""Sectors of each track without data: one of 58 gives the published capacity, 2570 cylinders of 14
tracks, and the published seek curve ends at 2569 cylinders."""
ANGLES = 6


def drive_table(name: str, folder: Path) -> dict[str, Any]:
    """Return the drive table of a disk's published parameters, as they are."""
    table = completed(
        read_document(folder / f"{name}.toml"), read_document(folder / f"{name}.controller.toml")
    ).table
    if name in BUS_MS:
        table["link_bytes_per_s"] = 512 / (BUS_MS[name] * 1e-3)
    for zone in table["zone"]:
        zone["spare_sectors_per_track"] = SPARES.get(name, 0)
    return table


def as_toml(table: dict[str, Any]) -> str:
    """Return a table of plain values as TOML, one key per line."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(each)}' for key, each in value.items())} }}"
    return repr(value)


def validated(name: str, folder: Path) -> Validation:
    """Replay a disk's trace on the model of its published parameters."""
    trace = folder / f"{name}.csv.xz"
    with tempfile.TemporaryDirectory(prefix="headrace-accuracy-") as made:
        file = Path(made) / f"{name}.toml"
        file.write_text(as_toml(drive_table(name, folder)))
        plain = Path(made) / f"{name}.csv"
        plain.write_bytes(lzma.decompress(trace.read_bytes()))
        return validate_drive(entry("drives", str(file)), [read_trace(plain)], angles=ANGLES)


def _disks(data: Path | None) -> tuple[Path, list[str]]:
    """Return the folder of the measurements, and the disks there: known ones first."""
    wanted = "DATA=FOLDER with disks/NAME.csv.xz, NAME.toml and NAME.controller.toml of disks"
    if data is None:
        raise Missing(wanted)
    folder = data / "disks" if (data / "disks").is_dir() else data
    found = [file.name.removesuffix(".csv.xz") for file in sorted(folder.glob("*.csv.xz"))]
    if not found:
        raise Missing(f"no NAME.csv.xz in {folder}; {wanted}")
    for name in found:
        for end in ("toml", "controller.toml"):
            if not (folder / f"{name}.{end}").exists():
                raise Missing(f"{folder / name}.{end}; {wanted}")
    known = [name for name in DISKS if name in found]
    return folder, known + [name for name in found if name not in DISKS]


def rows(data: Path | None) -> list[Row]:
    """Return one row per disk: mean response times, and the demerit as the error.

    A disk that is not among the five is predicted: no rule of the model was chosen with it.
    """
    folder, names = _disks(data)
    found: list[Row] = []
    for name in names:
        disk, disksim_ms = DISKS.get(name, (name, None))
        result = validated(name, folder)
        found.append(
            Row(
                f"{disk}, {result.requests} reads and writes",
                "ms",
                result.modelled_mean_ns / 1e6,
                result.measured_mean_ns / 1e6,
                result.demerit_ns / 1e6,
                result.null_demerit_ns / 1e6,
                "assumption" if name in DISKS else "predicted",
                "ms",
                "" if disksim_ms is None else f"DiskSim's own model {disksim_ms} ms",
            )
        )
    return found


COMPARISON = Comparison(
    title="Five disks, request by request",
    model="hard disk",
    source=(
        "the validation traces of DiskSim (Carnegie Mellon University): response times of 8 000 "
        "to 10 000 reads and writes per disk, one at a time. The model has the parameters "
        "published with them, as they are; nothing is fitted."
    ),
    null=(
        "every request takes the mean measured time, which it knows; its error is the spread of "
        "the measured times."
    ),
    rows=rows,
    command="make accuracy ONLY=disks DATA=FOLDER",
    notes=(
        "The error is the demerit: root mean square horizontal distance between the two "
        "distributions of response times, the mean of six angles of the platter at the start.",
        '`read_ahead = "track_by_track"` (DiskSim\'s "DEC prefetch scheme") was added after the '
        "traces had been seen, for the disks whose published parameters name it: assumption.",
        "The mechanisms (overheads by kind, a slower bus, skews by zone, read-ahead rules) were "
        "built because these traces showed that they were missing. Each is one that the published "
        "parameters name, with their values.",
        "So were the buffer's rules: data that were sent are dropped where published parameters "
        "let read-ahead take their place, writes drop segments with old data, and a write is a hit "
        "if it is cached. RZ26: one spare sector per track, from its capacity.",
        "The C2490A's bus rate is not among its published parameters; it is that of DiskSim's own "
        "file for this disk. Its overheads by kind err by up to 3 ms in opposite directions, so "
        "its small demerit is partly luck.",
    ),
)
