"""Models of drives that are learnt in virtual time, as real drives are, and loads that were not
part of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from headrace.drives.learning import (
    LearntDevice,
    LearntDrive,
    ScriptLoad,
    learn_drive,
    modelled_device,
    modelled_loads,
)
from headrace.drives.learning.device import RequestTimes

Spec = dict[str, Any]


def silent(_: str) -> None:
    """Say nothing."""


def learnt(table: Spec, seconds: float, writable: bool = False) -> LearntDrive:
    device = modelled_device(table, seed=4, script_seed=2, writable=writable)
    return learn_drive(device, name="learnt", seconds=seconds, kind=None, say=silent)


def assert_predicts(found: LearntDrive, table: Spec, loads: tuple[ScriptLoad, ...]) -> None:
    """Loads that were not learnt: IOPS and median within 10 %, p99 within 20 %."""
    truth = modelled_loads(table, loads, requests=6000, seed=11)
    said = modelled_loads(found.table, loads, requests=6000, seed=12)
    for load, real, model in zip(loads, truth, said, strict=True):
        assert model.iops == pytest.approx(real.iops, rel=0.1), load.name
        if load.sequential:
            continue
        assert model.p50_s == pytest.approx(real.p50_s, rel=0.1), load.name
        assert model.p99_s == pytest.approx(real.p99_s, rel=0.2), load.name


def value(found: LearntDrive, name: str) -> float:
    return next(each.value for each in found.values if each.name == name)


def slowed(
    device: LearntDevice,
    late: Callable[[int, int], bool],
    monkeypatch: pytest.MonkeyPatch,
    times: float = 1.8,
) -> None:
    """Slow some of the loads that the script runs, by their number and depth."""
    reads, numbers = device.reads, itertools.count()

    def read(*arguments: Any, **options: Any) -> RequestTimes:
        timings = reads(*arguments, **options)
        longer = times if late(next(numbers), options.get("depth", 1)) else 1.0
        return RequestTimes(timings.start_s * longer, timings.end_s * longer)

    monkeypatch.setattr(device, "reads", read)
