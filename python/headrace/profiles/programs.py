"""Which file a command names, and whether a library can be preloaded into it.

It cannot be preloaded into static, set-uid and foreign programs.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.errors import ExitCode, HeadraceError, as_word

_PT_INTERP = 3
_SCRIPT_DEPTH_MAX = 4
"""Maximum depth of scripts that name scripts as their interpreter."""
_HEAD_BYTES = 4096


class ProgramError(HeadraceError):
    """A program that does not exist or cannot be recorded."""

    exit_code = ExitCode.BAD_INPUT


def find_program(name: str) -> str:
    """Return the path to execute for a command's first word; it always contains a slash.

    A word with a slash is a path relative to the current directory, as for a shell and `execvp`; it
    is returned unchanged. Another word is looked up in PATH. Raises ProgramError if the program
    does not exist or the user may not run it.
    """
    if "/" in name:
        path = Path(name)
        if not os.path.exists(name):  # noqa: PTH110 - Path.exists raises PermissionError
            raise ProgramError(f"{name}: no such program")
        if path.is_dir():
            raise ProgramError(f"{name}: is a directory, not a program")
        if not os.access(name, os.X_OK):
            raise ProgramError(f"{name}: no permission to run it", hint=f"chmod +x {as_word(name)}")
        return name
    found = shutil.which(name) if name else None
    if found is None:
        raise ProgramError(f"{name or 'the empty name'}: no such program", hint=_here(name))
    # An empty entry of PATH means the current directory.
    return found if "/" in found else f"./{found}"


def _here(name: str) -> str | None:
    return (
        f"for the one in this directory: ./{name}"
        if name and os.access(f"./{name}", os.X_OK)
        else None
    )


def not_executed(name: str, error: OSError) -> ProgramError:
    """Return the message for a program that was found but that the kernel did not execute."""
    if error.errno == errno.ENOEXEC:
        shell = "python" if name.endswith(".py") else "sh"
        return ProgramError(
            f"{name}: neither a program nor a script that begins with #!", hint=f"{shell} {name}"
        )
    if error.errno == errno.ENOENT:
        return ProgramError(
            f"{name}: its interpreter is not there (first line of a script, or the loader)"
        )
    return ProgramError(f"{name}: cannot be run: {error.strerror or error}")


def why_not_recorded(path: str) -> str | None:
    """Return `static`, `set-uid` or similar if a preloaded library does not work in the program,
    else None.

    `path` is the result of `find_program`, or any path; None is returned for a missing file.
    """
    return _why(Path(path), 0)


def _why(path: Path, depth: int) -> str | None:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if head.startswith(b"\x7fELF"):
                return _changes_user(path) or _of_elf(file)
    except (OSError, struct.error):
        return None
    # The kernel ignores the set-uid bits of scripts.
    return _of_script(head, depth) if head.startswith(b"#!") and depth < _SCRIPT_DEPTH_MAX else None


def _changes_user(path: Path) -> str | None:
    facts = path.stat()
    other_user = facts.st_mode & stat.S_ISUID and facts.st_uid != os.geteuid()
    if other_user or (facts.st_mode & stat.S_ISGID and facts.st_gid != os.getegid()):
        return "set-uid or set-gid: the loader ignores LD_PRELOAD for it"
    if os.geteuid() != 0 and "security.capability" in os.listxattr(path):
        return "given capabilities (setcap): the loader ignores LD_PRELOAD for it"
    return None


def _of_script(head: bytes, depth: int) -> str | None:
    words = head[2:].split(b"\n", 1)[0].decode(errors="replace").split()
    if not words:
        return None
    interpreter = words[0]
    if Path(interpreter).name == "env":
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        interpreter = shutil.which(named[0]) or interpreter if named else interpreter
    why = _why(Path(interpreter), depth + 1)
    return None if why is None else f"a script of {interpreter}, which is {why}"


@dataclass(frozen=True)
class _Elf:
    """ELF header fields that decide whether a library can be preloaded."""

    bits: int
    machine: int
    loader: str | None


def _elf(file: BinaryIO) -> _Elf:
    file.seek(0)
    head = file.read(64)
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    (machine,) = struct.unpack_from(order + "H", head, 18)
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
    size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    file.seek(table)
    headers = file.read(size * count)
    loader = None
    for at in range(0, len(headers) - size + 1, max(size, 1)):
        if struct.unpack_from(order + "I", headers, at)[0] == _PT_INTERP:
            place, length = at + (8 if wide else 4), at + (32 if wide else 16)
            word = order + ("Q" if wide else "I")
            file.seek(struct.unpack_from(word, headers, place)[0])
            loader = (
                file.read(struct.unpack_from(word, headers, length)[0])
                .rstrip(b"\0")
                .decode(errors="replace")
            )
    return _Elf(64 if wide else 32, machine, loader)


def _of_elf(file: BinaryIO) -> str | None:
    program = _elf(file)
    if program.loader is None:
        return "static: it has no loader that could preload a library"
    if "musl" in Path(program.loader).name:
        return "linked with musl, and the recorder's library with glibc"
    with Path("/proc/self/exe").open("rb") as own:
        ours = _elf(own)
    if (program.bits, program.machine) != (ours.bits, ours.machine):
        return f"a {program.bits}-bit program of another kind than the recorder's library"
    return None
