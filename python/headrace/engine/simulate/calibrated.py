"""Engine `simulate`: put values that were learnt (`[site.calibration]`) into a scenario.

A value replaces the one of the catalog; CPU times of jobs are multiplied. Values of a target apply
to the volumes that hold its data and to the service of its name.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

from headrace.scenario import (
    DriveSpec,
    HostSpec,
    Profile,
    Scenario,
    ServiceSpec,
    Step,
    VolumeSpec,
)
from headrace.site import SiteCalibration, TargetCalibration

_CPU_FIELDS = ("cpu_ns", "cpu_after_ns", "cpu_ns_per_event")


def calibrated(
    scenario: Scenario,
    learnt: SiteCalibration,
    target: str,
    workload: str,
    workload_options: object,
) -> Scenario:
    """Return a copy of the scenario of a cell with the learnt values of its parts."""
    cpu = learnt.cpu_of_jobs(workload, workload_options)
    sharing = _sharing(learnt, workload, workload_options)
    own = learnt.target.get(target)
    create = learnt.create if own is None or own.create is None else own.create
    made: Scenario = {
        **scenario,
        "nodes": [_node(each, learnt, sharing, create) for each in scenario["nodes"]],
        "profiles": [_profile(each, cpu) for each in scenario["profiles"]],
    }
    if (spread := learnt.cpu_spread.get(workload)) is not None:
        made["run"] = {"cpu_spread": spread, **scenario["run"]}
    return made if own is None else _with_target(made, own, target)


def _sharing(learnt: SiteCalibration, workload: str, options: object) -> dict[str, float]:
    """Return what is learnt of cores that jobs share."""
    made: dict[str, float] = {}
    if (slowdown := learnt.slowdown_of_jobs(workload, options)) is not None:
        made["busy_core_slowdown"] = slowdown
    if (reload_s := learnt.cache_reload.get(workload)) is not None:
        made["reload_ns"] = round(reload_s * 1e9)
    return made


def _profile(profile: Profile, factor: float) -> Profile:
    return profile if factor == 1 else {**profile, "steps": scaled(profile["steps"], factor)}


def scaled(steps: Sequence[Step], factor: float) -> list[Step]:
    """Return steps with their CPU time multiplied."""
    return [cast("Step", _scaled_step(dict(step), factor)) for step in steps]


def _scaled_step(step: dict[str, object], factor: float) -> dict[str, object]:
    for name in _CPU_FIELDS:
        given = step.get(name)
        if isinstance(given, list):
            step[name] = [round(each * factor) for each in cast("list[int]", given)]
        elif isinstance(given, int):
            step[name] = round(given * factor)
    if "steps" in step:
        step["steps"] = scaled(cast("Sequence[Step]", step["steps"]), factor)
    return step


def _node(
    host: HostSpec, learnt: SiteCalibration, sharing: dict[str, float], create: float | None
) -> HostSpec:
    made = cast("HostSpec", {**host})
    if learnt.call is not None:
        made["call_ns"] = round(learnt.call * 1e9)
    if learnt.copy_rate is not None:
        made["copy_bytes_per_s"] = learnt.copy_rate
    if create is not None:
        for name in ("create_ns", "remove_ns"):
            made[name] = round(host.get(name, 0) * create)
    if sharing:
        made["sharing"] = {**host.get("sharing", {}), **sharing}
    return made


def _with_target(made: Scenario, own: TargetCalibration, target: str) -> Scenario:
    services = [
        each
        for each in made["services"]
        if each["name"] == target or each["name"].startswith(f"{target}-")
    ]
    held = {
        (data["host"], data["volume"])
        for service in services
        for data in service["targets"]
        if "volume" in data
    }
    held |= {(host["name"], target) for host in made["nodes"]}
    hosts = [_host(each, own, held) for each in (*made["nodes"], *made["servers"])]
    count = len(made["nodes"])
    for host in hosts[:count]:
        if own.beside_job is not None:
            host["beside_job_ns"] = round(own.beside_job * 1e9)
        if own.beside_request is not None:
            host["beside_request_ns"] = round(own.beside_request * 1e9)
    return {
        **made,
        "nodes": hosts[:count],
        "servers": hosts[count:],
        "services": [
            _service(each, own) if each in services else each for each in made["services"]
        ],
    }


def _host(host: HostSpec, own: TargetCalibration, held: set[tuple[str, str]]) -> HostSpec:
    made = cast("HostSpec", {**host, "network": {**host["network"]}})
    if own.network_latency is not None:
        made["network"]["latency_ns"] = round(own.network_latency * 1e9)
    if own.network_rate is not None:
        made["network"]["rate_bytes_per_s"] = own.network_rate
    if "volumes" in host:
        made["volumes"] = [
            _volume(each, own) if (host["name"], each["name"]) in held else each
            for each in host["volumes"]
        ]
    return made


def _service(service: ServiceSpec, own: TargetCalibration) -> ServiceSpec:
    tuning = dict(service["tuning"])
    for name, seconds in (
        ("server_request_ns", own.server_request),
        ("client_request_ns", own.client_request),
        ("client_delay_ns", own.client_delay),
        ("client_start_ns", own.client_start),
        ("client_start_cpu_ns", own.client_start_cpu),
        ("metadata_read_ns", own.server_open),
    ):
        if seconds is not None:
            tuning[name] = round(seconds * 1e9)
    if own.open_round_trips is not None:
        tuning["open_round_trips"] = own.open_round_trips
    if own.server_rate is not None:
        tuning["server_byte_ns"] = 1e9 / own.server_rate
    return {**service, "tuning": tuning}


def _volume(volume: VolumeSpec, own: TargetCalibration) -> VolumeSpec:
    made = cast("VolumeSpec", {**volume})
    if "storage" in volume:
        drives = [_drive(each, own) for each in volume["storage"]["drives"]]
        made["storage"] = {**volume["storage"], "drives": drives}
    if "ideal" in volume:
        made["ideal"] = _ideal(volume["ideal"], own)
    return made


def _ideal(given: Any, own: TargetCalibration) -> dict[str, object]:
    made = dict(given)
    for name, seconds in (("read_ns", own.drive_read), ("write_ns", own.drive_write)):
        if seconds is not None:
            made[name] = round(seconds * 1e9)
    if own.drive_rate is not None:
        made["read_bytes_per_s"] = made["write_bytes_per_s"] = own.drive_rate
    return made


def _drive(drive: DriveSpec, own: TargetCalibration) -> DriveSpec:
    """Return the table of a drive with the learnt values, for the fields that its kind has."""
    made: dict[str, Any] = copy.deepcopy(cast("dict[str, Any]", drive))
    if drive["kind"] == "ssd":
        controller = made.setdefault("controller", {})
        if own.drive_read is not None:
            controller["read_overhead_us"] = own.drive_read * 1e6
        if own.drive_write is not None:
            controller["write_overhead_us"] = own.drive_write * 1e6
        if own.drive_rate is not None:
            made["link_bytes_per_s"] = own.drive_rate
        return cast("DriveSpec", made)
    if own.drive_read is not None:
        made["controller_overhead_us"] = own.drive_read * 1e6
    rates = made.get("rates")
    if own.drive_rate is not None and rates is not None:
        times = own.drive_rate / rates["outer_bytes_per_s"]
        for name in ("outer_bytes_per_s", "inner_bytes_per_s"):
            if name in rates:
                rates[name] *= times
        made["link_bytes_per_s"] = max(made["link_bytes_per_s"], own.drive_rate)
    return cast("DriveSpec", made)
