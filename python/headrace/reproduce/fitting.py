"""Reproduction: fit a study's free parameters to its calibrate rows and write the catalog.

No other rows are used. Residuals are the errors of the calibrate numbers (relative, or points); the
fit is scipy's bounded least squares on scaled parameters. One set of parameters serves every row of
a study.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomlkit
from scipy.optimize import least_squares

from headrace.catalog import load
from headrace.errors import UsageError
from headrace.reproduce.cells import ObtainedCell, ObtainedCells, run_cells
from headrace.reproduce.published import POINTS_SCALE, Number, published
from headrace.reproduce.study import FreeParameter, StudyModule
from headrace.units import format_change
from headrace.whole_file import write_whole


def calibrate_numbers(module: StudyModule, cells: ObtainedCells) -> list[Number]:
    """Return the calibrate numbers of these cells."""
    return [
        number
        for number in module.numbers(_Forgiving(cells), published(module.id))
        if number.role == "calibrate"
    ]


class _Forgiving(ObtainedCells):
    """Returns some cell in place of those that were not run; calibrate numbers use none of
    these."""

    def __init__(self, cells: ObtainedCells) -> None:
        super().__init__(list(cells))

    def find(self, file: str, **wanted: Any) -> ObtainedCell:
        try:
            return super().find(file, **wanted)
        except KeyError:
            return next(iter(self))

    def all(self, file: str, **wanted: Any) -> list[ObtainedCell]:
        return super().all(file, **wanted) or [next(iter(self))]


def check_fits(modules: Sequence[StudyModule]) -> None:
    """Raise UsageError if a study has no calibration, or its part of the catalog cannot be
    written: a fit takes minutes."""
    for module in modules:
        if module.calibration is None:
            raise UsageError(f"{module.id} has no calibrate rows to fit to", hint="name others")
        for path in _texts(module, _start(module)):
            if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
                raise UsageError(
                    f"no permission to write to {path}",
                    hint="--fit changes the catalog: run it in a clone of your own",
                )


def fit_study(module: StudyModule, say: Callable[[str], None]) -> dict[str, float]:
    """Fit, write the catalog, and return the values. `check_fits` comes before.

    Raises HeadraceError if the catalog cannot be written.
    """
    start = _start(module)

    def residuals(at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        load.attempt(_texts(module, at))
        cells = run_cells(module.paths, only=module.calibration)
        numbers = calibrate_numbers(module, cells)
        errors = [
            number.residual * (POINTS_SCALE if number.error_in == "points" else 1.0)
            for number in numbers
        ]
        values = ", ".join(
            f"{_value(parameter, float(scaled)):.4g}"
            for parameter, scaled in zip(module.parameters, at, strict=True)
        )
        say(f"{values}  ->  " + ", ".join(format_change(error, 1) for error in errors))
        return np.asarray(errors)

    inside = np.clip(start, 0.01, 0.99)
    try:
        found = least_squares(
            residuals,
            inside,
            bounds=(0.0, 1.0),
            diff_step=0.03,
            x_scale=0.2,
            xtol=5e-4,
            ftol=5e-4,
            max_nfev=30,
        )
    finally:
        load.attempt({})
    for path, text in _texts(module, found.x).items():
        write_whole(path, lambda part, text=text: part.write_text(text, "utf-8"))
    load.attempt({})
    return {
        parameter.name: _value(parameter, float(scaled))
        for parameter, scaled in zip(module.parameters, found.x, strict=True)
    }


def _start(module: StudyModule) -> npt.NDArray[np.float64]:
    """Return the catalog's values of the free parameters, scaled."""
    return np.asarray([_scaled(parameter, _read(parameter)) for parameter in module.parameters])


def _texts(module: StudyModule, at: npt.NDArray[np.float64]) -> dict[Path, str]:
    """Return the catalog's files with these values; comments and order are preserved."""
    documents: dict[Path, Any] = {}
    for parameter, scaled in zip(module.parameters, at, strict=True):
        value: float = _value(parameter, float(scaled))
        for number, (name, keys) in enumerate(
            ((parameter.entry, parameter.path), *parameter.followers)
        ):
            path = load.ROOT / parameter.shelf / f"{name}.toml"
            if path not in documents:
                documents[path] = tomlkit.parse(path.read_text("utf-8"))
            table = documents[path]
            for key in keys[:-1]:
                table = table[key]
            value = round(value) if isinstance(table[keys[-1]], int) else value
            table[keys[-1]] = value * (parameter.followers_times if number else 1)
    return {path: tomlkit.dumps(document) for path, document in documents.items()}


def _scaled(parameter: FreeParameter, value: float) -> float:
    value = min(max(value, parameter.low), parameter.high)
    return math.log(value / parameter.low) / math.log(parameter.high / parameter.low)


def _value(parameter: FreeParameter, scaled: float) -> float:
    return float(f"{parameter.low * (parameter.high / parameter.low) ** scaled:.4g}")


def _read(parameter: FreeParameter) -> float:
    value: Any = load.entry(parameter.shelf, parameter.entry).written
    for key in parameter.path:
        value = value[key]
    return float(value)
