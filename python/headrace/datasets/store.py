"""Data sets on disk: generated once into a cache, found by key, verified before use.

`CACHE/<key>/` holds the files and `manifest.json`. It is completed under another name and then
renamed, so a directory of that name is complete. Later damage shows as a difference from the
manifest (`integrity.py`).
"""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.datasets.integrity import (
    MANIFEST,
    Tick,
    find_damage,
    manifest_of,
    no_tick,
    note_right,
    read_manifest,
)
from headrace.datasets.locks import only_one
from headrace.datasets.spec import GENERATOR_VERSION, DatasetSpec
from headrace.datasets.writers import Facts, write_files
from headrace.errors import NO_SPACE, HeadraceError
from headrace.units import format_amount

Progress = Callable[[int, int], None]
"""Called with the number of events written so far and in total; raises to stop."""


def materialise(
    spec: DatasetSpec,
    cache_dir: Path,
    progress: Progress | None = None,
    *,
    checksums: bool = False,
    say: Callable[[str], None] = lambda text: None,
    tick: Tick = no_tick,
) -> list[Path]:
    """Return the files of a data set in order; generate them into `cache_dir/<key>/` if missing.

    Files that differ from their manifest are made again; `checksums` reads every file to compare
    it. When several processes request the data set at once, one generates it and the others wait.
    `say` gets messages for people. `tick` is called several times per second when nothing else is,
    and may raise to stop. Raises HeadraceError when files cannot be written, and the exceptions of
    `progress` and `tick`; no partial data set is left.
    """
    directory = cache_dir / spec.key

    def show(done: int, total: int) -> None:
        tick()
        if progress is not None and done:
            progress(done, total)

    def wait() -> None:
        say(f"data set {spec.key} is being made by another run: waiting for it")
        tick()

    try:
        if (damaged := _damaged(spec, directory, checksums, tick)) != []:
            cache_dir.mkdir(parents=True, exist_ok=True)
            with only_one(cache_dir / f".{spec.key}.lock", waiting=wait):
                _remove_unfinished(cache_dir, spec.key)
                damaged = _damaged(spec, directory, checksums, tick)
                if damaged:
                    say(f"data set {spec.key} is damaged: making {', '.join(damaged)} again")
                if damaged is None or (damaged and not _repair(spec, directory, damaged, show)):
                    _generate(spec, directory, show)
    except OSError as error:
        raise _not_written(directory, spec, error) from error
    return [directory / str(file["name"]) for file in read_manifest(directory).files]


def _damaged(spec: DatasetSpec, directory: Path, checksums: bool, tick: Tick) -> list[str] | None:
    """Return a data set's damaged files by name; None when it is missing or outdated."""
    if manifest_of(directory, spec) is None:
        return None
    return [found.name for found in find_damage(directory, checksums=checksums, tick=tick)]


def _not_written(directory: Path, spec: DatasetSpec, error: OSError) -> HeadraceError:
    from headrace.datasets.estimates import estimated_bytes

    if error.errno in NO_SPACE:
        needed, free = estimated_bytes(spec), 0
        if directory.parent.is_dir():
            free = shutil.disk_usage(directory.parent).free
        return HeadraceError(
            f"{directory}: no space left for a data set of about {format_amount(needed)} "
            f"({format_amount(free)} are free)",
            hint="free some space, name another place by --cache-dir, or ask for fewer events",
        )
    hint = None
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "name a place that you may write to by --cache-dir"
    return HeadraceError(
        f"{directory}: the data set cannot be written: {error.strerror or error}", hint=hint
    )


def _remove_unfinished(cache_dir: Path, key: str) -> None:
    """Remove what a killed process left of this data set. The caller holds the lock."""
    for left in cache_dir.glob(f".{key}-*"):
        shutil.rmtree(left, ignore_errors=True)


def _generate(spec: DatasetSpec, directory: Path, progress: Progress) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{spec.key}-", dir=directory.parent))
    try:
        numbers = range(spec.files)
        files = write_files(spec, temporary, numbers, lambda done: progress(done, spec.events))
        content = {
            "schema": 1,
            "generator": GENERATOR_VERSION,
            "spec": spec.model_dump(mode="json"),
            "files": files,
        }
        (temporary / MANIFEST).write_text(json.dumps(content, indent=1))
        temporary.chmod(0o755)
        note_right(temporary, [str(file["name"]) for file in files])
        if directory.exists():  # Too damaged to repair, or made by another generator version.
            before = Path(tempfile.mkdtemp(prefix=f".{spec.key}-", dir=directory.parent))
            directory.rename(before / "damaged")
            shutil.rmtree(before, ignore_errors=True)
        temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _repair(spec: DatasetSpec, directory: Path, damaged: Sequence[str], progress: Progress) -> bool:
    """Make these files again and replace them; return False when their bytes differ from before."""
    known: dict[str, Facts] = {str(file["name"]): file for file in read_manifest(directory).files}
    numbers = [list(known).index(name) for name in damaged]
    temporary = Path(tempfile.mkdtemp(prefix=f".{spec.key}-", dir=directory.parent))
    try:
        files = write_files(spec, temporary, numbers, lambda done: progress(done, spec.events))
        if any(file["xxh3"] != known[str(file["name"])]["xxh3"] for file in files):
            return False  # Another version of a codec: make all files again.
        for name in damaged:
            (temporary / name).replace(directory / name)
        note_right(directory, damaged)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True
