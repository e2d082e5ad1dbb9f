"""Arguments and options that commands of `headrace drive …` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.errors import FileProblem, StudyError

if TYPE_CHECKING:
    from headrace.scenario import Table

Drive = Annotated[str, typer.Argument(help="a drive of the catalog, or a TOML file of your own")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Raid = Annotated[
    int | None, typer.Option(help="level of a RAID of several such drives: 0, 1, 5, 6, 10")
]
Drives = Annotated[int, typer.Option(min=1, help="drives of the RAID")]
Chunk = Annotated[str, typer.Option(help="chunk of the RAID")]
Controller = Annotated[
    str | None,
    typer.Option(help="a RAID controller of the catalog, or a TOML file, in place of Linux md"),
]
NoBattery = Annotated[
    bool, typer.Option("--no-battery", help="the controller's cache writes through")
]


def array_of(
    level: int | None,
    drives: int,
    chunk: str,
    controller: str | None = None,
    *,
    battery: bool = True,
) -> Table | None:
    """Return the RAID of the options; None without one. Raises StudyError."""
    from headrace.catalog import entry
    from headrace.drives import parse_fio_bytes

    if level is None:
        if drives != 1:
            raise _needs("--drives", str(drives), "several drives need --raid", "--raid LEVEL")
        if controller is not None:
            raise _needs("--controller", controller, "a controller needs --raid", "--raid LEVEL")
    if controller is None and not battery:
        raise _needs("--no-battery", "", "only a controller has one", "--controller NAME")
    if level is None:
        return None
    array: Table = {
        "level": level,
        "drives": drives,
        "chunk_bytes": given("--chunk", chunk, parse_fio_bytes),
    }
    if controller is not None:
        array["controller"] = entry("controllers", controller).table.part() | {"battery": battery}
    return array


def _needs(option: str, value: str, problem: str, allowed: str) -> StudyError:
    return StudyError([FileProblem(Path("command line"), 0, option, value, problem, allowed)])


def given(option: str, text: str, parse: Any) -> Any:
    """Return the parsed value of an option. Raises StudyError if it cannot be parsed."""
    try:
        return parse(text)
    except ValueError as error:
        raise StudyError([FileProblem(Path("command line"), 0, option, "", str(error))]) from None
