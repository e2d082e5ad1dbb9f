"""The layout of a file: its pieces cover the columns' events, lie apart, and hold what they say."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import uproot

from headrace.datasets import DatasetSpec
from headrace.datasets.file_of_events import write_file
from headrace.datasets.layout import layout
from headrace.errors import HeadraceError


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
def test_pieces_cover_every_event_of_every_column_once_and_do_not_overlap(
    format_: str, tmp_path: Path
) -> None:
    spec = DatasetSpec.model_validate(
        {"events": 1000, "files": 1, "format": format_, "cluster_events": 300}
    )
    path = tmp_path / write_file(spec, 0, tmp_path, lambda events: None).name
    pieces = layout(path)
    for name in ("MET_pt", "nJet", "event"):
        of = [piece for piece in pieces if piece.column == name]
        assert sum(piece.entries for piece in of) == 1000
        assert [piece.first_entry for piece in of] == [0, 300, 600, 900]
    assert "Jet_pt" in {piece.column for piece in pieces}
    ranges = sorted((piece.offset, piece.offset + piece.compressed_bytes) for piece in pieces)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    assert ranges[-1][1] <= path.stat().st_size


def test_sizes_of_a_trees_baskets_are_those_that_the_tree_adds_up(tmp_path: Path) -> None:
    spec = DatasetSpec.model_validate({"events": 1000, "files": 1, "basket_size": 3000})
    path = tmp_path / write_file(spec, 0, tmp_path, lambda events: None).name
    tree = uproot.open(path)["Events"]
    for name in ("MET_pt", "Jet_pt", "nTrack"):
        of = [piece for piece in layout(path) if piece.column == name]
        assert sum(piece.compressed_bytes for piece in of) == tree[name].compressed_bytes
        assert len(of) == tree[name].num_baskets


def test_no_root_file_is_one_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "letter.root"
    path.write_text("Dear reader, " * 100)
    with pytest.raises(HeadraceError, match="its layout cannot be read"):
        layout(path)
