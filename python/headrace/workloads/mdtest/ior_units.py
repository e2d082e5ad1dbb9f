"""The unit of IOR's rates: `MiB`, or `MB`, which depends on the version.

Before version 2.8 a MB is 2^20 bytes, since then 10^6 (USER_GUIDE of https://github.com/hpc/ior,
"Compatibility with older versions").
"""

from __future__ import annotations

import re

from headrace.workloads.mdtest.rates import MIB, OutputError

_HEADING = re.compile(
    r"^\s*(?:access\s+bw\((?P<row>MiB|MB)/s\)|Operation\s+Max \((?P<sum>MiB|MB)\))"
)
_MB_OF_10_6 = (2, 8)
"""The first version with MB of 10^6 bytes."""


def unit_of_heading(line: str) -> str | None:
    """Return the unit that a heading of rates names; None for another line."""
    found = _HEADING.match(line)
    return None if found is None else found["row"] or found["sum"]


def unit_bytes(unit: str, version: str | None, line: int) -> int:
    """Return the bytes of a `MiB` or `MB`. Raises OutputError for MB of a version that is not
    known."""
    if unit == "MiB":
        return MIB
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", version or "")
    if numbers is None:
        raise OutputError(
            "IOR's rates are in MB, and its version is not known",
            line=line,
            given="MB",
            allowed="the line IOR-VERSION: a MB is 2^20 bytes before version 2.8, 10^6 since then",
        )
    return 1_000_000 if (int(numbers[1]), int(numbers[2])) >= _MB_OF_10_6 else MIB
