"""Put a workload's data set on the target: generate it once into a cache, then copy it.

The user's own files are handled in the same way; the cache contains links to them.

Copies are in `OURS/datasets/KEY` of the target's directory. On an existing target they are kept for
the next study; a target that Headrace made is removed with them. They are verified before every
trial: inode, size and times of each file are compared with those at the last comparison of its
contents with the manifest's checksum. If anything differs, the contents are compared again, and a
damaged file is copied again.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.datasets import Data, data_bytes
from headrace.datasets.copies import DamagedSourceError, copy_file
from headrace.datasets.integrity import (
    MANIFEST,
    VERIFIED,
    Manifest,
    find_damage,
    manifest_of,
    note_right,
    read_manifest,
)
from headrace.datasets.own_files import OwnFile, OwnFiles
from headrace.datasets.own_store import check_unchanged, events_in, registered
from headrace.datasets.spec import file_name
from headrace.datasets.store import materialise
from headrace.datasets.trees import events_of
from headrace.errors import NO_SPACE, HeadraceError, InterruptedRunError
from headrace.system.owned import OURS
from headrace.units import format_amount

CHECKED_BYTES = 2 << 30
"""Copies up to this size are read completely once per set-up of a target.

Larger ones are read only when their times have changed.
"""


@dataclass(frozen=True)
class Placing:
    """Data set placement of one run."""

    cache_dir: Path
    say: Callable[[str], None]
    stop: threading.Event
    own: dict[str, list[OwnFile]] = field(default_factory=dict[str, list[OwnFile]])
    """The user's own files as they were when the run first used them, by data set key."""

    def tick(self) -> None:
        """Raise InterruptedRunError when the run must stop."""
        if self.stop.is_set():
            raise InterruptedRunError("stopped")

    def place_of(self, spec: Data, directory: Path) -> Path:
        """Return the directory of a data set's copies on a target."""
        return directory / OURS / "datasets" / spec.key

    def made(self, spec: Data, *, checksums: bool = False) -> tuple[list[Path], list[int]]:
        """Return the data set's files in the cache, generated if missing, and the events in each.

        For the user's own files the cache contains links.
        """
        cache = self.cache_dir / "datasets"
        if isinstance(spec, OwnFiles):
            files = self.own_files(spec)
            links = registered(
                spec, files, cache, checksums=checksums, say=self.say, tick=self.tick
            )
            return links, events_in(cache / spec.key)
        what = f"data set {spec.shape}, {spec.format}, {spec.codec}"

        def progress(done: int, total: int) -> None:
            self.say(f"making {what}: {done:,} of {total:,} events")

        made = materialise(spec, cache, progress, checksums=checksums, say=self.say, tick=self.tick)
        return made, [int(file["events"]) for file in read_manifest(cache / spec.key).files]

    def own_files(self, own: OwnFiles) -> list[OwnFile]:
        """Return the user's own files.

        Raises HeadraceError if one has changed since the run first used it.
        """
        files = self.own.setdefault(own.key, own.find())
        for file in files:
            check_unchanged(file)
        return files

    def in_place(
        self, own: OwnFiles, directory: Path, *, events: bool
    ) -> tuple[list[Path], list[int]] | None:
        """Return the user's own files in a target's directory; None unless all of them are there.

        With `events`, also return the events in each file. Raises HeadraceError if a file has
        changed.
        """
        root = directory.resolve()
        if not all(
            file.path.is_relative_to(root) for file in self.own.setdefault(own.key, own.find())
        ):
            return None
        files = self.own_files(own)
        counts = [events_of(file.path, own.tree) for file in files] if events else []
        return [directory / file.path.relative_to(root) for file in files], counts

    def key_of(self, spec: Data) -> str:
        """Return a name for a data set with these contents.

        Large files on a server are not read for it.
        """
        if not isinstance(spec, OwnFiles):
            return spec.key
        text = json.dumps([file.source for file in self.own_files(spec)])
        return f"{spec.key}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def _names(self, spec: Data, share: tuple[int, int]) -> list[str]:
        """Return the names of the copies in a node's share of a data set."""
        if not isinstance(spec, OwnFiles):
            return [file_name(number) for number in share_of(spec.files, *share)]
        files = self.own.setdefault(spec.key, spec.find())
        return [files[number].name for number in share_of(len(files), *share)]

    def placed(
        self,
        spec: Data,
        directory: Path,
        share: tuple[int, int] = (0, 1),
        *,
        thorough: bool = False,
    ) -> tuple[list[Path], list[int]]:
        """Return the data set's files on the target, verified, and the events in each.

        `share`: (node, nodes) if a node needs only its part. `thorough`: also compare contents, up
        to `CHECKED_BYTES`. Raises HeadraceError when space is short.
        """
        names = self._names(spec, share)
        place = self.place_of(spec, directory)
        try:
            self._put_right(spec, place, names, thorough)
        except OSError as error:
            if error.errno in NO_SPACE:
                size = format_amount(data_bytes(spec))
                raise HeadraceError(
                    f"no space left on {directory} for the data set of {size}"
                ) from None
            raise HeadraceError(
                f"the data set cannot be placed on {directory}: {error.strerror or error}"
            ) from None
        events = {str(file["name"]): int(file["events"]) for file in read_manifest(place).files}
        return [place / name for name in names], [events[name] for name in names]

    def _put_right(self, spec: Data, place: Path, names: list[str], thorough: bool) -> None:
        manifest = manifest_of(place, spec)
        if isinstance(spec, OwnFiles) and manifest is not None and not self._is_of(spec, manifest):
            manifest = None
        lacking = names
        if manifest is not None:
            size = sum(int(file["bytes"]) for file in manifest.files if file["name"] in names)
            checksums = thorough and size <= CHECKED_BYTES
            if checksums:
                self.say(f"verifying the data set on {place.parents[2]}")
            found = find_damage(place, checksums=checksums, names=names, tick=self.tick)
            lacking = [damage.name for damage in found]
            if damaged := [name for name in lacking if (place / name).exists()]:
                self.say(f"damaged on the target, copied again: {', '.join(damaged)}")
        if not lacking:
            return
        made, _ = self.made(spec)
        cache = made[0].parent
        place.mkdir(parents=True, exist_ok=True)
        if manifest is None or read_manifest(cache) != manifest:
            (place / VERIFIED).unlink(missing_ok=True)
            copy_file(cache / MANIFEST, place / MANIFEST, xxh3=None, tick=self.tick)
            found = find_damage(place, checksums=True, names=names, tick=self.tick)
            lacking = [damage.name for damage in found]
        for name in lacking:
            self.say(f"copying {name} to the target")
            self._copied(spec, cache / name, place / name)
        note_right(place, lacking)

    def _is_of(self, own: OwnFiles, manifest: Manifest) -> bool:
        """Return whether a manifest matches the user's own files as the run first used them."""
        files = self.own.setdefault(own.key, own.find())
        return [facts["source"] for facts in manifest.files] == [file.source for file in files]

    def _copied(self, spec: Data, source: Path, place: Path) -> None:
        """Copy one file. If the cached file turns out to be damaged, generate it again first."""
        for _ in range(2):
            known = {
                str(file["name"]): str(file["xxh3"]) for file in read_manifest(source.parent).files
            }
            try:
                copy_file(source, place, xxh3=known[source.name], tick=self.tick)
                return
            except DamagedSourceError:
                if isinstance(spec, OwnFiles):
                    self.own_files(spec)  # raises if the user changed the file
                self.made(spec, checksums=True)
        raise HeadraceError(
            f"{source} has other contents whenever it is read",
            hint="the drive or memory under the cache is failing; name another place by "
            "--cache-dir",
        )


def share_of(count: int, node: int, nodes: int) -> list[int]:
    """Return the indices of the files for node `node` of `nodes`: round-robin, at least one."""
    return list(range(node, count, nodes)) or [node % count]
