"""docs/accuracy.md is what the kept results of all comparisons say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/accuracy"))

from comparisons import comparisons
from page import PAGE, page
from results import load
from rows import KINDS


def test_the_page_is_written_from_the_results() -> None:
    """After a change: `python benchmarks/accuracy --render`."""
    assert PAGE.read_text() == page(load())


@pytest.mark.parametrize("name", comparisons())
def test_every_comparison_has_a_result(name: str) -> None:
    (result,) = [each for each in load() if each.name == name]
    assert result.title == comparisons()[name].title
    assert result.rows
    assert {row.kind for row in result.rows} <= set(KINDS)
    assert result.source and result.null and result.machine


def test_every_result_is_of_a_comparison() -> None:
    assert {each.name for each in load()} <= set(comparisons())
