"""Environments of trials and settings of studies: flattened, what they share, and what differs
between two result sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.analysis.findings import EnvironmentDifference

IGNORED = frozenset(
    {
        "hostname",
        "boot_id",
        "free_bytes",
        "available_bytes",
        "devices",
        "source",
        "directory",
        "path",
        "mount_point",
    }
)
"""Last components of names whose values differ between any two runs without relevance: device
names, mount points."""


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Return nested values by dotted name: `{"cpu": {"cores": 4}}` -> `{"cpu.cores": 4}`; lists
    are not flattened."""
    found: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{name}."))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found[prefix + name] = value
    return found


def shared_environment(environments: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return the values of all environments by dotted name; a name with different values has all
    of them as a list."""
    values = values_by_name(environments, frozenset({"boot_id"}))
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def values_by_name(
    environments: Iterable[Mapping[str, Any]], ignored: frozenset[str] = IGNORED
) -> dict[str, list[Any]]:
    """Return every distinct value by dotted name, without names whose last component is in
    `ignored`."""
    found: dict[str, list[Any]] = {}
    for environment in environments:
        for name, value in flat(environment).items():
            if name.rpartition(".")[2] in ignored:
                continue
            seen = found.setdefault(name, [])
            if value not in seen:
                seen.append(value)
    return found


NO_SETTINGS = ("title", "about", "headrace")
"""Fields of a study that change nothing."""


def study_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[EnvironmentDifference]:
    """Return the settings of two study files that differ, by dotted name from `study`."""
    if not (a and b):
        # Each setting of the other would look changed.
        if not (a or b):
            return []
        states = [("readable",) if each else ("cannot be read",) for each in (a, b)]
        return [EnvironmentDifference("study.toml", *states)]
    texts = [
        {
            name: value if isinstance(value, str) else json.dumps(value, default=str)
            for name, value in flat(
                {name: value for name, value in each.items() if name not in NO_SETTINGS}
            ).items()
        }
        for each in (a, b)
    ]
    return [
        EnvironmentDifference(
            f"study.{name}", *(tuple(each[name] for _ in (0,) if name in each) for each in texts)
        )
        for name in sorted({*texts[0], *texts[1]})
        if texts[0].get(name) != texts[1].get(name)
    ]
