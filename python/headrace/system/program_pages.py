"""Base layer: keep a program in memory while caches are dropped.

Cold trials then do not measure its start. The kernel does not drop pages of a file that a process
has mapped. The calling process, from which jobs are forked, holds the mappings until it ends.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
import subprocess
from pathlib import Path

_LIBRARY = re.compile(r"(/\S+) \(0x[0-9a-f]+\)")
_held: dict[str, mmap.mmap] = {}


def hold_program(name: str) -> int:
    """Map a program and its linked libraries; return the bytes held of all programs so far.

    Scripts, and libraries that a program loads later, are not found; a missing program holds
    nothing.
    """
    program = shutil.which(name)
    if program is None:
        return held_bytes()
    for path in (program, *_libraries(program)):
        real = os.path.realpath(path)
        if real not in _held:
            with (
                contextlib.suppress(OSError, ValueError),
                Path(real).open("rb") as file,
            ):  # ValueError: an empty file
                _held[real] = mmap.mmap(
                    file.fileno(), 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ
                )
    return held_bytes()


def held_bytes() -> int:
    """Return the bytes of programs that this process holds in memory."""
    return sum(len(held) for held in _held.values())


def _libraries(program: str) -> list[str]:
    ldd = shutil.which("ldd")
    if ldd is None:
        return []
    found = subprocess.run(
        [ldd, program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return _LIBRARY.findall(found.stdout)
