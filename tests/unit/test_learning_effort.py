"""Models of drives are run no more often, and no longer, than the search for values needs."""

from __future__ import annotations

import json
from typing import cast

import numpy as np
import pytest

from headrace.catalog import entry
from headrace.drives.learning import (
    LearntDevice,
    ScriptLoad,
    modelled_device,
    modelled_loads,
    run_load,
)
from headrace.drives.learning import loads as load_runs
from headrace.drives.learning.device import UNIT
from headrace.drives.learning.flash import loads_of
from headrace.drives.learning.flash_fit import fit_layout
from headrace.drives.learning.flash_layouts import FlashLayout
from headrace.drives.learning.flash_model import table_of
from headrace.drives.learning.loads import LoadResult
from headrace.drives.learning.queueing import learn_reordering, with_queue
from headrace.scenario import Table
from learnt_drives import Spec, silent

DEPTHS = [ScriptLoad(UNIT, depth) for depth in (2, 4, 8, 16, 32)]


@pytest.mark.parametrize(("share", "most"), [(0.0, 250), (1.0, 800)])
def test_loads_of_values_that_miss_the_measured_ones_are_not_run_to_the_last(
    share: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were 985. A disk in order of arrival needs no window and no late choice."""
    table = cast("Spec", entry("drives", "cheetah-9lp").table)
    truth = with_queue(table, share, 1000.0)
    measured = dict(zip(DEPTHS, modelled_loads(truth, DEPTHS, requests=2500, seed=9), strict=True))
    runs: list[ScriptLoad] = []

    def counted(device: LearntDevice, load: ScriptLoad, **options: float) -> LoadResult:
        runs.append(load)
        return run_load(device, load, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(load_runs, "run_load", counted)
    found = learn_reordering(with_queue(table, 0.3, 1000.0), measured, silent)
    assert found.share == pytest.approx(share, abs=0.05) and found.window is None
    assert len(runs) < most


def test_a_fit_runs_the_model_once_with_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.drives.learning import flash_model

    layout, logs = FlashLayout(dies=4, channels=2, page_units=1), np.log([300, 5e4, 600, 1e8, 3e8])
    any_ssd = modelled_device(entry("drives", "corsair-f40").table)
    device = modelled_device(table_of(any_ssd, layout, logs), seed=1, script_seed=1)
    measured = {load: run_load(device, load, limit_s=0.2) for load in loads_of(8)}
    seen: list[str] = []

    def noted(table: Table, **options: int) -> LearntDevice:
        seen.append(json.dumps(table))
        return modelled_device(table, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(flash_model, "modelled_device", noted)
    fit_layout(device, layout, logs + 0.0137, measured, 4, coarse=True)
    assert len(seen) > 10
    assert len(set(seen)) == len(seen)
