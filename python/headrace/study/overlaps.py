"""Step 1 of the pipeline: refuse factors that replace the level of another factor."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.study.factors import FAULT, find_factor
from headrace.study.fields import Address
from headrace.study.model import Study
from headrace.validation import Problems


def check_overlaps(problems: Problems, study: Study, factors: Iterable[str]) -> None:
    """Add a problem for each factor that puts its level over that of a factor before it.

    Levels are put into the tables in the order of the study file: a table (`data`) followed by a
    field of it (`data.codec`) are two factors. The same field twice (`slots`, `run.slots`), or a
    table after a field of it, leave the first factor without effect.
    """
    seen: list[tuple[str, Address]] = []
    for name in factors:
        if name in ("target", "workload", FAULT):
            continue
        addresses = find_factor(study, name)
        if len({each.section for each in addresses}) > 1:
            continue  # its own problem is named: it fits several fields
        hidden = [(before, new) for before, old in seen for new in addresses if _covers(new, old)]
        if hidden:
            before, at = hidden[0]
            field = ".".join(filter(None, (at.section, at.part, at.field)))
            problems.add(
                ("factors", *name.split(".")),
                f"sets {field}, which the factor {before} varies, too: {before} has no effect",
                allowed="one factor for each field",
            )
        seen += [(name, each) for each in addresses]


def _covers(new: Address, old: Address) -> bool:
    """Return whether a level of the field `new` replaces the whole of the field `old`."""
    return (new.section, new.part) == (old.section, old.part) and (
        f"{old.field}.".startswith(f"{new.field}.")
    )
