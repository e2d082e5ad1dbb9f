"""Checksums and event counts of the user's own files, in the cache, beside links to the files.

`CACHE/KEY/` of own files looks like that of a generated data set, with a link in place of each
file, so copying and uploading are the same for both. Nothing is ever written through a link: a link
is removed before it is replaced, and its file stays unchanged.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.datasets.integrity import (
    MANIFEST,
    Tick,
    checksum,
    manifest_of,
    no_tick,
    note_right,
    read_manifest,
)
from headrace.datasets.locks import only_one
from headrace.datasets.own_files import OwnFile, OwnFiles
from headrace.datasets.spec import GENERATOR_VERSION
from headrace.datasets.trees import events_of
from headrace.errors import HeadraceError

Facts = dict[str, Any]


def registered(
    own: OwnFiles,
    files: Sequence[OwnFile],
    cache_dir: Path,
    *,
    checksums: bool = False,
    say: Callable[[str], None] = lambda text: None,
    tick: Tick = no_tick,
) -> list[Path]:
    """Return links to the files, in `cache_dir/KEY/` beside a manifest of their current state.

    A file is read for its checksum when its state differs from that of the last read, or with
    `checksums`. Raises HeadraceError for a file that cannot be read, has no event tree, or is
    modified meanwhile, and the exceptions of `tick`.
    """
    directory = cache_dir / own.key
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with only_one(cache_dir / f".{own.key}.lock", waiting=tick):
            before = _facts_before(own, directory)
            facts = [_facts(own, file, {} if checksums else before, say, tick) for file in files]
            if facts != list(before.values()):
                _write(own, files, facts, directory)
    except OSError as error:
        where = f"{error.filename or directory}"
        raise HeadraceError(
            f"{where}: cannot be used for the data set: {error.strerror or error}"
        ) from error
    return [directory / file.name for file in files]


def _facts_before(own: OwnFiles, directory: Path) -> dict[str, Facts]:
    manifest = manifest_of(directory, own)
    if manifest is None:
        return {}
    known = {str(facts["name"]): facts for facts in manifest.files}
    return known if all((directory / name).is_symlink() for name in known) else {}


def _facts(
    own: OwnFiles,
    file: OwnFile,
    before: dict[str, Facts],
    say: Callable[[str], None],
    tick: Tick,
) -> Facts:
    known = before.get(file.name)
    if known is not None and known.get("source") == file.source:
        return known
    say(f"reading {file.path} for its checksum")
    facts: Facts = {
        "name": file.name,
        "bytes": file.bytes,
        "events": events_of(file.path, own.tree),
        "xxh3": checksum(file.path, tick),
        "source": file.source,
    }
    check_unchanged(file)
    return facts


def check_unchanged(file: OwnFile) -> None:
    """Raise HeadraceError unless a file is in the state in which it was found."""
    try:
        status = file.path.stat()
        now = (status.st_ino, status.st_size, status.st_mtime_ns)
        said = "was changed while the study ran"
    except OSError:
        now, said = None, "was removed while the study ran"
    if now != file.state:
        raise HeadraceError(
            f"{file.path}: {said}",
            hint="trials before and after would read different data: run the study again, into a "
            "new folder",
        )


def _write(own: OwnFiles, files: Sequence[OwnFile], facts: list[Facts], directory: Path) -> None:
    """Write the directory under another name, and rename it."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{own.key}-", dir=directory.parent))
    try:
        for file in files:
            (temporary / file.name).symlink_to(file.path)
        content = {
            "schema": 1,
            "generator": GENERATOR_VERSION,
            "own": own.model_dump(mode="json"),
            "files": facts,
        }
        (temporary / MANIFEST).write_text(json.dumps(content, indent=1))
        temporary.chmod(0o755)
        note_right(temporary, [file.name for file in files])
        if directory.exists():
            before = Path(tempfile.mkdtemp(prefix=f".{own.key}-", dir=directory.parent))
            directory.rename(before / "before")
            shutil.rmtree(before)  # removes links, never the files that they name
        temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def events_in(directory: Path) -> list[int]:
    """Return the number of events in each file of a registered data set."""
    return [int(facts["events"]) for facts in read_manifest(directory).files]
