"""Names of the calls that tell something of files."""

from __future__ import annotations

READS = {"read": False, "readv": False, "pread64": True, "preadv": True, "preadv2": True}
WRITES = {"write": False, "writev": False, "pwrite64": True, "pwritev": True, "pwritev2": True}
COPIES = {"sendfile", "copy_file_range", "splice"}
RENAMES = {"rename", "renameat", "renameat2"}
OPENS = {"open", "openat", "openat2", "creat"}
DUPLICATES = {"dup", "dup2", "dup3"}
CLONES = {"clone", "clone3", "fork", "vfork"}
PLACES = {"chdir", "fchdir", "getcwd"}
SIZES = {"ftruncate", "truncate", "fallocate"}
OTHER_WAYS = {"io_uring_setup": "io_uring", "io_uring_enter": "io_uring", "io_submit": "libaio"}
"""Calls whose reads and writes strace does not show -> the interface's common name."""
STATS = {"stat", "lstat", "newfstatat", "fstatat64", "statx", "access", "faccessat", "faccessat2"}
