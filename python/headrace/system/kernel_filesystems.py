"""Base layer: the kernel's own file systems (tracefs, debugfs): find or temporarily mount them."""

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
    """Return its mount directory, or None.

    A temporary mount of another run of Headrace does not count.
    """
    for found in read_mounts():
        if found.source == _source(filesystem):
            continue
        if found.filesystem == filesystem and found.root == "/" and found.directory.is_dir():
            return found.directory
    return None


def _source(filesystem: str) -> str:
    return f"headrace-{filesystem}"


def known(filesystem: str) -> bool:
    """Return whether this kernel supports it."""
    return filesystem in Path("/proc/filesystems").read_text().split()


def reach(journal: Journal, filesystem: str, directory: Path) -> Path:
    """Return its mount directory; mount it on `directory`, an empty one of ours, if necessary.

    Raises HeadraceError.
    """
    found = mounted(filesystem)
    if found is None:
        mount(journal, _source(filesystem), directory, filesystem)
    return found or directory


@contextmanager
def glimpse(filesystem: str) -> Generator[Path]:
    """Yield its mount directory; when there is none, mount it for the block only.

    For undo actions: nothing is journalled. Raises OSError.
    """
    found = mounted(filesystem)
    if found is not None:
        yield found
        return
    place = tempfile.mkdtemp(prefix=f"headrace-{filesystem}-")
    try:
        _run("mount", "-t", filesystem, _source(filesystem), place)
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
