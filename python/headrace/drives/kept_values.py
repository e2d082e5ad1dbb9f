"""Values of a drive that a fit leaves as they are, and whether the results depend on them.

They are those of a data sheet, such as the greatest number of requests per second, and those that
take hours to show, such as spare flash. A fit that says nothing of them lets their defaults pass
for measured values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from headrace.scenario import Table

FACTOR = 1.5
"""A value is raised and lowered by this factor, to see which results follow."""
SLC_BYTES = 1 << 30
"""Size of the SLC cache that a drive without one is tried with."""
SLC_SPEED = 4
"""How many times faster than its other flash that cache is programmed."""

NUMBERS: dict[str, tuple[tuple[str, float | None], ...]] = {
    "ssd": (
        ("controller.read_iops_max", None),
        ("controller.write_iops_max", None),
        ("link_bytes_per_s", None),
        ("flash.channel_bytes_per_s", None),
        ("flash.channels", None),
        ("flash.dies_per_channel", None),
        ("write_buffer_bytes", 1 << 20),
        ("spare_ratio", 0.07),
    ),
    "hdd": (("link_bytes_per_s", None), ("buffer.write_cache_bytes", None)),
}
"""Numbers that stay, by kind of drive, and the model's default where the table may lack them."""

Logs = Callable[[Table], npt.NDArray[np.float64] | None]
"""Returns log(model/measured) of every result; None for a drive that cannot be."""


@dataclass(frozen=True)
class Kept:
    """One value that the fit did not touch."""

    name: str
    value: str
    """The table's, or the model's default."""
    stated: bool
    """Whether the table has it."""
    effect: float
    """Largest change of the logarithm of a result when the value is changed by `FACTOR`."""


def kept_values(table: Table, logs: Logs) -> list[Kept]:
    """Return the values that stay of a fitted drive, and what the results make of changes."""
    base = logs(table)
    if base is None:
        return []

    def effect_of(tried: list[Table]) -> float:
        found = (logs(each) for each in tried)
        apart = (float(np.max(np.abs(each - base))) for each in found if each is not None)
        return max(apart, default=0.0)

    kept: list[Kept] = []
    for name, default in NUMBERS.get(str(table["kind"]), ()):
        stated = _number(table, name)
        value = default if stated is None else stated
        if value:
            tried = [_changed(table, name, value * factor) for factor in (1 / FACTOR, FACTOR)]
            kept.append(Kept(name, f"{value:.6g}", stated is not None, effect_of(tried)))
    if table["kind"] == "ssd":
        kept.append(_slc_cache(table, effect_of))
    return kept


def _slc_cache(table: Table, effect_of: Callable[[list[Table]], float]) -> Kept:
    """Return the SLC cache: against one of another size, or none against one."""
    name = "slc_cache.bytes"
    stated = _number(table, name)
    if stated is not None:
        tried = [_changed(table, name, stated * factor) for factor in (1 / FACTOR, FACTOR)]
        return Kept(name, f"{stated:.6g}", True, effect_of(tried))
    with_one = copy.deepcopy(table)
    size = min(SLC_BYTES, int(cast("int", table["capacity_bytes"])) // 4)
    program_us = (_number(table, "flash.program_us") or SLC_SPEED) / SLC_SPEED
    cast("dict[str, Any]", with_one)["slc_cache"] = {"bytes": size, "program_us": program_us}
    return Kept("slc_cache", "none", False, effect_of([with_one]))


def _number(table: Table, name: str) -> float | None:
    found: Any = table
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, (int, float)) else None


def _changed(table: Table, name: str, value: float) -> Table:
    """Return the table with another value; a whole number stays one, and changes."""
    made = copy.deepcopy(table)
    *path, last = name.split(".")
    inside = cast("dict[str, Any]", made)
    for key in path:
        inside = inside.setdefault(key, {})
    before = inside.get(last, 0.07 if last == "spare_ratio" else 0)
    inside[last] = max(round(value), 1) if isinstance(before, int) else value
    return made
