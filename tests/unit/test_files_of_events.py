"""Files of events: every shape, format, codec and order reads back to what was generated, and is
like real data."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets import DatasetSpec
from headrace.datasets.collisions import BLOCK_EVENTS
from headrace.datasets.file_of_events import write_file
from headrace.datasets.layout import layout
from headrace.datasets.shapes import dressed_block
from headrace.datasets.table import Table, columns_of, concatenate
from headrace.readers.counts import ReadCounts
from headrace.readers.spans import Span
from headrace.readers.uproot_reader import UprootReader


def spec_of(**fields: Any) -> DatasetSpec:
    return DatasetSpec.model_validate({"events": 700, "files": 1, **fields})


def written(spec: DatasetSpec, directory: Path, number: int = 0) -> Path:
    return directory / write_file(spec, number, directory, lambda events: None).name


def generated(spec: DatasetSpec, start: int, stop: int) -> Table:
    blocks = range(start // BLOCK_EVENTS, -(-stop // BLOCK_EVENTS))
    tables = [
        dressed_block(spec.seed, block, spec.signal_fraction, spec.shape).table for block in blocks
    ]
    first = blocks.start * BLOCK_EVENTS
    return concatenate(tables).slice(start - first, stop - first)


def know_subfields(ntuple: Any) -> None:
    """Tell uproot which fields lie in which, in one pass.

    It finds the same by itself, but looks at all fields for each: half of the time of a test with
    thousands.
    """
    below: dict[int, list[Any]] = {}
    for number, record in enumerate(ntuple.field_records):
        if record.parent_field_id != number:
            below.setdefault(record.parent_field_id, []).append(ntuple.all_fields[number])

    def named(number: int) -> list[Any]:
        """The fields below one; for one without a name, those below it."""
        fields = below.get(number, [])
        return [
            inner
            for field in fields
            for inner in (named(field.field_id) if field.is_anonymous else [field])
        ]

    for number, field in enumerate(ntuple.all_fields):
        field._fields = named(number)


def assert_holds(path: Path, table: Table) -> None:
    events: Any = uproot.open(path)["Events"]
    if "RNTuple" in type(events).__name__:
        know_subfields(events)
    arrays: Any = events.arrays()
    assert len(arrays) == table.events
    for name, values in table.scalars.items():
        np.testing.assert_array_equal(ak.to_numpy(arrays[name]), values, err_msg=name)
    for name, (of, values) in table.objects.items():
        np.testing.assert_array_equal(
            ak.to_numpy(ak.num(arrays[name])), table.counts[of], err_msg=name
        )
        found = ak.to_numpy(ak.flatten(arrays[name]))
        assert found.dtype == values.dtype, name
        np.testing.assert_array_equal(found, values, err_msg=name)


FORMATS = ("ttree", "rntuple")
CODECS = ("zlib", "lz4", "zstd", "lzma")


@pytest.mark.parametrize(("format_", "codec"), list(itertools.product(FORMATS, CODECS)))
def test_every_format_and_codec_reads_back(format_: str, codec: str, tmp_path: Path) -> None:
    spec = spec_of(format=format_, codec=codec, cluster_events=300, basket_size=2000)
    assert_holds(written(spec, tmp_path), generated(spec, 0, 700))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "order"), list(itertools.product(FORMATS, ("ordered", "unordered")))
)
def test_nano_reads_back_in_either_order(format_: str, order: str, tmp_path: Path) -> None:
    spec = spec_of(shape="nano", format=format_, order=order, cluster_events=250)
    assert_holds(written(spec, tmp_path), generated(spec, 0, 700))


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_aod_reads_back(format_: str, tmp_path: Path) -> None:
    """A column in forty: uproot takes minutes to look at all of them."""
    spec = spec_of(shape="aod", format=format_, events=40, order="unordered", cluster_events=20)
    path, table = written(spec, tmp_path), generated(spec, 0, 40)
    pieces = {piece.column for piece in layout(path)}
    assert {name for name, _, _ in columns_of(table)} <= pieces
    reader = UprootReader("pread", 20, ReadCounts())
    some = sorted(table.objects)[::40]
    chunks = list(reader.read(Span(str(path)), some))
    reader.close()
    for name in some:
        found = ak.concatenate([chunk.columns[name] for chunk in chunks])
        np.testing.assert_array_equal(
            ak.to_numpy(ak.flatten(found)), table.objects[name][1], err_msg=name
        )


def test_the_files_of_a_data_set_hold_its_events_in_turn_whatever_their_number(
    tmp_path: Path,
) -> None:
    whole = generated(spec_of(), 0, 5000)
    spec = spec_of(events=5000, files=3, cluster_events=600)
    start = 0
    for number in range(3):
        path = written(spec, tmp_path, number)
        stop = 5000 * (number + 1) // 3
        assert_holds(path, whole.slice(start, stop))
        start = stop


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_equal_specs_give_equal_bytes_at_any_time(format_: str, tmp_path: Path) -> None:
    spec = spec_of(format=format_, order="unordered", cluster_events=200)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = written(spec, tmp_path / "one").read_bytes()
    time.sleep(1.1)  # ROOT's times have a resolution of a second
    assert written(spec, tmp_path / "two").read_bytes() == first


@pytest.mark.parametrize(("format_", "codec"), list(itertools.product(FORMATS, CODECS)))
def test_the_level_is_honoured(format_: str, codec: str, tmp_path: Path) -> None:
    sizes: list[int] = []
    for level in (0, 1, 9):
        spec = spec_of(format=format_, codec=codec, level=level, events=1500)
        path = written(spec, tmp_path)
        assert_holds(path, generated(spec, 0, 1500))
        sizes.append(path.stat().st_size)
    assert sizes[0] > sizes[1] > sizes[2]


def bytes_and_ratio(path: Path) -> tuple[int, float]:
    """Uncompressed bytes of a tree, keys included, and how often it compresses, as the tree itself
    says."""
    with uproot.open({str(path): None}) as file:
        tree = file["Events"]
        memory, stored = int(tree.member("fTotBytes")), int(tree.member("fZipBytes"))
    return memory, memory / stored


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "events"), [("bench", 10_000), ("nano", 5_000)])
def test_compression_and_baskets_a_megabyte_are_those_of_nanoaod(
    shape: str, events: int, tmp_path: Path
) -> None:
    """NanoAOD compresses 2.5 to 4 times with zlib. Baskets: a NanoAOD file is flushed every 10 MB
    (autoFlush of -10000000 in CMSSW's NanoAODOutputModule) with a basket or more of each of its
    800 branches (CMSSW pull request 22624) to some 1500 ones: 80 to 150 a MB, and more where
    large branches fill several."""
    path = written(spec_of(shape=shape, events=events), tmp_path)
    assert 2.5 <= bytes_and_ratio(path)[1] <= 4
    assert 80 <= len(layout(path)) / (path.stat().st_size / 1e6) <= 200


@pytest.mark.slow
def test_nano_has_the_size_of_a_nanoaod(tmp_path: Path) -> None:
    """A NanoAOD file of 40 events: 1 499 branches, 9.1 kB an event, 1.46 times (nano_dy.root of
    scikit-hep-testdata). In long baskets it takes 1 to 2 kB an event, as published (EPJ Web of
    Conferences 245 (2020) 06002)."""
    memory, ratio = bytes_and_ratio(
        written(spec_of(shape="nano", events=40, cluster_events=40), tmp_path)
    )
    assert memory / 40 == pytest.approx(9100, rel=0.1)
    assert ratio == pytest.approx(1.46, abs=0.1)
    facts = write_file(
        spec_of(shape="nano", events=2500, codec="lzma"), 0, tmp_path, lambda done: None
    )
    assert 1000 <= facts.bytes / 2500 <= 2000


@pytest.mark.slow
def test_aod_has_the_size_of_an_aod(tmp_path: Path) -> None:
    """A DAOD_PHYSLITE file: 83 kB an event before compression, 5.5 times (PHYSLITE_example.root of
    scikit-hep-testdata); ATLAS aims at 10 to 12 kB an event (ATLAS Open Data, PHYSLITE)."""
    memory, ratio = bytes_and_ratio(written(spec_of(shape="aod", events=1000), tmp_path))
    assert memory / 1000 == pytest.approx(83_000, rel=0.04)
    assert ratio == pytest.approx(5.5, abs=0.3)


def test_a_bench_event_is_about_a_kilobyte(tmp_path: Path) -> None:
    facts = write_file(spec_of(events=2000), 0, tmp_path, lambda events: None)
    assert 900 <= facts.bytes_uncompressed / facts.events <= 1200


@pytest.mark.parametrize("format_", FORMATS)
def test_baskets_are_no_larger_than_asked_and_end_with_clusters(
    format_: str, tmp_path: Path
) -> None:
    spec = spec_of(events=3000, format=format_, cluster_events=800, basket_size=4096)
    pieces = layout(written(spec, tmp_path))
    assert (
        max(piece.uncompressed_bytes for piece in pieces) <= 4096 + 8
    )  # and the number of a basket's offsets
    names = {piece.column for piece in pieces}
    for name in names:
        ends = {piece.first_entry + piece.entries for piece in pieces if piece.column == name}
        assert {800, 1600, 2400, 3000} <= ends
    assert any(sum(piece.column == name for piece in pieces) > 4 for name in names)


@pytest.mark.parametrize("format_", FORMATS)
def test_ordered_baskets_lie_in_reading_order_and_unordered_ones_do_not(
    format_: str, tmp_path: Path
) -> None:
    backwards: dict[str, float] = {}
    for order in ("ordered", "unordered"):
        spec = spec_of(events=4000, format=format_, order=order, cluster_events=200)
        pieces = [piece for piece in layout(written(spec, tmp_path)) if piece.column == "Muon_pt"]
        assert len(pieces) >= 20
        assert [piece.first_entry for piece in pieces] == sorted(
            piece.first_entry for piece in pieces
        )
        steps = [later.offset < earlier.offset for earlier, later in itertools.pairwise(pieces)]
        backwards[order] = sum(steps) / len(steps)
    assert backwards["ordered"] == 0
    assert backwards["unordered"] > 0.25


@pytest.mark.parametrize("format_", FORMATS)
def test_the_baskets_of_one_unordered_cluster_are_scattered_over_the_file(
    format_: str, tmp_path: Path
) -> None:
    reach: dict[str, float] = {}
    for order in ("ordered", "unordered"):
        spec = spec_of(events=4000, format=format_, order=order, cluster_events=400)
        path = written(spec, tmp_path)
        places = [piece.offset for piece in layout(path) if 1600 <= piece.first_entry < 2000]
        reach[order] = (max(places) - min(places)) / path.stat().st_size
    assert reach["ordered"] < 0.2
    assert reach["unordered"] > 0.4


@pytest.mark.heavy
@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_beyond_two_gigabytes_is_read_to_its_end(format_: str, tmp_path: Path) -> None:
    """There ROOT's places need 64 bits."""
    spec = spec_of(shape="aod", events=32_000, format=format_, level=0, order="unordered")
    path = written(spec, tmp_path)
    assert path.stat().st_size > 2**31
    reader = UprootReader("pread", 1000, ReadCounts())
    chunks = list(reader.read(Span(str(path), 31_000), ["event", "Muon_pt"]))
    reader.close()
    assert [int(chunk.columns["event"][-1]) for chunk in chunks][-1] == 32_000
    path.unlink()
