"""What each shape of a data set adds to `bench`: the columns of `nano` and `aod`."""

from __future__ import annotations

from functools import cache

from headrace.datasets.aod_columns import aod
from headrace.datasets.fillings import Further
from headrace.datasets.nano_columns import nano
from headrace.datasets.spec import Shape


@cache
def further(shape: Shape) -> Further:
    """Return what this shape adds to `bench`."""
    return {"bench": lambda: Further({}, ()), "nano": nano, "aod": aod}[shape]()
