"""Facts of the machine and the site that an administrator can choose and no option states. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from headrace.analysis.environment import flat

_OF_MACHINE = ("kernel", "transparent_hugepages", "cpu_governor")
_OF_FILES = {
    "filesystem": "filesystem",
    "mount_options": "mount_options",
    "read_ahead_bytes": "read_ahead",
}
_OF_DEVICES = ("scheduler", "queue_depth", "write_cache")
_OF_MOUNTS = ("addr", "port", "fd", "pid", "user_id", "group_id")
"""Ends of the names of mount options that differ from one mount to the next: nobody chose them."""
_NOT_OF_SITE = frozenset(("calibration", "one_machine"))
"""Tables of `[site]` that describe the model, not the site."""


def facts_of(
    row: Mapping[str, Any], environments: Sequence[Mapping[str, Any]]
) -> dict[str, object]:
    """Return the facts of a trial's record by name: kernel, kernel settings, and of the file
    systems that hold its files the kind, options and devices' settings."""
    number = int(row["environment"])
    # Trials that were simulated to decide have no environment.
    environment = environments[number] if number < len(environments) else {}
    found = {name: environment[name] for name in _OF_MACHINE if environment.get(name)}
    for name, value in dict(environment.get("vm") or {}).items():
        found[f"vm.{name}"] = value
    places = list(_places(row.get("location") or {}))
    for field, name in _OF_FILES.items():
        _add(
            found, name, [_chosen(place[field]) for place in places if place.get(field) is not None]
        )
    devices = [each for place in places for each in place.get("devices") or ()]
    told = [cast("Mapping[str, Any]", each) for each in devices if isinstance(each, Mapping)]
    for name in _OF_DEVICES:
        _add(found, name, [each[name] for each in told if each.get(name) is not None])
    if row["target_kind"] == "path":
        # Of a folder it is the mount that counts; names of devices change with every start.
        _add(
            found,
            "mount",
            [each["mount_directory"] for each in places if "mount_directory" in each],
        )
        sources = [str(each.get("mount_source") or "/dev/") for each in places]
        _add(found, "mount_source", [each for each in sources if not each.startswith("/dev/")])
    return found


def _chosen(value: Any) -> Any:
    """Return a value, of mount options without those that the kernel adds."""
    if not isinstance(value, (list, tuple)):
        return value
    options = [str(each) for each in cast("Sequence[object]", value)]
    return [each for each in options if not each.partition("=")[0].endswith(_OF_MOUNTS)]


def _places(location: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the file systems of a location: of the client, and of the servers' exports."""
    yield location
    for each in location.get("exports") or ():
        if isinstance(each, Mapping):
            yield cast("Mapping[str, Any]", each)


def _add(found: dict[str, object], name: str, values: Sequence[Any]) -> None:
    texts = [",".join(map(str, v)) if isinstance(v, (list, tuple)) else v for v in values]
    different = list(dict.fromkeys(texts))
    if len(different) == 1:
        found[name] = different[0]
    elif different:
        found[name] = " and ".join(sorted(map(str, different)))


def site_of(study: Mapping[str, Any]) -> dict[str, object]:
    """Return `[site]` of a study file by dotted name, without the number of nodes."""
    site = study.get("site")
    if not isinstance(site, Mapping):
        return {}
    tables = cast("Mapping[str, Any]", site)
    told = {name: value for name, value in tables.items() if name not in _NOT_OF_SITE}
    return {name: value for name, value in flat(told).items() if name != "node.count"}
