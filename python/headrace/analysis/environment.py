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
"""Last parts of names that differ between any two runs and decide nothing: what a disk is called, where it is mounted."""


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"cpu": {"cores": 4}}` -> `{"cpu.cores": 4}`; lists stay whole."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{name}."))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found[prefix + name] = value
    return found


def shared_environment(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all environments have, dotted; where they differ, every value as a list."""
    values = values_by_name(environments, frozenset({"boot_id"}))
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def values_by_name(
    environments: Iterable[Mapping[str, Any]], ignored: frozenset[str] = IGNORED
) -> dict[str, list[Any]]:
    """Every value that occurs, by dotted name, each once, without names whose last part is in `ignored`."""
    found: dict[str, list[Any]] = {}
    for environment in environments:
        for name, value in flat(environment).items():
            if name.rpartition(".")[2] in ignored:
                continue
            seen = found.setdefault(name, [])
            if value not in seen:
                seen.append(value)
    return found
