"""Engine `simulate`: faults of a cell in its scenario, and their effects in its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace import faults as fault_package
from headrace.engine.inventory import NODE
from headrace.engine.simulate.outcome import SimulatedOutcome
from headrace.errors import HeadraceError
from headrace.records.trial_record import FaultRecord
from headrace.scenario import DataServer, DriveFaultSpec, Scenario, StorageSpec, VolumeSpec
from headrace.study.resolve import Resolved
from headrace.targets import Target
from headrace.targets.served import ServedTarget


def inject(scenario: Scenario, resolved: Resolved, target: Target, place: dict[str, str]) -> None:
    """Add the cell's faults to a scenario of `target`.

    `place` is the location of its target (a volume of the nodes, or a service). Raises
    HeadraceError for a fault without a model, or one that does not apply to this target.
    """
    if not resolved.faults:
        return
    scenario["run"]["fail_on_error"] = True
    for options in resolved.faults:
        fault = fault_package.kinds()[options.what](options)
        modelled = fault.model()
        if modelled is None:
            raise HeadraceError(
                f"fault {options.label}: {options.what} has no model",
                hint="leave it out of the study that is simulated, or measure the study",
            )
        if modelled.drive is not None:
            _into_drives(scenario, place, modelled.drive, options.label)
        if modelled.host is not None:
            _into_hosts(scenario, target, place, modelled.host, options)


def _targets(scenario: Scenario, place: dict[str, str]) -> list[DataServer]:
    """Return the data servers of the target's service and of its upstreams."""
    services = {each["name"]: each for each in scenario["services"]}
    found: list[DataServer] = []
    name = place.get("service")
    while name is not None:
        targets = services[name]["targets"]
        found += targets
        name = targets[0].get("upstream")
    return found


def _volumes(scenario: Scenario, place: dict[str, str]) -> list[VolumeSpec]:
    """Return the volumes that hold the target's files."""
    hosts = [*scenario["nodes"], *scenario["servers"]]
    if "volume" in place:
        wanted = {(node["name"], place["volume"]) for node in scenario["nodes"]}
    else:
        wanted = {
            (target["host"], target["volume"])
            for target in _targets(scenario, place)
            if "volume" in target
        }
    return [
        volume
        for host in hosts
        for volume in host.get("volumes", [])
        if (host["name"], volume["name"]) in wanted
    ]


def _into_drives(
    scenario: Scenario, place: dict[str, str], fault: DriveFaultSpec, label: str
) -> None:
    volumes = _volumes(scenario, place)
    storages = [volume["storage"] for volume in volumes if "storage" in volume]
    if not volumes or len(storages) < len(volumes):
        raise HeadraceError(
            f"fault {label}: the target has no drive of the catalog that it could affect"
        )
    for storage in storages:
        _check_raid(storage, fault, label)
        storage.setdefault("faults", []).append(fault)


def _check_raid(storage: StorageSpec, fault: DriveFaultSpec, label: str) -> None:
    """Raise HeadraceError for a fault of a drive that the storage lacks or cannot lose."""
    raid = storage.get("raid")
    needs_raid = fault["fault"]["kind"] in ("degraded", "rebuild")
    if needs_raid and (raid is None or raid["level"] == 0):
        raise HeadraceError(
            f"fault {label}: the target has no RAID that can lose a drive",
            hint="raid = { level = 1, drives = 2 }, or 5, 6, 10",
        )
    drives = 1 if raid is None else raid["drives"]
    if (drive := fault.get("drive")) is not None and drive >= drives:
        raise HeadraceError(
            f"fault {label}: drive = {drive}; the target's drives are 0 to {drives - 1}"
        )


def _into_hosts(
    scenario: Scenario,
    target: Target,
    place: dict[str, str],
    what: Mapping[str, object],
    options: Any,
) -> None:
    hosts = _servers(scenario, target, place)
    if not hosts:
        raise HeadraceError(
            f"fault {options.label}: the target has no servers that it could affect"
        )
    names = list(hosts)
    wanted: str | int = len(names) - 1 if options.server is None else options.server
    if isinstance(wanted, int) and 0 <= wanted < len(names):
        wanted = names[wanted]
    if wanted not in hosts:
        raise HeadraceError(
            f"fault {options.label}: there is no server {wanted!r}; there are: {', '.join(names)}"
        )
    scenario.setdefault("faults", []).append(
        {
            "at_ns": round(options.at * 1e9),
            "for_ns": round((options.duration or 0.0) * 1e9),
            "host": hosts[str(wanted)],
            "what": what,
        }
    )


def _servers(scenario: Scenario, target: Target, place: dict[str, str]) -> dict[str, str]:
    """Return the hosts that hold the target's data, by the names that a measured study has."""
    counts = {
        each["name"]: each.get("count", 1) for each in (*scenario["nodes"], *scenario["servers"])
    }
    hosts: list[str] = []
    for each in _targets(scenario, place):
        if "volume" in each:
            name, count = each["host"], counts[each["host"]]
            hosts += [name] if count == 1 else [f"{name}[{number}]" for number in range(count)]
    return {_name(target, host, number): host for number, host in enumerate(hosts)}


def _name(target: Target, host: str, number: int) -> str:
    if host.partition("[")[0] == NODE:
        return f"{NODE}-{number}"
    if isinstance(target, ServedTarget):
        return target.server_node(number)
    return f"{getattr(target.options, 'server', None) or target.name}-{number}"


def fired(resolved: Resolved, outcome: SimulatedOutcome, end_s: float) -> list[FaultRecord]:
    """Return the records of the cell's faults and their effects (docs/records.md)."""
    drives = [drive for drive in outcome["drives"] if drive["faults_fired"]]
    found: list[FaultRecord] = []
    of_drives = 0
    of_hosts = _fired_of_hosts(resolved, outcome)
    for number, options in enumerate(resolved.faults):
        modelled = fault_package.kinds()[options.what](options).model()
        seen: dict[str, float] = {}
        if modelled is not None and modelled.drive is not None:
            times = sum(drive["faults_fired"][of_drives] for drive in drives)
            of_drives += 1
            if options.what == "power-loss":
                seen["lost_bytes"] = sum(drive["lost_bytes"] for drive in drives)
            progress = [drive["rebuilt"] for drive in drives if drive["rebuilt"] is not None]
            if progress:
                seen["rebuilt"] = min(progress)
        else:
            times = int(number in of_hosts)
        lifted = None if options.duration is None else options.at + options.duration
        found.append(
            FaultRecord(
                what=options.what,
                name=options.label,
                at_s=options.at,
                duration_s=options.duration,
                struck_s=options.at if times else None,
                lifted_s=end_s if lifted is None else min(lifted, end_s),
                fired=times,
                seen=seen,
            )
        )
    return found


def _fired_of_hosts(resolved: Resolved, outcome: SimulatedOutcome) -> set[int]:
    """Return which of the cell's faults took effect on a host, by their numbers.

    The core counts those of all hosts together. Each takes effect once, at its time.
    """
    numbers = [
        number
        for number, options in enumerate(resolved.faults)
        if (made := fault_package.kinds()[options.what](options).model()) and made.host is not None
    ]
    numbers.sort(key=lambda number: resolved.faults[number].at)
    return set(numbers[: int(outcome["counters"]["faults_fired"])])
