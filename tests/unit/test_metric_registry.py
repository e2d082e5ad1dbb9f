"""A metric is one definition.

What defines it is all that has to be written for it to appear everywhere.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.analysis.compare import compare
from headrace.analysis.find import find
from headrace.analysis.read import read
from headrace.metrics import Metric, forget, registered, values_of
from headrace.metrics.shown import show
from headrace.metrics.trial import RecordedTrial
from headrace.records.trial_record import decode
from headrace.report import write_report
from headrace.report.comparison import print_comparison
from headrace.report.latex import latex_text
from headrace.report.terminal import print_report
from synthetic_records import Truth, plan_of, write_results
from workspace import ROOT

DEFINITION = """
from headrace.metrics import Metric
from headrace.metrics.trial import ratio

REQUEST_BYTES = Metric(
    name="device_request_bytes",
    title="Mean size of a device request",
    unit="B",
    scale="prefixed",
    value=lambda trial: ratio(
        trial.device_bytes, trial.record.device.requests_read + trial.record.device.requests_write
    ) if trial.record.device else None,
    secondary=True,
)
"""
CELLS = [
    {"target": target, "workload": "higgs", "slots": slots, "scheduler": scheduler}
    for target in ("disk", "nas")
    for slots in (2, 4)
    for scheduler in ("none", "bfq")
]


def install(package: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Install a package with an entry point, whose module `NAME_of_requests` defines the metric."""
    facts = package / f"{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    (package / f"{name}_of_requests.py").write_text(DEFINITION)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        f"[headrace.metrics]\n{name} = {name}_of_requests:REQUEST_BYTES\n"
    )
    monkeypatch.syspath_prepend(str(package))
    importlib.invalidate_caches()
    forget()


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One entry, as another package adds it.

    A module with a metric, and the entry point that names it.
    """
    install(tmp_path / "package", monkeypatch, "sizes")
    yield "device_request_bytes"
    sys.modules.pop("sizes_of_requests", None)
    monkeypatch.undo()
    forget()


def test_one_entry_is_enough(added: str, tmp_path: Path) -> None:
    title = "Mean size of a device request"
    plan = plan_of(CELLS, 4)
    truth = Truth(effects={"scheduler": {"bfq": -0.3}}, trial_sigma=0.01)
    first = read(write_results(tmp_path / "a", plan, truth))
    second = read(
        write_results(
            tmp_path / "b", plan, Truth(request_bytes=64 * 1024, trial_sigma=0.01), seed=2
        )
    )

    findings = find(first)
    points = [point for curve in findings.curves for point in curve.points]
    assert points and all(
        point.metrics[added].value == pytest.approx(256 * 1024, rel=0.01) for point in points
    )
    assert any(effect.metric == added for effect in findings.effects)

    terminal, page = io.StringIO(), tmp_path / "reports"
    print_report(findings, Console(file=terminal, width=80))
    assert title.lower() in " ".join(terminal.getvalue().lower().split())
    html, table = write_report(page, findings, ["html", "csv"])
    assert title in html.read_text()
    assert f'"{added}"' in table.read_text()
    assert title in latex_text(findings, {})

    compared = compare(first, second)
    assert any(each.metric == added for each in compared.differences)
    shown = io.StringIO()
    print_comparison(compared, Console(file=shown, width=80))
    assert title in " ".join(shown.getvalue().split())


def test_it_is_gone_with_its_package() -> None:
    assert "device_request_bytes" not in registered()


@pytest.mark.parametrize("metric", registered().values(), ids=lambda metric: metric.name)
def test_every_metric_is_whole(metric: Metric, tmp_path: Path) -> None:
    assert metric.title and metric.title[0].isupper() and metric.needs
    assert (metric.value is None) != (metric.value_for_price is None), (
        "computed from a record, or from a price"
    )
    assert bool(metric.unit) == (metric.scale in ("plain", "prefixed"))
    assert show(metric.name, 1.0).unit
    assert metric.only_with == "" or metric.only_with in registered()


def test_packets_have_a_local_share_and_a_tail(tmp_path: Path) -> None:
    results = write_results(tmp_path / "r", plan_of(CELLS[:1], 1), Truth())
    values = json.loads(next(results.glob("trials/*/trial.json")).read_text())
    packets = {"handed_out_again": 0, "given_up": [], "events_not_processed": 0, "events": 400}
    values |= {"stonewall_s": 3.0, "last_done_s": 5.0, "packets": packets | {"events_local": 300}}
    found = values_of(decode(json.dumps(values).encode()))
    assert (found["local_event_share"], found["packet_tail_s"]) == (0.75, 2.0)
    values |= {"packets": packets, "last_done_s": 2.9}
    found = values_of(decode(json.dumps(values).encode()))
    assert "local_event_share" not in found, "no location was known"
    assert found["packet_tail_s"] == 0.0


def test_an_xcache_has_a_share_of_hits_and_a_rate_from_its_upstream(tmp_path: Path) -> None:
    results = write_results(tmp_path / "r", plan_of(CELLS[:1], 1), Truth())
    values = json.loads(next(results.glob("trials/*/trial.json")).read_text())
    reads = {"service": "store", "read_bytes": 60, "hit_bytes": 30, "missed_bytes": 10}
    services = [{"name": "xcache", "upstream": reads}, {"name": "store"}]
    values |= {"duration_s": 2.0, "probes": {"services": services}}
    found = values_of(decode(json.dumps(values).encode()))
    assert (found["cache_hit_share"], found["upstream_bytes_per_s"]) == (0.75, 30.0)
    # A gateway has its memory only, and nobody counts what was in it.
    reads |= {"hit_bytes": 0, "missed_bytes": 0}
    found = values_of(decode(json.dumps(values).encode()))
    assert "cache_hit_share" not in found and found["upstream_bytes_per_s"] == 30.0
    values |= {"probes": {"services": services[1:]}}
    assert "upstream_bytes_per_s" not in values_of(decode(json.dumps(values).encode()))


@pytest.mark.parametrize(
    "name", [name for name, metric in registered().items() if metric.value is not None]
)
def test_a_metric_of_a_bare_record_is_left_out_or_a_number(name: str, tmp_path: Path) -> None:
    """A trial whose device, network and energy nobody watched, and one with no job."""
    results = write_results(tmp_path / "r", plan_of(CELLS[:1], 1), Truth())
    path = next(results.glob("trials/*/trial.json"))
    values = json.loads(path.read_text())
    values |= {"device": None, "probes": {}, "results": {}, "energy": {}}
    bare = decode(json.dumps(values).encode())
    found = values_of(bare)
    assert name not in found or math.isfinite(found[name])
    values |= {"sums": None, "status": "failed", "cause": "it broke", "last_done_s": None}
    assert values_of(decode(json.dumps(values).encode())) == {}


def test_two_of_one_name_are_a_defect(
    added: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "again", monkeypatch, "twice")
    with pytest.raises(RuntimeError, match=added):
        registered()


def test_the_example_in_the_docs_is_a_metric(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "findings.md").read_text()
    (example,) = re.findall(r"```python\n(from headrace\.metrics.*?)```", text, re.DOTALL)
    made: dict[str, Any] = {}
    exec(example, made)
    metric = next(item for item in made.values() if isinstance(item, Metric))
    results = write_results(tmp_path / "r", plan_of(CELLS[:1], 1), Truth())
    trial = RecordedTrial(decode(next(results.glob("trials/*/trial.json")).read_bytes()))
    assert metric.value is not None and (metric.value(trial) or 0) > 0
