"""Reproduction of *cluster-energy*: energy efficiency of data storage in cluster computing
(Tuominen, CERN)."""

from __future__ import annotations

from headrace.reproduce.cells import ObtainedCells
from headrace.reproduce.cluster_energy_cells import (
    DRIVE,
    PARTS,
    SAMPLE,
    SCHEMES,
    WHOLE,
    energy_as_published_wh,
    slotted,
    time_min,
)
from headrace.reproduce.cluster_energy_findings import MISSING, findings
from headrace.reproduce.cluster_energy_numbers import numbers
from headrace.reproduce.published import Published, minutes
from headrace.reproduce.study import Figure, FreeParameter, Series, StudyModule

PARAMETERS = (
    FreeParameter(
        "CPU work before each read",
        "profiles",
        SAMPLE,
        ("steps", 2, "cpu_ns"),
        "ns",
        2e7,
        5e8,
        "filesystem rows 1, 4",
        ((WHOLE, ("steps", 2, "cpu_ns")),),
    ),
    FreeParameter(
        "wait for what is neither CPU nor storage, in a fiftieth of a job",
        "profiles",
        SAMPLE,
        ("steps", 1, "wait_ns"),
        "ns",
        1e8,
        4e9,
        "filesystem rows 1, 4",
        ((WHOLE, ("steps", 1, "wait_ns")),),
        PARTS,
    ),
    FreeParameter(
        "reads of a fiftieth of a job",
        "profiles",
        SAMPLE,
        ("steps", 2, "count"),
        "reads",
        50,
        1000,
        "filesystem rows 1, 4",
        ((WHOLE, ("steps", 2, "count")),),
        PARTS,
    ),
    FreeParameter(
        "idle power of a node",
        "nodes",
        "dell-r210",
        ("power", "idle_w"),
        "W",
        30,
        80,
        "filesystem rows 1, 4",
    ),
    FreeParameter(
        "power of a busy core",
        "nodes",
        "dell-r210",
        ("power", "core_w"),
        "W",
        4,
        25,
        "filesystem rows 1, 4",
    ),
)


def figures(cells: ObtainedCells, published: Published) -> list[Figure]:
    """Return energy and time by scheme and slot size."""
    labels = tuple(f"{scheme} {drive}" for scheme in SCHEMES for drive in DRIVE)
    keys = [(scheme, drive) for scheme in SCHEMES for drive in DRIVE]
    table = published.tables["best-case"]
    given = {(row[0], row[1]): table.row(index) for index, row in enumerate(table.rows)}
    found: list[Figure] = []
    for title, unit, column in (
        ("Energy a job (as published)", "Wh", "wh"),
        ("Processing time a relative slot", "min", "time"),
    ):
        series: list[Series] = []
        for size, slots in ((1, 4), (3, 12)):
            value = [
                float(given[key][f"wh_slot{size}"])
                if column == "wh"
                else minutes(given[key][f"time_slot{size}"])
                for key in keys
            ]
            series.append(
                Series(f"published, slot size {size}", labels, tuple(value), published=True)
            )
            own = [slotted(cells, *key, slots) for key in keys]
            series.append(
                Series(
                    f"obtained, slot size {size}",
                    labels,
                    tuple(
                        energy_as_published_wh(cell) if column == "wh" else time_min(cell)
                        for cell in own
                    ),
                )
            )
        found.append(Figure(title, "scheme and drive", unit, "bars", tuple(series)))
    series = [
        Series(
            f"{scheme} {drive}",
            (0.5, 1, 2, 3),
            tuple(time_min(slotted(cells, scheme, drive, slots)) for slots in (2, 4, 8, 12)),
        )
        for scheme, drive in keys
    ]
    found.append(
        Figure(
            "Processing time against relative slot size",
            "relative slot size",
            "min",
            "lines",
            tuple(series),
        )
    )
    return found


STUDY = StudyModule(
    id="cluster-energy",
    files=(
        "cluster-energy/schemes.toml",
        "cluster-energy/slots.toml",
        "cluster-energy/read-ahead.toml",
    ),
    parameters=PARAMETERS,
    numbers=numbers,
    findings=findings,
    figures=figures,
    missing=MISSING,
    calibration=lambda cell: (
        cell.file == "schemes"
        and cell.target == "local"
        and cell.levels["filesystem"] == "ext4"
        and cell.levels["scheduler"] == "deadline"
    ),
)
