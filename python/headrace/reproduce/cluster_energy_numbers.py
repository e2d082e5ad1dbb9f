"""Reproduction of *cluster-energy*: every published number with the obtained one."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.reproduce.cells import ObtainedCells
from headrace.reproduce.cluster_energy_cells import (
    BEST_FILESYSTEM,
    BEST_SCHEDULER,
    CORES,
    by_both,
    by_filesystem,
    by_scheduler,
    combined,
    energy_as_published_wh,
    energy_wh,
    gains,
    nas_over_idle_w,
    slotted,
    time_min,
    variation,
)
from headrace.reproduce.published import Number, Published, PublishedTable, minutes


def _row_numbers(table: PublishedTable, index: int, label: str, of: Any) -> list[Number]:
    """Return the four values of a row: energy and time at relative slot size 1 and 3."""
    found: list[Number] = []
    for size, slots in ((1, 4), (3, 12)):
        cell = of(slots)
        reading = f"{energy_wh(cell):.2f} Wh a job"
        found.append(
            table.compared(
                index, f"wh_slot{size}", label, "Wh", energy_as_published_wh(cell), reading=reading
            )
        )
        given = minutes(str(table.value(index, f"time_slot{size}")))
        found.append(
            table.compared(
                index,
                f"time_slot{size}",
                label,
                "min",
                time_min(cell),
                given=given,
                shown=round(given, 2),
            )
        )
    return found


def _points(table: PublishedTable, index: int, column: str, label: str, obtained: float) -> Number:
    return table.compared(index, column, label, "", obtained, points=True)


def numbers(cells: ObtainedCells, published: Published) -> list[Number]:
    """Return every published number with the obtained one."""
    found: list[Number] = []
    table = published.tables["filesystem"]
    for index in range(len(table.rows)):
        scheme, drive, filesystem = table.rows[index][:3]
        of = partial(combined, cells, scheme, drive, filesystem, BEST_SCHEDULER[scheme])
        found += _row_numbers(table, index, f"{scheme} {drive} {filesystem}", of)
    for id, scheme in (("scheduler-local", "local"), ("scheduler-nas", "nas")):
        table = published.tables[id]
        for index in range(len(table.rows)):
            drive, scheduler = table.rows[index][:2]
            of = partial(combined, cells, scheme, drive, BEST_FILESYSTEM[drive], scheduler)
            found += _row_numbers(table, index, f"{scheme} {drive} {scheduler}", of)
    table = published.tables["best-case"]
    for index in range(len(table.rows)):
        scheme, drive = table.rows[index][:2]
        found += _row_numbers(
            table, index, f"{scheme} {drive}", partial(slotted, cells, scheme, drive)
        )
    for id, choose in (
        ("filesystem-variation", by_filesystem),
        ("scheduler-variation", by_scheduler),
    ):
        table = published.tables[id]
        for index in range(len(table.rows)):
            scheme, drive = table.rows[index][:2]
            for size, slots in ((1, 4), (3, 12)):
                energy, time = variation(choose(cells, scheme, drive, slots))
                found.append(
                    _points(table, index, f"energy_slot{size}", f"{scheme} {drive}", energy)
                )
                found.append(
                    _points(table, index, f"performance_slot{size}", f"{scheme} {drive}", time)
                )
    table = published.tables["combined-variation"]
    for index in range(len(table.rows)):
        drive, scheme, size = table.rows[index][:3]
        energy, time = variation(by_both(cells, scheme, drive, CORES * size))
        found.append(_points(table, index, "energy", f"{scheme} {drive}, slot size {size}", energy))
        found.append(_points(table, index, "time", f"{scheme} {drive}, slot size {size}", time))
    table = published.tables["nas-power"]
    for index in range(len(table.rows)):
        state, drives, _ = table.rows[index]
        obtained = nas_over_idle_w(cells, str(drives).split()[1], str(state))
        found.append(
            table.compared(index, "power_over_bare_idle_w", f"{state}, {drives}", "W", obtained)
        )
    table = published.tables["slot-gain"]
    for index in range(len(table.rows)):
        drive = table.rows[index][0]
        obtained = gains(cells, drive)
        found.append(_points(table, index, "gain_low", drive, min(obtained.values())))
        found.append(_points(table, index, "gain_high", drive, max(obtained.values())))
    return found
