"""The page cache before the jobs of a trial: dropped, warmed, or unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.system import page_cache


def prepare_cache(wanted: str, files: Sequence[str], own_device: bool) -> int | None:
    """Bring the page cache into the state `wanted` for the jobs' input files.

    `wanted` is `cold`, `warm` or `as-is`; `own_device`: no other program uses the device. Returns
    the bytes of these files still in the cache when cold was requested, None otherwise. Raises
    OSError when a file cannot be read.
    """
    paths = [Path(file) for file in files if "://" not in file]
    if wanted == "cold":
        stayed = page_cache.drop_files(paths) if paths else 1
        # For a device of the study's own, cached metadata are dropped too. On a shared device,
        # dropping everything would make other programs read again while jobs run, so it happens
        # only if dropping the files alone failed.
        if (stayed or own_device) and page_cache.can_drop_all():
            page_cache.drop_all()
        return page_cache.resident_bytes(paths)
    if wanted == "warm":
        page_cache.warm(paths)
    return None
