"""The path that a thread's system call is about, such as that of open or stat.

It is read from the memory of the process, and no file system is asked: its server may be dead. Both
the call and the memory need the right to trace the process (ptrace(2)).
"""

from __future__ import annotations

import os
import platform

from headrace.watching.memory import memory_of

# By number: which arguments are the descriptor of a folder (None: no such argument) and the path.
_CALLS: dict[str, dict[int, tuple[int | None, int]]] = {
    "x86_64": {
        # open, stat, lstat, access, truncate, chdir, rename, mkdir, rmdir, creat, link, unlink,
        # readlink, chmod, chown, lchown, execve, statfs, getxattr, lgetxattr, listxattr
        **dict.fromkeys(
            (2, 4, 6, 21, 76, 80, 82, 83, 84, 85, 86, 87, 89, 90, 92, 94, 59, 137, 191, 192, 194),
            (None, 0),
        ),
        # openat, mkdirat, fchownat, newfstatat, unlinkat, renameat, readlinkat, fchmodat,
        # faccessat, utimensat, renameat2, execveat, statx, openat2, faccessat2
        **dict.fromkeys(
            (257, 258, 260, 262, 263, 264, 267, 268, 269, 280, 316, 322, 332, 437, 439), (0, 1)
        ),
        88: (None, 1),  # symlink
    },
    "aarch64": {
        # truncate, chdir, execve, statfs, getxattr, lgetxattr, listxattr
        **dict.fromkeys((45, 49, 221, 43, 8, 9, 11), (None, 0)),
        # openat, mkdirat, fchownat, newfstatat, unlinkat, renameat, readlinkat, fchmodat,
        # faccessat, utimensat, renameat2, execveat, statx, openat2, faccessat2
        **dict.fromkeys((56, 34, 54, 79, 35, 38, 78, 53, 48, 88, 276, 281, 291, 437, 439), (0, 1)),
    },
}
_PATHS = _CALLS.get(platform.machine(), {})
_LONGEST_BYTES = 4096
_PAGE_BYTES = 4096
_AT_FDCWD = -100 & 0xFFFFFFFF


def path_of(pid: int, words: list[bytes]) -> str | None:
    """Return the absolute path of a call, with `..` resolved by name; None when it has none.

    `words`: of `/proc/PID/syscall`: the number of the call and its arguments. Symbolic links are
    not followed. Raises OSError, ValueError.
    """
    arguments = _PATHS.get(int(words[0]))
    if arguments is None or len(words) < 7:
        return None
    at, place = arguments
    text = _text(pid, int(words[1 + place], 16))
    if text.startswith("/"):
        return os.path.normpath(text)
    folder = _AT_FDCWD if at is None else int(words[1 + at], 16) & 0xFFFFFFFF
    beside = "cwd" if folder == _AT_FDCWD else f"fd/{folder}"
    found = os.readlink(f"/proc/{pid}/{beside}")  # noqa: PTH115 - at samples
    return os.path.normpath(f"{found}/{text}") if found.startswith("/") else None


def _text(pid: int, place: int) -> str:
    """Return the string at an address. The page after it may not be mapped."""
    size = _PAGE_BYTES - place % _PAGE_BYTES
    read = memory_of(pid, place, size)
    if b"\0" not in read and len(read) == size:
        read += memory_of(pid, place + size, _LONGEST_BYTES - size)
    return os.fsdecode(read.partition(b"\0")[0])
