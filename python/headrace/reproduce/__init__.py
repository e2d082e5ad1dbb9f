"""Reproduce the four published studies in virtual time and compare published with obtained values.
Uses analysis and report.

The results are every number, every finding with the numbers that decide it, and every fitted
parameter with the rows to which it was fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any, TypedDict

from headrace.catalog import entry
from headrace.engine.simulate.simulator import Simulator
from headrace.errors import FileProblem, HeadraceError, StudyError
from headrace.registry import nearest
from headrace.reproduce import cluster_energy, proof_ssd, storage_options, worker_node_ssd
from headrace.reproduce.cells import ObtainedCells, run_cells
from headrace.reproduce.null_models import NULL_MODELS, null_error
from headrace.reproduce.origins import KINDS, Kind
from headrace.reproduce.published import (
    POINTS_SCALE,
    FittedParameter,
    Number,
    Reproduced,
    published,
)
from headrace.reproduce.study import StudyModule

MODULES: dict[str, StudyModule] = {
    module.STUDY.id: module.STUDY
    for module in (proof_ssd, worker_node_ssd, cluster_energy, storage_options)
}


def chosen(names: Sequence[str]) -> list[StudyModule]:
    """Return the studies with these ids, or all. Raises StudyError for an unknown id."""
    for name in names:
        if name not in MODULES:
            near = nearest(name, list(MODULES))
            problem = "there is no such study" + (f'; did you mean "{near}"?' if near else "")
            raise StudyError(
                [
                    FileProblem(
                        MODULES["proof-ssd"].paths[0].parents[1],
                        0,
                        "STUDY",
                        f'"{name}"',
                        problem,
                        ", ".join(MODULES),
                    )
                ]
            )
    return [MODULES[name] for name in names] if names else list(MODULES.values())


def reproduce(
    module: StudyModule,
    *,
    simulator: Simulator | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Reproduced:
    """Run the files of one study and judge the results.

    `simulator`: where; None: on all cores.

    Raises HeadraceError when the study files are missing (outside a clone of the repository).
    """
    missing = [path for path in module.paths if not path.exists()]
    if missing:
        raise HeadraceError(
            f"the study file {missing[0]} is missing",
            hint="headrace reproduce runs in a clone of the repository",
        )
    return judged(
        module,
        run_cells(module.paths, simulator=simulator, progress=progress, cancelled=cancelled),
    )


def judged(module: StudyModule, cells: ObtainedCells) -> Reproduced:
    """Return the numbers, findings and figures of cells that have been run."""
    source = published(module.id)
    return Reproduced(
        module.id,
        source.title,
        fitted(module),
        tuple(
            replace(number, null_error=null_error(module.id, number, source))
            for number in module.numbers(cells, source)
        ),
        tuple(module.findings(cells, source)),
        source.notes,
        tuple(module.figures(cells, source)),
    )


def fitted(module: StudyModule) -> tuple[FittedParameter, ...]:
    """Return the study's fitted parameters with their values in the catalog."""
    found: list[FittedParameter] = []
    for parameter in module.parameters:
        value: Any = entry(parameter.shelf, parameter.entry).written
        for key in parameter.path:
            value = value[key]
        found.append(
            FittedParameter(
                f"{parameter.entry}: {parameter.name}", float(value), parameter.unit, parameter.rows
            )
        )
    return tuple(found)


class Quality(TypedDict):
    """Medians and shares over predict numbers, and findings that hold."""

    numbers: int
    predicted: int
    median_error: float | None
    within_25_percent: float | None
    median_points: float | None
    within_3_points: float | None
    within: float | None
    findings: int
    findings_that_hold: int
    hold_by_origin: dict[Kind, int]
    """Findings that hold: predicted, built in, chosen."""
    null_median_error: float | None
    """Median error of the null model over the same numbers as `median_error`."""
    null_median_points: float | None
    skill: float | None
    """1 - mean error over that of the null model, of predicted numbers: 1 is perfect, 0 as good as
    the null model, negative is worse. A number that errs in points weighs as it does in fits."""


def summary(result: Reproduced) -> Quality:
    """Return the quality of the reproduction: medians and shares over predict numbers, findings
    that hold."""
    relative = [abs(number.error) for number in result.predicted if number.error_in == "relative"]
    points = [abs(number.error) for number in result.predicted if number.error_in == "points"]
    return {
        "numbers": len(result.numbers),
        "predicted": len(result.predicted),
        "median_error": median(relative) if relative else None,
        "within_25_percent": _share([error <= 0.25 for error in relative]),
        "median_points": median(points) if points else None,
        "within_3_points": _share([error <= 0.03 + 1e-9 for error in points]),
        "within": _share([number.within for number in result.predicted]),
        "findings": len(result.findings),
        "findings_that_hold": sum(finding.holds for finding in result.findings),
        "hold_by_origin": {
            kind: sum(each.holds and each.origin == kind for each in result.findings)
            for kind in KINDS
        },
        "null_median_error": _median_of_null(result, "relative"),
        "null_median_points": _median_of_null(result, "points"),
        "skill": _skill(result),
    }


def _median_of_null(result: Reproduced, kind: str) -> float | None:
    errors = [
        abs(number.null_error)
        for number in result.predicted
        if number.error_in == kind and number.null_error is not None
    ]
    return median(errors) if errors else None


def _skill(result: Reproduced) -> float | None:
    own, null = 0.0, 0.0
    for number in result.predicted:
        if number.null_error is not None:
            weight = POINTS_SCALE if number.error_in == "points" else 1.0
            own += weight * abs(number.error)
            null += weight * abs(number.null_error)
    return 1 - own / null if null else None


def _share(passed: Sequence[bool]) -> float | None:
    return sum(passed) / len(passed) if passed else None


def as_json(results: Sequence[Reproduced]) -> dict[str, object]:
    """Return the JSON of `headrace reproduce --json`."""
    return {
        "studies": [
            {
                "id": result.id,
                "title": result.title,
                "null_model": NULL_MODELS[result.id].says,
                "fitted": [asdict(parameter) for parameter in result.fitted],
                "numbers": [_number(number) for number in result.numbers],
                "findings": [asdict(finding) for finding in result.findings],
                "notes": result.notes,
                "summary": summary(result),
            }
            for result in results
        ]
    }


def _number(number: Number) -> dict[str, object]:
    ends = [end if math.isfinite(end) else None for end in number.target]
    return {**asdict(number), "target": ends, "within": number.within}
