"""Arguments and options that commands of `headrace drive …` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.errors import FileProblem, StudyError
from headrace.raid import LEAST_DRIVES, MOST_CHUNK_BYTES, SMALLEST_CHUNK_BYTES

if TYPE_CHECKING:
    from headrace.catalog import CatalogEntry
    from headrace.scenario import Table

MOST_IODEPTH = 1 << 20
MOST_INTEGER = (1 << 63) - 1
"""Of seeds and counts: the core has 64 bits."""
MOST_DRIVES = 512
"""Of a RAID, like the next: bounds of the core (crates/model/src/raid/spec.rs)."""
USUAL_CHUNK_BYTES = 64 << 10

Drive = Annotated[str, typer.Argument(help="a drive of the catalog, or a TOML file of your own")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Raid = Annotated[
    int | None, typer.Option(help="level of a RAID of several such drives: 0, 1, 5, 6, 10")
]
Drives = Annotated[int | None, typer.Option(help="number of drives in the RAID")]
Chunk = Annotated[str | None, typer.Option(help="chunk size of the RAID (default: 64k)")]
Controller = Annotated[
    str | None,
    typer.Option(help="a RAID controller of the catalog, or a TOML file (default: Linux md)"),
]
NoBattery = Annotated[
    bool,
    typer.Option("--no-battery", help="the controller has no battery: its cache writes through"),
]


def wrong(option: str, given: str, problem: str, allowed: str = "") -> StudyError:
    """Return the error for a wrong option or argument."""
    return StudyError([FileProblem(Path("command line"), 0, option, given, problem, allowed)])


def given(option: str, text: str, parse: Any) -> Any:
    """Return the parsed value of an option. Raises StudyError if it cannot be parsed."""
    try:
        return parse(text)
    except ValueError as error:
        raise wrong(option, "", str(error)) from None


def check_range(option: str, value: int | None, least: int, most: int) -> None:
    """Refuse a number outside its bounds, unlike typer with what was given. Raises StudyError."""
    if value is not None and not least <= value <= most:
        raise wrong(option, str(value), "out of range", f"{least} to {most}")


def drive_of(name: str) -> CatalogEntry:
    """Return the drive that the argument DRIVE names. Raises StudyError."""
    return _of_catalog("drives", "DRIVE", name)


def _of_catalog(shelf: str, option: str, name: str) -> CatalogEntry:
    """Return an entry of the catalog, or of a TOML file. Raises StudyError; a wrong name is a
    problem of `option`."""
    from headrace.catalog import entry, names
    from headrace.catalog.write_cache import stated_cache
    from headrace.registry import nearest

    plain, known = stated_cache(name)[0], names(shelf)
    if plain.endswith(".toml") or plain in known:
        return entry(shelf, name)
    near = nearest(plain, list(known))
    problem = f"there is no {shelf.removesuffix('s')} of this name in the catalog"
    if near:
        raise wrong(option, f'"{plain}"', f'{problem}; did you mean "{near}"?')
    raise wrong(option, f'"{plain}"', problem, ", ".join((*known, "a TOML file")))


def check_alone(drives: int | None, chunk: str | None) -> None:
    """Refuse options of a RAID without one. Raises StudyError."""
    if drives is not None:
        raise wrong("--drives", str(drives), "only a RAID has several drives", "with --raid LEVEL")
    if chunk is not None:
        raise wrong("--chunk", chunk, "only a RAID has a chunk size", "with --raid LEVEL")


def checked_drives(level: int, drives: int | None) -> int:
    """Return the number of drives of a RAID. Raises StudyError for what cannot be, or if it is not
    given."""
    if level not in LEAST_DRIVES:
        known = ", ".join(str(each) for each in LEAST_DRIVES)
        raise wrong("--raid", str(level), "not a RAID level", known)
    even = ", an even number" if level == 10 else ""
    allowed = f"{LEAST_DRIVES[level]} to {MOST_DRIVES}{even}"
    if drives is None:
        raise wrong("--drives", "", f"RAID {level} needs the number of its drives", allowed)
    if not LEAST_DRIVES[level] <= drives <= MOST_DRIVES or (even and drives % 2):
        problem = f"RAID {level} cannot have that many drives"
        raise wrong("--drives", str(drives), problem, allowed)
    return drives


def check_chunk(chunk: str, chunk_bytes: int) -> None:
    """Refuse a size that no chunk can have. Raises StudyError."""
    whole = chunk_bytes % SMALLEST_CHUNK_BYTES == 0
    if not SMALLEST_CHUNK_BYTES <= chunk_bytes <= MOST_CHUNK_BYTES or not whole:
        allowed = f"multiples of {SMALLEST_CHUNK_BYTES} bytes up to 1 GiB"
        raise wrong("--chunk", chunk, "not a chunk size", allowed)


def array_of(
    level: int | None,
    drives: int | None,
    chunk: str | None,
    controller: str | None = None,
    *,
    battery: bool = True,
) -> Table | None:
    """Return the RAID of the options; None without one. Raises StudyError."""
    from headrace.drives import parse_fio_bytes

    if level is None:
        check_alone(drives, chunk)
        if controller is not None:
            raise wrong("--controller", controller, "a controller needs --raid", "--raid LEVEL")
    if controller is None and not battery:
        raise wrong("--no-battery", "", "only a controller has one", "--controller NAME")
    if level is None:
        return None
    array: Table = {"level": level, "drives": checked_drives(level, drives)}
    array["chunk_bytes"] = USUAL_CHUNK_BYTES
    if chunk is not None:
        array["chunk_bytes"] = given("--chunk", chunk, parse_fio_bytes)
        check_chunk(chunk, array["chunk_bytes"])
    if controller is not None:
        found = _of_catalog("controllers", "--controller", controller)
        array["controller"] = found.table.part() | {"battery": battery}
    return array
