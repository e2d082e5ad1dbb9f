"""A storage that is reached by URL is added by another package alone.

A target and a protocol, and no file of this one is edited.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import protocols, registry, targets, workloads
from headrace.datasets import DatasetSpec
from headrace.datasets.file_of_events import write_file
from headrace.errors import HeadraceError
from headrace.jobs import JobInput
from headrace.readers.counts import ReadCounts
from headrace.readers.spans import Span
from headrace.readers.uproot_reader import UprootReader
from headrace.system.journal import Journal
from headrace.targets import TargetContext
from headrace.workloads.fio.streaming import Stream

# Objects in a folder that SHELF names, by a URL `shelf://BOX/KEY`; the shelf notes each read.
PACKAGE = """
import os
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from headrace.protocols import UrlProtocol
from headrace.protocols.storage import RemoteStorage
from headrace.targets import Location, Target, TargetOptions
from headrace.targets.remote_url import put, remove


class ShelfFiles(LocalFileSystem):
    protocol = "shelf"

    @classmethod
    def _strip_protocol(cls, path):
        text = str(path)
        if text.startswith("shelf://"):
            return os.environ["SHELF"] + "/" + text.removeprefix("shelf://")
        return super()._strip_protocol(path)

    def __init__(self, opens_boxes=False, **more):
        super().__init__(**more)
        self._opens_boxes = opens_boxes

    def _open(self, path, mode="rb", **more):
        if "w" in mode and self._opens_boxes:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        return super()._open(path, mode, **more)

    def makedirs(self, path, exist_ok=False):
        raise OSError("a shelf has no directories")

    def mv(self, path, other, **more):
        raise OSError("a shelf renames nothing")


fsspec.register_implementation("shelf", ShelfFiles, clobber=True)


class Ranges:
    def __init__(self, url):
        self._file = Path(ShelfFiles._strip_protocol(url))
        self.size = self._file.stat().st_size

    def read_range(self, start, stop):
        with self._file.open("rb") as file:
            file.seek(start)
            return file.read(stop - start)


class OpenFile:
    def __init__(self, path, mode):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open(mode)

    def write(self, offset, record):
        self._file.seek(offset)
        self._file.write(record)

    def read(self, offset, size):
        self._file.seek(offset)
        return len(self._file.read(size))

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()


class Client(RemoteStorage):
    has_directories = False
    random_writes = False

    def __init__(self, address):
        self._box = Path(ShelfFiles._strip_protocol(address))

    def sink(self, path, *, new):
        return OpenFile(self._box / path[1:], "wb")

    def source(self, path):
        return OpenFile(self._box / path[1:], "rb")

    def make_directories(self, path): ...
    def make_directory(self, path): ...
    def remove_directory(self, path): ...
    def stat(self, path): ...
    def rename(self, path, other): ...
    def create(self, path, content, sync): ...
    def read(self, path, size): ...
    def remove(self, path): ...


class Shelf(UrlProtocol):
    kind = "shelf"
    objects = True

    def options(self):
        return {"opens_boxes": True}

    def client(self):
        return Client

    def range_opener(self):
        return Ranges


