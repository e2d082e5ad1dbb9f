"""Ground: keeps a program in memory while caches are dropped, so that a cold trial does not measure its start.

The kernel drops no page of a file that some process has mapped. Held by the process that calls this, and for as long as
it lives: the one that job processes are forked from.
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
    """Maps a program and the libraries that it is linked with. Returns how many bytes are held of all programs so far.

    A script, and what a program loads later by itself, are not seen; a program that is not there holds nothing.
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
                _held[real] = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ)
    return held_bytes()


def held_bytes() -> int:
    """Bytes of programs that this process holds in memory."""
    return sum(len(held) for held in _held.values())


def _libraries(program: str) -> list[str]:
    ldd = shutil.which("ldd")
    if ldd is None:
        return []
    found = subprocess.run(
        [ldd, program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return _LIBRARY.findall(found.stdout)
