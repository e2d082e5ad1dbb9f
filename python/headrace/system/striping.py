"""Base layer: set the striping of a directory's new files on Lustre and BeeGFS, and read it back.

It calls the file system's own tool.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, MissingError, UnsupportedLevelError
from headrace.system.network_filesystems import layout_of
from headrace.system.processes import run_program

if TYPE_CHECKING:
    from headrace.system.journal import Journal

ALL_TARGETS = 0
"""As a stripe count: every storage target."""
_BEEGFS_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def stripe_command(
    kind: str, directory: Path, count: int | None, size_bytes: int | None
) -> list[str]:
    """Return the command that sets a directory's striping; None keeps the file system's default.

    Raises UnsupportedLevelError for a file system without such a setting.
    """
    if kind == "lustre":
        command = ["lfs", "setstripe"]
        if count is not None:
            command += ["-c", "-1" if count == ALL_TARGETS else str(count)]
        if size_bytes is not None:
            command += ["-S", str(size_bytes)]
        return [*command, str(directory)]
    if kind == "beegfs":
        if count == ALL_TARGETS:
            raise UnsupportedLevelError(
                "BeeGFS has no stripe count that stands for all targets: name their number"
            )
        command = ["beegfs-ctl", "--setpattern"]
        if count is not None:
            command.append(f"--numtargets={count}")
        if size_bytes is not None:
            command.append(f"--chunksize={size_bytes}")
        return [*command, str(directory)]
    raise UnsupportedLevelError(
        f"stripe count and size can be set on Lustre and BeeGFS, and {directory} is on {kind}"
    )


def stripe(
    journal: Journal, kind: str, directory: Path, count: int | None, size_bytes: int | None
) -> dict[str, object]:
    """Set the striping of a directory's new files; return its layout as read back.

    Raises UnsupportedLevelError when the tool refuses or reads back another layout, MissingError
    when it is not installed.
    """

    try:
        run_program(journal, stripe_command(kind, directory, count, size_bytes), timeout_s=30)
    except (MissingError, UnsupportedLevelError):
        raise
    except HeadraceError as error:
        raise UnsupportedLevelError(error.message) from error
    found = layout_of(kind, directory)
    if reason := differs(kind, found, count, size_bytes):
        raise UnsupportedLevelError(f"{directory}: {reason}")
    return found


def differs(
    kind: str, layout: dict[str, object], count: int | None, size_bytes: int | None
) -> str | None:
    """Return how a layout as read back differs from the requested one; None when it does not."""
    wanted_count = -1 if kind == "lustre" and count == ALL_TARGETS else count
    if wanted_count is not None and layout.get("stripe_count") != wanted_count:
        return (
            f"asked for a stripe count of {wanted_count}, the file system says "
            f"{layout.get('stripe_count')}"
        )
    if size_bytes is not None and (said := _size(layout)) != size_bytes:
        return f"asked for stripes of {size_bytes} bytes, the file system says {said}"
    return None


def _size(layout: dict[str, object]) -> int | None:
    """Return the bytes of a stripe: Lustre shows bytes, BeeGFS text such as `512K`."""
    if isinstance(given := layout.get("stripe_size_bytes"), int):
        return given
    match = re.fullmatch(
        r"(\d+)([KMG]?)(?:iB|B)?", str(layout.get("chunk_size", "")), re.IGNORECASE
    )
    return int(match.group(1)) * _BEEGFS_UNITS[match.group(2).upper()] if match else None
