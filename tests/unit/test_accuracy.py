"""docs/accuracy.md is what the kept results of all comparisons say."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/accuracy"))

from comparisons import comparisons
from page import PAGE, page
from quiet import check_quiet, check_was_quiet
from results import load
from rows import KINDS, Missing


def test_the_page_is_written_from_the_results() -> None:
    """After a change: `python benchmarks/accuracy --render`."""
    assert PAGE.read_text() == page(load(), comparisons())


def test_no_number_of_the_page_has_a_power_of_ten() -> None:
    """`1e+02 %` is not understood at first sight."""
    assert re.findall(r"\de[+-]\d\d", page(load(), comparisons())) == []


@pytest.mark.parametrize("name", comparisons())
def test_every_comparison_has_a_result(name: str) -> None:
    found = [each for each in load() if each.name == name]
    if not found:  # then the page says that it was not run
        assert comparisons()[name].needs_quiet
        return
    (result,) = found
    assert result.title == comparisons()[name].title
    assert result.rows
    assert {row.kind for row in result.rows} <= set(KINDS)
    assert result.source and result.null and result.machine


def test_every_result_is_of_a_comparison() -> None:
    assert {each.name for each in load()} <= set(comparisons())


def trial(folder: Path, number: int, lost_share: float, *, valid: bool = True) -> None:
    """Write what a comparison reads of the record of a trial."""
    file = folder / "trials" / f"{number:04}" / "trial.json"
    file.parent.mkdir(parents=True)
    said = {"interference": {"lost_share": lost_share}, "validity": {"valid": valid}}
    file.write_text(json.dumps(said))


def test_nothing_begins_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.2 * (os.cpu_count() or 1), 9.0, 9.0))
    check_quiet()
    monkeypatch.setattr(os, "getloadavg", lambda: (0.3 * (os.cpu_count() or 1), 0.0, 0.0))
    with pytest.raises(Missing, match="load average"):
        check_quiet()


def test_nothing_of_a_busy_machine_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(Missing):  # without any trial
        check_was_quiet(tmp_path)
    trial(tmp_path, 1, 0.01)
    trial(tmp_path, 2, 0.02)
    check_was_quiet(tmp_path)
    trial(tmp_path, 3, 0.05)
    with pytest.raises(Missing, match="1 of 3 trials"):
        check_was_quiet(tmp_path)


def test_an_invalid_trial_is_not_recorded(tmp_path: Path) -> None:
    trial(tmp_path, 1, 0.0)
    trial(tmp_path, 2, 0.0, valid=False)
    with pytest.raises(Missing, match="1 of 2"):
        check_was_quiet(tmp_path)