class ShelfTarget(Target):
    kind = "shelf"
    Options = TargetOptions
    url_prefix = "shelf://"

    def check(self, forced_devices):
        return []

    def free_bytes(self):
        return None

    def prepare(self, context):
        return Location(directory=None, url="shelf://box", network=True)

    def upload(self, files, folder, context, say):
        return put(files, f"shelf://box/{folder}", None, context, {}, say)

    def clear(self, folder, context):
        remove(f"shelf://box/{folder}", None, context, {})

    def release(self, context): ...
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The other package, installed: for this process and for those that it starts."""
    package = tmp_path / "package"
    (package / "shelves-1.0.dist-info").mkdir(parents=True)
    (package / "shelves.py").write_text(PACKAGE)
    (package / "shelves-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: shelves\nVersion: 1.0\n"
    )
    (package / "shelves-1.0.dist-info" / "entry_points.txt").write_text(
        "[headrace.protocols]\nshelf = shelves:Shelf\n"
        "[headrace.targets]\nshelf = shelves:ShelfTarget\n"
    )
    (tmp_path / "storage").mkdir()
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("PYTHONPATH", str(package), prepend=os.pathsep)
    monkeypatch.setenv("SHELF", str(tmp_path / "storage"))
    importlib.invalidate_caches()
    registry.parts.cache_clear()
    yield tmp_path / "storage"
    sys.modules.pop("shelves", None)
    monkeypatch.undo()
    registry.parts.cache_clear()


@pytest.fixture
def context(tmp_path: Path) -> Iterator[TargetContext]:
    journal = Journal.open("test", directory=tmp_path / "journal")
    yield TargetContext(tmp_path / "work", journal)
    journal.close()


def test_a_data_set_is_uploaded_and_read_by_the_protocol(
    shelf: Path, context: TargetContext, tmp_path: Path
) -> None:
    spec = DatasetSpec.model_validate({"events": 2000, "files": 1})
    facts = write_file(spec, 0, tmp_path, lambda events: None)
    local = tmp_path / facts.name
    kind = targets.kinds()["shelf"]
    target = kind("remote", kind.Options())
    location = target.prepare(context)
    (held,) = target.upload([local], "data", context, lambda text: None)
    assert held.url == f"{location.url}/data/{local.name}"
    assert (shelf / "box" / "data" / local.name).read_bytes() == local.read_bytes()

    def read(file: str) -> ReadCounts:
        counts = ReadCounts()
        reader = UprootReader("pread", 1000, counts)
        columns = ["Muon_pt", "Electron_pt"]
        assert sum(chunk.events for chunk in reader.read(Span(file), columns)) == 2000
        reader.close()
        return counts

    assert read(held.url).bytes_asked == read(str(local)).bytes_asked > 0
    assert read(held.url).read_calls == read(str(local)).read_calls
    target.clear("data", context)
    assert not (shelf / "box" / "data").exists()


def test_its_files_are_written_record_by_record(shelf: Path, tmp_path: Path) -> None:
    kind = workloads.kinds()["sequential"]
    write, mixed = (kind("io", kind.Options(mode=mode)) for mode in ("write", "mixed"))
    assert write.why_not_by_url("shelf://") is None
    assert "shelf://" in (mixed.why_not_by_url("shelf://") or "")
    job = JobInput((), None, tmp_path, slot=0, slots=1, seed=0)
    stream = Stream("write", file_size=1 << 20, record_size=64 << 10, new=True)
    written = stream.run(job, "shelf://box/out.data", "stream-write")
    assert written.result.write.requests == 16
    assert (shelf / "box" / "out.data").stat().st_size == 1 << 20


def test_a_scheme_without_a_protocol_is_read_as_fsspec_does() -> None:
    assert protocols.protocol_of("https://example.org/file").range_opener() is None
    assert protocols.protocol_of("https://example.org/file").options() == {}
    with pytest.raises(HeadraceError, match="no client for https"):
        protocols.remote_storage("https://example.org/file")


def test_the_schemes_of_this_package() -> None:
    assert {"hdfs", "root", "roots", "s3"} <= set(protocols.kinds())
    assert protocols.protocol_of("s3://bucket/key").address_and_path("s3://bucket/a/b") == (
        "s3://",
        "/bucket/a/b",
    )
    assert protocols.protocol_of("root://host//a").address_and_path("root://host:1//a/b") == (
        "root://host:1",
        "/a/b",
    )


def test_schemes_are_those_of_the_urls_however_they_are_written(tmp_path: Path) -> None:
    places = ("S3://bucket/a", "s3://bucket/b", "/data/of: a://b", "root://host//c")
    job = JobInput(places, None, tmp_path, 0, 1, 1, url="https://host/out")
    assert job.schemes == {"s3", "root", "https"}
