"""Damaged files of the catalog: an entry, or an error that names the file.

What passes goes through the core's model.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.load import ROOT, SHELVES, entry
from mutations import damaged_text, fuzz, refused_by_name

ENTRIES = [
    (shelf, file.read_text()) for shelf in SHELVES for file in sorted((ROOT / shelf).glob("*.toml"))
]


@fuzz(300)
@given(data=st.data())
def test_a_damaged_entry_is_read_or_refused_by_name(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shelf, text = data.draw(st.sampled_from(ENTRIES))
    file = tmp_path_factory.getbasetemp() / f"an entry {data.draw(st.integers(0, 10**9))}.toml"
    file.write_text(data.draw(damaged_text([text])))
    try:
        refused_by_name(lambda: entry(shelf, str(file)), file)
    finally:
        file.unlink()


def test_an_entry_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "my-link.toml"
    for rate in (1e8, 2e8):
        file.write_text(f'name = "my-link"\nrate_bytes_per_s = {rate}\nlatency_ns = 1\n')
        assert entry("links", str(file)).table.rate_bytes_per_s == rate
