"""Find a metric by what reports print of it: its title or its unit."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.metrics import metric_of


def names_of_printed(text: str, known: Sequence[str]) -> list[str]:
    """Return the metrics that a text names: one by its name, its title or both title and unit, all
    with its unit. `known`: names of metrics. Upper and lower case are the same."""
    if text in known:
        return [text]
    wanted = " ".join(text.split()).casefold()
    metrics = [metric_of(name) for name in dict.fromkeys(known)]
    called = [
        each.name
        for each in metrics
        if wanted
        in (each.name.casefold(), each.title.casefold(), f"{each.title} ({each.unit})".casefold())
    ]
    return called or [each.name for each in metrics if wanted and wanted == each.unit.casefold()]
