"""Reproduction: assumptions of the studies, each with alternatives, and what these change.

An alternative edits the text of catalog entries or study files, and the study is simulated with it;
nothing is fitted again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.catalog import load
from headrace.engine.simulate.simulator import Simulator
from headrace.errors import HeadraceError
from headrace.reproduce.assumption_tables import ASSUMPTIONS, Alternative, Assumption
from headrace.reproduce.cells import run_cells
from headrace.reproduce.published import Reproduced
from headrace.reproduce.study import StudyModule
from headrace.study.packaged import STUDIES


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
        text = path.read_text("utf-8")
        for old, new in alternative.studies:
            used = used or old in text
            text = text.replace(old, new)
        copy = folder / path.relative_to(STUDIES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, "utf-8")
        found.append(copy)
    if not used:
        raise HeadraceError(f"{module.id}, {alternative.label}: no study file has the text")
    return found


def _edited_catalog(alternative: Alternative) -> dict[Path, str]:
    found: dict[Path, str] = {}
    for name, edits in alternative.catalog:
        path = load.ROOT / f"{name}.toml"
        text = path.read_text("utf-8")
        for old, new in edits:
            if old not in text:
                raise HeadraceError(f"{name}, {alternative.label}: the entry has no {old!r}")
            text = text.replace(old, new)
        found[path] = text
    return found
