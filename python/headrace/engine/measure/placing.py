"""Puts a workload's data set on the target: generated once into a cache, then linked or copied to where jobs read it.

Copies lie in `.headrace/datasets/KEY` of the target's directory and stay there for the next study on a target that was there before;
a target that Headrace made goes away with them.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from headrace.datasets import DatasetSpec
from headrace.datasets.store import materialise, read_manifest
from headrace.errors import HeadraceError, InterruptedRunError

OURS = ".headrace"
"""The one directory that Headrace makes in a target's directory."""
_CHUNK_BYTES = 8 << 20


def share_of(count: int, node: int, nodes: int) -> list[int]:
    """The numbers of `count` files that node `node` of `nodes` has on its own drive: dealt out in turn, one at least."""
    return list(range(node, count, nodes)) or [node % count]


def dataset_files(
    spec: DatasetSpec,
    cache_dir: Path,
    directory: Path,
    say: Callable[[str], None],
    stop: threading.Event,
    share: tuple[int, int] = (0, 1),
) -> tuple[list[Path], list[int]]:
    """The data set's files on the target and the events in each; `share`: (node, nodes) where only a node's part is wanted. Raises
    HeadraceError when there is no space."""
    whole, events = made_dataset(spec, cache_dir, say, stop)
    numbers = share_of(len(whole), *share)
    made, events = [whole[number] for number in numbers], [events[number] for number in numbers]
    place = directory / OURS / "datasets" / spec.key
    try:
        place.mkdir(parents=True, exist_ok=True)
        placed = [_placed(file, place / file.name, say, stop) for file in made]
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HeadraceError(
                f"no space left on {directory} for the data set ({spec.events} events)"
            ) from None
        raise HeadraceError(f"the data set cannot be placed on {directory}: {error.strerror}") from None
    return placed, events


def made_dataset(
    spec: DatasetSpec, cache_dir: Path, say: Callable[[str], None], stop: threading.Event
) -> tuple[list[Path], list[int]]:
    """The data set's files in the cache, made when they are not there yet, and the events in each."""
    cache = cache_dir / "datasets"
    say(f"making data set {spec.shape}, {spec.events} events, {spec.format}, {spec.codec}")
    made = materialise(spec, cache, lambda done, total: _progress(done, total, spec, say, stop))
    events = {str(entry["name"]): int(entry["events"]) for entry in read_manifest(cache / spec.key).files}
    return made, [events[file.name] for file in made]


def _progress(
    done: int, total: int, spec: DatasetSpec, say: Callable[[str], None], stop: threading.Event
) -> None:
    if stop.is_set():
        raise InterruptedRunError("stopped")
    say(f"making data set {spec.shape}, {spec.format}, {spec.codec}: {done:,} of {total:,} events")


def _placed(source: Path, place: Path, say: Callable[[str], None], stop: threading.Event) -> Path:
    """One file: there already, or a hard link on the same filesystem, or a copy that is renamed into place when whole."""
    size = source.stat().st_size
    if place.exists() and place.stat().st_size == size:
        return place
    partial = place.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    if source.stat().st_dev == place.parent.stat().st_dev:
        os.link(source, partial)
    else:
        say(f"copying {source.name} to the target")
        with source.open("rb") as reader, partial.open("wb") as writer:
            while piece := reader.read(_CHUNK_BYTES):
                if stop.is_set():
                    raise InterruptedRunError("stopped")
                writer.write(piece)
            writer.flush()
            os.fsync(writer.fileno())
    partial.replace(place)
    return place


def remove_ours(directory: Path) -> None:
    """Removes what studies left in a target's directory."""
    shutil.rmtree(directory / OURS, ignore_errors=True)
