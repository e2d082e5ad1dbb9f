"""Whether a program can be recorded by a preloaded library, and if not, why: static, set-uid, a script of such a program."""

from __future__ import annotations

import os
import shutil
import stat
import struct
from pathlib import Path

from headrace.errors import ExitCode, HeadraceError

_PT_INTERP = 3
_DEEPEST = 4
"""Scripts that name scripts as their interpreter."""


class ProgramError(HeadraceError):
    """A program that is not there, or cannot be recorded."""

    exit_code = ExitCode.BAD_INPUT


def find_program(name: str) -> Path:
    """The file of a program, by the PATH. Raises ProgramError when it is not there or may not be run."""
    found = shutil.which(name)
    if found is None:
        path = Path(name)
        if path.exists() and "/" in name:
            raise ProgramError(f"{name}: no permission to run it", hint=f"chmod +x {name}")
        raise ProgramError(f"{name}: no such program")
    return Path(found)


def why_not_recorded(name: str) -> str | None:
    """`static`, `set-uid` or the like for a program that a preloaded library cannot see into; None for one that it can, or that is not there."""
    found = shutil.which(name)
    return None if found is None else _why(Path(found), 0)


def _why(path: Path, depth: int) -> str | None:
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    facts = path.stat()
    changes_user = mode & stat.S_ISUID and facts.st_uid != os.geteuid()
    if changes_user or (mode & stat.S_ISGID and facts.st_gid != os.getegid()):
        return "set-uid or set-gid: the loader ignores LD_PRELOAD for it"
    if head.startswith(b"#!") and depth < _DEEPEST:
        words = head[2:].split(b"\n", 1)[0].decode(errors="replace").split()
        if not words:
            return None
        interpreter = words[0]
        if Path(interpreter).name == "env":
            named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
            interpreter = shutil.which(named[0]) or interpreter if named else interpreter
        why = _why(Path(interpreter), depth + 1)
        return None if why is None else f"a script of {interpreter}, which is {why}"
    return None if not head.startswith(b"\x7fELF") else _static(path, head)


def _static(path: Path, head: bytes) -> str | None:
    """`static` for an ELF program without an interpreter (the loader that would read LD_PRELOAD)."""
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    if wide:
        (table,) = struct.unpack_from(order + "Q", head, 32)
        size, count = struct.unpack_from(order + "HH", head, 54)
    else:
        (table,) = struct.unpack_from(order + "I", head, 28)
        size, count = struct.unpack_from(order + "HH", head, 42)
    with path.open("rb") as file:
        file.seek(table)
        headers = file.read(size * count)
    kinds = [struct.unpack_from(order + "I", headers, at)[0] for at in range(0, len(headers) - 3, size or 1)]
    return None if _PT_INTERP in kinds else "static: it has no loader that could preload a library"
