"""Which pages a simulated kernel evicts: from the word in a study file to the bytes of a drive."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace import _core
from headrace.engine.simulate.scenario import scenario_of
from headrace.engine.simulate.simulator import Cores
from headrace.profiles.steps import Op, RecordedFile, Recording, columns
from headrace.scenario import Scenario
from headrace.study import load_study_text
from headrace.study.resolve import resolve
from headrace.system import machine_facts
from headrace.verdict.present import ReadTimes
from headrace.verdict.simulating import simulated_advice
from headrace.verdict.variants import SATA_SSD, Variant
from headrace.verdict.volumes import catalog_volume

# The page cache has 80 MiB: the kernel takes 256, the job 4.
STUDY = """
headrace = 1
title = "A hot set beside a scan"

[site.node]
memory = "340 MiB"
page_reclaim = "{rule}"
drives = {{ data = "samsung-870-evo-1tb" }}

[target.local]
kind = "block"
drive = "samsung-870-evo-1tb"

[workload.read]
kind = "replay"
profile = "job.toml"

[factors]
target = ["local"]

[run]
slots = 1
jobs = 1
"""
FILE = """
[[files]]
name = "{name}"
on = "target"
bytes = {mb}000000
count = 1
share = "each"
"""
READ = """
[[steps]]
do = "pattern"
file = "{name}"
offset_bytes = {offset}
count = {mb}
length_bytes = 1_000_000
"""


def read_mb(rule: str, base: Path) -> float:
    """Read 30 MB twice and then the next 80 MB of a long file, five times; return what the drive
    read."""
    parts = ['name = "job"\nabout = "A hot set beside a scan"\nmemory_bytes = 4_194_304\n']
    parts += [FILE.format(name="hot", mb=30), FILE.format(name="long", mb=400)]
    for number in range(5):
        parts += 2 * [READ.format(name="hot", offset=0, mb=30)]
        parts += [READ.format(name="long", offset=80_000_000 * number, mb=80)]
    (base / "job.toml").write_text("".join(parts))
    study = load_study_text(STUDY.format(rule=rule), file=base / "study.toml", base=base)
    made = scenario_of(resolve(study, "local", "read", {}), "local", "read", 1)
    assert made["nodes"][0].get("page_reclaim") == rule
    outcome: dict[str, Any] = json.loads(_core.simulate_json(json.dumps(made)))
    return sum(drive["read_bytes"] for drive in outcome["drives"]) / 1e6


def test_a_hot_set_is_read_from_the_drive_until_its_rule_protects_it(tmp_path: Path) -> None:
    read = {rule: read_mb(rule, tmp_path) for rule in ("two_lists", "workingset", "mglru")}
    # The scan is read once by all rules, and so is the hot set, which was used twice ...
    assert read["two_lists"] == pytest.approx(430, abs=1)
    assert read["workingset"] == pytest.approx(430, abs=1)
    # ... but generations protect it only after the first scan evicted what did not fit beside it:
    # 30 + 80 MB into 80 MiB. The first reads that miss it evict a little more.
    again_mb = 30 + 80 - (80 << 20) / 1e6
    assert read["mglru"] == pytest.approx(430 + again_mb + 0.5, abs=1)


@pytest.mark.parametrize(
    ("switches", "has"),
    [("0x0007\n", True), ("0x0001\n", True), ("0x0006\n", False), (None, False)],
)
def test_the_machine_says_whether_it_has_generations(
    switches: str | None, has: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "enabled"
    if switches is not None:
        path.write_text(switches)
    monkeypatch.setattr(machine_facts, "LRU_GEN", path)
    assert machine_facts.multi_generational_lru() is has


@pytest.mark.parametrize(
    ("settings", "ratios"),
    [
        ({"background_ratio": "10", "ratio": "20"}, (0.1, 0.2)),
        ({"background_ratio": "10", "bytes": "999999999999999"}, (0.1, 1.0)),
        (None, None),
    ],
)
def test_when_the_machine_writes_dirty_pages(
    settings: dict[str, str] | None,
    ratios: tuple[float, float] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine_facts, "VM", tmp_path)
    if settings is not None:
        for name in ("background_ratio", "ratio", "background_bytes", "bytes"):
            (tmp_path / f"dirty_{name}").write_text(f"{settings.get(name, '0')}\n")
    assert machine_facts.writeback_ratios() == ratios


@pytest.mark.parametrize(("has", "rule"), [(True, "mglru"), (False, "workingset")])
def test_a_watched_program_is_simulated_with_the_rule_of_its_machine(
    has: bool, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "enabled").write_text(f"0x000{int(has)}\n")
    monkeypatch.setattr(machine_facts, "LRU_GEN", tmp_path / "enabled")
    seen: list[Scenario] = []
    run = Cores.run

    def noted(cores: Cores, scenarios: Sequence[str], *arguments: Any) -> None:
        seen.extend(json.loads(each) for each in scenarios)
        run(cores, scenarios, *arguments)

    monkeypatch.setattr(Cores, "run", noted)
    rows = [(0, 1000, 0, Op.OPEN, 0, 0, 0, 0), (2000, 3000, 0, Op.READ, 0, 0, 1000, 0)]
    job = Recording("job", "test", (RecordedFile("/data/f", 5000),), columns(rows), 5000, cpu_ns=9)
    simulated_advice(job, [0], Variant("", catalog_volume(SATA_SSD)), [], job, ReadTimes())
    assert {scenario["nodes"][0].get("page_reclaim") for scenario in seen} == {rule}
