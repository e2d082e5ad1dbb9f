"""Targets: tear-down that runs every step, even if earlier ones raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.errors import HeadraceError


def release_all(name: str, steps: Iterable[Callable[[], object]]) -> None:
    """Run every step, in order. Raises HeadraceError that names target `name` and all that could
    not be restored."""
    left: list[str] = []
    for step in steps:
        try:
            step()
        except HeadraceError as error:
            left.append(error.message)
        except Exception as error:
            left.append(f"{type(error).__name__}: {error}")
    if left:
        raise HeadraceError(
            f"target {name} could not be restored: {'; '.join(left)}", hint="headrace undo"
        )
