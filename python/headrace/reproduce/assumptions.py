"""Reproduction: assumptions of the studies, each with alternatives, and what these change.

An alternative edits the text of catalog entries or study files, and the study is simulated with it;
nothing is fitted again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.catalog import load
from headrace.engine.simulate.simulator import Simulator
from headrace.errors import HeadraceError
from headrace.reproduce.cells import run_cells
from headrace.reproduce.published import Reproduced
from headrace.reproduce.study import StudyModule
from headrace.study.packaged import STUDIES

Edits = tuple[tuple[str, str], ...]
"""(old text, new text): each must be there."""


@dataclass(frozen=True)
class Alternative:
    """Another value of an assumption."""

    label: str
    studies: Edits = ()
    """In every study file that has the text."""
    catalog: tuple[tuple[str, Edits], ...] = ()
    """(`shelf/entry`, edits)."""


@dataclass(frozen=True)
class Assumption:
    """What no source states."""

    name: str
    used: str
    why: str
    alternatives: tuple[Alternative, ...]


_DIRTY = (
    "writeback = { dirty_background_ratio = 0.10, dirty_ratio = 0.40, of_all_memory = true }\n",
    "",
)
_DIRTY_SOURCE = (
    'writeback = "RHEL 5 and its rebuilds (2.6.18): vm.dirty_background_ratio 10, '
    'vm.dirty_ratio 40"\n',
    "",
)
_COLD_SKIM = 'slots = 1\ncache = "cold" # of the servers, too\n'
_BUSY = "read_ns = 25_400_000\nwrite_ns = 25_400_000\n"


def _load(label: str, nanoseconds: int, times: str = "") -> Alternative:
    """Another load of the storage element: accesses of 12.7 ms, waiting for others."""
    edits: list[tuple[str, str]] = [(_BUSY, f"read_ns = {nanoseconds}\nwrite_ns = {nanoseconds}\n")]
    if times:
        edits.append(('service_time = "exponential"\n', times))
    return Alternative(label, catalog=(("servers/storage-element", tuple(edits)),))


ASSUMPTIONS: dict[str, tuple[Assumption, ...]] = {
    "worker-node-ssd": (
        Assumption(
            "load of the storage element by other jobs",
            "half: accesses take twice 12.7 ms, exponentially distributed (M/M/1)",
            "the study does not state it",
            (
                _load("none", 12_700_000, "\n"),
                _load("a quarter", 16_933_333),
                _load("three quarters", 50_800_000),
            ),
        ),
        Assumption(
            "commands that a drive gets at once",
            "1",
            "drivers of 2.6.18 in IDE mode; the study does not state the controller",
            (Alternative("as the drives allow (32)", studies=(("queue_depth = 1\n", ""),)),),
        ),
    ),
    "cluster-energy": (
        Assumption(
            "a page of GlusterFS on the link",
            "780 us per request: 128 KiB on 1 GbE, of another node in two cases of three",
            "worked out from the io-cache translator's page",
            (
                Alternative(
                    "none",
                    studies=(("tuning = { client_delay_ns = 780_000 }", "tuning = {}"),),
                ),
            ),
        ),
    ),
    "storage-options": (
        Assumption(
            "what servers' caches hold before the skim",
            "nothing, as for IOzone",
            "no source says",
            (
                Alternative(
                    "all of it",
                    studies=((_COLD_SKIM, _COLD_SKIM.replace("cold", "warm")),),
                ),
            ),
        ),
        Assumption(
            "how the six disks of a server are used",
            "RAID 5 of 500 GB disks (2.5 TB; the slides say 2 TB)",
            "the slides state the disks only",
            (
                Alternative("RAID 0", studies=(("level = 5", "level = 0"),)),
                Alternative("RAID 10", studies=(("level = 5", "level = 10"),)),
            ),
        ),
        Assumption(
            "dirty limits of servers and clients",
            "RHEL 5's: 40 % of all memory",
            "Scientific Linux 5, as for their read-ahead",
            (
                Alternative(
                    "today's: 20 % of available memory",
                    catalog=(
                        ("nodes/fermicloud-server", (_DIRTY, _DIRTY_SOURCE)),
                        ("nodes/fermicloud-client", (_DIRTY, _DIRTY_SOURCE)),
                    ),
                ),
            ),
        ),
    ),
}


def vary(
    module: StudyModule, simulator: Simulator | None = None
) -> Iterator[tuple[Assumption, Alternative, Reproduced]]:
    """Simulate the study with each alternative of each assumption, one after the other."""
    from headrace.reproduce import judged

    for assumption in ASSUMPTIONS.get(module.id, ()):
        for alternative in assumption.alternatives:
            with tempfile.TemporaryDirectory(prefix="headrace-vary-") as made:
                paths, texts = edited(module, alternative, Path(made))
                load.attempt(texts)
                try:
                    result = judged(module, run_cells(paths, simulator=simulator))
                finally:
                    load.attempt({})
            yield assumption, alternative, result


def edited(
    module: StudyModule, alternative: Alternative, folder: Path
) -> tuple[list[Path], dict[Path, str]]:
    """Write the study's files with the alternative, and return them and the catalog's texts.

    Raises HeadraceError when a text to replace is not there.
    """
    return _edited_studies(module, alternative, folder), _edited_catalog(alternative)


def changed(before: Reproduced, after: Reproduced) -> dict[str, bool]:
    """Return the findings whose judgement differs, and whether they hold afterwards."""
    held = {finding.id: finding.holds for finding in before.findings}
    return {
        finding.id: finding.holds for finding in after.findings if finding.holds != held[finding.id]
    }


def _edited_studies(module: StudyModule, alternative: Alternative, folder: Path) -> list[Path]:
    found: list[Path] = []
    used = not alternative.studies
    for path in module.paths:
        text = path.read_text()
        for old, new in alternative.studies:
            used = used or old in text
            text = text.replace(old, new)
        copy = folder / path.relative_to(STUDIES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        found.append(copy)
    if not used:
        raise HeadraceError(f"{module.id}, {alternative.label}: no study file has the text")
    return found


def _edited_catalog(alternative: Alternative) -> dict[Path, str]:
    found: dict[Path, str] = {}
    for name, edits in alternative.catalog:
        path = load.ROOT / f"{name}.toml"
        text = path.read_text()
        for old, new in edits:
            if old not in text:
                raise HeadraceError(f"{name}, {alternative.label}: the entry has no {old!r}")
            text = text.replace(old, new)
        found[path] = text
    return found
