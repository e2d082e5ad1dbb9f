"""Ground: file systems through which the kernel shows itself (tracefs, debugfs): where they are mounted, or mounted by us for as long as needed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.system.mounts import mount, read_mounts

if TYPE_CHECKING:
    from headrace.system.journal import Journal


def mounted(filesystem: str) -> Path | None:
    """Where it is mounted whole, or None."""
    for found in read_mounts():
        if found.filesystem == filesystem and found.root == "/" and found.directory.is_dir():
            return found.directory
    return None


def known(filesystem: str) -> bool:
    """Whether this kernel has it."""
    return filesystem in Path("/proc/filesystems").read_text().split()


def reach(journal: Journal, filesystem: str, directory: Path) -> Path:
    """Where it is mounted; when nowhere, it is mounted on `directory`, an empty one of ours. Raises HeadraceError."""
    found = mounted(filesystem)
    if found is None:
        mount(journal, f"headrace-{filesystem}", directory, filesystem)
    return found or directory


@contextmanager
def glimpse(filesystem: str) -> Generator[Path]:
    """Where it is mounted; when nowhere, it is mounted for the block alone. For undoing: nothing is journalled. Raises OSError."""
    found = mounted(filesystem)
    if found is not None:
        yield found
        return
    place = tempfile.mkdtemp(prefix=f"headrace-{filesystem}-")
    try:
        _run("mount", "-t", filesystem, f"headrace-{filesystem}", place)
        try:
            yield Path(place)
        finally:
            _run("umount", place)
    finally:
        Path(place).rmdir()


def _run(*argv: str) -> None:
    try:
        subprocess.run(argv, check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise OSError(error.stderr.decode(errors="replace").strip()) from error
