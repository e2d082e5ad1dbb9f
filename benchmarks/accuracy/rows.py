"""What a comparison of a model with measurements consists of: rows, and how they are obtained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["predicted", "fitted", "assumption"]
KINDS: dict[Kind, str] = {
    "predicted": "nothing was set or chosen with this number in sight",
    "fitted": "a parameter was set so that this number comes out",
    "assumption": "a structure or value was chosen when this number, or one beside it, was known",
}


@dataclass(frozen=True)
class Row:
    """One measured number and the model's."""

    compared: str
    """What is compared: `SpinPoint F1, random reads, depth 8`."""
    unit: str
    predicted: float
    measured: float
    error: float
    """A share (0.05 is 5 %), or a distance in `error_unit`."""
    null_error: float | None
    """The error of the comparison's null model; None where it has none."""
    kind: Kind
    error_unit: str = "%"
    """`%` for a share; else the unit of `error` and `null_error`."""
    note: str = ""


def relative(
    compared: str,
    unit: str,
    predicted: float,
    measured: float,
    null: float | None,
    kind: Kind,
    note: str = "",
) -> Row:
    """Return a row with relative errors. `null`: what the null model says."""
    return Row(
        compared,
        unit,
        predicted,
        measured,
        predicted / measured - 1.0,
        None if null is None else null / measured - 1.0,
        kind,
        note=note,
    )


@dataclass(frozen=True)
class Comparison:
    """One file of `comparisons/`: a model, the measurements it meets, and their source."""

    title: str
    model: str
    source: str
    """Who measured, on what, and where it is published."""
    null: str
    """The null model: what one would say without the model under test."""
    rows: Callable[[Path | None], list[Row]]
    """Return the rows; the argument is the folder of measurements (`DATA=`), if one is named.
    Raises Missing."""
    notes: tuple[str, ...] = ()
    """What a reader must know: assumptions with their sensitivity, what is left out."""
    command: str = ""
    """The command that repeats it, where it is not `make accuracy ONLY=NAME`."""
    needs_quiet: bool = False
    """Whether it refuses to record on a busy machine, and so may have no result yet."""


class Missing(Exception):  # noqa: N818 - nothing failed: a comparison needs what is not here
    """What a comparison needs and this machine does not have."""
