"""Write a ROOT file: header, directory and free list by uproot, with fixed times and identifiers.

Equal specs must produce equal bytes, so the times and the UUID of ROOT files are constants here.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uproot
from uproot.writing import _cascade as cascade

from headrace.datasets.spec import DatasetSpec
from headrace.datasets.writing.compression import compression_of

FIXED_DATIME = ((2017 - 1995) << 26) | (6 << 22) | (15 << 17) | (12 << 12)
"""15 June 2017, 12:00, as a ROOT TDatime."""


def _fixed_code(moment: object) -> int:
    return FIXED_DATIME


class RootFile:
    """Space in a ROOT file, and the objects that uproot's writer needs to add to its directory."""

    def __init__(self, writable: Any, compression: Any) -> None:
        self.directory: Any = writable._cascading
        self.compression = compression
        self._sink: Any = writable.file.sink
        self._streamers: Any = writable.file._cascading.streamers

    @property
    def directory_location(self) -> int:
        """Offset of the directory's key; every key in the directory contains it."""
        return int(self.directory.key.location)

    @property
    def free_segments(self) -> Any:
        """uproot's allocator."""
        return self.directory.freesegments

    def allocate(self, size: int) -> int:
        """Allocate `size` contiguous bytes; return their offset."""
        return int(self.free_segments.allocate(size, dry_run=False))

    def write(self, offset: int, data: bytes) -> None:
        """Write at an offset returned by `allocate`."""
        self._sink.write(offset, data)

    def settle(self) -> None:
        """Update header and free list with all allocations."""
        self.free_segments.write(self._sink)
        self._sink.set_file_length(self.free_segments.fileheader.end)
        self._sink.flush()

    def add_object(
        self, class_name: str, name: str, title: str, data: bytes, size: int, big: bool | None
    ) -> Any:
        """Write an object of `size` uncompressed bytes, list it, and return uproot's key.

        `big` means 64-bit offsets; None uses them only beyond 2 GB.
        """
        return self.directory.add_object(self._sink, class_name, name, title, data, size, big=big)

    def add_streamers(self, models: list[Any]) -> None:
        """Store these classes' layouts in the file, for readers that do not know them."""
        raw = {
            (streamer[-2], streamer[-1]): streamer
            for model in models
            for streamer in model.class_rawstreamers
        }
        self._streamers.update_streamers(
            self._sink, [cascade.RawStreamerInfo(*streamer) for streamer in raw.values()]
        )


@contextmanager
def new_root_file(path: Path, spec: DatasetSpec, number: int) -> Generator[RootFile]:
    """Create the ROOT file `path`, file `number` of the data set, and close it afterwards."""
    compression = compression_of(spec)
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"headrace:{spec.key}/{number}")
    inner: Any = uproot
    real_code = inner._util.datetime_to_code
    # uproot stamps every key with the current time and has no option to change it.
    inner._util.datetime_to_code = _fixed_code
    try:
        with uproot.recreate(
            path, compression=compression, uuid_function=lambda: identity
        ) as writable:
            file = RootFile(writable, compression)
            yield file
            file.settle()
    finally:
        inner._util.datetime_to_code = real_code
