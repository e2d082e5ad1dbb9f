"""The caches before the jobs of a trial: dropped, warmed, or unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.errors import HeadraceError, InterruptedRunError
from headrace.system import page_cache
from headrace.system.journal import Journal
from headrace.system.own_programs import own_module
from headrace.system.processes import run_program

_READ_PATIENCE_S = 1800.0
"""For each file."""


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


def read_urls(
    journal: Journal,
    urls: Sequence[str],
    environment: Mapping[str, str],
    command: Callable[[Sequence[str]], Sequence[str]],
) -> None:
    """Read files whole by their protocol's client, in a process of its own: clients start threads.

    `command`: gives the command that reaches the network of the node's jobs. Raises HeadraceError.
    """
    argv = own_module("headrace.targets.upload", "--read", *urls)
    patience_s = _READ_PATIENCE_S * len(urls)
    try:
        run_program(journal, command(argv), environment=environment, timeout_s=patience_s)
    except InterruptedRunError:
        raise
    except HeadraceError as error:
        # Only the client's message, which follows the command line.
        _, _, said = error.message.partition(" failed: ")
        raise HeadraceError(f"cannot warm the servers' memory: {said or error.message}") from error
