"""Environments of trials: flattened, what they share, and what differs between two result sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
