"""Reading events: exact counts of what was asked, and one clear message for a file that is not
whole."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.datasets import DatasetSpec
from headrace.datasets.file_of_events import FileFacts, write_file
from headrace.datasets.layout import layout
from headrace.errors import HeadraceError
from headrace.readers.counts import ReadCounts
from headrace.readers.spans import Span
from headrace.readers.uproot_reader import UprootReader

COLUMNS = ["Muon_pt", "nJet", "Jet_pt", "MET_pt"]


def made(directory: Path, **fields: Any) -> tuple[Path, FileFacts]:
    spec = DatasetSpec.model_validate(
        {"events": 2000, "files": 1, "cluster_events": 500, "basket_size": 4000, **fields}
    )
    facts = write_file(spec, 0, directory, lambda events: None)
    return directory / facts.name, facts


def read(
    path: Path, columns: list[str] | None, access: Any = "pread", span: Span | None = None
) -> tuple[int, ReadCounts]:
    counts = ReadCounts()
    reader = UprootReader(access, 500, counts)
    try:
        return sum(chunk.events for chunk in reader.read(span or Span(str(path)), columns)), counts
    finally:
        reader.close()


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
@pytest.mark.parametrize("access", ["pread", "mmap"])
def test_bytes_asked_are_the_baskets_of_the_columns_and_the_files_description(
    format_: str, access: str, tmp_path: Path
) -> None:
    path, _ = made(tmp_path, format=format_)
    baskets = sum(
        piece.compressed_bytes
        for piece in layout(path)
        if piece.column.removesuffix(".offsets") in COLUMNS
    )
    described = path.stat().st_size - sum(piece.compressed_bytes for piece in layout(path))
    events, counts = read(path, COLUMNS, access)
    assert events == 2000
    assert baskets < counts.bytes_asked <= baskets + described + 2000
    assert counts.bytes_unique <= counts.bytes_asked
    assert counts.bytes_unique >= baskets


def test_bytes_asked_are_those_that_the_kernel_was_asked_for(tmp_path: Path) -> None:
    path, _ = made(tmp_path)
    read(path, COLUMNS)  # imports, which read too

    def asked_of_the_kernel() -> tuple[int, int]:
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(fields["rchar"]), int(fields["syscr"])

    idle = asked_of_the_kernel()
    own = asked_of_the_kernel()
    _, counts = read(path, COLUMNS)
    after = asked_of_the_kernel()
    overhead = own[0] - idle[0], own[1] - idle[1]
    assert after[0] - own[0] - overhead[0] == counts.bytes_asked
    assert after[1] - own[1] - overhead[1] == counts.read_calls


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
@pytest.mark.parametrize("shape", ["bench", "nano"])
def test_uncompressed_bytes_of_all_columns_are_those_of_the_manifest(
    format_: str, shape: str, tmp_path: Path
) -> None:
    path, facts = made(tmp_path, format=format_, shape=shape, events=300)
    assert read(path, None)[1].bytes_uncompressed == facts.bytes_uncompressed


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
def test_a_span_has_its_own_events(format_: str, tmp_path: Path) -> None:
    path, _ = made(tmp_path, format=format_)
    reader = UprootReader("pread", 500, ReadCounts())
    chunks = list(reader.read(Span(str(path), 730, 900), ["event", "Muon_pt", "nMuon"]))
    reader.close()
    numbers = np.concatenate([np.asarray(chunk.columns["event"]) for chunk in chunks])
    np.testing.assert_array_equal(numbers, np.arange(731, 1631))
    for chunk in chunks:
        assert [len(pt) for pt in chunk.columns["Muon_pt"]] == list(chunk.columns["nMuon"])


def test_reading_twice_asks_twice_but_for_the_same_bytes(tmp_path: Path) -> None:
    path, _ = made(tmp_path)
    counts = ReadCounts()
    for _ in range(2):
        reader = UprootReader("pread", 500, counts)
        list(reader.read(Span(str(path)), COLUMNS))
        reader.close()
    assert counts.bytes_unique < 0.7 * counts.bytes_asked
    assert counts.bytes_unique == read(path, COLUMNS)[1].bytes_unique


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
@pytest.mark.parametrize("access", ["pread", "mmap"])
@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.9, 0.9999])
def test_a_truncated_file_is_one_clear_message(
    format_: str, access: str, share: float, tmp_path: Path
) -> None:
    path, _ = made(tmp_path, format=format_)
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(HeadraceError) as caught:
        read(path, None, access)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message


def damaged(path: Path, part: float) -> None:
    """Overwrites 64 bytes of the largest basket of a column, so far into it."""
    pieces = [piece for piece in layout(path) if piece.column == "Jet_pt"]
    basket = max(pieces, key=lambda piece: piece.compressed_bytes)
    content = bytearray(path.read_bytes())
    place = basket.offset + int(basket.compressed_bytes * part)
    content[place : place + 64] = bytes(byte ^ 0xA5 for byte in content[place : place + 64])
    path.write_bytes(content)


@pytest.mark.parametrize("codec", ["zlib", "lz4", "lzma"])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5])
def test_a_damaged_basket_is_one_clear_message(codec: str, part: float, tmp_path: Path) -> None:
    path, _ = made(tmp_path, codec=codec)
    damaged(path, part)
    with pytest.raises(HeadraceError) as caught:
        read(path, COLUMNS)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message


def test_a_damaged_head_of_a_zstd_basket_is_one_clear_message(tmp_path: Path) -> None:
    """Within a frame, zstd as ROOT writes it has no checksum: there only `verify` sees damage."""
    path, _ = made(tmp_path, codec="zstd")
    damaged(path, 0.0)
    with pytest.raises(HeadraceError, match=re.escape(str(path))):
        read(path, COLUMNS)


def test_a_column_that_is_not_there_and_events_beyond_the_end_are_refused(tmp_path: Path) -> None:
    path, _ = made(tmp_path)
    with pytest.raises(HeadraceError, match="no column Muon_ptt"):
        read(path, ["Muon_ptt"])
    with pytest.raises(HeadraceError, match="has 2000 events"):
        read(path, COLUMNS, span=Span(str(path), 1500, 501))


def test_a_missing_file_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="no such file"):
        read(tmp_path / "none.root", COLUMNS)


def test_a_file_name_with_a_colon_is_a_file_name(tmp_path: Path) -> None:
    path, _ = made(tmp_path)
    odd = path.rename(tmp_path / "a:b c.root")
    assert read(odd, ["MET_pt"])[0] == 2000


def test_a_url_is_read_and_counted(tmp_path: Path) -> None:
    """By fsspec, as root:// will be; the `file` protocol needs no server."""
    path, _ = made(tmp_path)
    events, counts = read(path, COLUMNS, span=Span(f"file://{path}"))
    assert events == 2000
    assert counts.bytes_asked > 0
