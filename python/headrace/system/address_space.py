"""Base layer: a limit of the address space of this process (`ulimit -v`, as batch systems set it).

Numerical libraries do not report that their address space is used up: OpenBLAS tries to get its
buffers for ever, and Arrow's allocator reserves 1 GiB, with which a limit of 1.5 GiB leaves nothing
for the program.
"""

from __future__ import annotations

import importlib.abc
import os
import resource
import sys

from headrace.errors import ExitCode, HeadraceError
from headrace.system.own_variables import own

_MIB = 1 << 20
_NEEDED_BYTES = {
    "numpy": 100 * _MIB,
    "pandas": 260 * _MIB,
    "pyarrow": 190 * _MIB,
    "scipy": 130 * _MIB,
}
"""Address space that the import of a library takes: 83, 219 (Arrow is in it), 162 and 102 MiB were
measured. Where it runs out within Arrow, the process is aborted."""
_ENOUGH_KIB = 2_000_000
"""A limit with which every command works."""


class AddressSpaceError(HeadraceError):
    """The limit of the address space is too low."""

    exit_code = ExitCode.MISSING


def respect_limit() -> None:
    """If the address space of this process is limited, let imports fail that would never end."""
    if limit_bytes() is None:
        return
    os.environ.update(own({"ARROW_DEFAULT_MEMORY_POOL": "system"}))
    sys.meta_path.insert(0, _Guard())


def limit_bytes() -> int | None:
    """Return the limit of the address space of this process; None if there is none."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def too_little(what: str) -> HeadraceError:
    """Return the error for something that has no memory left."""
    limit = limit_bytes()
    if limit is None:
        return HeadraceError(f"{what}: not enough memory")
    return AddressSpaceError(
        f"{what}: not enough memory: the address space is limited to {limit // 1024} KiB "
        "(ulimit -v)",
        hint=f"raise the limit: ulimit -v {_ENOUGH_KIB} is enough for most studies",
    )


def of_import(error: ImportError) -> bool:
    """Return whether a library could not be loaded because no memory was left for it."""
    words = str(error)
    return "failed to map segment" in words or "annot allocate memory" in words


class _Guard(importlib.abc.MetaPathFinder):
    """Finds no module, but raises HeadraceError for a library that would not get its memory."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise HeadraceError if too little is left for a library."""
        needed = _NEEDED_BYTES.get(fullname)
        limit = limit_bytes()
        if needed is not None and limit is not None and limit - _used_bytes() < needed:
            raise too_little(f"{fullname} cannot be loaded")


def _used_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - pathlib is not imported yet
        return int(file.read().split()[0]) * resource.getpagesize()
